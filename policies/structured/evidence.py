"""Every test of `StructuredBAI`, and what may be concluded from it.

This file and `budget.py` are what the proof in docs/structured-bai.md relies on; names and formulas
are those of that page. Nothing here pulls. The rest of the package decides what is pulled, at which
agents, in which order, and when the rules below are applied. All evidence is an e-process, so by
Ville's inequality none of these decisions can raise the probability of an error.

Rewards are in units of σ. m and n are averages and numbers of pulls, ñ = n²/(n + ρ). `reps` is the
record of the representatives: it counts only what was pulled after an agent was chosen.
"""

from __future__ import annotations

from math import log

import numpy as np

from clustered_bandit_gym._types import Array, Bools, Floats, Ints
from clustered_bandit_gym.policies.sequential.boundaries import pair_evidence
from clustered_bandit_gym.policies.sequential.cells import Cells, leaders, not_shown_worse
from clustered_bandit_gym.policies.structured.budget import ClusterWeights, nats
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING


def differ(cells: Cells, a: Ints, b: Ints, level: Floats) -> Bools:
    """(pairs,) whether rows a and b of `cells` are shown to differ, with `level` (pairs,) nats.

    Every arm has been pulled at both.

    Two kinds of weight ½. One of the K arms is larger at one of the two: weight 1/(2K) for each arm
    and direction. All K arms together, with one ρ from a grid of eight, weight ⅛ each, that covers
    16 to 3·10^7 pulls: the price of mixing is paid K times, so ρ must be of the order of n, and a
    step of 8 loses little.
    """
    difference = cells.mean[a] - cells.mean[b]
    n_a = cells.n[a]
    n_b = cells.n[b]
    distance = difference**2 * n_a * n_b / (n_a + n_b)
    arm = distance.argmax(axis=1)
    larger = difference[np.arange(a.size), arm] > 0
    low, high = np.where(larger, (b, a), (a, b))
    one_arm = level + np.log(4 * difference.shape[1])
    shown = cells.shows((low, arm), (high, arm), 0.0, one_arm)
    all_arms = level + np.log(2 * 8)
    for rho in 16 * 8.0 ** np.arange(8.0):
        shown |= pair_evidence(difference, n_a, n_b, rho).sum(axis=1) >= all_arms
    return shown


# Rule (a), for representatives (event 1) and for agents on their own (event 4).
def beat(record: Record, rows: Ints) -> Ints:
    """Arms shown worse than the leader leave the live sets of `rows`; returns the leaders (rows,)."""
    live = record.live[rows]
    leader = leaders(record.mean[rows], live)
    record.live[rows] &= ~record.cells.shows_worse(rows, leader, 0.0, record.to_beat[rows], live)
    return leader


def settle(
    record: Record, rows: Ints, shift: float, among: Bools | bool = True
) -> tuple[Ints, Bools]:
    """A row is settled by its one live arm, or by one that is shown less than `shift` worse than
    every other one.

    With ε such an arm is good enough. With η it is the best one if it is the best arm of some
    cluster: the agent is of that cluster (event 4).

    Args:
        among: (K,) arms that may settle a row.

    Returns (rows,) the live arms of `among` with the highest average, which are tried, and (rows, K)
    the live arms for which that is not shown.
    """
    live = record.live[rows]
    hopeful = live & among
    guess = leaders(record.mean[rows], hopeful)
    open_ = live
    enough = live.sum(axis=1) == 1
    if shift > 0:
        open_ = not_shown_worse(record.cells, rows, guess, shift, record.to_beat[rows], live)
        enough |= ~open_.any(axis=1) & (record.settled[rows] < 0)
    enough &= hopeful.any(axis=1)
    record.settled[rows[enough]] = guess[enough]
    return guess, open_


