"""Bandits from data: a table of means, or rows of single rewards, with or without clusters."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

#: Lines of a CSV file that are not empty: their numbers and cells.
Lines = list[tuple[int, list[str]]]


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
        what: "cluster" or "agent".
    """

    groups: Ints
    arms: Ints
    rewards: Floats
    group_names: tuple[str, ...]
    arm_names: tuple[str, ...]
    what: str

    @property
    def counts(self) -> Ints:
        """(G, K) number of rewards of each group and arm."""
        return self._sums(np.ones_like(self.rewards)).astype(np.int64)

    @property
    def means(self) -> Floats:
        """(G, K) average rewards, NaN where there are none."""
        with np.errstate(invalid="ignore"):
            return self._sums(self.rewards) / self.counts

    def _sums(self, weights: Floats) -> Floats:
        sums = np.zeros((len(self.group_names), len(self.arm_names)))
        np.add.at(sums, (self.groups, self.arms), weights)
        return sums

    def part(self, kept: Bools) -> Rows:
        """The rows that are marked."""
        return replace(
            self, groups=self.groups[kept], arms=self.arms[kept], rewards=self.rewards[kept]
        )

    def pooled(self, labels: Ints, n_clusters: int) -> Rows:
        """Groups with the same label (G,) as one."""
        names = tuple(f"cluster {m}" for m in range(n_clusters))
        return replace(self, groups=labels[self.groups], group_names=names, what="cluster")

    def bandits(self, origin: str) -> Bandits:
        """Each group's empirical bandit; see `read_bandits` for the law.

        `origin` names the data in errors.
        """
        counts = self.counts
        if not counts.all():
            group, arm = np.argwhere(counts == 0)[0]
            raise UserError(
                f"{origin}: no reward of arm {self.arm_names[arm]!r} in {self.what} "
                f"{self.group_names[group]!r}; every pair needs one"
            )
        means = self.means
        support, place = np.unique(self.rewards, return_inverse=True)
        law: RewardModel
        if set(support) <= {0.0, 1.0}:
            law = Bernoulli()
        elif support.size <= 256:
            table = np.zeros((*counts.shape, support.size))
            np.add.at(table, (self.groups, self.arms, place), 1)
            law = Categorical(support, table / table.sum(axis=2, keepdims=True))
            means = law.check_means(None)
        else:
            squares = self._sums((self.rewards - means[self.groups, self.arms]) ** 2)
            law = Gaussian(float(np.sqrt(squares / np.maximum(counts - 1, 1)).max()))
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
    lines = _lines(path)
    header = _header(lines)
    if not {"arm", "reward"} <= set(header):
        return _table(path, lines)
    if "cluster" not in header:
        raise UserError(
            f"{path} has the columns {', '.join(header)} and no column `cluster`; rows of agents "
            "without clusters are read by Instance.from_logs(path, clusters=M)"
        )
    return _rows(path, lines, "cluster", "cluster").bandits(str(path))


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether the CSV file has rows of an agent, an arm and a reward, without clusters."""
    header = _header(_lines(path))
    return {"arm", "reward"} <= set(header) and "cluster" not in header


def read_logs(source: Any) -> Rows:
    """Rows from a CSV file or a pandas frame with the columns agent (or user), arm and reward."""
    if isinstance(source, str | os.PathLike):
        lines = _lines(source)
        return _rows(source, lines, _agent_column(_header(lines), str(source)), "agent")
    if not hasattr(source, "columns"):
        raise UserError(
            f"logs are the path of a CSV file or a pandas frame, got {type(source).__name__}"
        )
    agent = _agent_column([str(name) for name in source.columns], "the frame")
    rewards = np.asarray(source["reward"], dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise UserError("rewards must be finite numbers")
    return _named_rows(list(source[agent]), list(source["arm"]), rewards, "agent")


def bandits_of(rows: Rows, n_clusters: int | None, origin: str) -> tuple[Bandits, Ints]:
    """The bandits, and the bandit of each agent (N,): one per agent, or `n_clusters` of them."""
    if n_clusters is None:
        return rows.bandits(origin), np.arange(len(rows.group_names))
    labels = cluster(rows.means, n_clusters)
    return rows.pooled(labels, n_clusters).bandits(origin), labels


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
    rng = np.random.default_rng(0)
    pairs = rows.groups * len(rows.arm_names) + rows.arms
    order = np.lexsort((rng.permutation(pairs.size), pairs))  # in random order within each pair
    first_of_pair = np.searchsorted(pairs[order], pairs[order])
    held = np.zeros(pairs.size, dtype=np.bool_)
    held[order] = (np.arange(pairs.size) - first_of_pair) % 2 == 1
    known = rows.part(~held)
    unseen = rows.part(held)
    both = (known.counts > 0) & (unseen.counts > 0)
    whole = both.all(axis=1)
    if not whole.any():
        return None
    predicted = known.means
    if n_clusters is not None:
        labels = cluster(known.means, n_clusters)
        predicted = known.pooled(labels, n_clusters).means[labels]
    averages = unseen.means
    squares = unseen._sums((unseen.rewards - averages[unseen.groups, unseen.arms]) ** 2)
    noise = np.sqrt(np.mean(squares[both] / unseen.counts[both] ** 2))
    error = np.sqrt(np.mean((predicted[both] - averages[both]) ** 2))
    same = predicted[whole].argmax(axis=1) == averages[whole].argmax(axis=1)
    return Fit(float(error), float(noise), float(same.mean()))


def _lines(path: str | os.PathLike[str]) -> Lines:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        rows = list(csv.reader(text.splitlines()))
    except FileNotFoundError:
        raise UserError(
            f"there is no file {path}; expected a CSV file of means or of (cluster, arm, reward) "
            "rows"
        ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    lines = [(i, [cell.strip() for cell in row]) for i, row in enumerate(rows, start=1) if any(row)]
    if not lines:
        raise UserError(
            f"{path} is empty; expected a table of means or (cluster, arm, reward) rows"
        )
    return lines


def _header(lines: Lines) -> list[str]:
    return [cell.lower() for cell in lines[0][1]]


def _agent_column(header: list[str], origin: str) -> str:
    for agent in ("agent", "user"):
        if {agent, "arm", "reward"} <= set(header):
            return agent
    raise UserError(
        f"{origin}: expected the columns agent (or user), arm and reward, got {', '.join(header)}"
    )


def _table(path: str | os.PathLike[str], lines: Lines) -> Bandits:
    """A table of means, perhaps with names of columns and rows."""
    first = lines[0][1]
    has_header = any(cell and not _is_number(cell) for cell in first[1:] or first)
    body = lines[1:] if has_header else lines
    if not body:
        raise UserError(f"{path} has a header and no rows; expected one row of means per cluster")
    named_rows = not any(_is_number(row[0]) for _, row in body)
    start = 1 if named_rows else 0
    width = len(body[0][1])
    if width == start:
        raise UserError(f"{path} has no column of means")
    means = []
    for number, row in body:
        if len(row) != width:
            raise UserError(
                f"{path}, line {number}: {len(row)} columns, but line {body[0][0]} has {width}"
            )
        means.append([_finite(path, number, cell, "mean") for cell in row[start:]])
    columns = None
    if has_header and len(first) in (width, width - start):
        columns = tuple(first[start - width :])  # the cell over the clusters may be missing
    rows = tuple(row[0] for _, row in body) if named_rows else None
    return Bandits(np.array(means), None, columns, rows)


def _rows(path: str | os.PathLike[str], lines: Lines, group: str, what: str) -> Rows:
    """The rows of a CSV file whose header has the columns `group`, arm and reward."""
    header = _header(lines)
    places = [header.index(name) for name in (group, "arm", "reward")]
    cells = []
    rewards = []
    for number, row in lines[1:]:
        if len(row) <= max(places):
            raise UserError(
                f"{path}, line {number}: expected {group}, arm and reward, got {len(row)} columns"
            )
        cells.append([row[place] for place in places])
        rewards.append(_finite(path, number, cells[-1][2], "reward"))
    if not cells:
        raise UserError(f"{path} has a header and no rows; expected one row per reward")
    groups, arms, _ = zip(*cells, strict=True)
    return _named_rows(groups, arms, np.array(rewards), what)


def _named_rows(groups: Sequence[Any], arms: Sequence[Any], rewards: Floats, what: str) -> Rows:
    """From labels of any kind, each compared as text."""
    group_names, group_ids = _numbered([str(one) for one in groups])
    arm_names, arm_ids = _numbered([str(one) for one in arms])
    return Rows(group_ids, arm_ids, rewards, group_names, arm_names, what)


def _numbered(labels: list[str]) -> tuple[tuple[str, ...], Ints]:
    """The different labels, numbers in their order and other names in alphabetical order; and the
    place of each label among them."""
    names = sorted(set(labels))
    if all(map(_is_number, names)):
        names.sort(key=float)
    place = {name: i for i, name in enumerate(names)}
    return tuple(names), np.array([place[label] for label in labels])


def _finite(path: str | os.PathLike[str], line: int, cell: str, what: str) -> float:
    if not (_is_number(cell) and math.isfinite(float(cell))):
        raise UserError(f"{path}, line {line}: expected a {what}, got {cell!r}")
    return float(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
