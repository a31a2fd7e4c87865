"""Speed and memory against stated yardsticks. Run with `python -m benchmarks [module ...]`.

Each file `bench_<name>.py` has a function `figures() -> Iterator[Figure]`; figures are ratios taken in one run, because
absolute times say more about the machine than about the code.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal


@dataclass(frozen=True)
class Figure:
    """One measured number and its target.

    Attributes:
        name: what was measured, and against what.
        value: the number, usually a ratio of times.
        target: where it should lie; None for a number that is only shown.
        sense: whether the target is an upper or a lower limit.
        unit: printed behind both numbers.
    """

    name: str
    value: float
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    unit: str = "x"

    @property
    def ok(self) -> bool:
        if self.target is None:
            return True
        return self.value <= self.target if self.sense == "at most" else self.value >= self.target


def seconds(
    *jobs: Callable[[], Any], repeats: int = 25, clock: Callable[[], float] = perf_counter
) -> list[float]:
    """The best time of each job, the jobs taking turns so that a busy machine disturbs all of them alike.

    `clock=time.process_time` counts the process's own time only: for jobs that run in one process.
    """
    best = [float("inf")] * len(jobs)
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            for i, job in enumerate(jobs):
                start = clock()
                job()
                best[i] = min(best[i], clock() - start)
    finally:
        if enabled:
            gc.enable()
    return best


def ratio(
    job: Callable[[], Any],
    yardstick: Callable[[], Any],
    repeats: int = 25,
    clock: Callable[[], float] = perf_counter,
) -> float:
    """Best time of `job` over best time of `yardstick`."""
    mine, other = seconds(job, yardstick, repeats=repeats, clock=clock)
    return mine / other