# Events 1 and 2: the live sets of the representatives, and which of them are distinct.
def certify(reps: Representatives) -> None:
    """Mark pairs as distinct that are shown to differ, or have no live arm in common."""
    if reps.all_distinct:
        return
    reps.distinct |= ~(reps.live @ reps.live.T)
    np.fill_diagonal(reps.distinct, False)
    a, b = np.nonzero(np.triu(~reps.distinct, 1))
    shown = differ(reps.cells, a, b, nats(reps.budgets.distinct(reps.number[a], reps.number[b])))
    reps.distinct[a, b] = reps.distinct[b, a] = shown


def eliminate(reps: Representatives) -> None:
    """Rules (a) and (b) of step 2: arms leave the live sets.

    A live set that rule (b) would empty is left as it is. That happens only after an error; the
    play must end.
    """
    leader = beat(reps, reps.rows)
    if reps.eta is None:
        return
    task = reps.live & ~reps.resolved[:, None]
    # Arm k leaves x if k is close at some y that is distinct from x: only such y, k matter.
    y, k = np.nonzero(reps.distinct @ task)
    y, k, left = reps.cells.not_yet_close(y, k, leader, reps.live, reps.eta, reps.to_be_close)
    close = np.zeros_like(task)
    close[y, k] = ~left.any(axis=1)
    shrunk = reps.live & ~(reps.distinct @ close)
    reps.live = np.where(shrunk.any(axis=1, keepdims=True), shrunk, reps.live)


