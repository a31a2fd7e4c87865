"""Bandits from data: a table of means, or rows of single rewards, with or without clusters.

Rows are a pandas frame with the columns group (a cluster, or an agent), arm and reward; the first
two are categorical, so that tables by group and arm have a cell for every pair.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clustered_bandit_gym._types import FilePath, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

if TYPE_CHECKING:
    import pandas as pd


#: Bandits without agents, as arguments of `Instance`: `means` and, where the data say it, the law
#: of the `rewards`, `arm_names` and `cluster_names`.
Bandits = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """How well the bandits made from one half of the rows predict the other half.

    Attributes:
        error: root mean square difference between predicted means and averages of the held-out
            half, over pairs of an agent and an arm.
        noise: what `error` would be if the predictions were exact: the standard error of the
            averages.
    """

    error: float
    noise: float


def read_bandits(path: FilePath) -> Bandits:
    """Read a CSV file.

    A header with two of ``cluster``, ``agent``, ``user``, ``arm`` and ``reward`` marks raw rewards: it
    needs cluster, arm and reward, and every pair of the first two a row. Rewards of 0 and 1 become
    Bernoulli; rewards with at most 256 different values keep their empirical law; others become
    Gaussian with the largest standard deviation of any pair. Any other file is a table of means,
    one row per cluster and one column per arm; a first row of arm names and a first column of
    cluster names are recognised by not being numbers, or by ``cluster`` or nothing in the corner.
    """
    cells = _cells(path)
    first = cells.iloc[0].tolist()
    if len({"cluster", "agent", "user", "arm", "reward"} & _lower(first)) > 1:
        if {"agent", "user"} & _lower(first):
            text = "rewards are pooled by cluster: the columns of agents are not used"
            warnings.warn(f"{path}: {text}", stacklevel=2)
        return _bandits_of(_rows(_below_header(cells), "cluster"))
    # The corner of a header: names of arms and clusters may be numbers then.
    corner = first[0].lower() in ("", "cluster")
    numbers = [_is_number(cell) for cell in first[1:] or first]
    counted = not _is_number(first[0]) and first[1:] in (
        [str(k + start) for k in range(len(first) - 1)] for start in (0, 1)
    )
    has_header = corner or not all(numbers)
    if not corner and (counted or (any(numbers) and has_header)):
        raise UserError(
            f"{path}, line 1: expected means, or names of arms; got {', '.join(first)}. Where names "
            "are numbers, the first cell must be `cluster` or empty"
        )
    table = _below_header(cells) if has_header else cells
    has_names = corner or not any(map(_is_number, table.iloc[:, 0]))
    if has_names:
        table = table.set_index(table.columns[0])
    found: Bandits = {"means": _numbers(table)}
    if len(table) > 100 and table.shape[1] <= 3 and not has_header:
        raise UserError(
            f"{path}: {len(table)} rows without a header; rewards need one, e.g. agent,arm,reward"
        )
    if has_header:
        found["arm_names"] = _different(table.columns, path)
    if has_names:
        found["cluster_names"] = _different(table.index, path)
    return found


def _different(names: Any, path: FilePath) -> tuple[str, ...]:
    """`names`, each at most once."""
    if not names.is_unique:
        raise UserError(f"{path}: {names[names.duplicated()][0]!r} is named twice")
    return tuple(names)


def is_log(path: FilePath) -> bool:
    """Whether the CSV file has rows of an agent, an arm and a reward, without clusters."""
    columns = _lower(_cells(path).iloc[0])
    return {"arm", "reward"} <= columns and "cluster" not in columns


def read_logs(source: Any, n_clusters: int | None) -> tuple[Bandits, Ints, Fit | None]:
    """The bandits of logged rewards, the bandit of each agent (N,), and how well half of the rows
    predicts the other half; None where there are too few.

    Args:
        source: path of a CSV file, or a pandas frame, with the columns agent (or user), arm and
            reward.
        n_clusters: groups of agents with similar averages, whose rewards are pooled; None: every
            agent has a bandit of its own.
    """
    import pandas as pd

    is_path = isinstance(source, str | os.PathLike)
    frame = _below_header(_cells(source)) if is_path else pd.DataFrame(source)
    rows = _rows(frame, "agent" if "agent" in _lower(frame.columns) else "user")
    pooled, labels = _grouped(rows, n_clusters)
    return _bandits_of(pooled), labels, _fit_of(rows, n_clusters)


def _grouped(rows: pd.DataFrame, n_clusters: int | None) -> tuple[pd.DataFrame, Ints]:
    """The rows by clusters of agents, and (N,) the cluster of each agent; see `read_logs`.

    Clusters come from k-means of the averages, the best of 20 starts. A missing average counts as
    that of all agents together.
    """
    import pandas as pd
    from scipy.cluster.vq import kmeans, vq

    means = _means(rows)
    if n_clusters is None:
        return rows, np.arange(len(means))
    if not 1 <= n_clusters <= len(means):
        raise UserError(f"clusters: expected a number from 1 to {len(means)}, got {n_clusters}")
    filled = np.where(np.isnan(means), np.nanmean(means, axis=0), means)
    centres, _ = kmeans(filled, n_clusters, iter=20, seed=0)
    if len(centres) < n_clusters:
        raise UserError(f"the agents do not fall into {n_clusters} different clusters; take fewer")
    labels = vq(filled, centres)[0].astype(int)
    names = pd.Index([f"cluster {m}" for m in range(n_clusters)])
    groups = pd.Categorical.from_codes(labels[rows.group.cat.codes], names)
    return rows.assign(group=groups), labels


def _fit_of(rows: pd.DataFrame, n_clusters: int | None) -> Fit | None:
    mixed = rows.sample(frac=1, random_state=0)
    held = _by_cell(mixed).cumcount() % 2 == 1
    if not held.any():
        return None
    unseen = _by_cell(mixed[held])
    try:
        pooled, labels = _grouped(mixed[~held], n_clusters)
    except UserError:
        return None  # half of the rows does not show so many clusters
    error = np.sqrt(np.nanmean((_means(pooled)[labels] - _means(mixed[held])) ** 2))
    noise = np.sqrt(np.nanmean(unseen.var(ddof=0) / unseen.size()))
    return Fit(float(error), float(noise))


def _bandits_of(rows: pd.DataFrame) -> Bandits:
    """Each group's empirical bandit; see `read_bandits` for the law."""
    import pandas as pd

    means = _by_cell(rows).mean().unstack()
    if means.isna().any(axis=None):
        group, arm = means.isna().stack().idxmax()
        raise UserError(f"no reward of arm {arm!r} in {group!r}; every pair needs one")
    support = np.unique(rows.reward)
    law: RewardModel
    if set(support) <= {0.0, 1.0}:
        law = Bernoulli()
    elif support.size > 256:
        law = Gaussian(float(_by_cell(rows).std().max()))
    else:
        shares = pd.crosstab([rows.group, rows.arm], rows.reward, normalize="index")
        law = Categorical(support, shares.to_numpy().reshape(*means.shape, support.size))
    names = {"arm_names": tuple(means.columns), "cluster_names": tuple(means.index)}
    return {"means": means.to_numpy(), "rewards": law, **names}


