"""The Yelp Open Dataset as bandits: a state is a cluster, a name an arm, its stars the mean."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from clustered_bandit_gym._types import FilePath
from clustered_bandit_gym.datasets.sources import Origin, Source, find
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

FILE = "yelp_academic_dataset_business.json"
ORIGIN = Origin(
    "Yelp Open Dataset",
    "https://www.yelp.com/dataset",
    (FILE, "yelp_dataset", "yelp_dataset.zip"),
    "ClusteredBAI-YelpLike-v0",
)
#: The clusters of the paper.
STATES = ("LA", "TN", "MO", "IN")


def load(path: FilePath | None) -> Instance:
    """One bandit per state, one agent in each; read once per process and file."""
    return _select(find(path, FILE, ORIGIN))


@lru_cache(maxsize=8)
def _select(source: Source) -> Instance:
    import pandas as pd

    expected = 'one JSON object with "name", "state" and "stars" (1 to 5)'
    frame = pd.DataFrame(source.parsed(_business, expected), columns=["name", "state", "stars"])
    # A blank name would make one arm of unrelated businesses.
    kept = frame[frame["state"].isin(STATES) & (frame["name"] != "")]
    # A sum of half stars over a whole number is rounded once: equal averages are equal floats.
    averages = kept.groupby(["state", "name"])["stars"].mean().unstack()
    averages = averages.reindex(STATES).dropna(axis=1)
    if averages.empty:
        raise UserError(
            f"{source.path}: no business name is present in all of {', '.join(STATES)}: no arm left"
        )
    arms = averages.loc[:, _arms(averages)]
    return Instance(
        arms.to_numpy(),
        range(len(STATES)),
        arm_names=[str(name) for name in arms],
        cluster_names=STATES,
    )


def _business(line: bytes) -> tuple[str, str, float]:
    """Name, state and stars."""
    business = json.loads(line)
    stars = float(business["stars"])
    if not (1 <= stars <= 5 and isinstance(business["state"], str)):
        raise ValueError
    return business["name"].strip(), business["state"], stars


def _arms(averages: pd.DataFrame) -> pd.Series[bool]:
    """(K,) arms that stay, so that every state has one best arm and no two states the same."""
    best = averages.eq(averages.max(axis=1), axis=0)
    only_here = best & (best.sum() == 1)
    without = best[~only_here.any(axis=1)]
    if len(without):
        state, row = next(without.iterrows())
        tied = ", ".join(best.columns[row][:5])
        raise UserError(
            f"no unique best arm: every best business of {state} ({tied}) is also best elsewhere"
        )
    return ~best.any() | best.columns.isin(only_here.idxmax(axis=1))
