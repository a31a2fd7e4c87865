"""MovieLens-1M as six bandits: an age group is a cluster, a movie an arm, a rating a reward."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clustered_bandit_gym._types import FilePath, Ints, Values
from clustered_bandit_gym.datasets.sources import Origin, Source, find
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Categorical

ORIGIN = Origin(
    "MovieLens-1M",
    "https://grouplens.org/datasets/movielens/1m/",
    ("ml-1m", "ml-1m.zip"),
    "ClusteredBAI-MovieLensLike-v0",
)

#: Code of an age group in users.dat -> its name. Code 1 (under 18) is left out, as in the paper.
AGE_GROUPS = {18: "18-24", 25: "25-34", 35: "35-44", 45: "45-49", 50: "50-55", 56: "56+"}

#: Ratings 1..5 divided by 2 span an interval of length 2: 1-sub-Gaussian by Hoeffding's lemma, as
#: the schemes assume.
SUPPORT = np.array([0.5, 1.0, 1.5, 2.0, 2.5])


def load(path: FilePath | None, min_ratings: int) -> Instance:
    """The six bandits, one agent in each; read once per process and file."""
    whole(min_ratings, "min_ratings")
    ratings, users, movies = (
        find(path, name, ORIGIN) for name in ("ratings.dat", "users.dat", "movies.dat")
    )
    return _select(ratings, users, movies, min_ratings)


@lru_cache(maxsize=8)
def _select(ratings: Source, users: Source, movies: Source, min_ratings: int) -> Instance:
    ids, counts = _counts(ratings, users)
    fewest = counts.sum(axis=2).min(axis=0)
    enough = fewest >= min_ratings
    if not enough.any():
        raise UserError(
            f"no movie left: none has {min_ratings} ratings in each age group, the most is "
            f"{fewest.max(initial=0)}; lower min_ratings"
        )
    counts = counts[:, enough]
    totals = counts.sum(axis=2)
    titles = dict(movies.parsed(_movie_and_title, "MovieID::Title::Genres"))
    names: Values = {
        "arm_names": [titles.get(movie, f"movie {movie}") for movie in ids[enough].tolist()],
        "cluster_names": list(AGE_GROUPS.values()),
    }
    groups = range(len(AGE_GROUPS))
    # Sum over number, rounded once: equal fractions give equal floats, so ties are refused here
    # that the means of the laws would hide.
    Instance(counts @ np.arange(1, 6) / totals, groups, **names)
    return Instance(None, groups, Categorical(SUPPORT, counts / totals[..., None]), **names)


def _movie_and_title(line: bytes) -> tuple[int, str]:
    movie, title, _ = line.split(b"::")
    return int(movie), title.decode("latin-1")


def _counts(ratings: Source, users: Source) -> tuple[Ints, Ints]:
    """Ids of the movies (movies,), and counts (6 groups, movies, 5 scores)."""
    ages = (*AGE_GROUPS, 1)

    def user_and_group(line: bytes) -> tuple[int, int]:
        user, _, age, _, _ = line.split(b"::")
        return int(user), ages.index(int(age))

    def rating(line: bytes) -> tuple[int, int, int]:
        user, movie, score, _ = line.split(b"::")
        return group_of[int(user)], int(movie), (1, 2, 3, 4, 5).index(int(score))

    user_format = (
        f"UserID::Gender::Age::Occupation::Zip-code with an age code of {', '.join(map(str, ages))}"
    )
    group_of = dict(users.parsed(user_and_group, user_format))
    rating_format = (
        f"UserID::MovieID::Rating::Timestamp with a user of {users.name} and a rating of 1 to 5"
    )
    triples = np.dtype((np.int64, 3))
    groups, movies, scores = np.fromiter(ratings.parsed(rating, rating_format), triples).T
    ids, places = np.unique(movies, return_inverse=True)
    counts = np.zeros((len(ages), ids.size, 5), dtype=int)
    np.add.at(counts, (groups, places, scores), 1)
    return ids, counts[:-1]
