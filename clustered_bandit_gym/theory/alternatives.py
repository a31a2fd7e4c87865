"""Instances that a δ-PC learner must rule out: three families, and in each the ones that are
hardest to rule out.

Let P[m, k] be the expected pulls of arm k by all agents of cluster m. An alternative instance of
the same class with another answer gives a constraint that is linear in P: Σ P[m, k]·KL(law there,
law in the alternative) ≥ kl(δ, 1 − δ). The families (docs/lower-bounds.md proves that all of their
members lie in the class as told):

* `change_bandit`: an agent of cluster m plays bandit j instead, and the means of bandit j move to
  make that plausible.
* `new_best_arm`: arm k becomes the best of bandit m; wherever else it is within η of the best, the
  two are moved apart.
* `new_bandit`: an agent of cluster m is alone in a bandit that nobody played so far, with means of
  its own and the best arm k. Needs a cluster without agents, or a learner that is not told M.

Given P, each function returns for every choice of (m, j) or (m, k) the member with the least Σ
P·KL, exactly: a one-dimensional convex problem, since given the new best mean t every other arm
moves down to t minus its distance or stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.theory.laws import (
    BernoulliLaws,
    CategoricalLaws,
    GaussianLaws,
    Laws,
    newton,
)


@dataclass(frozen=True)
class Truth:
    """The instance as the lower bound sees it, one row per bandit.

    Attributes:
        laws: (M, K) the laws of the rewards.
        sizes: (M,) agents of each bandit; bandits without agents come last.
        eta: every bandit's best arm is at least `eta` worse than the best in all others, in the
            alternatives too.
        spare: whether an alternative may have one bandit more than there are bandits with agents.
    """

    laws: Laws
    sizes: Ints
    eta: float
    spare: bool

    @property
    def best(self) -> Ints:
        """(M,) the best arm of each bandit."""
        return self.laws.means.argmax(axis=1)

    @property
    def n_played(self) -> int:
        """Bandits with agents: the first ones."""
        return int(np.count_nonzero(self.sizes))

    @property
    def n_arms(self) -> int:
        return int(self.laws.means.shape[1])


@dataclass(frozen=True)
class Cuts:
    """Alternatives of one or several families.

    Attributes:
        values: (A,) Σ P·KL of each alternative at the P that was asked about.
        rows: (A, M·K) sparse, its coefficients: KL per pull of each cell of the bandits with
            agents.
    """

    values: Floats
    rows: csr_array


class Moves(NamedTuple):
    """Which means move where in a batch of alternatives, and what it costs: (T,) each.

    In `alternative`, the mean of (`bandit`, `arm`) becomes `target`; it costs `kl` per pull of arm
    `arm` in bandit `payer`. Bandits are numbered as in `Truth`; M stands for one that is not there.
    """

    alternative: Ints
    bandit: Ints
    arm: Ints
    target: Floats
    payer: Ints
    kl: Floats


class Changes(NamedTuple):
    """Whose answer changes in a batch of alternatives: (A,) each.

    `source`: the bandit that one agent leaves; −1 if none does. `changed`: the bandit that it
    joins; without such an agent, the bandit whose best arm changes. `answer`: the best arm there.
    Tied with the old one: it is the best by as little as one likes.
    """

    source: Ints
    changed: Ints
    answer: Ints


#: Cells (alternatives times arms) worked on at once: some 200 MB. Memory then grows with M·K, not
#: with M·K².
_CELLS = 2**20


def all_cuts(truth: Truth, pulls: Floats) -> Iterator[Cuts]:
    """The hardest member of every family for each choice of bandits and arms, in parts.

    Args:
        pulls: (bandits with agents, K) the P that is asked about.
    """
    played = truth.n_played
    size = max(1, _CELLS // truth.n_arms)
    for family, n in (
        (change_bandit, played * (played - 1)),
        (new_best_arm, played * truth.n_arms),
        (new_bandit, played * truth.n_arms if truth.spare else 0),
    ):
        for start in range(0, n, size):
            moves, changes = family(truth, pulls, slice(start, start + size))
            cuts = cuts_of(moves, pulls, changes.answer.size)
            possible = np.isfinite(cuts.values)
            yield Cuts(cuts.values[possible], cuts.rows[possible])


def cuts_of(moves: Moves, pulls: Floats, n: int) -> Cuts:
    """The `n` alternatives at `pulls`; infinite or undefined costs make one impossible."""
    played, n_arms = pulls.shape
    paid = moves.payer < played  # moving the means of a bandit without agents costs nothing
    rows, kl = moves.alternative[paid], moves.kl[paid]
    columns = moves.payer[paid] * n_arms + moves.arm[paid]
    matrix = csr_array((np.nan_to_num(kl, posinf=0.0), (rows, columns)), shape=(n, pulls.size))
    values = matrix @ pulls.ravel()
    values[rows[~np.isfinite(kl)]] = np.inf
    return Cuts(values, matrix)


def change_bandit(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Moves, Changes]:
    """An agent of m plays bandit j, whose means move: all pairs m ≠ j of bandits with agents.

    `part` chooses some of the pairs, here and below.
    """
    m, j = (index[part] for index in np.nonzero(~np.eye(truth.n_played, dtype=bool)))
    best = truth.best[j]
    # The agents of j and the one that joins them: one law stands for both, weighted by their pulls.
    sizes = truth.sizes[m, None]
    joining = pulls[m] / sizes
    weights = pulls[j] + joining
    share = np.divide(joining, weights, out=np.zeros_like(weights), where=weights > 0)
    mixed = truth.laws[j].mixed_with(truth.laws[m], share)
    targets = closest(mixed, weights, _slack(truth, best, best), best)
    moved = mixed.moved_to(targets)
    rows, arms = (index.ravel() for index in np.indices(targets.shape))
    own = Moves(rows, j[rows], arms, targets.ravel(), j[rows], truth.laws[j].kl(moved).ravel())
    joined = own._replace(payer=m[rows], kl=(truth.laws[m].kl(moved) / sizes).ravel())
    return _together(own, joined), Changes(m, j, best)


def new_best_arm(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Moves, Changes]:
    """Arm k becomes the best of bandit m: all bandits m with agents and arms k that are the best
    nowhere.
    """
    m, k = (index[part] for index in _choices(truth, truth.best))
    changes = Changes(np.full(m.size, -1), m, k)
    return _with_new_best(truth, pulls, changes, m, truth.best[m], np.ones(m.size)), changes


def new_bandit(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Moves, Changes]:
    """An agent of m is alone in a bandit of its own with best arm k: all m, and arms k that are the
    best of no bandit with agents. No such alternative without `truth.spare`.

    Means of the new bandit that are not listed are those of bandit m.
    """
    played, best = truth.n_played, truth.best
    excluded = best[:played] if truth.spare else np.arange(truth.n_arms)
    m, k = (index[part] for index in _choices(truth, excluded))
    # The bandit that is taken: the one without agents whose best arm is k, or else any of them.
    taken = np.full(m.size, played)
    for bandit in range(played, len(best)):
        taken[k == best[bandit]] = bandit
    freed = best[taken] if len(best) > played else k
    changes = Changes(m, taken, k)
    return _with_new_best(truth, pulls, changes, m, freed, truth.sizes[m]), changes


def _with_new_best(
    truth: Truth, pulls: Floats, changes: Changes, payer: Ints, freed: Ints, shared_by: Any
) -> Moves:
    """The new answers become the best of their bandits; elsewhere they are moved apart from the old
    ones.

    The bandits start from the means of `payer` (A,), whose pulls are shared by so many agents; the
    arms `freed` (A,) need not be worse by η any more.
    """
    laws = truth.laws[payer]
    slack = _slack(truth, freed, changes.answer)
    targets = closest(laws, pulls[payer] / shared_by[:, None], slack, changes.answer)
    rows, arms = np.nonzero(~(targets == laws.means))
    moving, target = laws[rows, arms], targets[rows, arms]
    kl = moving.kl(moving.moved_to(target)) / shared_by[rows]
    here = Moves(rows, changes.changed[rows], arms, target, payer[rows], kl)
    return _together(here, _apart(truth, pulls, changes))


def closest(laws: Laws, weights: Floats, slack: Floats, arm: Ints) -> Floats:
    """(A, K) the means that make `arm` the best by `slack` at the least weighted divergence, row by
    row.

    Minimises Σ_k weights[k]·(least divergence from laws[k] to mean λ_k) over all λ with λ_k ≤ λ_arm
    − slack_k. Given t = λ_arm the others move down to t − slack or stay: one convex problem in t,
    by Newton's method inside a bracket. NaN in rows where the support leaves no room.

    Args:
        laws: (A, K).
        weights: (A, K), not negative.
        slack: (A, K), not negative; 0 at `arm`.
        arm: (A,).
    """
    rows = np.arange(arm.size)
    means = laws.means
    needed = means + slack
    needed[rows, arm] = -np.inf
    low = np.maximum(means[rows, arm], laws.low + slack.max(axis=1, initial=0.0))
    high = np.clip(needed.max(axis=1, initial=-np.inf), low, np.maximum(low, laws.high))
    # Arms that no t in [low, high] pushes down, or that nobody pulls, stay out of it.
    rivals = np.nonzero((needed > low[:, None]) & (weights > 0))
    r, reach, distance = rivals[0], needed[rivals], slack[rivals]

    def best_mean(laws: Laws, weights: Floats, start: Floats) -> Floats:
        own, own_weights = laws[rows, arm], weights[rows, arm]
        others, other_weights = laws[rivals], weights[rivals]

        def slopes(t: Floats, todo: Ints) -> tuple[Floats, Floats, Floats]:
            everywhere = np.full(rows.size, np.inf)  # rows that are done push nothing
            everywhere[todo] = t
            pushed = np.flatnonzero(reach > everywhere[r])
            slope, curvature = others[pushed].slope(everywhere[r[pushed]] - distance[pushed])
            first, second = own[todo].slope(t)
            pulled = own_weights[todo] > 0  # what nobody pulls costs nothing
            with np.errstate(invalid="ignore"):
                slope, curvature = other_weights[pushed] * slope, other_weights[pushed] * curvature
                first = np.where(pulled, own_weights[todo] * first, 0.0)
                second = np.where(pulled, own_weights[todo] * second, 0.0)
                total = first + np.bincount(r[pushed], slope, rows.size)[todo]
                change = second + np.bincount(r[pushed], curvature, rows.size)[todo]
            return total, change, 1e-11 * first

        return newton(slopes, low, high, start, 1e-12 * (high - low))

    t = low
    if isinstance(laws, BernoulliLaws | CategoricalLaws):
        # Gaussian laws with the same variances are fast, and end up nearby.
        with np.errstate(divide="ignore", invalid="ignore"):
            precise = np.nan_to_num(weights / laws.variances(), posinf=0.0)
        margin = (high - low) / 50  # off the poles at the support's ends
        t = best_mean(GaussianLaws(means, 1.0), precise, t).clip(low + margin, high - margin)
    t = best_mean(laws, weights, t)
    targets = np.minimum(means, t[:, None] - slack)
    targets[rows, arm] = t
    targets[low > laws.high] = np.nan
    return targets


def _apart(truth: Truth, pulls: Floats, changes: Changes) -> Moves:
    """The new best arm and the old one, moved apart in all other bandits where they are less than η
    apart. Pulls of the agent that leaves a bandit do not count there."""
    best, means = truth.best, truth.laws.means
    bandits = np.arange(len(best))
    # A hair of slack: in the paper's flat instances arms are worse by exactly η, up to rounding.
    gaps = means[bandits, best][:, None] - means
    close = (gaps < truth.eta * (1 - 1e-9) - 1e-12)[:, changes.answer].T
    row, b = np.nonzero(close & (changes.changed[:, None] != bandits))
    pair = np.stack([best[b], changes.answer[row]], axis=1)
    everywhere = np.zeros_like(means)
    everywhere[: truth.n_played] = pulls
    stays = np.where(changes.source[row] == b, 1 - 1 / np.maximum(truth.sizes[b], 1), 1.0)[:, None]
    laws = truth.laws[b[:, None], pair]
    slack = np.tile([0.0, truth.eta], (row.size, 1))
    weights = everywhere[b[:, None], pair] * stays
    targets = closest(laws, weights, slack, np.zeros(row.size, dtype=np.int64))
    kl = laws.kl(laws.moved_to(targets)) * stays
    bandit = np.repeat(b, 2)
    return Moves(np.repeat(row, 2), bandit, pair.ravel(), targets.ravel(), bandit, kl.ravel())


def _together(one: Moves, other: Moves) -> Moves:
    parts: list[Any] = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    return Moves(*parts)


def _slack(truth: Truth, freed: Ints, arm: Ints) -> Floats:
    """(A, K) how much worse than the best each arm must be: η for the best arm of any bandit, else
    0; 0 at the arms `freed` and `arm` (A,).
    """
    slack = np.zeros((arm.size, truth.n_arms))
    slack[:, truth.best] = truth.eta
    slack[np.arange(arm.size), freed] = 0.0
    slack[np.arange(arm.size), arm] = 0.0
    return slack


def _choices(truth: Truth, excluded: Ints) -> tuple[Ints, Ints]:
    """All pairs (m, k) of a bandit with agents and an arm that is neither excluded nor, tied, a
    right answer at m.
    """
    arms = np.setdiff1d(np.arange(truth.n_arms), excluded)
    means = truth.laws.means[: truth.n_played]
    m, place = np.nonzero(means[:, arms] < means.max(axis=1, keepdims=True))
    return m, arms[place]