class ClusterTests:
    """Event 3: the tests of "agent i is of cluster j" for all x ≠ j, frozen before i's first pull.

    A subclass chooses arms and the kind of each test, after the representatives were seen: any
    choice is valid, and the weights charge for it.

    Against "i is of j", with the alternative x and the arm k, the evidence is the smallest value
    over the unknown mean μ of

        ½ñ_jk(R_jk − μ)² − ½ln(1 + n_jk/ρ)  +  ½n_ik[(m_ik − μ)² − (m_ik − R_xk)²]

    less the prices of x, k and ρ: the representative's mixture times the agent's Wald ratio of R_x
    to μ.

    Args:
        reps: one representative of every cluster.
        best: (R,) k_x, all different; None, then −2 in all rows, where best arms are not known.
        level: nats that rule a cluster out, `Budgets.classify` of the attempt.

    Attributes:
        eta: η; None where tests by Assumption 1 are ruled out.
        weights: prices of all choices.
        arms: (R, R) the arm k for each x and j.
        assumed: (R, R) test j by Assumption 1 instead; the arm is then k_x.
        each: (R, K) pulls of an arm that an agent of x is expected to make; decides which ρ of the
            grid is used.
        noise: (K,) variance of one pull in units of σ², for forecasts; ones without bets.
        bets: bet. Evidence is then a forecast, and `rejects` the test.
        reference: (R, R) R_jk, or R_jkj − η for tests by Assumption 1.
        worth: (R, R) ñ of the reference.
        alternative: (R, R) R_xk.
        price: (R, R) what is subtracted.
        bet_price: (R, R) price of a bet: x, the kind of test, the arm, and the direction.
        up: (R, R) a bet is that the agent's mean is larger than the representative's.
    """

    arms: Ints
    assumed: Bools
    each: Floats

    def __init__(self, reps: Representatives, best: Ints | None, level: float) -> None:
        self.reps = reps
        self.rows = reps.rows
        self.best: Ints = np.full(len(reps), -2) if best is None else best
        self.level = level
        self.eta = None if best is None else reps.eta
        self.bets = False
        self.noise = np.ones(reps.n.shape[1])
        # The grid of ρ is fixed before the data: it never depends on whether best arms are known.
        self.weights = ClusterWeights(reps.budgets, len(reps), reps.eta)

    def freeze(self) -> None:
        """Prepare the tests that were chosen, from the representatives' pulls so far."""
        reps = self.reps
        rows = self.rows
        best = self.best
        weights = self.weights
        arms = self.arms
        assumed = self.assumed
        wrong = assumed & (arms != best[:, None])
        assert not wrong.any(), "Assumption 1 bounds the mean of a best arm k_x only"
        self.cell = np.where(assumed, best, arms)
        pulls = reps.n[rows, self.cell]
        assert (pulls > 0).all(), "a test uses an arm that its representative never pulled"
        own = (rows[:, None], arms)
        wanted = np.maximum(self.each[own], 1)
        mixing, self.worth = weights.mixing(pulls / self.noise[self.cell], wanted, self.level)
        self.shift = assumed * (self.eta or 0.0)
        self.reference = reps.mean[rows, self.cell] - self.shift
        self.alternative = reps.mean[own]
        self.up = assumed | (self.alternative > reps.mean[rows, arms])
        price = np.where(assumed, weights.assumed, weights.arm(arms, best[:, None], best))
        # Where rewards can be bet on, the other kind of test has the other half of the weight.
        price = price + weights.alternative + log(2) * reps.cells.bets
        self.price = price + mixing + TUNING.bet_slack * self.bets
        self.bet_price = price + np.where(assumed, 0.0, log(2))

    def evidence(self, x: Ints, n: Floats, mean: Floats) -> Floats:
        """(rows, R) evidence against each cluster with the alternative x (rows,); −inf at x itself.

        n, mean: (rows, R) the agents' own pulls and averages of the arms `arms[x]`, since this
        tests were frozen.
        """
        worth = self.worth[x]
        reference = self.reference[x]
        alternative = self.alternative[x]
        term = n * worth / (n + worth) * (mean - reference) ** 2
        term = 0.5 * (term - n * (mean - alternative) ** 2)
        by_assumption = one_sided(n, mean, worth, reference, alternative, term)
        evidence = np.where(self.assumed[x], by_assumption, term) - self.price[x]
        evidence[np.arange(x.size), x] = -np.inf
        return evidence

    def rejects(self, x: Ints, evidence: Floats, cells: Cells, rows: Ints) -> Bools:
        """(rows, R) clusters that are ruled out at agents `rows` of `cells`, with alternative x.

        `evidence` is that of `evidence` for these agents. Where agents bet it is a forecast only:
        the test is then a bet on one arm, on the side on which x has it.
        """
        if not self.bets:
            return evidence >= self.level
        shown = np.zeros(evidence.shape, dtype=bool)
        reps = self.reps.cells
        for up in (True, False):
            i, j = np.nonzero((evidence > -np.inf) & (self.up[x] == up))
            test = (x[i], j)
            agent = (rows[i], self.arms[test])
            rep = (j, self.cell[test])
            shift = self.shift[test]
            needed = self.level + self.bet_price[test]
            if up:
                shown[i, j] = reps.shows(rep, agent, shift, needed, cells)
            else:
                shown[i, j] = cells.shows(agent, rep, shift, needed, reps)
        return shown


def one_sided(
    n: Floats, mean: Floats, worth: Floats, reference: Floats, alternative: Floats, free: Floats
) -> Floats:
    """Evidence by Assumption 1: least value over u of ½ñ(R − u)² + the Wald ratio of ν to u.

    The agent's mean is at most u. The ratio is used for u below the alternative ν only; for larger
    u it is replaced by 1. `free` is the smallest value without this restriction.
    """
    centre = (worth * reference + n * mean) / (worth + n)
    edge = 0.5 * worth * (alternative - reference) ** 2
    value = np.where(centre < alternative, free, edge)
    return np.where(reference < alternative, value, 0.0)


def remaining(ruled_out: Array, guess: Ints) -> tuple[Array, Ints]:
    """From clusters (rows, R) ruled out so far: (rows,) whether one is left, and which.

    Where all are ruled out, an error was made; the guess is returned, so that the play ends.
    """
    left = (~ruled_out).sum(axis=1)
    return left <= 1, np.where(left == 1, ruled_out.argmin(axis=1), guess)
