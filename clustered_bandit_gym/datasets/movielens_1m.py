"""MovieLens-1M as six bandits: an age group is a cluster, a movie an arm, a rating a reward."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.datasets.sources import Bandits, Origin, Source, find
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Categorical

ORIGIN = Origin(
    "MovieLens-1M",
    "https://grouplens.org/datasets/movielens/1m/",
    ("ml-1m", "ml-1m.zip"),
    "ClusteredBAI-MovieLensLike-v0",
)

#: Code of an age group in users.dat -> its name. Code 1 (under 18) is left out, as in the paper.
AGE_GROUPS = {18: "18-24", 25: "25-34", 35: "35-44", 45: "45-49", 50: "50-55", 56: "56+"}
_UNDER_18 = 1

#: Ratings 1..5 divided by 2 span an interval of length 2: 1-sub-Gaussian by Hoeffding's lemma, as
#: the schemes assume.
SUPPORT = np.array([0.5, 1.0, 1.5, 2.0, 2.5])


@dataclass(frozen=True, eq=False)
class Ratings:
    """All ratings, counted: `counts` (6 groups, movies, 5 scores), `movies` (movies,) their ids,
    `titles` by id."""

    counts: Ints
    movies: Ints
    titles: dict[int, str]


def load(path: str | os.PathLike[str] | None, min_ratings: int) -> Bandits:
    """Read (once per process and file) and select the movies; checks that each group has one best
    movie of its own."""
    if min_ratings < 1:
        raise UserError(f"min_ratings must be at least 1, got {min_ratings}")
    return _select(
        *(find(path, name, ORIGIN) for name in ("ratings.dat", "users.dat", "movies.dat")),
        min_ratings,
    )


@lru_cache(maxsize=8)
def _select(ratings: Source, users: Source, movies: Source, min_ratings: int) -> Bandits:
    table = _read(ratings, users, movies)
    per_group = table.counts.sum(axis=2)
    enough = np.flatnonzero(per_group.min(axis=0, initial=np.iinfo(np.int64).max) >= min_ratings)
    if enough.size == 0:
        most = int(per_group.min(axis=0).max(initial=0))
        raise UserError(
            f"no movie left: none has {min_ratings} ratings in each of the six age groups; the most is {most}. "
            "Lower min_ratings"
        )
    counts, ids = table.counts[:, enough], table.movies[enough]
    names = tuple(table.titles.get(movie, f"movie {movie}") for movie in ids.tolist())
    _check_best(counts, names)
    probabilities = counts / counts.sum(axis=2, keepdims=True)
    law = Categorical(SUPPORT, probabilities)
    return Bandits(None, law, names, tuple(AGE_GROUPS.values()))


def _check_best(counts: Ints, names: tuple[str, ...]) -> None:
    # Sum over number, rounded once: equal fractions give equal floats, which means of probabilities
    # would not.
    means = (counts @ np.arange(1, 6)) / counts.sum(axis=2)
    best_of: dict[int, str] = {}
    for group, row in zip(AGE_GROUPS.values(), means, strict=True):
        best = np.flatnonzero(row == row.max()).tolist()
        if len(best) > 1:
            raise UserError(
                f"no unique best arm: in group {group} {' and '.join(names[k] for k in best)} share the best mean "
                f"rating {row.max():.6g}. Raise min_ratings"
            )
        if best[0] in best_of:
            raise UserError(
                f"groups {best_of[best[0]]} and {group} have the same best movie, {names[best[0]]}: Assumption 1 "
                "fails. Change min_ratings"
            )
        best_of[best[0]] = group


@lru_cache(maxsize=2)
def _read(ratings: Source, users: Source, movies: Source) -> Ratings:
    group_of = _read_users(users)
    titles = _read_titles(movies)
    cells = array("q")  # group, movie and score of each rating in one number
    expected = "UserID::MovieID::Rating::Timestamp with a rating of 1 to 5"
    for number, line in ratings.lines():
        try:
            user, movie, score, _ = line.split(b"::")
            group, movie_id, points = group_of.get(int(user)), int(movie), int(score)
        except ValueError:
            raise ratings.bad_line(number, line, expected) from None
        if not 1 <= points <= 5 or not 1 <= movie_id < 2**31:
            raise ratings.bad_line(number, line, expected)
        if group is None:
            raise ratings.bad_line(number, line, f"a user of {users.name}")
        if group >= 0:
            cells.append((movie_id * 6 + group) * 5 + points - 1)
    flat = np.frombuffer(cells, dtype=np.int64) if cells else np.empty(0, dtype=np.int64)
    rated, position = np.unique(flat // 30, return_inverse=True)
    counts = np.bincount(position * 30 + flat % 30, minlength=rated.size * 30).reshape(
        rated.size, 6, 5
    )
    return Ratings(np.ascontiguousarray(counts.transpose(1, 0, 2)), rated, titles)


def _read_users(users: Source) -> dict[int, int]:
    """User -> row of the age group; −1 for under 18."""
    row = {code: index for index, code in enumerate(AGE_GROUPS)} | {_UNDER_18: -1}
    group_of = {}
    for number, line in users.lines():
        try:
            user, _, age, _, _ = line.split(b"::")
            group_of[int(user)] = row[int(age)]
        except (ValueError, KeyError):
            codes = ", ".join(map(str, row))
            raise users.bad_line(
                number,
                line,
                f"UserID::Gender::Age::Occupation::Zip-code with an age code of {codes}",
            ) from None
    return group_of


def _read_titles(movies: Source) -> dict[int, str]:
    titles = {}
    for number, line in movies.lines():
        try:
            movie, title, _ = line.split(b"::")
            titles[int(movie)] = title.decode("latin-1")
        except ValueError:
            raise movies.bad_line(number, line, "MovieID::Title::Genres") from None
    return titles
