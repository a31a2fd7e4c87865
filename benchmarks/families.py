"""Pulls, communication and the busiest agent on four families at delta = 1e-10.

    python -m benchmarks families
    python -m benchmarks families --trials 20 --seed 7 --policies frugal-bai

Ratios are of geometric means over trials: pulls and the busiest agent over StructuredBAI's,
communication over BAI-Cl++'s.
"""

from __future__ import annotations

import argparse

import clustered_bandit_gym as cbg
from benchmarks.panel import Row, mean
from clustered_bandit_gym.policies.registry import make

FAMILIES = {
    "PaperSmall": 300,
    "PaperRandom": 200,
    "PaperFlat": 1000,
    "MovieLensLike": 120,
}
DELTA = 1e-10


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks families", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policies", nargs="+", default=["frugal-bai"], metavar="POLICY")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), metavar="FAMILY")
    options = parser.parse_args(arguments)
    print(f"{'':<40}{'pulls':>11}{'/ S':>7}{'bits':>9}{'/ B++':>7}{'busiest':>11}{'/ S':>7} wrong")
    for name in options.families:
        found = {
            policy: plays(policy, name, options.trials, options.seed)
            for policy in dict.fromkeys(["structured-bai", "bai-cl++", *options.policies])
        }
        for policy, rows in found.items():
            pulls, cost, busiest = (mean(rows, key) for key in ("pulls", "cost", "busiest"))
            print(
                f"{name + ' ' + policy:<40}"
                f"{pulls:>11.3g}{pulls / mean(found['structured-bai']):>7.2f}"
                f"{cost:>9.0f}{cost / mean(found['bai-cl++'], 'cost'):>7.2f}"
                f"{busiest:>11.3g}{busiest / mean(found['structured-bai'], 'busiest'):>7.2f}"
                f" {sum(row.wrong for row in rows)}",
                flush=True,
            )
    return 0


def plays(policy: str, family: str, trials: int, seed: int) -> list[Row]:
    """Plays of a policy on a family; trial t meets the same instance under every policy."""
    kwargs = {"n_agents": FAMILIES[family], "delta": DELTA}
    found = []
    for trial in range(trials):
        row = cbg.play(
            make(policy),
            f"ClusteredBAI-{family}-v0",
            seed=seed,
            trial=trial,
            bound=False,
            env_kwargs=kwargs,
        )
        found.append(Row(row["pulls"], row["cost"], row["pulls_max_agent"], not row["correct"]))
    return found
