"""What happens when the agents of a cluster differ a little: errors and pulls of each policy.

N = 30 agents in three groups, K = 5 arms, normal rewards with σ = 1/2, δ = 0.05. A group's best arm is
at least 0.2 ahead. Every agent adds numbers from U(−s, s) to the means of its group; policies are
told that there are three clusters with η = η1 = 0.2. Up to s = 0.1 an agent's best arm is that of
its group.

With --close: N = 24, K = 4, rewards 0 or 1 with rates 0.35 and, of all other arms, 0.2; told η = 0.1.
Up to s = 0.075 an agent's best arm is that of its group. With --told-clusters policies are told
another number of clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian
from clustered_bandit_gym.policies import make
from research.options import parser, run

POLICIES = (
    "naive:engine=mixture",
    "cl-bai",
    "bai-cl",
    "bai-cl++",
    "cluster-then-bai",
    "structured-bai",
    "structured-bai:assume=clusters",
    "frugal-bai",
)
SPREADS = (0.0, 0.02, 0.05, 0.1, 0.2)
CLOSE_SPREADS = (0.0, 0.02, 0.04, 0.05, 0.06, 0.075)


@dataclass(frozen=True)
class Differing:
    """Draws instances in which every agent has means of its own."""

    spread: float
    close: bool = False

    def __call__(self, rng: np.random.Generator) -> Instance:
        if self.close:
            means = np.full((3, 4), 0.2)
            means[np.arange(3), rng.permutation(4)[:3]] = 0.35
        else:
            means = rng.uniform(0.0, 0.6, (3, 5))
            means[np.arange(3), rng.permutation(5)[:3]] = rng.uniform(0.8, 1.0, 3)
        n = 24 if self.close else 30
        own = means[np.arange(n) % 3]
        own = own + rng.uniform(-self.spread, self.spread, own.shape)
        law = Bernoulli() if self.close else Gaussian(0.5)
        return Instance(own, np.arange(n), law, allow_overlap=True)


def play(policy: str, game: Differing, seed: int, trial: int, told: int) -> tuple[str, int]:
    """How the trial ended ("right", "wrong", "no answer"), and the pulls."""
    instance = game(np.random.default_rng([seed, trial]))
    eta = 0.1 if game.close else 0.2
    support = (0, 1) if game.close else None
    size = instance.n_agents, instance.n_arms
    problem = cbg.Problem(*size, told, 0.05, eta=eta, eta1=eta, sigma=0.5, support=support)
    seeds = np.random.SeedSequence([seed, trial, 1])
    federation = cbg.Federation(instance, problem, seeds, max_pulls=10**8)
    try:
        arms = make(policy).solve(federation)
    except BudgetExceeded:
        return "no answer", federation.pulls
    right = np.array_equal(arms, instance.agent_best_arms)
    return "right" if right else "wrong", federation.pulls


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=100)
    options.add_argument("--policies", nargs="+", default=POLICIES)
    options.add_argument("--close", action="store_true", help="close runners-up, 0/1 rewards")
    options.add_argument("--told-clusters", type=int, default=3)
    options.add_argument("--spreads", nargs="+", type=float)
    given = options.parse_args(words)
    spreads = given.spreads or (CLOSE_SPREADS if given.close else SPREADS)
    print("| policy | " + " | ".join(f"s = {spread:g}" for spread in spreads) + " |")
    print("|---|" + "---:|" * len(spreads))
    for policy in given.policies:
        cells = [policy]
        for game in (Differing(spread, given.close) for spread in spreads):
            rows = [
                play(policy, game, given.seed, trial, given.told_clusters)
                for trial in range(given.trials)
            ]
            ends, pulls = zip(*rows, strict=True)
            shown = f"{ends.count('wrong') / len(ends):.0%}"
            if lost := ends.count("no answer"):
                shown += f" (no answer: {lost / len(ends):.0%})"
            cells.append(f"{shown}; {np.median(pulls):,.0f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    run(main)
