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

import numpy as np
from scipy.sparse import csr_array

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.theory.laws import GaussianLaws, Laws


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


@dataclass(frozen=True)
class Moves:
    """The alternatives spelt out: which means move where, whose answer changes, and to which arm.

    Attributes:
        alternative, bandit, arm, target: (T,) in `alternative`, the mean of (`bandit`, `arm`)
            becomes `target`. Bandits are numbered as in `Truth`; M stands for one that is not
            there.
        source: (A,) the bandit that one agent leaves; −1 if none does.
        changed: (A,) the bandit that it joins; without such an agent, the bandit whose best arm
            changes.
        answer: (A,) the best arm there. Tied with the old one: it is the best by as little as one
            likes.
    """

    alternative: Ints
    bandit: Ints
    arm: Ints
    target: Floats
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
            cuts, _ = family(truth, pulls, slice(start, start + size))
            possible = np.isfinite(cuts.values)
            yield Cuts(cuts.values[possible], cuts.rows[possible])


def change_bandit(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Cuts, Moves]:
    """An agent of m plays bandit j, whose means move: all pairs m ≠ j of bandits with agents.

    `part` chooses some of the pairs, here and below.
    """
    played, n_arms = truth.n_played, truth.n_arms
    m, j = (index[part] for index in np.nonzero(~np.eye(played, dtype=bool)))
    rows = np.arange(m.size)
    # The agents of j and the one that joins them: one law stands for both, weighted by their pulls.
    own, joining = pulls[j], pulls[m] / truth.sizes[m, None]
    weights = own + joining
    share = np.divide(joining, weights, out=np.zeros_like(weights), where=weights > 0)
    mixed = truth.laws[j].mixed_with(truth.laws[m], share)
    slack = _slack(truth, m.size)
    slack[rows, truth.best[j]] = 0.0
    targets = closest(mixed, weights, slack, truth.best[j])
    moved = mixed.moved_to(targets)
    of_own, of_joining = truth.laws[j].kl(moved), truth.laws[m].kl(moved) / truth.sizes[m, None]
    arms = np.broadcast_to(np.arange(n_arms), (m.size, n_arms))
    cuts = _cuts(
        pulls,
        np.concatenate([np.repeat(rows, n_arms)] * 2),
        np.concatenate([np.repeat(j, n_arms), np.repeat(m, n_arms)]),
        np.concatenate([arms.ravel()] * 2),
        np.concatenate([of_own.ravel(), of_joining.ravel()]),
        m.size,
    )
    moves = Moves(
        np.repeat(rows, n_arms),
        np.repeat(j, n_arms),
        arms.ravel(),
        targets.ravel(),
        m,
        j,
        truth.best[j],
    )
    return cuts, moves


def new_best_arm(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Cuts, Moves]:
    """Arm k becomes the best of bandit m: all bandits m with agents and arms k that are the best
    nowhere.
    """
    m, k = (index[part] for index in _choices(truth, truth.best))
    rows = np.arange(m.size)
    slack = _slack(truth, m.size)
    slack[rows, truth.best[m]] = 0.0
    here = _MovedRow(truth.laws[m], pulls[m], slack, k)
    apart = _Apart(truth, pulls, k, skip=m)
    which = np.concatenate([here.rows, apart.rows])
    bandits = np.concatenate([m[here.rows], apart.bandits])
    arms = np.concatenate([here.arms, apart.arms])
    cuts = _cuts(pulls, which, bandits, arms, np.concatenate([here.kl, apart.kl]), m.size)
    targets = np.concatenate([here.targets, apart.targets])
    return cuts, Moves(which, bandits, arms, targets, np.full(m.size, -1), m, k)


