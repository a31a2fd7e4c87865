"""Ratios of pulls with their intervals. Pure functions on data frames."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.scoring.intervals import CONFIDENCE
from clustered_bandit_gym.reproduce.figures import Figure
from research.paper.points import units


class Ratio(NamedTuple):
    """A ratio of two numbers of pulls with its interval: 95%, or more where a claim makes several
    comparisons.
    """

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """−1: surely below one; 1: surely above; 0: the interval holds 1."""
        return -1 if self.high < 1 else 1 if self.low > 1 else 0

    @property
    def saving(self) -> str:
        """“saves 67.2% (66.8 to 67.5)”."""
        return f"{100 * (1 - self.value):.1f}% ({100 * (1 - self.high):.1f} to {100 * (1 - self.low):.1f})"

    def __str__(self) -> str:
        # Near one, three decimals: "1 (0.998 to 1)" would hide on which side of one the interval
        # ends.
        form = ".3f" if 0.5 < self.value < 2 else ".3g"
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def points_of(rows: pd.DataFrame, figure: Figure) -> list[tuple[Any, pd.DataFrame]]:
    """The rows of each point (all policies and instances), with the values of `figure.keys`; panels
    apart.
    """
    return list(rows.groupby(figure.keys, sort=True))


def paired(
    rows: pd.DataFrame, policy: str, other: str, column: str = "pulls", comparisons: int = 1
) -> Ratio:
    """`policy` over `other`, at one point: geometric mean of the ratio within a trial (within an
    instance where there are several), with the t interval of the logs. With `comparisons`
    intervals, all of them hold together with 95% (Bonferroni)."""
    logs = rows.assign(log=np.log(rows[column].astype(float)))
    mine, theirs = (units(logs[logs["policy"] == name], "log") for name in (policy, other))
    values = (mine - theirs).dropna().to_numpy()
    if values.size < 2:
        raise UserError("a ratio needs at least two trials")
    half = (
        stats.t.ppf(_level(comparisons), values.size - 1)
        * values.std(ddof=1)
        / np.sqrt(values.size)
    )
    return _around(float(np.exp(values.mean())), float(half))


def against(
    first: pd.DataFrame, second: pd.DataFrame, column: str = "pulls", comparisons: int = 1
) -> Ratio:
    """Mean of `first` over mean of `second`, rows of one policy at two points, not paired: a normal
    interval for the logarithm, by the delta method. `comparisons` as in `paired`."""
    a, b = (units(rows, column).to_numpy(dtype=float) for rows in (first, second))
    relative = [values.std(ddof=1) ** 2 / values.size / values.mean() ** 2 for values in (a, b)]
    half = float(stats.norm.ppf(_level(comparisons))) * float(np.sqrt(sum(relative)))
    return _around(float(a.mean() / b.mean()), half)


def _level(comparisons: int) -> float:
    return 1 - (1 - CONFIDENCE) / (2 * comparisons)


def _around(value: float, half: float) -> Ratio:
    return Ratio(value, value * float(np.exp(-half)), value * float(np.exp(half)))


def drawn_agents(rows: pd.DataFrame) -> pd.Series:
    """Agents sampled in the first phase of BAI-Cl: one exchange each, and one more if a second
    phase took place.
    """
    return rows["rounds"] - rows["pulls_by_phase"].map(lambda phases: int("assign" in phases))
