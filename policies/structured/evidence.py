"""Every test of `StructuredBAI`, and what may be concluded from it.

This file and `budget.py` are what the proof in docs/structured-bai.md relies on; names and formulas
are those of that page. Nothing here pulls. The rest of the package decides what is pulled, at which
agents, in which order, and when the rules below are applied. All evidence is an e-process, so by
Ville's inequality none of these decisions can raise the probability of an error.

Rewards are in units of σ. m and n are averages and numbers of pulls, ñ = n²/(n + ρ). `reps` is the
record of the
representatives (`Representatives`): it counts only what was pulled after an agent was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.sequential.boundaries import pair_evidence
from clustered_bandit_gym.policies.sequential.cells import BettingCells, Cells
from clustered_bandit_gym.policies.structured.budget import CandidateLevels, ClusterWeights, nats
from clustered_bandit_gym.policies.structured.representatives import (
    Record,
    Representatives,
    epsilon_in_sigmas,
)


class SameBandit:
    """Test of two representatives: whether they are shown to have different bandits.

    Two kinds of weight ½. One of the K arms is larger at one of the two: weight 1/(2K) for each arm
    and direction. All K arms together, with one ρ from a grid of eight, weight ⅛ each, that covers
    16 to 3·10^7 pulls: the price of mixing is paid K times, so ρ must be of the order of n, and a
    step of 8 loses little.
    """

    rho = np.float64(16) * 8.0 ** np.arange(8.0)

    def rejects(self, cells: Cells, a: Ints, b: Ints, level: Floats) -> np.ndarray:
        """(pairs,) whether the evidence against "rows a and b of `cells` have the same bandit"
        reaches `level`.
        """
        difference, n_a, n_b = cells.mean[a] - cells.mean[b], cells.n[a], cells.n[b]
        n_arms = difference.shape[1]
        terms = difference**2 * (0.5 * n_a * n_b / np.maximum(n_a + n_b, 1))
        arm = terms.argmax(axis=1)
        larger = difference[np.arange(a.size), arm] > 0
        low, high = np.where(larger, b, a), np.where(larger, a, b)
        shown = cells.shows(low, arm, high, arm, 0.0, level + np.log(4 * n_arms))
        # All arms together, only where that could reach the level with the ρ that suits best.
        mean = np.maximum(terms.mean(axis=1), 1)
        hope = (
            ~shown
            & (n_arms * (mean - 1 - np.log(mean)) >= level)
            & (np.minimum(n_a, n_b).min(axis=1) > 0)
        )
        if hope.any():
            values = [
                pair_evidence(difference[hope], 0.0, n_a[hope], n_b[hope], rho).sum(axis=1)
                for rho in self.rho
            ]
            shown[hope] = np.max(values, axis=0) >= level[hope] + np.log(2 * self.rho.size)
        return shown


class CandidateTests:
    """Events 1 and 2: the live sets of the representatives, and which of them are distinct.

    `certify`, `eliminate` and `settle` are the only code that changes `reps.distinct`, `reps.live`
    and `reps.settled`.

    Attributes:
        within: (R, K) live arms shown less than ε better than the leader.
    """

    def __init__(self, reps: Representatives, eta: float | None) -> None:
        self.reps, self.eta = reps, eta
        self.epsilon = epsilon_in_sigmas(reps.federation.problem)
        self.within = np.zeros(reps.live.shape, dtype=bool)
        self.same_bandit = SameBandit()
        self._levels = CandidateLevels(reps.budgets, reps.number)

    @property
    def levels(self) -> CandidateLevels:
        """Evidence that the tests need, for the candidates as they are now."""
        if (
            self._levels.number is not self.reps.number
        ):  # replaced whenever a candidate is added or dropped
            self._levels = CandidateLevels(self.reps.budgets, self.reps.number)
        return self._levels

    def certify(self) -> None:
        """Mark pairs as distinct whose rewards are shown to differ, or whose live sets have no arm
        in common.
        """
        reps = self.reps
        if self.all_distinct:
            return
        live = reps.live.astype(np.float32)
        reps.distinct |= live @ live.T == 0
        np.fill_diagonal(reps.distinct, False)
        a, b = np.nonzero(np.triu(~reps.distinct, 1))
        if a.size:
            shown = self.same_bandit.rejects(reps.cells, a, b, self.levels.distinct(a, b))
            reps.distinct[a[shown], b[shown]] = reps.distinct[b[shown], a[shown]] = True

    @property
    def all_distinct(self) -> bool:
        """Every pair is marked as distinct."""
        r = len(self.reps)
        return bool(np.count_nonzero(self.reps.distinct) == r * (r - 1))

    def eliminate(self) -> None:
        """Rules (a) and (b) of step 2: arms leave the live sets.

        A live set that rule (b) would empty is left as it is. That happens only after an error; the
        play must end.
        """
        reps = self.reps
        leader = reps.leader
        # Only live arms can leave, and the last one never does: x, k are the cells of live sets
        # with several arms.
        task = reps.live & (reps.live.sum(axis=1) > 1)[:, None]
        x, k = np.nonzero(task)
        if self.eta is None or not reps.distinct.any():
            beaten = reps.cells.shows(x, k, x, leader[x], 0.0, self.levels.beaten[x])
            reps.live[x[beaten], k[beaten]] = False
            return
        # Arm k leaves x if k is close at some y that is distinct from x: only such y, k matter. The
        # leader of y is the hardest to be close to for most arms, so the comparison with it comes
        # first.
        y, c = np.nonzero(reps.distinct.astype(np.float64) @ task)
        shift = np.repeat((0.0, self.eta), (x.size, y.size))
        row, level = (
            np.concatenate([x, y]),
            np.concatenate([self.levels.beaten[x], self.levels.close[y]]),
        )
        leaders = leader[row]
        low, high = leaders.copy(), leaders
        low[: x.size], high[x.size :] = k, c
        shown = reps.cells.shows(row, low, row, high, shift, level)
        beaten, hopeful = shown[: x.size], shown[x.size :] | (c == leader[y])
        reps.live[x[beaten], k[beaten]] = False
        y, c = y[hopeful], c[hopeful]
        close = np.zeros(reps.live.shape)
        close[y, c] = ~self.blockers(y, c).any(axis=1)
        hit = (reps.distinct.astype(np.float64) @ close) > 0
        shrunk = reps.live & ~hit
        reps.live = np.where(shrunk.any(axis=1, keepdims=True), shrunk, reps.live)

    def settle(self) -> None:
        """A row is settled by its one live arm, or by a leader that is good enough: every other
        live arm is shown less than ε better."""
        reps, leader = self.reps, self.reps.leader
        resolved = reps.resolved
        reps.settled = np.where(resolved, leader, reps.settled)
        self.within = np.zeros(reps.live.shape, dtype=bool)
        if self.epsilon > 0:
            others = (
                reps.live & ~resolved[:, None] & (np.arange(reps.n.shape[1]) != leader[:, None])
            )
            x, k = np.nonzero(others)
            level = self.levels.beaten[x]
            self.within[x, k] = reps.cells.shows(x, k, x, leader[x], self.epsilon, level)
            enough = (self.within == others).all(axis=1) & (reps.settled < 0)
            reps.settled = np.where(enough, leader, reps.settled)

    def blockers(self, y: Ints, k: Ints) -> np.ndarray:
        """(n, K) live arms of representative y that arm k is not shown to be less than η worse
        than.
        """
        assert self.eta is not None
        open_ = self.reps.live[y]
        open_[np.arange(y.size), k] = False
        i, other = np.nonzero(open_)
        if i.size:
            y, k = y[i], k[i]
            shown = self.reps.cells.shows(y, other, y, k, self.eta, self.levels.close[y])
            open_[i[shown], other[shown]] = False
        return open_


@dataclass(frozen=True)
class ClusterChoice:
    """Choices made after the representatives were seen. Their prices are charged; `ClusterTests`
    refuses those that no weight covers.

    Attributes:
        arms: (R, R) the arm k for each x and j.
        assumed: (R, R) test j by Assumption 1 instead, with the arm k_x.
        scale: (R, R) which ρ of the grid is used.
        bets: bet. Evidence is then a forecast, and `rejects` the test.
        noise: (K,) variance of one pull in units of σ², for forecasts; ones without bets.
        slack: nats by which a forecast of bets is lowered; 0 without bets.
    """

    arms: Ints
    assumed: np.ndarray
    scale: Ints
    bets: bool
    noise: Floats
    slack: float


class ClusterTests:
    """Event 3: the tests of "agent i is of cluster j" for all x ≠ j, frozen before i's first pull.

    Against "i is of j", with the alternative x and the arm k, the evidence is the smallest value
    over the unknown mean μ of

        ½ñ_jk(R_jk − μ)² − ½ln(1 + n_jk/ρ)  +  ½n_ik[(m_ik − μ)² − (m_ik − R_xk)²]

    less the prices of x, k and ρ: the representative's mixture times the agent's Wald ratio of R_x
    to μ.

    Args:
        reps: one representative of every cluster.
        best: (R,) k_x, all different; or −2 in all rows where best arms are not known.
        eta: η, or None; needed for tests by Assumption 1.
        level: nats that rule a cluster out, `Budgets.classify` of the attempt.
        weights: prices of the choices.
        choice: the choices.

    Attributes:
        reference: (R, R) R_jk, or R_jkj − η for tests by Assumption 1.
        worth: (R, R) ñ of the reference.
        price: (R, R) what is subtracted.
        bet_price: (R, R) price of a bet: x, the kind of test, the arm, and the direction.
        estimate: (R, K) R_x, frozen.
        used: (U,) the arms that agents pull; columns of n and mean in `evidence`.
        places: (R, R) the arms as positions in `used`.
    """

    def __init__(
        self,
        reps: Representatives,
        best: Ints,
        eta: float | None,
        level: float,
        weights: ClusterWeights,
        choice: ClusterChoice,
    ) -> None:
        r = len(reps)
        known = bool((best >= 0).all())
        different = np.unique(best).size if known else 1 + reps.distinct.sum(axis=1).min()
        if r != reps.budgets.n_clusters or different < r:
            raise ValueError(
                f"expected {reps.budgets.n_clusters} representatives with different best arms, got "
                f"{best}"
            )
        if not choice.bets and np.any(choice.noise != 1):
            raise ValueError("noise must be 1 without bets: only bets adapt to the variance")
        self.reps, self.best, self.eta, self.level = reps, best, eta, level
        self.bets, self.arms, self.assumed = choice.bets, choice.arms, choice.assumed
        rows = np.arange(r)
        others = ~np.eye(r, dtype=bool)
        if np.any((self.assumed & (self.arms != best[:, None]))[others]):
            raise ValueError("Assumption 1 bounds the mean of a best arm k_x only")
        cell = np.where(self.assumed, best, self.arms)
        if np.any(reps.n[rows, cell][others] == 0):
            raise ValueError("a test uses an arm that its representative never pulled")
        mixing, self.worth = (
            np.take_along_axis(table, choice.scale[..., None], -1)[..., 0]
            for table in weights.mixing((reps.n / choice.noise)[rows, cell])
        )
        self.reference = reps.mean[rows, cell] - np.where(self.assumed, eta or 0.0, 0.0)
        ours = (self.arms == best[:, None]) | (self.arms == best)
        price = np.where(ours, weights.best_arm, weights.any_arm)
        price = weights.alternative + np.where(self.assumed, weights.assumed, price)
        if isinstance(reps.cells, BettingCells):
            price = price + log(2)  # the other kind of test has the other half of the weight
        self.price = price + mixing + choice.slack
        self.bet_price = price + np.where(self.assumed, 0.0, log(2))
        self.estimate = reps.mean.copy()
        self.used: Ints = np.unique(self.arms[others])
        self.places: Ints = np.where(others, np.searchsorted(self.used, self.arms), 0)

    def evidence(self, x: Ints, n: Floats, mean: Floats) -> Floats:
        """(rows, R) evidence against each cluster with the alternative x (rows,); −inf at x itself.

        n, mean: (rows, U) the agents' own pulls and averages of the arms `used`, since this object
        was made.
        """
        index, place = np.arange(x.size)[:, None], self.places[x]
        worth, reference = self.worth[x], self.reference[x]
        n, mean = n[index, place], mean[index, place]
        alternative = self.estimate[x[:, None], self.used[place]]
        term = n * worth / (n + worth) * (mean - reference) ** 2
        term = 0.5 * (term - n * (mean - alternative) ** 2)
        if self.assumed.any():
            by_assumption = one_sided(n, mean, worth, reference, alternative, term)
            term = np.where(self.assumed[x], by_assumption, term)
        evidence = term - self.price[x]
        evidence[index[:, 0], x] = -np.inf
        return evidence

    def rejects(self, x: Ints, evidence: Floats, cells: Cells, rows: Ints) -> np.ndarray:
        """(rows, R) clusters that are ruled out at agents `rows` of `cells`, with alternative x.

        `evidence` is that of `evidence` for these agents. Where agents bet it is a forecast only:
        the test is then a bet on one arm, on the side on which x has it.
        """
        if not self.bets:
            return evidence >= self.level
        shown = np.zeros(evidence.shape, dtype=bool)
        i, j = np.nonzero(evidence > -np.inf)
        other, row = x[i], rows[i]
        arm, place = self.arms[other, j], self.places[other, j]
        assumed = self.assumed[other, j]
        needed = self.level + self.bet_price[other, j]
        up = assumed | (self.estimate[other, arm] > self.estimate[j, arm])
        cell = np.where(assumed, self.best[j], arm)
        shift = np.where(assumed, self.eta or 0.0, 0.0)
        for way, of_agent in ((up, False), (~up, True)):
            agent, rep = (row[way], place[way]), (j[way], cell[way])
            (row_a, a), (row_b, b) = (agent, rep) if of_agent else (rep, agent)
            table, rival = (cells, self.reps.cells) if of_agent else (self.reps.cells, cells)
            shown[i[way], j[way]] = table.shows(row_a, a, row_b, b, shift[way], needed[way], rival)
        return shown


def one_sided(
    n: Floats, mean: Floats, worth: Floats, reference: Floats, alternative: Floats, free: Floats
) -> Floats:
    """Evidence by Assumption 1: smallest value over u of ½ñ(R − u)² plus the agent's Wald ratio of
    ν to u.

    The agent's mean is at most u. The ratio is used for u below the alternative ν only; for larger
    u it is replaced by 1. `free` is the smallest value without this restriction.
    """
    centre = (worth * reference + n * mean) / (worth + n)
    edge = 0.5 * worth * (alternative - reference) ** 2
    value = np.where(centre < alternative, free, edge)
    return np.where(reference < alternative, value, 0.0)


def remaining(ruled_out: np.ndarray, guess: Ints) -> tuple[np.ndarray, Ints]:
    """From clusters (rows, R) ruled out so far: (rows,) whether one is left, and which.

    Where all are ruled out, an error was made; the guess is returned, so that the play ends.
    """
    left = (~ruled_out).sum(axis=1)
    return left <= 1, np.where(left == 1, ruled_out.argmin(axis=1), guess)


class AcceptanceTests:
    """Event 4: live sets of agents whose cluster may be none of those known.

    Attributes:
        live: (n, K) arms not shown worse than another at the agent.
        found: (n,) the agent's best arm, or `UNKNOWN`.
    """

    UNKNOWN = -1

    def __init__(self, record: Record, eta: float | None) -> None:
        self.cells, self.eta = record.cells, eta
        self.epsilon = epsilon_in_sigmas(record.federation.problem)
        self.level = nats(record.budgets.accept())
        self.live = np.ones(record.n.shape, dtype=bool)
        self.found: Ints = np.full(record.agents.size, self.UNKNOWN)

    def eliminate(self, rows: Ints) -> tuple[Ints, np.ndarray]:
        """Rule (a) at agents `rows`. Returns the leaders (rows,), and the leaders and arms that may
        be ε better (rows, K). A leader is the answer where there are no such arms."""
        live = self.live[rows]
        leader = np.where(live, self.cells.mean[rows], -np.inf).argmax(axis=1)
        live &= ~self.cells.shows_worse(rows, leader, 0.0, self.level, live)
        self.live[rows] = live
        if self.epsilon > 0:
            live &= ~self.cells.shows_worse(rows, leader, self.epsilon, self.level, live)
            live[np.arange(rows.size), leader] = True
        alone = live.sum(axis=1) == 1
        self.found[rows[alone]] = leader[alone]
        return leader, live

    def accept(self, rows: Ints, guess: Ints, known: np.ndarray) -> np.ndarray:
        """The cluster whose best arm is guess (rows,): accepted if that arm is live, known to be
        the best arm of a representative (`known`, (K,)), and shown less than η worse than every
        other live arm.

        Returns (rows, K) the live arms for which that is shown.
        """
        assert self.eta is not None
        index, live = np.arange(rows.size), self.live[rows]
        within = self.cells.shows_worse(rows, guess, self.eta, self.level, live)
        within[index, guess] = True
        accepted = live[index, guess] & known[guess] & (within | ~live).all(axis=1)
        accepted &= self.found[rows] == self.UNKNOWN
        self.found[rows[accepted]] = guess[accepted]
        return within