def new_bandit(truth: Truth, pulls: Floats, part: slice = slice(None)) -> tuple[Cuts, Moves]:
    """An agent of m is alone in a bandit of its own with best arm k: all m, and arms k that are the
    best of no bandit with agents. No such alternative without `truth.spare`."""
    played, best = truth.n_played, truth.best
    excluded = best[:played] if truth.spare else np.arange(truth.n_arms)
    m, k = (index[part] for index in _choices(truth, excluded))
    rows = np.arange(m.size)
    slack = _slack(truth, m.size)
    # The bandit that is taken: the one without agents whose best arm is k, or else any of them.
    taken = np.full(m.size, played)
    for bandit in range(played, len(best)):
        taken[k == best[bandit]] = bandit
    if len(best) > played:
        slack[rows, best[taken]] = 0.0
    slack[rows, k] = 0.0
    sizes = truth.sizes[m]
    here = _MovedRow(truth.laws[m], pulls[m] / sizes[:, None], slack, k)
    apart = _Apart(truth, pulls, k, skip=taken, leaving=m)
    cuts = _cuts(
        pulls,
        np.concatenate([here.rows, apart.rows]),
        np.concatenate([m[here.rows], apart.bandits]),
        np.concatenate([here.arms, apart.arms]),
        np.concatenate([here.kl / sizes[here.rows], apart.kl]),
        m.size,
    )
    moves = Moves(
        np.concatenate([np.repeat(rows, truth.n_arms), apart.rows]),
        np.concatenate([np.repeat(taken, truth.n_arms), apart.bandits]),
        np.concatenate([np.tile(np.arange(truth.n_arms), m.size), apart.arms]),
        np.concatenate([here.all_targets.ravel(), apart.targets]),
        m,
        taken,
        k,
    )
    return cuts, moves


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
    t = low
    if not isinstance(laws, GaussianLaws):
        # Gaussian laws with the same variances are fast, and end up nearby.
        with np.errstate(divide="ignore", invalid="ignore"):
            precise = np.nan_to_num(weights / laws.variances, posinf=0.0)
        t = _best_mean(GaussianLaws(means, 1.0), precise, slack, arm, low, high, t)
        margin = (high - low) / 50  # off the poles at the support's ends
        t = np.clip(t, low + margin, high - margin)
    t = _best_mean(laws, weights, slack, arm, low, high, t)
    targets = np.minimum(means, t[:, None] - slack)
    targets[rows, arm] = t
    targets[low > laws.high] = np.nan
    return targets


