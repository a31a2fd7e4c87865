"""Bandits from data: a table of means, or rows of single rewards, with or without clusters."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Bandits:
    """What data say: the bandits without any agents.

    Attributes:
        means: (M, K).
        rewards: law that the data suggest, None for a table of means.
        arm_names, cluster_names: labels of columns and rows, None where the data have none.
    """

    means: Floats
    rewards: RewardModel | None
    arm_names: tuple[str, ...] | None
    cluster_names: tuple[str, ...] | None


@dataclass(frozen=True)
class Fit:
    """How well the bandits made from one half of the rows predict the other half.

    Attributes:
        error: root mean square difference between predicted means and averages of the held-out
            half, over pairs of an agent and an arm.
        noise: what `error` would be if the predictions were exact: the standard error of the
            averages.
        same_best: share of agents whose best arm is the same in both halves.
    """

    error: float
    noise: float
    same_best: float

    def __str__(self) -> str:
        return (
            f"held-out half: means are off by {self.error:.3g} (sampling noise alone: "
            f"{self.noise:.3g}), the best arm is the same for {self.same_best:.0%} of agents"
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Single rewards: which group (a cluster, or an agent) got which reward from which arm.

    Attributes:
        groups, arms: (n,) numbers of the group and of the arm of each row.
        rewards: (n,).
        group_names, arm_names: the labels of these numbers.
    """

    groups: Ints
    arms: Ints
    rewards: Floats
    group_names: tuple[str, ...]
    arm_names: tuple[str, ...]

    @property
    def counts(self) -> Floats:
        """(G, K) number of rewards of each group and arm."""
        return self._sums(np.ones_like(self.rewards))

    @property
    def means(self) -> Floats:
        """(G, K) average rewards, NaN where there are none."""
        with np.errstate(invalid="ignore"):
            return self._sums(self.rewards) / self.counts

    @property
    def squares(self) -> Floats:
        """(G, K) sums of squared distances from the average."""
        return self._sums((self.rewards - self.means[self.groups, self.arms]) ** 2)

    def _sums(self, weights: Floats) -> Floats:
        sums = np.zeros((len(self.group_names), len(self.arm_names)))
        np.add.at(sums, (self.groups, self.arms), weights)
        return sums

    def part(self, kept: Bools) -> Rows:
        """The rows that are marked."""
        return replace(
            self, groups=self.groups[kept], arms=self.arms[kept], rewards=self.rewards[kept]
        )

    def bandits(self) -> Bandits:
        """Each group's empirical bandit; see `read_bandits` for the law."""
        counts = self.counts
        if not counts.all():
            group, arm = np.argwhere(counts == 0)[0]
            raise UserError(
                f"no reward of arm {self.arm_names[arm]!r} in {self.group_names[group]!r}; every "
                "pair needs one"
            )
        means = self.means
        support, place = np.unique(self.rewards, return_inverse=True)
        law: RewardModel
        if set(support) <= {0.0, 1.0}:
            law = Bernoulli()
        elif support.size <= 256:
            table = np.zeros((*counts.shape, support.size))
            np.add.at(table, (self.groups, self.arms, place), 1)
            law = Categorical(support, table / counts[..., None])
            means = law.check_means(None)
        else:
            law = Gaussian(float(np.sqrt(self.squares / np.maximum(counts - 1, 1)).max()))
        return Bandits(means, law, self.arm_names, self.group_names)


