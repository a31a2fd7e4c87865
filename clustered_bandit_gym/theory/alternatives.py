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

All three are the same to `hardest`: perhaps an agent moves, and one bandit gets another best arm or
other means. Given P, it finds for every choice of (m, j) or (m, k) the member with the least Σ
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
from clustered_bandit_gym.theory.laws import Laws, Slopes, newton

#: Numbers that describe the laws of all arms in the alternatives that are worked on at once: some
#: 200 MB. Memory then grows with M·K, not with M·K².
_NUMBERS = 2**20


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
    def gaps(self) -> Floats:
        """(M, K) how much worse each arm is than the best of its bandit."""
        return self.laws.means.max(axis=1, keepdims=True) - self.laws.means

    @property
    def n_played(self) -> int:
        """Bandits with agents: the first ones."""
        return int(np.count_nonzero(self.sizes))

    @property
    def n_arms(self) -> int:
        return int(self.laws.means.shape[1])


class Changes(NamedTuple):
    """Whose answer changes in a batch of alternatives: (A,) each.

    `source`: the bandit that one agent leaves; −1 if none does. `changed`: the bandit that it
    joins, −1 for one that is not in the instance; without such an agent, the bandit whose best arm
    changes. `answer`: the best arm there. Tied with the old one: it is the best by as little as one
    likes.
    """

    source: Ints
    changed: Ints
    answer: Ints


class Moves(NamedTuple):
    """Which means move where in a batch of alternatives, and what it costs: (T,) each.

    In `alternative`, the mean of (`bandit`, `arm`) becomes `target`; it costs `kl` per pull of arm
    `arm` in bandit `payer`. Bandits are numbered as in `Changes`.
    """

    alternative: Ints
    bandit: Ints
    arm: Ints
    target: Floats
    payer: Ints
    kl: Floats


def change_bandit(truth: Truth) -> Changes:
    """An agent of m plays bandit j: all pairs m ≠ j of bandits with agents."""
    m, j = np.nonzero(~np.eye(truth.n_played, dtype=bool))
    return Changes(m, j, truth.best[j])


def new_best_arm(truth: Truth) -> Changes:
    """Arm k becomes the best of bandit m: all m with agents, all k that are the best nowhere."""
    m, k = _choices(truth, truth.best)
    return Changes(np.full(m.size, -1), m, k)


def new_bandit(truth: Truth) -> Changes:
    """An agent of m is alone in a bandit of its own with best arm k: all m, and arms k that are the
    best of no bandit with agents.

    Without `truth.spare` there is no such alternative. The bandit is the one without agents whose
    best arm is k, or else any of them.
    """
    played = truth.n_played
    best = truth.best
    m, k = _choices(truth, best[:played] if truth.spare else np.arange(truth.n_arms))
    bandits = np.full(truth.n_arms, played if len(best) > played else -1)
    bandits[best[played:]] = np.arange(played, len(best))
    return Changes(m, bandits[k], k)


def _choices(truth: Truth, excluded: Ints) -> tuple[Ints, ...]:
    """All pairs (m, k) of a bandit with agents and an arm neither excluded nor among m's best."""
    allowed = truth.gaps[: truth.n_played] > 0
    allowed[:, excluded] = False
    return np.nonzero(allowed)


