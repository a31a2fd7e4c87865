"""What δ-correct policies pay above the lower bound, measured piece by piece on small games.

The first table takes `naive:engine=mixture` apart. Each column removes one price and keeps those to
its left removed, so that the factors of a row multiply to its pulls over the bound:

* batches: looks after each tenth of the pulls, instead of after each hundredth;
* mixture: the gap is not known, so evidence is averaged over a prior; known gaps pay nothing;
* union: one level for all agents and pairs of arms, instead of one for each;
* equal pulls: the arms that are left are pulled equally often, instead of in optimal proportions;
* stopping: a test must pass its level at all its arms, where the bound asks for it on average;
* alone: agents do not share, where the bound lets a cluster's agents share.

The second table shows where StructuredBAI and FrugalBAI spend their pulls, phase by phase.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym import theory
from clustered_bandit_gym.policies.engines.track_and_stop import optimal_shares
from clustered_bandit_gym.policies.sequential.paired import drift_evidence
from research.options import parser, run

GAMES = {
    "two arms, N = 10": ([[0.5, 0.0], [0.0, 0.5]], 10),
    "five arms, N = 30": (
        [[1.0, 0.5, 0.3, 0.2, 0.0], [0.4, 1.0, 0.2, 0.1, 0.3], [0.1, 0.2, 1.0, 0.5, 0.3]],
        30,
    ),
    "near tie, N = 12": ([[1.0, 0.9, 0.2, 0.0], [0.2, 0.3, 1.0, 0.4]], 12),
}
DELTAS = (0.05, 1e-10)
POLICIES = ("structured-bai", "frugal-bai")


def pulls_alone(
    means: np.ndarray,
    level: float,
    growth: float,
    known: bool,
    optimal: bool,
    trials: int,
    rng: np.random.Generator,
) -> float:
    """Mean pulls of one agent that drops arms shown to be worse at `level` nats.

    Args:
        means: (K,) of unit Gaussian arms.
        growth: of the pulls between two looks.
        known: each pair is tested with its true gap, instead of a mixture.
        optimal: pulls in the proportions that are optimal for the true means.
    """
    k = means.size
    gaps = np.tile(means.max() - means, (trials, 1))
    left = np.ones((trials, k), dtype=bool)
    walk, variance = np.zeros((trials, k, k)), np.zeros((trials, k, k))
    counts, sums = np.zeros((trials, k)), np.zeros((trials, k))
    batch = np.ones((trials, k))
    on = np.arange(trials)
    while on.size:
        here = np.arange(on.size)
        averages = rng.normal(means, 1 / np.sqrt(batch))
        counts[on] += batch * left[on]
        sums[on] += batch * left[on] * averages
        pairs = batch[:, :, None] + batch[:, None, :]
        information = batch[:, :, None] * batch[:, None, :] / pairs
        walk[on] += information * (averages[:, :, None] - averages[:, None, :])
        variance[on] += information
        leader = np.where(left[on], sums[on] / counts[on], -np.inf).argmax(axis=1)
        s, v = walk[on, leader], variance[on, leader]
        drift = np.abs(means[leader][:, None] - means)
        evidence = drift * s - drift**2 * v / 2 if known else drift_evidence(s, v, level)
        beaten = evidence >= level
        beaten[here, leader] = False
        left[on] &= ~beaten
        on = on[left[on].sum(axis=1) > 1]
        shares = left[on] / left[on].sum(axis=1, keepdims=True)
        if optimal and on.size:
            shares = optimal_shares(np.where(left[on], gaps[on], np.inf))
        total = (counts[on] * left[on]).sum(axis=1, keepdims=True)
        batch = np.maximum(1.0, (growth - 1) * total * shares)
    return float(counts.sum() / trials)


def bound_alone(means: np.ndarray, delta: float) -> float:
    """Lower bound on the pulls of one agent with unit Gaussian arms (Garivier and Kaufmann 2016)."""
    gaps = means.max() - means
    shares = optimal_shares(gaps[None])[0]
    leader = int(gaps.argmin())
    rivals = np.arange(means.size) != leader
    worth = gaps[rivals] ** 2 / (2 * (1 / shares[leader] + 1 / shares[rivals]))
    return theory.information_needed(delta) / float(worth.min())


def naive_table(trials: int) -> list[str]:
    """Rows of the first table."""
    rng = np.random.default_rng(7)
    rows = []
    for name, (table, n_agents) in GAMES.items():
        means = np.array(table)
        clusters = np.arange(n_agents) % len(means)
        for delta in DELTAS:
            instance = cbg.Instance(means, clusters)
            union = float(np.log(n_agents * (means.shape[1] - 1) / delta))
            single = float(np.log(1 / delta))
            steps = [
                (union, 1.1, False, False),
                (union, 1.01, False, False),
                (union, 1.01, True, False),
                (single, 1.01, True, False),
                (single, 1.01, True, True),
            ]
            pulls = [
                sum(
                    pulls_alone(row, *step, trials, rng) * int((clusters == m).sum())
                    for m, row in enumerate(means)
                )
                for step in steps
            ]
            alone = sum(
                bound_alone(row, delta) * int((clusters == m).sum()) for m, row in enumerate(means)
            )
            bound = theory.instance_lower_bound(instance, delta)
            chain = [*pulls, alone, bound]
            factors = [a / b for a, b in pairwise(chain)]
            cells = " | ".join(f"{factor:.2f}" for factor in factors)
            rows.append(f"| {name} | {delta:g} | {pulls[0] / bound:.1f} | {cells} |")
    return rows


def phase_table(trials: int) -> list[str]:
    """Rows of the second table: pulls over the bound, and the part of each phase."""
    rows = []
    for name, (table, n_agents) in GAMES.items():
        instance = cbg.Instance(table, np.arange(n_agents) % len(table))
        for delta in DELTAS:
            board = cbg.evaluate(
                list(POLICIES), instance=instance, delta=delta, trials=trials, progress=False
            )
            for policy, own in board.trials.groupby("policy", sort=False):
                phases: dict[str, float] = {}
                for row in own.to_dict("records"):
                    for phase, pulls in row["pulls_by_phase"].items():
                        part = pulls / row["bound"] / len(own)
                        phases[phase] = phases.get(phase, 0.0) + part
                text = ", ".join(f"{phase} {part:.1f}" for phase, part in phases.items())
                rows.append(
                    f"| {name} | {delta:g} | `{policy}` | {sum(phases.values()):.1f} | {text} |"
                )
    return rows


def main(words: list[str] | None = None) -> None:
    about = "What policies pay above the lower bound."
    trials = parser(about, trials=200).parse_args(words).trials
    print(
        "| game | δ | over the bound | batches | mixture | union | equal pulls | stopping | alone |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    print("\n".join(naive_table(trials)))
    print("\n| game | δ | policy | over the bound | by phase |")
    print("|---|---:|---|---:|---|")
    print("\n".join(phase_table(min(trials, 40))))


if __name__ == "__main__":
    run(main)
