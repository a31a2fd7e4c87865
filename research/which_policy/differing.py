"""What happens when the agents of a cluster differ a little: errors and pulls of each policy.

N = 30 agents in three groups, K = 5 arms, normal rewards with σ = 1/2, δ = 0.05. A group's best arm is
at least 0.2 ahead. Every agent adds numbers from U(−s, s) to the means of its group; policies are
told that there are three clusters with η = η1 = 0.2. Up to s = 0.1 an agent's best arm is that of
its group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Gaussian
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


@dataclass(frozen=True)
class Differing:
    """Draws instances in which every agent has means of its own."""

    spread: float

    def __call__(self, rng: np.random.Generator) -> Instance:
        means = rng.uniform(0.0, 0.6, (3, 5))
        means[np.arange(3), rng.permutation(5)[:3]] = rng.uniform(0.8, 1.0, 3)
        own = means[np.arange(30) % 3]
        own = own + rng.uniform(-self.spread, self.spread, own.shape)
        return Instance(own, np.arange(30), Gaussian(0.5), allow_overlap=True)


def play(policy: str, spread: float, seed: int, trial: int) -> tuple[str, int]:
    """How the trial ended ("right", "wrong", "no answer"), and the pulls."""
    instance = Differing(spread)(np.random.default_rng([seed, trial]))
    problem = cbg.Problem(30, 5, 3, 0.05, eta=0.2, eta1=0.2, sigma=0.5)
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
    given = options.parse_args(words)
    print("| policy | " + " | ".join(f"s = {spread:g}" for spread in SPREADS) + " |")
    print("|---|" + "---:|" * len(SPREADS))
    for policy in given.policies:
        cells = [policy]
        for spread in SPREADS:
            rows = [play(policy, spread, given.seed, trial) for trial in range(given.trials)]
            ends, pulls = zip(*rows, strict=True)
            shown = f"{ends.count('wrong') / len(ends):.0%}"
            if lost := ends.count("no answer"):
                shown += f" (no answer: {lost / len(ends):.0%})"
            cells.append(f"{shown}; {np.median(pulls):,.0f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    run(main)
