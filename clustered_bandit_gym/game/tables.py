"""Bandits from a CSV file: a table of means, or raw (cluster, arm, reward) rows."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

#: Column names that mark a file of raw rewards.
RAW = ("cluster", "arm", "reward")
#: Raw rewards with at most this many different values keep their empirical law; others become
#: Gaussian.
MOST_VALUES = 256


@dataclass(frozen=True, eq=False)
class Bandits:
    """What a file says: the bandits without any agents.

    Attributes:
        means: (M, K).
        rewards: law that the data suggest, None for a table of means.
        arm_names, cluster_names: labels of columns and rows, None where the file has none.
    """

    means: Floats
    rewards: RewardModel | None
    arm_names: tuple[str, ...] | None
    cluster_names: tuple[str, ...] | None


def read_bandits(path: str | os.PathLike[str]) -> Bandits:
    """Read a CSV file.

    A header with the columns ``cluster``, ``arm`` and ``reward`` marks raw rewards: every pair of a
    cluster and an arm needs at least one row. Rewards of 0 and 1 become Bernoulli; rewards with at
    most 256 different values keep their empirical law; others become Gaussian with the largest
    standard deviation of any pair. Any other file is a table of means, one row per cluster and one
    column per arm; a first row of arm names and a first column of cluster names are recognised by
    not being numbers.
    """
    path = Path(path)
    lines = _lines(path)
    header = [cell.lower() for cell in lines[0][1]]
    if set(RAW) <= set(header):
        rows = read_rows(path, RAW)
        return rows.bandits(str(path))
    if {"arm", "reward"} <= set(header):
        raise UserError(
            f"{path} has the columns {', '.join(header)} and no column `cluster`; rows of agents without clusters "
            "are read by Instance.from_logs(path, clusters=M)"
        )
    return _table(path, lines)


def header_of(path: str | os.PathLike[str]) -> list[str]:
    """The cells of the first line of a CSV file, in lower case."""
    return [cell.lower() for cell in _lines(Path(path))[0][1]]


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether the CSV file has rows of an agent, an arm and a reward, without clusters."""
    header = header_of(path)
    return {"arm", "reward"} <= set(header) and "cluster" not in header


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty, with their numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(
            f"there is no file {path}; expected a CSV file of means or of (cluster, arm, reward) rows"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    try:
        found = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(text.splitlines()), start=1)
        ]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    lines = [(number, row) for number, row in found if any(row)]
    if not lines:
        raise UserError(
            f"{path} is empty; expected a table of means or (cluster, arm, reward) rows"
        )
    return lines


def _table(path: Path, lines: list[tuple[int, list[str]]]) -> Bandits:
    number, first = lines[0]
    named_columns = any(cell and _number(cell) is None for cell in first[1:]) or (
        len(first) == 1 and _number(first[0]) is None
    )
    body = lines[1:] if named_columns else lines
    if not body:
        raise UserError(f"{path} has a header and no rows; expected one row of means per cluster")
    named_rows = all(_number(row[0]) is None for _, row in body)
    start = 1 if named_rows else 0
    width = len(body[0][1])
    means = []
    for number, row in body:
        if len(row) != width:
            raise UserError(
                f"{path}, line {number}: {len(row)} columns, but line {body[0][0]} has {width}"
            )
        values = [_number(cell) for cell in row[start:]]
        for cell, value in zip(row[start:], values, strict=True):
            if value is None or not math.isfinite(value):
                raise UserError(f"{path}, line {number}: expected a mean, got {cell!r}")
        means.append(values)
    if width == start:
        raise UserError(f"{path} has no column of means")
    columns = tuple(first[start:]) if named_columns and len(first) == width else None
    if named_columns and columns is None:  # a header without a cell over the cluster names
        columns = tuple(first) if len(first) == width - start else None
    rows = tuple(row[0] for _, row in body) if named_rows else None
    return Bandits(np.array(means, dtype=np.float64), None, columns, rows)


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

    @classmethod
    def of(cls, groups: Sequence[Any], arms: Sequence[Any], rewards: Floats, what: str) -> Rows:
        """From labels of any kind, each compared as text."""
        group_names = _names([str(one) for one in groups])
        arm_names = _names([str(one) for one in arms])
        group_of = {name: i for i, name in enumerate(group_names)}
        arm_of = {name: i for i, name in enumerate(arm_names)}
        return cls(
            np.array([group_of[str(one)] for one in groups]),
            np.array([arm_of[str(one)] for one in arms]),
            rewards,
            group_names,
            arm_names,
            what,
        )

    @property
    def counts(self) -> Ints:
        """(G, K) number of rewards of each group and arm."""
        return self._sums(None).astype(np.int64)

    @property
    def means(self) -> Floats:
        """(G, K) average rewards, NaN where there are none."""
        with np.errstate(invalid="ignore"):
            return self._sums(self.rewards) / self.counts

    def _sums(self, weights: Floats | None) -> Floats:
        shape = (len(self.group_names), len(self.arm_names))
        pair = self.groups * shape[1] + self.arms
        sums = np.bincount(pair, weights, minlength=math.prod(shape))
        return sums.reshape(shape).astype(np.float64)

    def bandits(self, origin: str) -> Bandits:
        """Each group's empirical bandit; see `read_bandits` for the law.

        `origin` names the data in errors.
        """
        counts = self.counts
        if not counts.all():
            group, arm = np.argwhere(counts == 0)[0]
            raise UserError(
                f"{origin}: no reward of arm {self.arm_names[arm]!r} in {self.what} {self.group_names[group]!r}; "
                "every pair needs one"
            )
        means = self.means
        support, place = np.unique(self.rewards, return_inverse=True)
        law: RewardModel
        if set(support) <= {0.0, 1.0}:
            law = Bernoulli()
        elif support.size <= MOST_VALUES:
            table = np.zeros((*counts.shape, support.size))
            np.add.at(table, (self.groups, self.arms, place), 1)
            law = Categorical(support, table / table.sum(axis=2, keepdims=True))
            means = law.check_means(None)
        else:
            squares = self._sums((self.rewards - means[self.groups, self.arms]) ** 2)
            law = Gaussian(float(np.sqrt(squares / np.maximum(counts - 1, 1)).max()))
        return Bandits(means, law, self.arm_names, self.group_names)


def read_rows(path: Path, columns: Sequence[str]) -> Rows:
    """The rows of a CSV file whose header has these three columns: a group, an arm and a reward."""
    (_, header), *lines = _lines(path)
    places = [[cell.lower() for cell in header].index(name) for name in columns]
    if not lines:
        raise UserError(f"{path} has a header and no rows; expected one row per reward")
    rewards = []
    for number, row in lines:
        if len(row) <= max(places):
            raise UserError(
                f"{path}, line {number}: expected {columns[0]}, arm and reward, got {len(row)} columns"
            )
        value = _number(row[places[2]])
        if value is None or not math.isfinite(value):
            raise UserError(f"{path}, line {number}: expected a reward, got {row[places[2]]!r}")
        rewards.append(value)
    groups, arms = ([row[place] for _, row in lines] for place in places[:2])
    return Rows.of(groups, arms, np.array(rewards), columns[0])


def _names(values: list[str]) -> tuple[str, ...]:
    """Different values: numbers in their order, other names in alphabetical order."""
    distinct = set(values)
    keys: dict[str, Any] = {value: _number(value) for value in distinct}
    if all(key is not None for key in keys.values()):
        return tuple(sorted(distinct, key=lambda value: (keys[value], value)))
    return tuple(sorted(distinct))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