def all_rows(truth: Truth, pulls: Floats) -> Iterator[csr_array]:
    """The rows of the hardest members of all families, in parts.

    Args:
        pulls: (bandits with agents, K) the P that is asked about, positive.
    """
    size = max(1, _NUMBERS // truth.laws.parameters[0].size)
    changes = np.hstack([change_bandit(truth), new_best_arm(truth), new_bandit(truth)])
    for start in range(0, changes.shape[1], size):
        part = Changes(*changes[:, start : start + size])
        yield rows_of(hardest(truth, pulls, part), pulls, part.answer.size)


def rows_of(moves: Moves, pulls: Floats, n: int) -> csr_array:
    """(at most n, M·K) KL per pull of each cell of the bandits with agents, one row for each of the
    `n` alternatives that is possible: infinite or undefined costs make one impossible.
    """
    played, n_arms = pulls.shape
    # Moving the means of a bandit without agents costs nothing.
    paid = (moves.payer >= 0) & (moves.payer < played)
    row, _, arm, _, payer, kl = (part[paid] for part in moves)
    matrix = csr_array((kl, (row, payer * n_arms + arm)), shape=(n, pulls.size))
    return matrix[np.isfinite(matrix.sum(axis=1))]


def hardest(truth: Truth, pulls: Floats, changes: Changes) -> Moves:
    """The members of the families with the least Σ P·KL, for these changes.

    Means of the changed bandit that are not listed are those before; those of a bandit that nobody
    played are those of the agent that joins it.
    """
    source, changed, answer = changes
    laws = truth.laws
    best = truth.best
    # One row more than bandits, number −1: nobody pulls there.
    everywhere = np.zeros((len(best) + 1, truth.n_arms))
    everywhere[: truth.n_played] = pulls
    sizes = np.append(truth.sizes, 1)
    # The agents of the bandit and the one that joins them: one law stands for both, weighted by
    # their pulls.
    joining = everywhere[source] / sizes[source, None]
    weights = everywhere[changed] + joining
    share = joining / weights
    mixed = laws[changed].mixed_with(laws[source], share)
    # The best arms of all bandits stay η worse than the new answer, but for the one it replaces.
    rows = np.arange(answer.size)
    slack = np.zeros_like(weights)
    slack[:, best] = truth.eta
    slack[rows, np.where(changed < 0, answer, best[changed])] = 0.0
    slack[rows, answer] = 0.0
    targets = closest(mixed, weights, slack, answer)
    row, arm = np.nonzero((targets != mixed.means) | ((share > 0) & (share < 1)))
    moved = mixed[row, arm].moved_to(targets[row, arm])
    bandit = changed[row]
    joined = source[row]
    own = Moves(row, bandit, arm, targets[row, arm], bandit, laws[bandit, arm].kl(moved))
    alone = own._replace(payer=joined, kl=laws[joined, arm].kl(moved) / sizes[joined])
    parts: Any = zip(own, alone, _apart(truth, everywhere, changes), strict=True)
    return Moves(*map(np.concatenate, parts))


def _apart(truth: Truth, everywhere: Floats, changes: Changes) -> Moves:
    """The new best arm and the old one, moved apart in all other bandits where they are less than η
    apart. Pulls of the agent that leaves a bandit do not count there."""
    # A hair of slack: in the paper's flat instances arms are worse by exactly η, up to rounding.
    close = (truth.gaps < truth.eta * (1 - 1e-9) - 1e-12)[:, changes.answer].T
    close &= changes.changed[:, None] != np.arange(len(truth.sizes))
    row, b = np.nonzero(close)
    stays = (1 - (changes.source[row] == b) / np.maximum(truth.sizes[b], 1))[:, None]
    pair = np.stack([truth.best[b], changes.answer[row]], axis=1)
    cells = (b[:, None], pair)
    laws = truth.laws[cells]
    slack = np.broadcast_to([0.0, truth.eta], pair.shape)
    # Where nobody pays, any positive weights do.
    weights = np.maximum(everywhere[cells] * stays, 1e-300)
    targets = closest(laws, weights, slack, np.zeros_like(row))
    kl = laws.kl(laws.moved_to(targets)) * stays
    bandit = np.repeat(b, 2)
    return Moves(np.repeat(row, 2), bandit, pair.ravel(), targets.ravel(), bandit, kl.ravel())


def closest(laws: Laws, weights: Floats, slack: Floats, arm: Ints) -> Floats:
    """(A, K) the means that make `arm` the best by `slack` at the least weighted divergence, row by
    row.

    Minimises Σ_k weights[k]·(least divergence from laws[k] to mean λ_k) over all λ with λ_k ≤ λ_arm
    − slack_k. Given t = λ_arm the others move down to t − slack or stay: one convex problem in t,
    by Newton's method inside a bracket. NaN in rows where the support leaves no room.

    Args:
        laws: (A, K).
        weights: (A, K), positive.
        slack: (A, K), not negative; 0 at `arm`.
        arm: (A,).
    """
    own_cells = (np.arange(arm.size), arm)
    means = laws.means
    needed = means + slack
    needed[own_cells] = -np.inf
    low = np.maximum(means[own_cells], laws.low + slack.max(axis=1))
    high = np.clip(needed.max(axis=1), low, np.maximum(low, laws.high))
    own = laws[own_cells]
    own_weights = weights[own_cells]
    # Arms that no t in [low, high] pushes down stay out of it.
    rivals = np.nonzero(needed > low[:, None])
    row = rivals[0]
    reach = needed[rivals]
    distance = slack[rivals]
    others = laws[rivals]
    other_weights = weights[rivals]

    @np.errstate(invalid="ignore")
    def slopes(t: Floats) -> Slopes:
        pushed = np.flatnonzero(reach > t[row])
        r = row[pushed]
        w = other_weights[pushed]
        slope, curvature = others[pushed].slope(t[r] - distance[pushed])
        first, second = own.slope(t)
        total = own_weights * first + np.bincount(r, w * slope, t.size)
        change = own_weights * second + np.bincount(r, w * curvature, t.size)
        return total, change, 1e-11 * own_weights * first

    # Near the upper end, where few arms are pushed down: most solutions are there.
    t = newton(slopes, low, high, low + 0.9 * (high - low))
    targets = np.minimum(means, t[:, None] - slack)
    targets[own_cells] = t
    targets[low > laws.high] = np.nan
    return targets
