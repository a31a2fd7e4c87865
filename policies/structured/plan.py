"""How to tell clusters apart: which arms an agent should pull, and which tests they feed."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.sequential.cells import BettingCells
from clustered_bandit_gym.policies.structured.budget import ClusterWeights
from clustered_bandit_gym.policies.structured.evidence import ClusterTests
from clustered_bandit_gym.policies.structured.representatives import Representatives
from clustered_bandit_gym.policies.structured.shares import max_min_shares

#: Cap on the pulls planned for an agent; keeps products with shares and batches within float64 integers.
HOPELESS = 2.0**40
#: Allocations are made at most this often, with pulls of representatives in between. With 2 ratings take 8% more pulls;
#: 6 is no better than 3 beyond noise.
ROUNDS = 3
#: Cap where η is told, as a multiple of what a difference of η takes. It binds only where noise hides all differences;
#: 1 and 4 give the same pulls beyond noise.
LENIENT = 2.0
#: A single arm with this share of the best rate that any mixture could have is used alone: the rates are noisy by more
#: than the difference, and one arm makes for a cheaper test.
GOOD_ENOUGH = 0.85
#: Shares found earlier are kept while their rate is this part of a bound on all others': a loss of 3% is less than the
#: noise of the rates. 0.9 and 0.99 give the same pulls beyond noise.
STILL_GOOD = 0.97
#: A cell that lacks less than this part of its goal is left as it is: an order for a few pulls is not worth a round.
NEAR = 0.05
#: Bets find less in a representative's pulls than the forecast says, so these get more. On MovieLens-like ratings 2
#: takes 16% ± 9 fewer pulls and 1.12 25% ± 20 more.
BET_MORE = 1.5


class Plan:
    """Arms and allocations for telling agents of R clusters apart.

    Everything here is a choice that costs pulls if it is poor and is valid whatever it is: `evidence.ClusterTests`
    charges for it.

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
        self.share = max(1.0, reps.federation.problem.n_agents / r - 1)
        self.weights = ClusterWeights(reps.budgets, r, eta)
        self.allocation = np.zeros((r, k))
        self.bounded = isinstance(reps.cells, BettingCells)
        self.set_kind(bets=False)
        self.arms = np.full((r, r, ClusterWeights.MOST_ARMS), -1)
        self.assumed = np.zeros((r, r), dtype=bool)
        self.alone = np.ones(r)
        self.pulls = np.ones(r)
        self._shares, self._rivals = np.full((r, k), 1 / k), np.full((r, r - 1), 1 / max(1, r - 1))

    def prepare(self) -> ClusterTests:
        """Choose arms and allocations, pull representatives where their noise would cost their agents more, and freeze
        the tests."""
        if self.bounded:
            self.choose_kind()
        for _ in range(ROUNDS):
            # An arm that seemed to tell clusters apart by chance is dropped again once it is known better.
            used = self.allocation > 0
            self._allocate()
            self._choose()
            if not self._sharpen():
                return self._freeze()
            if np.array_equal(used, self.allocation > 0):
                break
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
        self.set_kind(bool(pulls[1] < pulls[0]))

    def set_kind(self, bets: bool) -> None:
        """Plan bets, on one arm each, or tests by the sub-Gaussian property."""
        reps = self.reps
        self.bets, self.noise = bets, np.ones(reps.n.shape[1])
        self.price_of_kind = ClusterTests.BET_SLACK * bets + np.log(2) * self.bounded
        if bets:
            mean, variance = reps.mean, reps.cells.variance()
            self.noise = np.minimum(
                (reps.n * variance).sum(axis=0) / reps.n.sum(axis=0) + np.ptp(mean, axis=0) / 3, 1
            )

    @property
    def worth(self) -> Floats:
        """(R, K) the representatives' pulls, counted by what they are worth: one of variance σ²/4 as much as four."""
        return self.reps.n / self.noise

    def _mixing(self, n: Floats, wanted: Floats) -> tuple[Floats, Floats, Ints]:
        """For a cell with n pulls whose agents pull `wanted` times, the ρ that costs least: (price, ñ, its index)."""
        price, worth = self.weights.mixing(n)
        loss = price + self.beta * wanted[..., None] / (wanted[..., None] + worth)
        pick = loss.argmin(axis=-1)
        at = pick[..., None]
        return (
            np.take_along_axis(price, at, -1)[..., 0],
            np.take_along_axis(worth, at, -1)[..., 0],
            pick,
        )

    def _discount(self, rate: Floats, n: Floats, users: float) -> Floats:
        """What remains of the evidence per pull when the representative's own pulls are counted in."""
        with np.errstate(divide="ignore"):
            alone = self.beta / rate
        ratio = np.sqrt(users)
        return np.where(
            n >= alone * (1 + ratio), 1 / (1 + alone / np.maximum(n, 1)), 1 / (1 + 1 / ratio) ** 2
        )

    def _assumed_gap(self) -> Floats:
        """(R, R) how much more arm k_x gives at x than Assumption 1 lets it give at j; −inf without η."""
        if self.eta is None:
            return np.full((len(self.reps),) * 2, -np.inf)
        top = self.reps.mean[np.arange(len(self.reps)), self.best]
        return top[:, None] - (top[None, :] - self.eta)

    def _allocate(self) -> None:
        """Shares of the pulls: max_w min_j Σ_k w_k·(evidence per pull of arm k against j), for every x (Chernoff)."""
        reps = self.reps
        r, k = reps.n.shape
        rows = np.arange(r)
        variance = 1 / np.maximum(self.worth, 1)
        # A standard deviation off: of many noisy differences the largest is exaggerated.
        noise = np.sqrt(variance[:, None] + variance[None, :])
        apart = np.maximum(np.abs(reps.mean[:, None] - reps.mean[None, :]) - noise, 0) ** 2 / 2
        special = np.zeros((r, r, k), dtype=bool)
        special[rows, :, self.best] = True
        special[:, rows, self.best] = True
        price = np.where(special, self.weights.best, self.weights.any_arms[1])
        rate = apart * self.beta / (self.beta + price)
        rate *= self._discount(rate, self.worth[None, :], self.share / max(1, r - 1))
        gap = np.maximum(self._assumed_gap(), 0)
        assumed = gap**2 / 2 * self.beta / (self.beta + self.weights.assumed)
        assumed *= self._discount(assumed, self.worth[rows, self.best][None, :], self.share)
        rate[rows, :, self.best] = np.maximum(rate[rows, :, self.best], assumed)
        own = rate[~np.eye(r, dtype=bool)].reshape(r, r - 1, k)
        alone = own.min(axis=1)
        arm = alone.argmax(axis=1)
        self.allocation[:] = 0
        self.allocation[rows, arm] = 1
        # One arm is as good against all rivals as the best arm against the hardest: no mixture does better.
        mixed = np.flatnonzero(alone[rows, arm] < GOOD_ENOUGH * own.max(axis=2).min(axis=1))
        if mixed.size:
            self.allocation[mixed] = self._mix(mixed, own[mixed])

    def _mix(self, x: Ints, rates: Floats) -> Floats:
        """(n, K) shares for clusters x, from rates (n, R − 1, K): those of an earlier round where they still do.

        No shares can have a rate above max_k Σ_j y_j·rate_jk, whatever the weights y of the rivals are; the weights of
        the earlier round make this bound tight as long as the rates have changed little.
        """
        shares, rivals = self._shares[x], self._rivals[x]
        least = (rates @ shares[:, :, None])[:, :, 0].min(axis=1)
        most = (rivals[:, None, :] @ rates)[:, 0].max(axis=1)
        anew = np.flatnonzero(least < STILL_GOOD * most)
        if anew.size:
            shares[anew], rivals[anew] = max_min_shares(rates[anew])
            self._shares[x], self._rivals[x] = shares, rivals
        return np.where(shares > 1e-3, shares, 0)

    def _choose(self) -> None:
        """For every pair the kind of test and the arms with which it needs fewest pulls under the allocation."""
        reps = self.reps
        r = len(reps)
        rows = np.arange(r)
        weight = self.allocation[:, None, :]
        d2 = (reps.mean[:, None] - reps.mean[None, :]) ** 2 / 2
        order = np.argsort(-weight * d2, axis=2, kind="stable")[
            :, :, : 1 if self.bets else ClusterWeights.MOST_ARMS
        ]
        w = np.take_along_axis(np.broadcast_to(weight, d2.shape), order, 2)
        gain = np.cumsum(w * np.take_along_axis(d2, order, 2), axis=2)
        n_cell = self.worth[rows[None, :, None], order]
        wanted = np.maximum(self.pulls[:, None, None] * w, 1)
        mixing, _, _ = self._mixing(n_cell, wanted)
        ours = (order == self.best[:, None, None]) | (order == self.best[None, :, None])
        all_ours = np.logical_and.accumulate(ours, axis=2)
        sizes = np.arange(1, order.shape[2] + 1)
        cost = np.where(all_ours, self.weights.best, self.weights.any_arms[sizes]) + np.cumsum(
            mixing, axis=2
        )
        cost += self.weights.alternative + self.price_of_kind
        with np.errstate(divide="ignore"):
            need = np.where(w > 0, (self.beta + cost) / gain, np.inf)
        size = need.argmin(axis=2)
        need = np.take_along_axis(need, size[:, :, None], 2)[:, :, 0]
        used = np.arange(order.shape[2]) <= size[:, :, None]
        self.arms = np.where(used, order, -1)
        self._choose_assumed(need)
        np.fill_diagonal(need, 0)
        # Where noise hides all differences agents run out of patience, and estimates get sharper.
        self.alone = np.minimum(need.max(axis=1), self._most(cost))
        self.pulls = self.alone

    def _most(self, cost: Floats) -> float:
        """Pulls planned for an agent at most. By Assumption 1 two clusters differ by η or more on one of their best
        arms: if that of x is as good as that of j, it is at least η worse at j, and vice versa."""
        if self.eta is None:
            return HOPELESS
        return min(HOPELESS, LENIENT * 2 * (self.beta + float(cost.max())) / self.eta**2)

    def _choose_assumed(self, need: Floats) -> None:
        """Use the test by Assumption 1 where it needs fewer pulls, the representatives' among them."""
        reps = self.reps
        r = len(reps)
        rows = np.arange(r)
        gap = self._assumed_gap()
        w = self.allocation[rows, self.best]
        n_top = np.broadcast_to(self.worth[rows, self.best][None, :], (r, r))
        mixing, _, _ = self._mixing(n_top, np.maximum(self.pulls * w, 1)[:, None])
        cost = self.weights.alternative + self.weights.assumed + self.price_of_kind + mixing
        rate = np.maximum(gap, 0) ** 2 / 2 * w[:, None]
        with np.errstate(divide="ignore"):
            alone = np.where(rate > 0, (self.beta + cost) / rate, np.inf)
        direct = need / self._discount(
            self.beta / np.maximum(need, 1e-300), n_top * 0, self.share / max(1, r - 1)
        )
        ours = alone / self._discount(self.beta / alone, n_top, self.share)
        self.assumed = (ours < direct) & np.isfinite(alone)
        a, j = np.nonzero(self.assumed)
        self.arms[a, j] = -1
        self.arms[a, j, 0] = self.best[a]
        need[a, j] = alone[a, j]

    def _sharpen(self) -> bool:
        """Bring each cell that tests use to the pulls that make representatives and agents together cheapest.

        Returns whether there was anything to pull.

        If perfect knowledge of a cell lets an agent reject with n0 pulls, knowledge from n' pulls asks for n with
        1/n + 1/n' = 1/n0; the sum u·n (u agents) + c·n' (c cells) is least at n' = n0(1 + √(u/c)).
        """
        reps = self.reps
        r, k = reps.n.shape
        goal = np.zeros((r, k))
        x, j, slot = np.nonzero((self.arms >= 0) & ~np.eye(r, dtype=bool)[:, :, None])
        arm = self.arms[x, j, slot]
        each = self.alone[x] * self.allocation[x, arm]
        users = np.zeros((r, k))
        np.add.at(users, (x, arm), 1)
        assumed = self.assumed[x, j]
        ratio = np.where(assumed, self.share, self.share / users[x, arm])
        cell = np.where(assumed, self.best[j], arm)
        np.maximum.at(goal, (j, cell), each * (1 + np.sqrt(ratio)))
        np.maximum.at(goal, (x, arm), 2 * each)
        goal *= BET_MORE if self.bets else 1
        lack = goal - self.worth
        lack[lack < NEAR * goal] = 0
        reps.pull_where(np.maximum(lack, 0) * self.noise)
        return bool((lack > 0).any())

    def _freeze(self) -> ClusterTests:
        """The tests with the arms that were chosen, from the pulls as they are now."""
        reps = self.reps
        rows = np.arange(len(reps))
        arm = np.maximum(self.arms, 0)
        cell = np.where(self.assumed[:, :, None], self.best[None, :, None], arm)
        wanted = np.maximum(
            self.pulls[:, None, None] * self.allocation[rows[:, None, None], arm], 1
        )
        _, _, scale = self._mixing(self.worth[rows[None, :, None], cell], wanted)
        tests = ClusterTests(
            reps,
            self.best,
            self.eta,
            self.beta,
            self.weights,
            self.arms,
            self.assumed,
            scale,
            self.noise,
            self.bets,
        )
        self._expect(tests, arm)
        return tests

    def _expect(self, tests: ClusterTests, arm: Ints) -> None:
        """Pulls that an agent of x should take against its hardest rival, with representatives as noisy as they are."""
        rows = np.arange(len(self.reps))
        weight = np.where(self.arms >= 0, self.allocation[rows[:, None, None], arm], 0)
        d2 = (tests.estimate[rows[:, None, None], arm] - tests.reference) ** 2 / 2
        need = self.beta + tests.price
        pulls = np.broadcast_to(self.alone[:, None], need.shape)
        for _ in range(8):
            each = pulls[:, :, None] * weight
            got = (d2 * each * tests.worth / (each + tests.worth)).sum(axis=2)
            # Where the representatives are too noisy, agents run out of patience; expect at most four times as many.
            pulls = np.clip(
                pulls * need / np.maximum(got, 1e-9 * need), 1, 4 * self.alone[:, None] + 1
            )
        np.fill_diagonal(pulls, 0)
        self.pulls = pulls.max(axis=1)
