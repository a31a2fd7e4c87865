"""How to tell clusters apart: which arms an agent should pull, and which tests they feed."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.sequential.cells import BettingCells
from clustered_bandit_gym.policies.structured.budget import ClusterWeights
from clustered_bandit_gym.policies.structured.evidence import ClusterChoice, ClusterTests
from clustered_bandit_gym.policies.structured.representatives import Representatives, eta_in_sigmas
from clustered_bandit_gym.policies.structured.shares import max_min_shares
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Cap on the pulls planned for an agent; keeps products with shares within float64 integers.
HOPELESS = 2.0**40
#: Stands for a best arm that is not known.
UNKNOWN_BEST = -2


class Plan:
    """Arms and allocations for telling agents of R clusters apart.

    Everything here is a choice that costs pulls if it is poor and is valid whatever it is:
    `evidence.ClusterTests` charges for it.

    Args:
        reps: R representatives of different clusters.
        best: (R,) their best arms; `UNKNOWN_BEST` where these are not known.
        eta: η in units of σ; None rules out tests by Assumption 1.
        beta: evidence in nats that rules a cluster out.

    Attributes:
        allocation: (R, K) shares of the pulls when x leads.
        arms: (R, R, 3) arms in the test of j when x leads, −1 where there are fewer.
        assumed: (R, R) tests that rest on Assumption 1: one arm, one-sided.
        alone: (R,) pulls that an agent of x would take if the representatives' means were known.
        pulls: (R,) pulls that an agent of x should take, once it is guessed right.
    """

    def __init__(self, reps: Representatives, best: Ints, eta: float | None, beta: float) -> None:
        self.reps, self.best, self.eta, self.beta = reps, best, eta, beta
        r, k = reps.n.shape
        self.rows = np.arange(r)
        self.share = max(1.0, reps.federation.problem.n_agents / r - 1)
        # The grid of ρ is fixed before the data: it never depends on whether best arms are known.
        told = eta_in_sigmas(reps.federation.problem) if eta is None else eta
        self.weights = ClusterWeights(reps.budgets, r, told)
        self.allocation = np.zeros((r, k))
        self.bounded = isinstance(reps.cells, BettingCells)
        self.set_kind(bets=False)
        self.arms = np.full((r, r, ClusterWeights.MOST_ARMS), -1)
        self.assumed = np.zeros((r, r), dtype=bool)
        self.alone = np.ones(r)
        self.pulls = np.ones(r)

    def prepare(self) -> ClusterTests:
        """Choose arms and allocations, pull representatives where their noise would cost their
        agents more, and freeze the tests."""
        if self.bounded:
            self.choose_kind()
        for _ in range(3):
            # An arm that seemed to tell clusters apart by chance is dropped once known better.
            self._allocate()
            self._choose()
            self._sharpen()
        self._choose()
        self._sharpen()
        return self._freeze()

    def choose_kind(self) -> None:
        """Take the kind of test with which agents are expected to make fewer pulls."""
        pulls = []
        for bets in (False, True):
            self.set_kind(bets)
            self._allocate()
            self._choose()
            pulls.append(float((self.alone * (self.allocation @ self.noise)).sum()))
        self.set_kind(pulls[1] < pulls[0])

    def set_kind(self, bets: bool) -> None:
        """Plan bets, on one arm each, or tests by the sub-Gaussian property."""
        reps = self.reps
        self.bets = bets
        self.noise = np.ones(reps.n.shape[1])
        self.price_of_kind = TUNING.bet_slack * bets + np.log(2) * self.bounded
        if bets:
            variance = (reps.n * reps.cells.variance()).sum(axis=0) / reps.n.sum(axis=0)
            self.noise = np.minimum(variance + np.ptp(reps.mean, axis=0) / 3, 1)

    @property
    def worth(self) -> Floats:
        """(R, K) representatives' pulls by what they are worth: with variance σ²/4 four times."""
        return self.reps.n / self.noise

    def _allocate(self) -> None:
        """For every x the shares max_w min_j Σ_k w_k·(evidence per pull of k against j) (Chernoff)."""
        reps, rows = self.reps, self.rows
        r, k = reps.n.shape
        variance = 1 / np.maximum(self.worth, 1)
        # A standard deviation off: of many noisy differences the largest is exaggerated.
        noise = np.sqrt(variance[:, None] + variance[None, :])
        apart = np.maximum(np.abs(reps.mean[:, None] - reps.mean[None, :]) - noise, 0) ** 2 / 2
        is_best = np.arange(k) == self.best[:, None]
        either = is_best[:, None] | is_best[None, :]
        price = np.where(either, self.weights.best, self.weights.any_arms[1])
        rate = apart * self.beta / (self.beta + price)
        rate *= self._discount(rate, self.worth[None, :], self.share / max(1, r - 1))
        if self.eta is not None:
            top = self.worth[rows, self.best][None, :]
            assumed = self._assumed_gap() ** 2 / 2
            assumed *= self.beta / (self.beta + self.weights.assumed)
            assumed *= self._discount(assumed, top, self.share)
            rate[rows, :, self.best] = np.maximum(rate[rows, :, self.best], assumed)
        rivals = rate[~np.eye(r, dtype=bool)].reshape(r, r - 1, k)
        self.allocation = max_min_shares(rivals)

    def _discount(self, rate: Floats, n: Floats, users: float) -> Floats:
        """What remains of the evidence per pull when the representative's n pulls count in."""
        with np.errstate(divide="ignore"):
            alone = self.beta / rate
        ratio = np.sqrt(users)
        enough = n >= alone * (1 + ratio)
        return np.where(enough, 1 / (1 + alone / np.maximum(n, 1)), 1 / (1 + 1 / ratio) ** 2)

    def _assumed_gap(self) -> Floats:
        """(R, R) how much more arm k_x gives at x than Assumption 1 lets it give at j, if more."""
        if self.eta is None:
            return np.zeros((self.rows.size, self.rows.size))
        top = self.reps.mean[self.rows, self.best]
        return np.maximum(top[:, None] - (top[None, :] - self.eta), 0)

    def _choose(self) -> None:
        """For every pair the test, and its arms, that needs fewest pulls under the allocation."""
        mean = self.reps.mean
        weight = self.allocation[:, None, :]
        d2 = (mean[:, None] - mean[None, :]) ** 2 / 2
        most = 1 if self.bets else ClusterWeights.MOST_ARMS
        order = np.argsort(-weight * d2, axis=2, kind="stable")[:, :, :most]
        w = np.take_along_axis(np.broadcast_to(weight, d2.shape), order, 2)
        gain = np.cumsum(w * np.take_along_axis(d2, order, 2), axis=2)
        wanted = np.maximum(self.pulls[:, None, None] * w, 1)
        mixing, _ = self._mixing(self.worth[self.rows[None, :, None], order], wanted)
        ours = (order == self.best[:, None, None]) | (order == self.best[None, :, None])
        of_best = np.logical_and.accumulate(ours, axis=2)
        sizes = np.arange(1, order.shape[2] + 1)
        price = np.where(of_best, self.weights.best, self.weights.any_arms[sizes])
        price = price + np.cumsum(mixing, axis=2) + self.weights.alternative + self.price_of_kind
        with np.errstate(divide="ignore"):
            need = np.where(w > 0, (self.beta + price) / gain, np.inf)
        size = need.argmin(axis=2)
        self.arms = np.where(sizes - 1 <= size[:, :, None], order, -1)
        need = need.min(axis=2)
        self._choose_assumed(need)
        np.fill_diagonal(need, 0)
        # Where noise hides all differences agents run out of patience, and estimates get sharper.
        self.alone = np.minimum(need.max(axis=1), HOPELESS)
        self.pulls = self.alone * (1 + 1 / np.sqrt(self.share))

    def _choose_assumed(self, need: Floats) -> None:
        """Use the test by Assumption 1 where it needs fewer pulls, the representatives' included."""
        self.assumed = np.zeros(need.shape, dtype=bool)
        if self.eta is None:
            return
        w = self.allocation[self.rows, self.best]
        n_top = np.broadcast_to(self.worth[self.rows, self.best][None, :], need.shape)
        mixing, _ = self._mixing(n_top, np.maximum(self.pulls * w, 1)[:, None])
        price = self.weights.alternative + self.weights.assumed + self.price_of_kind + mixing
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = (self.beta + price) / (self._assumed_gap() ** 2 / 2 * w[:, None])
            direct = need / self._discount(self.beta / need, 0 * n_top, self.share / need.shape[0])
            assumed = alone / self._discount(self.beta / alone, n_top, self.share)
        self.assumed = (assumed < direct) & np.isfinite(alone)
        x, j = np.nonzero(self.assumed)
        self.arms[x, j] = -1
        self.arms[x, j, 0] = self.best[x]
        need[x, j] = alone[x, j]

    def _sharpen(self) -> None:
        """Bring each cell that tests use to the pulls that make all pulls together fewest.

        If perfect knowledge of a cell lets an agent reject with n0 pulls, knowledge from n' pulls
        asks for n with 1/n + 1/n' = 1/n0; the sum u·n (u agents) + c·n' (c cells) is least at
        n' = n0(1 + √(u/c)).
        """
        reps = self.reps
        goal, users = np.zeros(reps.n.shape), np.zeros(reps.n.shape)
        x, j, slot = np.nonzero((self.arms >= 0) & (self.rows[:, None] != self.rows)[:, :, None])
        arm = self.arms[x, j, slot]
        each = self.alone[x] * self.allocation[x, arm]
        np.add.at(users, (x, arm), 1)
        assumed = self.assumed[x, j]
        ratio = np.where(assumed, self.share, self.share / users[x, arm])
        np.maximum.at(goal, (j, np.where(assumed, self.best[j], arm)), each * (1 + np.sqrt(ratio)))
        np.maximum.at(goal, (x, arm), 2 * each)
        goal *= TUNING.bet_more if self.bets else 1
        reps.pull_where(np.maximum(goal - self.worth, 0) * self.noise)

    def _mixing(self, n: Floats, wanted: Floats) -> tuple[Floats, Ints]:
        """For cells with n pulls whose agents pull `wanted` times: the least price, and its ρ."""
        price, worth = self.weights.mixing(n)
        loss = price + self.beta * wanted[..., None] / (wanted[..., None] + worth)
        pick = loss.argmin(axis=-1)
        return np.take_along_axis(price, pick[..., None], -1)[..., 0], pick

    def _freeze(self) -> ClusterTests:
        """The tests with the arms that were chosen, from the pulls as they are now."""
        rows = self.rows
        arm = np.maximum(self.arms, 0)
        cell = np.where(self.assumed[:, :, None], self.best[None, :, None], arm)
        wanted = self.pulls[:, None, None] * self.allocation[rows[:, None, None], arm]
        _, scale = self._mixing(self.worth[rows[None, :, None], cell], np.maximum(wanted, 1))
        choice = ClusterChoice(
            self.arms, self.assumed, scale, self.bets, self.noise, TUNING.bet_slack * self.bets
        )
        return ClusterTests(self.reps, self.best, self.eta, self.beta, self.weights, choice)
