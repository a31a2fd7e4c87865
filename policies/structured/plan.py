"""How to tell clusters apart: which arms an agent should pull, and which tests they feed."""

from __future__ import annotations

from math import ceil, lgamma, log
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array, hstack

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.policies.structured.budget import nats
from clustered_bandit_gym.policies.structured.representatives import Representatives

#: Arms that one test of one rival may use.
MOST_ARMS = 3
#: Weights of the kinds of test: by Assumption 1 on the best arm of x; on best arms of x and j (three sets of them); on
#: up to three arms chosen among all (three sizes). They sum to one.
WEIGHT_ASSUMED, WEIGHT_BEST, WEIGHT_ANY = 0.4, 0.1, 0.1
#: Columns of the linear program: so many arms for every rival.
COLUMNS = 3
#: Pulls of an agent beyond which no plan goes.
HOPELESS = 2.0**40
#: A single arm that is this good, beside the best that a mixture could be, is taken as it is.
GOOD_ENOUGH = 0.85


class Plan:
    """Arms, allocations and prices for telling agents of R clusters apart.

    Attributes:
        allocation: (R, K) shares of the pulls when x leads.
        arms: (R, R, 3) arms in the test of j when x leads, −1 where there are fewer.
        reference: (R, R, 3) mean of that arm in cluster j by the representatives' pulls, or the highest that
            Assumption 1 leaves.
        worth: (R, R, 3) ñ of that reference.
        assumed: (R, R) tests that rest on Assumption 1: one arm, one-sided.
        price: (R, R) evidence paid for weights and mixing.
        pulls: (R,) pulls that an agent of x should take, once it is guessed right.
    """

    def __init__(self, reps: Representatives, best: Ints, eta: float | None, beta: float) -> None:
        self.reps, self.best, self.eta, self.beta = reps, best, eta, beta
        r, k = reps.n.shape
        self.share = max(1.0, reps.federation.problem.n_agents / r - 1)
        # ρ of the representatives' cells: a grid with half the weight on the pulls that Assumption 1 suggests.
        # It must not depend on rewards, so it is tuned to the level of a first attempt, not to that of this one.
        centre = 2 * nats(reps.budgets.classify()) / (eta if eta is not None else 0.3) ** 2
        below = max(1, ceil(log(centre / 16, 8)))
        self.rho = centre * 8.0 ** np.arange(-below, 5)
        self.rho_price = np.full(self.rho.size, log(2 * (self.rho.size - 1)))
        self.rho_price[below] = log(2)
        self.log_rivals = log(max(1, r - 1))
        self.any_price = np.array([_log_comb(k, d) for d in range(MOST_ARMS + 1)]) - log(WEIGHT_ANY)
        self.allocation = np.zeros((r, k))
        self.arms = np.full((r, r, MOST_ARMS), -1)
        self.reference = np.zeros((r, r, MOST_ARMS))
        self.worth = np.ones((r, r, MOST_ARMS))
        self.assumed = np.zeros((r, r), dtype=bool)
        self.price = np.zeros((r, r))
        self.alone = np.ones(r)
        self.pulls = np.ones(r)

    def prepare(self) -> None:
        """Choose arms and allocations, and pull representatives where their noise would cost their agents more."""
        self._allocate()
        self._choose()
        self._sharpen()
        self._choose()
        self._sharpen()
        self._freeze()

    def _mixing(self, n: Floats, wanted: Floats) -> tuple[Floats, Floats]:
        """For a cell with n pulls whose agents pull `wanted` times: (price of mixing and of the choice of ρ, ñ)."""
        n = np.maximum(n, 1)[..., None]
        price = 0.5 * np.log1p(n / self.rho) + self.rho_price
        worth = n * n / (n + self.rho)
        loss = price + self.beta * wanted[..., None] / (wanted[..., None] + worth)
        pick = loss.argmin(axis=-1)[..., None]
        return np.take_along_axis(price, pick, -1)[..., 0], np.take_along_axis(worth, pick, -1)[..., 0]

    def _discount(self, rate: Floats, n: Floats, users: float) -> Floats:
        """What remains of the evidence per pull when the representative's own pulls are counted in."""
        with np.errstate(divide="ignore"):
            alone = self.beta / rate
        ratio = np.sqrt(users)
        return np.where(n >= alone * (1 + ratio), 1 / (1 + alone / np.maximum(n, 1)), 1 / (1 + 1 / ratio) ** 2)

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
        variance = 1 / np.maximum(reps.n, 1)
        # A standard deviation off: of many noisy differences the largest is exaggerated.
        noise = np.sqrt(variance[:, None] + variance[None, :])
        apart = np.maximum(np.abs(reps.mean[:, None] - reps.mean[None, :]) - noise, 0) ** 2 / 2
        special = np.zeros((r, r, k), dtype=bool)
        special[rows, :, self.best] = True
        special[:, rows, self.best] = True
        price = np.where(special, -log(WEIGHT_BEST), self.any_price[1])
        rate = apart * self.beta / (self.beta + price)
        rate *= self._discount(rate, reps.n[None, :], self.share / max(1, r - 1))
        gap = np.maximum(self._assumed_gap(), 0)
        assumed = gap**2 / 2 * self.beta / (self.beta - log(WEIGHT_ASSUMED))
        assumed *= self._discount(assumed, reps.n[rows, self.best][None, :], self.share)
        rate[rows, :, self.best] = np.maximum(rate[rows, :, self.best], assumed)
        others = ~np.eye(r, dtype=bool)
        self.allocation[:] = 0
        blocks, columns, which = [], [], []
        for x in range(r):
            own = rate[x][others[x]]
            alone = own.min(axis=0)
            if alone.max() >= GOOD_ENOUGH * own.max(axis=1).min():
                # One arm is as good against all rivals as the best arm against the hardest: no mixture does better.
                self.allocation[x, alone.argmax()] = 1
                continue
            top = np.unique(np.argsort(-own, axis=1)[:, :COLUMNS])
            which.append(x)
            columns.append(top)
            blocks.append(own[:, top])
        for x, top, shares in zip(which, columns, max_min_shares(blocks), strict=True):
            self.allocation[x, top] = np.where(shares > 1e-3, shares, 0)

    def _choose(self) -> None:
        """For every pair the kind of test and the arms with which it needs fewest pulls under the allocation."""
        reps = self.reps
        r = len(reps)
        rows = np.arange(r)
        weight = self.allocation[:, None, :]
        d2 = (reps.mean[:, None] - reps.mean[None, :]) ** 2 / 2
        order = np.argsort(-weight * d2, axis=2, kind="stable")[:, :, :MOST_ARMS]
        w = np.take_along_axis(np.broadcast_to(weight, d2.shape), order, 2)
        gain = np.cumsum(w * np.take_along_axis(d2, order, 2), axis=2)
        n_cell = reps.n[rows[None, :, None], order]
        wanted = np.maximum(self.pulls[:, None, None] * w, 1)
        mixing, worth = self._mixing(n_cell, wanted)
        ours = (order == self.best[:, None, None]) | (order == self.best[None, :, None])
        all_ours = np.logical_and.accumulate(ours, axis=2)
        sizes = np.arange(1, order.shape[2] + 1)
        cost = np.where(all_ours, -log(WEIGHT_BEST), self.any_price[sizes]) + np.cumsum(mixing, axis=2)
        cost += self.log_rivals
        with np.errstate(divide="ignore"):
            need = np.where(w > 0, (self.beta + cost) / gain, np.inf)
        size = need.argmin(axis=2)
        need = np.take_along_axis(need, size[:, :, None], 2)[:, :, 0]
        self.price = np.take_along_axis(cost, size[:, :, None], 2)[:, :, 0]
        used = np.arange(order.shape[2]) <= size[:, :, None]
        self.arms = np.where(used, order, -1)
        self.worth = worth
        self.reference = np.take_along_axis(np.broadcast_to(reps.mean[None], d2.shape), order, 2)
        self._choose_assumed(need)
        np.fill_diagonal(need, 0)
        # No arm seems to differ where noise hides it: any number will do, the agents will ask for sharper estimates.
        self.alone = np.minimum(need.max(axis=1), HOPELESS)
        self.pulls = self.alone

    def _choose_assumed(self, need: Floats) -> None:
        """Use the test by Assumption 1 where it needs fewer pulls, the representatives' among them."""
        reps = self.reps
        r = len(reps)
        rows = np.arange(r)
        gap = self._assumed_gap()
        w = self.allocation[rows, self.best]
        n_top = np.broadcast_to(reps.n[rows, self.best][None, :], (r, r))
        mixing, worth = self._mixing(n_top, np.maximum(self.pulls * w, 1)[:, None])
        cost = self.log_rivals - log(WEIGHT_ASSUMED) + mixing
        rate = np.maximum(gap, 0) ** 2 / 2 * w[:, None]
        with np.errstate(divide="ignore"):
            alone = np.where(rate > 0, (self.beta + cost) / rate, np.inf)
        direct = need / self._discount(self.beta / np.maximum(need, 1e-300), n_top * 0, self.share / max(1, r - 1))
        ours = alone / self._discount(self.beta / alone, n_top, self.share)
        self.assumed = (ours < direct) & np.isfinite(alone)
        a, j = np.nonzero(self.assumed)
        self.arms[a, j] = -1
        self.arms[a, j, 0] = self.best[a]
        top = reps.mean[rows, self.best]
        self.reference[a, j, 0] = (top[j] - self.eta) if self.eta is not None else 0.0
        self.worth[a, j, 0] = worth[a, j]
        self.price[a, j] = cost[a, j]
        need[a, j] = alone[a, j]

    def _sharpen(self) -> None:
        """Bring each cell that tests use to the pulls that make representatives and agents together cheapest.

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
        reps.pull_where(np.maximum(goal - reps.n, 0))

    def _freeze(self) -> None:
        """Prices and references from the pulls as they are now, for the arms that were chosen."""
        reps = self.reps
        r = len(reps)
        rows = np.arange(r)
        arm = np.maximum(self.arms, 0)
        cell = np.where(self.assumed[:, :, None], self.best[None, :, None], arm)
        j = rows[None, :, None]
        wanted = np.maximum(self.pulls[:, None, None] * self.allocation[rows[:, None, None], arm], 1)
        mixing, self.worth = self._mixing(reps.n[j, cell], wanted)
        shift = self.eta if self.eta is not None else 0.0
        self.reference = reps.mean[j, cell] - np.where(self.assumed[:, :, None], shift, 0.0)
        used = self.arms >= 0
        ours = ((self.arms == self.best[:, None, None]) | (self.arms == self.best[None, :, None]) | ~used).all(axis=2)
        kind = np.where(ours, -log(WEIGHT_BEST), self.any_price[used.sum(axis=2)])
        kind = np.where(self.assumed, -log(WEIGHT_ASSUMED), kind)
        self.price = self.log_rivals + kind + np.where(used, mixing, 0).sum(axis=2)
        self.estimate = reps.mean.copy()
        self._expect(arm, used)

    def _expect(self, arm: Ints, used: np.ndarray) -> None:
        """Pulls that an agent of x should take against its hardest rival, with representatives as noisy as they are."""
        rows = np.arange(len(self.reps))
        weight = np.where(used, self.allocation[rows[:, None, None], arm], 0)
        d2 = (self.estimate[rows[:, None, None], arm] - self.reference) ** 2 / 2
        need = self.beta + self.price
        pulls = np.broadcast_to(self.alone[:, None], need.shape)
        for _ in range(8):
            each = pulls[:, :, None] * weight
            got = (d2 * each * self.worth / (each + self.worth)).sum(axis=2)
            # A reference too noisy to ever do is found out by the agents; expect no more than four times as many.
            pulls = np.clip(pulls * need / np.maximum(got, 1e-9 * need), 1, 4 * self.alone[:, None] + 1)
        np.fill_diagonal(pulls, 0)
        self.pulls = pulls.max(axis=1)


def max_min_shares(blocks: list[Floats]) -> list[Floats]:
    """For every matrix (rivals, arms) the shares w ≥ 0, Σw = 1, that maximise min_j Σ_k w_k·matrix[j, k].

    One sparse linear program for all of them.
    """
    if not blocks:
        return []
    sizes = [block.shape[1] for block in blocks]
    scaled = [block / max(block.max(initial=0), 1e-300) for block in blocks]
    rows = [csr_array(-block) for block in scaled]
    ones = [np.ones((block.shape[0], 1)) for block in scaled]
    a_ub = hstack([block_diag(rows), block_diag(ones)], format="csr")
    sums: Any = block_diag([np.ones((1, size)) for size in sizes])
    a_eq = hstack([sums, csr_array((len(sizes), len(sizes)))], format="csr")
    total = sum(sizes)
    cost = np.concatenate([np.zeros(total), -np.ones(len(sizes))])
    found = linprog(
        cost,
        A_ub=a_ub,
        b_ub=np.zeros(a_ub.shape[0]),
        A_eq=a_eq,
        b_eq=np.ones(len(sizes)),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None:
        return [np.full(size, 1 / size) for size in sizes]
    shares = np.split(np.clip(found.x[:total], 0, 1), np.cumsum(sizes)[:-1])
    return [share / share.sum() for share in shares]


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) if 0 <= k <= n else 0.0
