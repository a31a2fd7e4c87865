"""The policies of this package over the best plain one, on the tuning half of the panel."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import Figure
from benchmarks.panel import OURS, PLAIN, mean, rows, settings

DELTA = 0.05


def figures() -> Iterator[Figure]:
    worst = dict.fromkeys(OURS, 0.0)
    for _, federation in settings("tuning", DELTA):
        least = min(mean(rows(policy, federation, 1)) for policy in PLAIN)
        for policy in OURS:
            worst[policy] = max(worst[policy], mean(rows(policy, federation, 1)) / least)
    for policy, ratio in worst.items():
        name = f"{policy}: pulls over the best plain policy's, worst of 33 random games"
        yield Figure(name, ratio)
