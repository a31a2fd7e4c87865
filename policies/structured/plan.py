"""How to tell clusters apart: which arms an agent should pull, and which tests they feed."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.sequential.cells import BettingCells
from clustered_bandit_gym.policies.structured.budget import ClusterWeights
from clustered_bandit_gym.policies.structured.evidence import ClusterChoice, ClusterTests
from clustered_bandit_gym.policies.structured.representatives import Representatives, eta_in_sigmas
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Cap on the pulls planned for an agent; keeps sums within float64 integers.
HOPELESS = 2.0**40
#: Stands for a best arm that is not known.
UNKNOWN_BEST = -2


class Plan:
    """Arms for telling agents of R clusters apart.

    Everything here is a choice that costs pulls if it is poor and is valid whatever it is:
    `evidence.ClusterTests` charges for it.

    Args:
        reps: R representatives of different clusters.
        best: (R,) their best arms; `UNKNOWN_BEST` where these are not known.
        eta: η in units of σ; None rules out tests by Assumption 1.
        beta: evidence in nats that rules a cluster out.

    Attributes:
        arms: (R, R) the arm in the test of j when x leads.
        assumed: (R, R) tests that rest on Assumption 1: arm k_x, one-sided.
        each: (R, K) pulls of an arm that an agent of x would take if all means were known.
        pulls: (R,) pulls that an agent of x should take, once it is guessed right.
    """

    def __init__(self, reps: Representatives, best: Ints, eta: float | None, beta: float) -> None:
        self.reps, self.best, self.eta, self.beta = reps, best, eta, beta
        r = len(reps)
        self.rows = np.arange(r)
        self.users = max(1.0, reps.federation.problem.n_agents / r - 1)
        # The grid of ρ is fixed before the data: it never depends on whether best arms are known.
        told = eta_in_sigmas(reps.federation.problem) if eta is None else eta
        self.weights = ClusterWeights(reps.budgets, r, told)
        self.bounded = isinstance(reps.cells, BettingCells)
        self.set_kind(bets=False)

    def prepare(self) -> ClusterTests:
        """Choose arms, pull representatives where their noise would cost their agents more, and
        freeze the tests."""
        if self.bounded:
            self.choose_kind()
        for _ in range(4):
            # An arm that seemed to tell clusters apart by chance is dropped once known better.
            self._choose()
            self._sharpen()
        return self._freeze()

    def choose_kind(self) -> None:
        """Take the kind of test with which agents are expected to make fewer pulls."""
        pulls = []
        for bets in (False, True):
            self.set_kind(bets)
            self._choose()
            pulls.append(float((self.each @ self.noise).sum()))
        self.set_kind(pulls[1] < pulls[0])

    def set_kind(self, bets: bool) -> None:
        """Plan bets or tests by the sub-Gaussian property."""
        reps = self.reps
        self.bets = bets
        self.noise = np.ones(reps.n.shape[1])
        if bets:
            variance = (reps.n * reps.cells.variance()).sum(axis=0) / reps.n.sum(axis=0)
            self.noise = np.minimum(variance + np.ptp(reps.mean, axis=0) / 3, 1)

    @property
    def worth(self) -> Floats:
        """(R, K) representatives' pulls by what they are worth: with variance σ²/4 four times."""
        return self.reps.n / self.noise

    def _choose(self) -> None:
        """Choose the arms that rule out all rivals of x with few pulls.

        Rivals that need many pulls come first; each takes the arm that adds fewest. A rival that
        needs no more of an arm than another one is ruled out for nothing.
        """
        r, k = self.reps.n.shape
        rows = self.rows
        need, total, assumed = self._needs()
        self.arms = np.zeros((r, r), dtype=np.int64)
        self.assumed = np.zeros((r, r), dtype=bool)
        self.each, cost = np.zeros((r, k)), np.zeros((r, k))
        order = np.argsort(-total.min(axis=2), axis=1, kind="stable")
        for rival in order[:, : r - 1].T:
            own = total[rows, rival]
            # Of arms that add the same, the one that needs least.
            arm = (np.maximum(own - cost, 0) + 1e-3 * own).argmin(axis=1)
            cost[rows, arm] = np.maximum(cost[rows, arm], own[rows, arm])
            self.each[rows, arm] = np.maximum(self.each[rows, arm], need[rows, rival, arm])
            self.arms[rows, rival] = arm
            self.assumed[rows, rival] = assumed[rows, rival] & (arm == self.best)
        self.pulls = np.maximum(self.each.sum(axis=1) * (1 + 1 / np.sqrt(self.users)), 1)

    def _needs(self) -> tuple[Floats, Floats, np.ndarray]:
        """(R, R, K) pulls of an arm at an agent of x that rule out j if all means were known, the
        same with the representatives' part; (R, R) Assumption 1 is the cheaper way for arm k_x."""
        reps, rows, weights = self.reps, self.rows, self.weights
        r, k = reps.n.shape
        # Mixing costs a representative about 3 nats; the other kind of test has half the weight.
        level = self.beta + weights.alternative + 3 + np.log(2) * self.bounded
        level += TUNING.bet_slack * self.bets
        is_best = np.arange(k) == self.best[:, None]
        price = np.where(is_best[:, None] | is_best, weights.best_arm, weights.any_arm)
        variance = 1 / np.maximum(self.worth, 1)
        # A standard deviation off: of many noisy differences the largest is exaggerated.
        noise = np.sqrt(variance[:, None] + variance)
        apart = np.maximum(np.abs(reps.mean[:, None] - reps.mean) - noise, 0)
        need = _pulls(level + price, apart)
        total = self._with_representatives(need, self.worth, self.users / r)
        assumed = np.zeros((r, r), dtype=bool)
        if self.eta is not None:
            top = reps.mean[rows, self.best]
            alone = _pulls(level + weights.assumed, np.maximum(top[:, None] - top + self.eta, 0))
            whole = self._with_representatives(alone, self.worth[rows, self.best], self.users)
            assumed = whole < total[rows, :, self.best]
            x, j = np.nonzero(assumed)
            need[x, j, self.best[x]] = alone[x, j]
            total[x, j, self.best[x]] = whole[x, j]
        need[rows, rows] = total[rows, rows] = 0
        return need, total, assumed

    def _with_representatives(self, need: Floats, n: Floats, users: float) -> Floats:
        """`need` with what the noise of a representative with n pulls, or more pulls of it, cost."""
        ratio = np.sqrt(users)
        enough = n >= need * (1 + ratio)
        factor = np.where(enough, 1 + need / np.maximum(n, 1), (1 + 1 / ratio) ** 2)
        return np.minimum(need * factor, HOPELESS)

    def _sharpen(self) -> None:
        """Bring each cell that tests use to the pulls that make all pulls together fewest.

        If perfect knowledge of a cell lets an agent reject with n0 pulls, knowledge from n' pulls
        asks for n with 1/n + 1/n' = 1/n0; the sum u·n (u agents) + c·n' (c cells) is least at
        n' = n0(1 + √(u/c)).
        """
        reps = self.reps
        goal, cells = np.zeros(reps.n.shape), np.zeros(reps.n.shape)
        x, j = np.nonzero(self.rows[:, None] != self.rows)
        arm, assumed = self.arms[x, j], self.assumed[x, j]
        each = self.each[x, arm]
        np.add.at(cells, (x, arm), 1)
        ratio = self.users / np.where(assumed, 1, cells[x, arm])
        cell = np.where(assumed, self.best[j], arm)
        np.maximum.at(goal, (j, cell), each * (1 + np.sqrt(ratio)))
        np.maximum.at(goal, (x, arm), 2 * each)
        goal *= TUNING.bet_more if self.bets else 1
        reps.pull_where(np.maximum(goal - self.worth, 0) * self.noise)

    def _freeze(self) -> ClusterTests:
        """The tests with the arms that were chosen and the ρ that suit, from the pulls so far."""
        cell = np.where(self.assumed, self.best, self.arms)
        price, worth = self.weights.mixing(self.worth[self.rows, cell])
        wanted = np.maximum(self.each[self.rows[:, None], self.arms], 1)[..., None]
        scale = (price + self.beta * wanted / (wanted + worth)).argmin(axis=-1)
        slack = TUNING.bet_slack * self.bets
        choice = ClusterChoice(self.arms, self.assumed, scale, self.bets, self.noise, slack)
        return ClusterTests(self.reps, self.best, self.eta, self.beta, self.weights, choice)


def _pulls(level: Floats, gap: Floats) -> Floats:
    """Pulls that show a difference `gap` with `level` nats."""
    return np.minimum(2 * level / np.maximum(gap, 1e-9) ** 2, HOPELESS)
