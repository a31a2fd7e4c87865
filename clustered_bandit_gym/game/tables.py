"""Bandits from a CSV file: a table of means, or raw (cluster, arm, reward) rows."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel

#: Column names that mark a file of raw rewards.
RAW = ("cluster", "arm", "reward")
#: Raw rewards with at most this many different values keep their empirical law; others become Gaussian.
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

    A header with the columns ``cluster``, ``arm`` and ``reward`` marks raw rewards: every pair of a cluster and an arm
    needs at least one row. Rewards of 0 and 1 become Bernoulli; rewards with at most 256 different values keep their
    empirical law; others become Gaussian with the largest standard deviation of any pair. Any other file is a table of
    means, one row per cluster and one column per arm; a first row of arm names and a first column of cluster names are
    recognised by not being numbers.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(
            f"there is no file {path}; expected a CSV file of means or of (cluster, arm, reward) rows"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    try:
        lines = [
            (i, [cell.strip() for cell in row])
            for i, row in enumerate(csv.reader(text.splitlines()), start=1)
        ]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a CSV file: {error}") from None
    lines = [(i, row) for i, row in lines if any(row)]
    if not lines:
        raise UserError(
            f"{path} is empty; expected a table of means or (cluster, arm, reward) rows"
        )
    header = [cell.lower() for cell in lines[0][1]]
    if set(RAW) <= set(header):
        return _raw(path, lines[1:], [header.index(name) for name in RAW])
    return _table(path, lines)


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


def _raw(path: Path, lines: list[tuple[int, list[str]]], places: list[int]) -> Bandits:
    if not lines:
        raise UserError(f"{path} has a header and no rows; expected one row per reward")
    clusters: list[str] = []
    arms: list[str] = []
    rewards: list[float] = []
    for number, row in lines:
        if len(row) <= max(places):
            raise UserError(
                f"{path}, line {number}: expected a cluster, an arm and a reward, got {len(row)} columns"
            )
        cluster, arm, text = (row[place] for place in places)
        value = _number(text)
        if value is None or not math.isfinite(value):
            raise UserError(f"{path}, line {number}: expected a reward, got {text!r}")
        clusters.append(cluster)
        arms.append(arm)
        rewards.append(value)
    rows, columns = _names(clusters), _names(arms)
    row_of, column_of = ({name: i for i, name in enumerate(names)} for names in (rows, columns))
    pair = np.array(
        [row_of[c] * len(columns) + column_of[a] for c, a in zip(clusters, arms, strict=True)]
    )
    values = np.array(rewards)
    shape = (len(rows), len(columns))
    counts = np.bincount(pair, minlength=len(rows) * len(columns)).reshape(shape)
    if not counts.all():
        m, k = np.argwhere(counts == 0)[0]
        raise UserError(
            f"{path}: no reward of arm {columns[k]!r} in cluster {rows[m]!r}; every pair needs one"
        )
    means = np.bincount(pair, values, minlength=counts.size).reshape(shape) / counts
    support, place = np.unique(values, return_inverse=True)
    if set(support) <= {0.0, 1.0}:
        return Bandits(means, Bernoulli(), columns, rows)
    if support.size <= MOST_VALUES:
        table = np.zeros((counts.size, support.size))
        np.add.at(table, (pair, place), 1)
        law = Categorical(
            support, (table / table.sum(axis=1, keepdims=True)).reshape(*shape, support.size)
        )
        return Bandits(law.check_means(None), law, columns, rows)
    squares = np.bincount(pair, (values - means.ravel()[pair]) ** 2, minlength=counts.size)
    deviation = np.sqrt(squares.reshape(shape) / np.maximum(counts - 1, 1)).max()
    return Bandits(means, Gaussian(float(deviation)), columns, rows)


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
