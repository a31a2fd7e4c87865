"""Pulls on random games over those of the best plain policy.

    python -m benchmarks panel                                  tuning half, delta 0.05
    python -m benchmarks panel --half held-out --delta 1e-10 --trials 3
    python -m benchmarks panel --half suite --policies structured-bai frugal-bai
    python -m benchmarks panel --half held-out --plot docs/results/panel.png

The panel has 66 random games, each fixed by its number. Even numbers are for tuning. Odd numbers are
held out: no setting of a policy is chosen by looking at them. `--half suite` plays the cells of the
suite instead, each with its own delta.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clustered_bandit_gym import Bernoulli, Categorical, Federation, Gaussian, Instance, Problem
from clustered_bandit_gym.policies.engines.registry import ENGINES
from clustered_bandit_gym.policies.registry import make

GAMES = 66
#: The policies that a clever one should never lose to.
PLAIN = (
    *(f"naive:engine={engine}" for engine in ENGINES),
    "bai-cl:confidence=certified,engine=mixture",
)
OURS = ("structured-bai", "frugal-bai")
#: Rewards of game i are those of entry i % 3: their name, the least eta; the least gap is a quarter of it.
REWARDS = (("gaussian", 0.25), ("bernoulli", 0.1), ("categorical", 0.3))
#: Pulls beyond this are an unfinished play.
MAX_PULLS = 10**15


@dataclass(frozen=True)
class Row:
    """One play: pulls, communication cost, pulls of the busiest agent, whether it ended with an error."""

    pulls: int
    cost: float
    busiest: int
    wrong: bool


#: Game -> policy -> its plays.
Table = dict[str, dict[str, list[Row]]]


def numbers(half: str) -> range:
    """The numbers of the games of a half: "tuning" or "held-out"."""
    return range(0 if half == "tuning" else 1, GAMES, 2)


def game(number: int) -> Instance:
    """Random game `number`: N from 5 to 100, K from 2 to 20, M from 2 to 6, every cluster with an agent."""
    rng = np.random.default_rng([25, number])
    rewards, least = REWARDS[number % 3]
    m = 2 + number // 6 % 5
    while True:
        k = int(rng.integers(m, 21))
        n = int(rng.integers(max(5, m), 101))
        clusters = np.append(np.arange(m), rng.integers(0, m, n - m))
        means = None
        law: Gaussian | Bernoulli | Categorical = Gaussian()
        if rewards == "gaussian":
            means = rng.normal(0, rng.choice([0.5, 1.5]), (m, k))
        elif rewards == "bernoulli":
            means = rng.uniform(0.02, 0.98, (m, k))
            law = Bernoulli()
        else:
            law = Categorical(np.arange(1.0, 6.0), rng.dirichlet(np.ones(5), (m, k)))
        instance = Instance(means, clusters, law, allow_overlap=True)
        if instance.eta >= least and instance.gaps.min() >= least / 4:
            return instance


def play(policy: str, federation: Federation) -> Row:
    """One play of `policy`."""
    judgement = federation.stop(make(policy).solve(federation.view()))
    busiest = int(federation.pulls_per_agent.max())
    return Row(federation.pulls, federation.ledger.cost, busiest, not judgement.correct)


def rows(policy: str, federation: Callable[[int], Federation], trials: int) -> list[Row]:
    """Plays of `policy`; `federation` makes the one of a trial."""
    return [play(policy, federation(trial)) for trial in range(trials)]


def mean(found: list[Row], name: str = "pulls") -> float:
    """The geometric mean of an attribute over trials."""
    return float(np.exp(np.mean([np.log(max(1, getattr(row, name))) for row in found])))


def settings(half: str, delta: float) -> Iterator[tuple[str, Callable[[int], Federation]]]:
    """Names of games, and what makes the federation of a trial."""
    if half == "suite":
        yield from _suite_cells()
        return
    for number in numbers(half):
        instance = game(number)
        label = f"{REWARDS[number % 3][0]} {number}, N={instance.n_agents} "
        label += f"K={instance.n_arms} M={instance.n_clusters}"
        yield label, _maker(instance, Problem.of(instance, delta), number)


def _maker(instance: Instance, problem: Problem, number: int) -> Callable[[int], Federation]:
    def federation(trial: int) -> Federation:
        seed = np.random.SeedSequence([number, trial])
        return Federation(instance, problem, seed, max_pulls=MAX_PULLS)

    return federation


def _suite_cells() -> Iterator[tuple[str, Callable[[int], Federation]]]:
    """The first instance of every cell of suite v2 under Assumption 1, up to 1,000 agents."""
    from clustered_bandit_gym.suite.cells import cells_of

    for number, cell in enumerate(cells_of("v2").values(), start=1000):
        instance = cell.instances[0]
        if cell.track != "relaxed" and instance.n_agents <= 1000:
            env = cell.setting().make().unwrapped
            problem = env.federation_on(instance, np.random.SeedSequence(number)).problem
            yield cell.name, _maker(instance, problem, number)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks panel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--half", choices=("tuning", "held-out", "suite"), default="tuning")
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--policies", nargs="+", default=OURS, metavar="POLICY")
    parser.add_argument("--plot", type=Path, help="draw the ratios of all games, in order of size")
    options = parser.parse_args(arguments)
    table: Table = {}
    for name, federation in settings(options.half, options.delta):
        players = (*PLAIN, "bai-cl++", "structured-bai", *options.policies)
        table[name] = {p: rows(p, federation, options.trials) for p in dict.fromkeys(players)}
    for policy in options.policies:
        report(policy, table)
    if options.plot is not None:
        plot(options.policies, table, options.delta, options.plot)
    return 0


def ratios(policy: str, table: Table) -> dict[str, np.ndarray]:
    """What a policy is compared with -> (games,) its figure over that of the other policy."""
    others = {
        "pulls / naive:engine=mixture": ("naive:engine=mixture", "pulls"),
        "pulls / structured-bai": ("structured-bai", "pulls"),
        "communication / bai-cl++": ("bai-cl++", "cost"),
        "busiest agent / naive:engine=mixture": ("naive:engine=mixture", "busiest"),
    }
    return {
        name: np.array(
            [mean(g[policy], attribute) / mean(g[other], attribute) for g in table.values()]
        )
        for name, (other, attribute) in others.items()
    }


def plot(policies: Sequence[str], table: Table, delta: float, file: Path) -> None:
    """Draw each ratio over all games, smallest first: one panel a ratio, one curve a policy."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogFormatter

    found = {policy: ratios(policy, table) for policy in policies}
    names = list(next(iter(found.values())))
    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3), layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        for number, (policy, values) in enumerate(found.items()):
            if name != f"pulls / {policy}":
                share = 100 * np.arange(1, len(table) + 1) / len(table)
                style = {"color": f"C{number}", "marker": "osD^v"[number % 5], "markersize": 3}
                axis.plot(share, np.sort(values[name]), label=policy, **style)
        axis.axhline(1, color="0.5", linewidth=1)
        axis.set(yscale="log", xlabel="% of games at or below")
        axis.set_title(name, fontsize="medium")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    axes[0].set_ylabel(f"ratio, delta = {delta:g}")
    axes[0].legend()
    figure.savefig(file, dpi=150)
    plt.close(figure)


def report(policy: str, table: Table) -> None:
    """Print the games of a policy, worst first, and summaries."""
    print(f"\n{policy}: pulls over the least of the plain policies, worst first")
    least = {
        name: mean(found[policy]) / min(mean(found[p]) for p in PLAIN)
        for name, found in table.items()
    }
    for name, ratio in sorted(least.items(), key=lambda item: -item[1]):
        mine = mean(table[name][policy])
        structured = mine / mean(table[name]["structured-bai"])
        print(f"{ratio:7.2f}  {mine:10.3g} pulls  {structured:5.2f} of structured-bai's  {name}")
    for name, values in ratios(policy, table).items():
        geometric = np.exp(np.log(values).mean())
        print(
            f"{name:<40} geometric mean {geometric:.2f}, "
            f"95% quantile {np.quantile(values, 0.95):.2f}, worst {values.max():.2f}"
        )
    plays = [row for found in table.values() for row in found[policy]]
    print(f"errors {sum(row.wrong for row in plays)} of {len(plays)} plays")