def _by_cell(rows: pd.DataFrame) -> Any:
    """The rewards by group and arm."""
    return rows.groupby(["group", "arm"], observed=False).reward


def _means(rows: pd.DataFrame) -> Floats:
    """(G, K) average rewards, NaN where there are none."""
    return np.asarray(_by_cell(rows).mean().unstack())


def _cells(path: FilePath) -> pd.DataFrame:
    """The CSV file as text; a header is its first row."""
    import pandas as pd

    options: Any = {"dtype": str, "encoding": "utf-8-sig", "header": None, "na_filter": False}
    try:
        with open(path, "rb") as file:
            head = file.readline()
        if b"," not in head and (b";" in head or b"\t" in head):
            raise ValueError(
                f"expected commas between cells, got {head.decode(errors='replace').strip()!r}"
            )
        cells = pd.DataFrame(pd.read_csv(path, skipinitialspace=True, **options))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    return cells.set_axis(pd.RangeIndex(1, len(cells) + 1, name="line"))


def _below_header(cells: pd.DataFrame) -> pd.DataFrame:
    if len(cells) < 2:
        raise UserError("the file has a header and no rows")
    return cells[1:].set_axis(cells.iloc[0].tolist(), axis=1)


def _rows(frame: pd.DataFrame, group: str) -> pd.DataFrame:
    """Rows from a table with the columns `group`, arm and reward."""
    import pandas as pd

    named = frame.rename(columns=lambda name: str(name).strip().lower())
    if not {group, "arm", "reward"} <= set(named):
        raise UserError(
            f"expected the columns {group}, arm and reward, got {', '.join(map(str, named))}; rows "
            "of clusters have a column cluster (Instance.from_csv), those of single agents a column "
            "agent or user (Instance.from_logs)"
        )
    columns = {"group": _labels(named[group]), "arm": _labels(named.arm)}
    for name, labels in columns.items():
        if "" in labels.categories:
            line = named.index[labels == ""][0]
            what = group if name == "group" else name
            raise UserError(f"{named.index.name or 'row'} {line}: the column {what} is empty")
    return pd.DataFrame(columns | {"reward": _numbers(named[["reward"]])[:, 0]})


def _labels(column: pd.Series[Any]) -> pd.Categorical:
    """Labels as text: numbers in their order, other names in alphabetical order."""
    import pandas as pd

    texts = column.astype(str).str.strip()
    names = sorted(texts.unique())
    if all(map(_is_number, names)):
        names.sort(key=float)
    return pd.Categorical(texts, names)


def _numbers(cells: pd.DataFrame) -> Floats:
    """Cells as finite numbers."""
    import pandas as pd

    numbers = np.asarray(cells.apply(pd.to_numeric, errors="coerce"), dtype=float)
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        got = cells.iat[row, column]
        place = f"{cells.index.name or 'row'} {cells.index[row]}, column {cells.columns[column]}"
        raise UserError(f"expected finite numbers, got {got!r} in {place}")
    return numbers


def _lower(names: Any) -> set[str]:
    return {str(name).strip().lower() for name in names}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
