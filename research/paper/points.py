"""From rows of a figure to its points: centres and intervals. Pure functions on data frames."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clustered_bandit_gym.harness.scoring.intervals import mean_interval
from clustered_bandit_gym.reproduce.figures import Figure


def units(rows: pd.DataFrame, column: str) -> pd.Series:
    """Independent observations in the rows of one policy at one point.

    Instances (their means over trials) where several are fixed, trials otherwise; the index is the
    instance or (seed, trial).
    """
    if rows["instance_seed"].notna().any():
        return rows.groupby("instance_seed")[column].mean()
    return rows.set_index(["seed", "trial"])[column].astype(float)


def points(rows: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """Rows of one policy to columns x, centre, low, high.

    Median and quartiles over several fixed instances, mean and t interval over trials otherwise.
    """
    result = []
    for x, here in rows.groupby(figure.x, sort=True):
        values = units(here, figure.measure).to_numpy(dtype=float)
        if figure.over_instances:
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        else:
            middle, low, high = mean_interval(values)
        result.append((x, middle, low, high))
    return pd.DataFrame(result, columns=["x", "centre", "low", "high"])