def read_bandits(path: str | os.PathLike[str]) -> Bandits:
    """Read a CSV file.

    A header with the columns ``cluster``, ``arm`` and ``reward`` marks raw rewards: every pair of a
    cluster and an arm needs at least one row. Rewards of 0 and 1 become Bernoulli; rewards with at
    most 256 different values keep their empirical law; others become Gaussian with the largest
    standard deviation of any pair. Any other file is a table of means, one row per cluster and one
    column per arm; a first row of arm names and a first column of cluster names are recognised by
    not being numbers.
    """
    if is_log(path):
        raise UserError(
            f"{path} has no column `cluster`; rows of agents without clusters are read by "
            "Instance.from_logs(path, clusters=M)"
        )
    first = _cells(path, header=None, nrows=1).iloc[0].tolist()
    if {"cluster", "arm", "reward"} <= _lower(first):
        return _rows(_cells(path), "cluster", path).bandits()
    has_header = not all(map(_is_number, first[1:] or first))
    table = _cells(path, header=0 if has_header else None)
    arms = tuple(table.columns) if has_header else None
    clusters = None
    if table.index.dtype.kind == "O":  # the cell over the clusters is missing
        clusters = tuple(table.index)
    elif not any(map(_is_number, table.iloc[:, 0])):
        clusters = tuple(table.iloc[:, 0])
        arms = arms and arms[1:]
        table = table.iloc[:, 1:]
    return Bandits(_numbers(table, path), None, arms, clusters)


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether the CSV file has rows of an agent, an arm and a reward, without clusters."""
    header = _lower(_cells(path, header=None, nrows=1).iloc[0])
    return {"arm", "reward"} <= header and "cluster" not in header


def read_logs(source: Any) -> Rows:
    """Rows from a CSV file or a pandas frame with the columns agent (or user), arm and reward."""
    frame = _cells(source) if isinstance(source, str | os.PathLike) else source
    if not hasattr(frame, "columns"):
        raise UserError(
            f"logs are the path of a CSV file or a pandas frame, got {type(source).__name__}"
        )
    return _rows(frame, "agent" if "agent" in _lower(frame.columns) else "user", source)


def grouped(rows: Rows, n_clusters: int | None) -> tuple[Rows, Ints]:
    """The rows of `n_clusters` groups of agents (None: as they are), and the group of each agent
    (N,)."""
    if n_clusters is None:
        return rows, np.arange(len(rows.group_names))
    labels = cluster(rows.means, n_clusters)
    names = tuple(f"cluster {m}" for m in range(n_clusters))
    return replace(rows, groups=labels[rows.groups], group_names=names), labels


def cluster(means: Floats, n_clusters: int) -> Ints:
    """(N,) labels 0..M−1 of agents with average rewards `means` (N, K), by k-means; the best of 20
    starts.

    A missing average (NaN) counts as that of all agents together.
    """
    from scipy.cluster.vq import kmeans2

    n_agents = len(means)
    if not 1 <= n_clusters <= n_agents:
        raise UserError(
            f"clusters must be a number from 1 to {n_agents}, the agents; got {n_clusters}"
        )
    filled = np.where(np.isnan(means), np.nanmean(means, axis=0), means)
    best = np.inf
    labels = np.zeros(n_agents, dtype=np.int64)
    for start in range(20):
        centres, found = kmeans2(filled, n_clusters, minit="++", seed=start, missing="warn")
        loss = float(((filled - centres[found]) ** 2).sum())
        if loss < best and np.unique(found).size == n_clusters:
            best = loss
            labels = found.astype(np.int64)
    if best == np.inf:
        raise UserError(f"the agents do not fall into {n_clusters} different clusters; take fewer")
    return labels


def fit_of(rows: Rows, n_clusters: int | None) -> Fit | None:
    """How well half of the rows predicts the other half; None where too few pairs have two rows."""
    import pandas as pd

    order = pd.Series(np.random.default_rng(0).permutation(rows.rewards.size))
    held = (order.groupby([rows.groups, rows.arms]).rank() % 2 == 0).to_numpy()
    known = rows.part(~held)
    unseen = rows.part(held)
    both = (known.counts > 0) & (unseen.counts > 0)
    whole = both.all(axis=1)
    if not whole.any():
        return None
    pooled, labels = grouped(known, n_clusters)
    predicted = pooled.means[labels]
    averages = unseen.means
    noise = np.sqrt(np.mean(unseen.squares[both] / unseen.counts[both] ** 2))
    error = np.sqrt(np.mean((predicted[both] - averages[both]) ** 2))
    same = predicted[whole].argmax(axis=1) == averages[whole].argmax(axis=1)
    return Fit(float(error), float(noise), float(same.mean()))


def _cells(path: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
    """The CSV file as text."""
    import pandas as pd

    try:
        table: pd.DataFrame = pd.read_csv(
            path, dtype=str, encoding="utf-8-sig", skipinitialspace=True, na_filter=False, **options
        )
    except FileNotFoundError:
        raise UserError(
            f"there is no file {path}; expected a CSV file of means or of (cluster, arm, reward) "
            "rows"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    if table.empty:
        raise UserError(f"{path} has a header and no rows")
    return table


def _rows(frame: pd.DataFrame, group: str, origin: Any) -> Rows:
    """The rows of a table with the columns `group`, arm and reward."""
    columns = {str(name).strip().lower(): name for name in frame.columns}
    if not {group, "arm", "reward"} <= set(columns):
        raise UserError(
            f"expected the columns agent (or user), arm and reward, got {', '.join(columns)}"
        )
    rewards = _numbers(frame[columns["reward"]], origin)
    group_names, groups = _numbered(frame[columns[group]])
    arm_names, arms = _numbered(frame[columns["arm"]])
    return Rows(groups, arms, rewards, group_names, arm_names)


def _numbered(labels: Any) -> tuple[tuple[str, ...], Ints]:
    """The different labels as text, numbers in their order and other names in alphabetical order;
    and the place of each label among them."""
    texts = [str(one).strip() for one in labels]
    names = sorted(set(texts))
    if all(map(_is_number, names)):
        names.sort(key=float)
    place = {name: i for i, name in enumerate(names)}
    return tuple(names), np.array([place[text] for text in texts])


def _numbers(cells: Any, origin: Any) -> Floats:
    """Cells of a frame as finite numbers; `origin` is the file that they come from."""
    try:
        numbers = cells.to_numpy(dtype=np.float64)
    except ValueError as error:
        raise UserError(f"{origin}: expected numbers: {error}") from None
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
        raise UserError(f"expected finite numbers in row {row + 1}, got {numbers[row]}")
    return np.asarray(numbers)


def _lower(names: Any) -> set[str]:
    return {str(name).strip().lower() for name in names}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
