"""Make the stand-ins for the two data sets that may not be redistributed: bandits with what is
known of the real ones.

    python docs/make_stand_ins.py

What is printed about the real data holds exactly; everything else follows a stated law with a fixed
seed. The files that this writes ship with the package and are never made again: a change of them is
a change of everybody's results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import betaln, comb, ndtr, ndtri

from clustered_bandit_gym import Categorical, Instance
from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.datasets.movielens_1m import AGE_GROUPS
from clustered_bandit_gym.datasets.yelp_open import STATES

FOLDER = Path(__file__).resolve().parents[1] / "clustered_bandit_gym" / "datasets"

#: Best movies of the six age groups in MovieLens-1M, as the paper's source prints them.
BEST_MOVIES = (50, 318, 922, 527, 2019, 1207)
#: Mean ratings (1 to 5) of those movies (columns) in the six groups (rows), as the paper's source
#: prints them.
BEST_MEANS = np.array(
    [
        [4.6808, 4.6746, 4.3636, 4.4729, 4.6049, 4.1014],
        [4.5524, 4.5877, 4.5166, 4.4853, 4.5495, 4.4190],
        [4.3909, 4.4875, 4.6116, 4.5103, 4.5329, 4.5859],
        [4.2404, 4.4813, 4.4138, 4.5915, 4.5417, 4.4950],
        [4.3429, 4.3510, 4.5102, 4.5655, 4.6571, 4.5510],
        [4.4314, 4.4257, 4.3529, 4.6204, 4.5135, 4.6232],
    ]
)
#: Gap (raw ratings) from a group's best movie to the one of that rank, measured on MovieLens-1M
#: with K = 316.
GAP_RANKS = (2, 3, 5, 10, 30, 100, 200, 316)
GAPS = np.array(
    [
        [0.0062, 0.0759, 0.1590, 0.223, 0.312, 0.586, 0.915, 1.977],
        [0.0092, 0.0136, 0.0353, 0.116, 0.212, 0.481, 0.788, 1.894],
        [0.0257, 0.0696, 0.1010, 0.137, 0.280, 0.514, 0.756, 1.645],
        [0.0499, 0.0839, 0.1100, 0.148, 0.235, 0.480, 0.780, 1.530],
        [0.0625, 0.0892, 0.1060, 0.149, 0.271, 0.499, 0.763, 1.703],
        [0.0028, 0.0251, 0.0503, 0.106, 0.197, 0.428, 0.740, 1.936],
    ]
)
#: The two tables are rounded to 3 or 4 digits: a gap of one and a difference in the other within
#: this are one movie's.
ROUNDING = 6e-4
#: Standard deviation of the ratings of one movie in one group (raw ratings): smallest, median,
#: largest.
SPREAD = (0.57, 0.90, 1.38)

_MOVIELENS_SEED, _YELP_SEED = 1_000_209, 211
# Rank correlation of neighbouring age groups and how it falls with distance d, exp(−c·d^p): chosen
# so that the mean vectors correlate at 0.92 (18 with 25) and 0.63 (18 with 56).
_TASTE_C, _TASTE_P = 0.0834, 1.064


def movielens_like() -> Instance:
    """K = 316, M = 6, in halved ratings as the rewards are: η = 0.0014 and η1 = 0.013 (raw: 0.0028
    and 0.026)."""
    rng = np.random.default_rng(_MOVIELENS_SEED)
    n_groups, n_arms = BEST_MEANS.shape[0], GAP_RANKS[-1]
    means = np.empty((n_groups, n_arms))
    means[:, :n_groups] = BEST_MEANS
    latent = _taste(rng, n_groups, n_arms - n_groups)
    for group in range(n_groups):
        curve, taken = gap_curve(group)
        free = np.delete(curve, taken)
        means[group, n_groups + np.argsort(-latent[group])] = BEST_MEANS[group, group] - free
    laws = rating_laws(means, _spread(rng, means))
    order = rng.permutation(n_arms)
    names = [f"movie {movie}" for movie in BEST_MOVIES] + [
        f"stand-in {i}" for i in range(1, n_arms - n_groups + 1)
    ]
    law = Categorical(np.arange(1, 6) / 2, laws[:, order])
    groups = tuple(AGE_GROUPS.values())
    arms = [names[k] for k in order.tolist()]
    return Instance(None, np.arange(n_groups), law, arm_names=arms, cluster_names=groups)


def gap_curve(group: int) -> tuple[Floats, Ints]:
    """All 316 gaps of a group in increasing order, and the ranks (from 0) at which its row of
    `BEST_MEANS` sits.

    Both tables hold exactly, up to their own rounding: where a gap of `GAPS` is the gap of one of
    the six movies, the movie's is taken. The other movies of the six get the nearest rank that the
    table leaves them. In between the curve is monotone and smooth (PCHIP) over the normal score of
    the rank: in that scale the table is almost a straight line.
    """

    def score(rank: Ints | int) -> Floats:
        return ndtri((np.asarray(rank) - 0.5) / GAP_RANKS[-1])

    ranks = dict(zip(GAP_RANKS, GAPS[group].tolist(), strict=True)) | {1: 0.0}
    own = BEST_MEANS[group, group] - BEST_MEANS[group]
    place: dict[int, int] = {group: 1}
    for movie in np.argsort(own).tolist():
        if movie == group:
            continue
        known = [
            rank
            for rank in GAP_RANKS
            if abs(GAPS[group, GAP_RANKS.index(rank)] - own[movie]) <= ROUNDING
        ]
        if known and known[0] not in place.values():
            rank = known[0]
        else:
            low = max(rank for rank, gap in ranks.items() if gap < own[movie])
            high = min(rank for rank, gap in ranks.items() if gap > own[movie])
            share = (own[movie] - ranks[low]) / (ranks[high] - ranks[low])
            near = ndtr(score(low) + share * (score(high) - score(low))) * GAP_RANKS[-1] + 0.5
            rank = min(max(low + 1, round(float(near))), high - 1)
        ranks[rank] = float(own[movie])
        place[movie] = rank
    known_ranks: Ints = np.array(sorted(ranks))
    smooth = PchipInterpolator(score(known_ranks), [ranks[rank] for rank in known_ranks.tolist()])
    curve = smooth(score(np.arange(1, GAP_RANKS[-1] + 1)))
    curve[known_ranks - 1] = [
        ranks[rank] for rank in known_ranks.tolist()
    ]  # not off by a rounding error
    return curve, np.array([place[movie] - 1 for movie in range(len(BEST_MOVIES))])


def _taste(rng: np.random.Generator, n_groups: int, n_movies: int) -> Floats:
    """(groups, movies) normal scores whose sample correlations are exp(−c·d^p) at distance d,
    exactly."""
    distance = np.abs(np.subtract.outer(np.arange(n_groups), np.arange(n_groups)))
    target = np.linalg.cholesky(np.exp(-_TASTE_C * distance**_TASTE_P))
    raw = rng.standard_normal((n_groups, n_movies))
    raw -= raw.mean(axis=1, keepdims=True)
    return target @ np.linalg.solve(np.linalg.cholesky(raw @ raw.T / n_movies), raw)


def _spread(rng: np.random.Generator, means: Floats) -> Floats:
    """Standard deviations like `means`: the better liked a movie, the more its raters agree, with
    some noise."""
    score = -means + 0.15 * rng.standard_normal(means.shape)
    quantile = np.argsort(np.argsort(score.ravel())) / (means.size - 1)
    return np.interp(quantile, [0, 0.5, 1], SPREAD).reshape(means.shape)


def rating_laws(means: Floats, deviations: Floats) -> Floats:
    """(..., 5) probabilities of the ratings 1..5 with exactly these means and standard deviations,
    in closed form.

    1 + a beta-binomial variable on 0..4, which has the mean by its success rate and any variance
    from the binomial's up by its overdispersion; below that, the binomial mixed with the two
    ratings next to the mean.
    """
    rate = (means - 1) / 4
    variance, binomial = deviations**2, 4 * rate * (1 - rate)
    floor = np.floor(means)
    least = (means - floor) * (floor + 1 - means)
    if np.any((variance < least) | (variance >= 4 * binomial) | (means <= 1) | (means >= 5)):
        raise ValueError("no law on the ratings 1..5 has such a mean and standard deviation")
    hits = np.arange(5)
    coefficients = comb(4, hits)
    plain = coefficients * rate[..., None] ** hits * (1 - rate[..., None]) ** (4 - hits)
    over = np.maximum((variance / binomial - 1) / 3, 1e-6)
    a, b = rate * (1 / over - 1), (1 - rate) * (1 / over - 1)
    wide = coefficients * np.exp(
        betaln(hits + a[..., None], 4 - hits + b[..., None]) - betaln(a, b)[..., None]
    )
    wide /= wide.sum(axis=-1, keepdims=True)
    two = np.maximum(0, 1 - np.abs(hits + 1 - means[..., None]))
    weight = np.clip((variance - least) / (binomial - least), 0, 1)[..., None]
    return np.where(
        (variance > binomial * (1 + 3e-6))[..., None], wide, weight * plain + (1 - weight) * two
    )


#: Mean stars of each state's best business (columns) in the four states (rows): averages of half
#: stars over a few branches, made up so that η = 3/8 and η1 = 1/6 exactly.
YELP_BEST = np.array(
    [
        [4.875, 4.5, 4.0, 4.25],
        [4.25, 4.75, 4.0, 13 / 3],
        [4.4, 4.25, 4.8, 4.0],
        [4.0, 3.75, 4.125, 4.5],
    ]
)
#: No other business comes closer to a state's best: the paper finds the gaps "close" to η.
YELP_GAP = 0.125


def yelp_like(n_arms: int = 211) -> Instance:
    """K = 211, M = 4, η = 3/8, η1 = 1/6, means that are averages of half stars over 1 to 20
    branches.

    A business has a quality N(3.3, 0.7²), a state adds N(0, 0.25²), a branch N(0, 0.6²); a branch
    shows the nearest half star from 1 to 5. A state's average that comes within `YELP_GAP` of the
    state's best is drawn again.
    """
    rng = np.random.default_rng(_YELP_SEED)
    n_states, n_others = len(YELP_BEST), n_arms - len(YELP_BEST)
    quality = rng.normal(3.3, 0.7, n_others)
    means = np.empty((n_states, n_arms))
    means[:, :n_states] = YELP_BEST
    for state in range(n_states):
        for business in range(n_others):
            average = np.inf
            while average > YELP_BEST[state, state] - YELP_GAP:
                branches = rng.integers(1, 21)
                stars = rng.normal(quality[business] + rng.normal(0, 0.25), 0.6, branches)
                average = float(np.clip(np.round(2 * stars) / 2, 1, 5).mean())
            means[state, n_states + business] = average
    order = rng.permutation(n_arms)
    names = [f"best of {state}" for state in STATES]
    names += [f"stand-in {i + 1}" for i in range(n_others)]
    arms = [names[k] for k in order.tolist()]
    return Instance(means[:, order], np.arange(n_states), arm_names=arms, cluster_names=STATES)


if __name__ == "__main__":
    movielens_like().save(FOLDER / "movielens_like.npz")
    yelp_like().save(FOLDER / "yelp_like.npz")