def _best_mean(
    laws: Laws, weights: Floats, slack: Floats, arm: Ints, low: Floats, high: Floats, start: Floats
) -> Floats:
    """(A,) the t of `closest` in [low, high], from `start` on; rows leave the iteration as they
    converge.
    """
    rows = np.arange(arm.size)
    own, own_weights = laws[rows, arm], weights[rows, arm]
    # Arms that no t in [low, high] pushes down stay out of it.
    needed = laws.means + slack
    needed[rows, arm] = -np.inf
    r, k = np.nonzero(needed > low[:, None])
    rivals, rival_weights, distance, reach = laws[r, k], weights[r, k], slack[r, k], needed[r, k]
    t = start.copy()
    left = low.copy()
    right = high.copy()
    close_enough = 1e-12 * (high - low)
    todo = rows
    for _ in range(80):
        now = t[todo]
        first, second = _slopes(own, own_weights, now)
        pushed = np.flatnonzero(reach > t[r])
        slope, curvature = _slopes(
            rivals[pushed], rival_weights[pushed], t[r[pushed]] - distance[pushed]
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            total = first + np.bincount(r[pushed], slope, rows.size)[todo]
            change = second + np.bincount(r[pushed], curvature, rows.size)[todo]
            step = now - total / change
        left[todo] = np.where(total < 0, now, left[todo])
        right[todo] = np.where(total < 0, right[todo], now)
        inside = (step > left[todo]) & (step < right[todo])
        # Done by the slope, not by the step: near the support's ends Newton's steps are short far
        # from the minimum.
        done = np.abs(total) <= 1e-11 * first
        t[todo] = np.where(done, now, np.where(inside, step, (left[todo] + right[todo]) / 2))
        busy = ~done & (right[todo] - left[todo] > close_enough[todo])
        if not busy.any():
            break
        if np.count_nonzero(busy) < 0.7 * todo.size:
            todo, own, own_weights = todo[busy], own[busy], own_weights[busy]
            kept = np.isin(r, todo)
            r, rivals, rival_weights = r[kept], rivals[kept], rival_weights[kept]
            distance, reach = distance[kept], reach[kept]
    return t


class _MovedRow:
    """A bandit in which arm k becomes the best, for a batch of alternatives: the arms that move.

    `rows`, `arms`, `targets`, `kl`: (T,) alternative, arm, new mean and divergence of each move.
    `all_targets`: (A, K).
    """

    def __init__(self, laws: Laws, weights: Floats, slack: Floats, arm: Ints) -> None:
        self.all_targets = closest(laws, weights, slack, arm)
        self.rows, self.arms = np.nonzero(~(self.all_targets == laws.means))
        self.targets = self.all_targets[self.rows, self.arms]
        moving = laws[self.rows, self.arms]
        self.kl = moving.kl(moving.moved_to(self.targets))


class _Apart:
    """Arm k and the best arm, moved apart in every bandit where they are less than η apart.

    `skip` (A,): the bandit whose best arm k becomes. `leaving` (A,): the bandit that one agent
    leaves, so that its pulls do not count there. `rows`, `bandits`, `arms`, `targets`, `kl`: (T,)
    as in `_MovedRow`. Moving the means of a bandit without agents costs nothing.
    """

    def __init__(
        self, truth: Truth, pulls: Floats, k: Ints, skip: Ints, leaving: Ints | None = None
    ) -> None:
        best, means = truth.best, truth.laws.means
        top = means[np.arange(len(best)), best]
        # A hair of slack: in the paper's flat instances arms are worse by exactly η, up to
        # rounding.
        close = (top[:, None] - means < truth.eta * (1 - 1e-9) - 1e-12)[:, k].T
        close &= skip[:, None] != np.arange(len(best))
        row, b = np.nonzero(close)
        pair = np.stack([best[b], k[row]], axis=1)
        played = b < truth.n_played
        weights = np.zeros(pair.shape)
        weights[played] = pulls[b[played, None], pair[played]]
        stays = np.ones(row.size)
        if leaving is not None:
            stays = np.where(leaving[row] == b, 1 - 1 / truth.sizes[leaving[row]], 1.0)
        laws = truth.laws[b[:, None], pair]
        slack = np.tile([0.0, truth.eta], (row.size, 1))
        targets = closest(laws, weights * stays[:, None], slack, np.zeros(row.size, dtype=np.int64))
        kl = laws.kl(laws.moved_to(targets)) * (stays * played)[:, None]
        self.rows, self.bandits, self.arms = np.repeat(row, 2), np.repeat(b, 2), pair.ravel()
        self.targets, self.kl = targets.ravel(), kl.ravel()


def _slack(truth: Truth, n: int) -> Floats:
    """(n, K) how much worse than the best each arm must be: η for the best arm of any bandit, else
    0.
    """
    slack = np.zeros((n, truth.n_arms))
    slack[:, truth.best] = truth.eta
    return slack


def _choices(truth: Truth, excluded: Ints) -> tuple[Ints, Ints]:
    """All pairs (m, k) of a bandit with agents and an arm that is neither excluded nor, tied, a
    right answer at m.
    """
    arms = np.setdiff1d(np.arange(truth.n_arms), excluded)
    means = truth.laws.means[: truth.n_played]
    m, place = np.nonzero(means[:, arms] < means.max(axis=1, keepdims=True))
    return m, arms[place]


def _slopes(laws: Laws, weights: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of weights·divergence; 0 where the weight is: what nobody pulls
    costs nothing.
    """
    first, second = laws.slope(targets)
    with np.errstate(invalid="ignore"):
        slope = np.where(weights > 0, weights * first, 0.0)
        curvature = np.where(weights > 0, weights * second, 0.0)
    return slope, curvature


def _cuts(pulls: Floats, rows: Ints, bandits: Ints, arms: Ints, kl: Floats, n: int) -> Cuts:
    """Cuts from coefficients listed cell by cell; an infinite or undefined one makes the
    alternative impossible.
    """
    played, n_arms = pulls.shape
    counted = bandits < played
    rows, bandits, arms, kl = rows[counted], bandits[counted], arms[counted], kl[counted]
    bad = np.zeros(n, dtype=bool)
    bad[rows[~np.isfinite(kl)]] = True
    matrix = csr_array(
        (np.nan_to_num(kl, posinf=0.0), (rows, bandits * n_arms + arms)), shape=(n, played * n_arms)
    )
    values = matrix @ pulls.ravel()
    values[bad] = np.inf
    return Cuts(values, matrix)
