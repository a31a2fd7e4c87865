"""The expected pulls that every δ-PC learner needs on an instance: cutting planes over a linear
program.

Every alternative gives one linear constraint on the expected pulls P (`alternatives`). The least ΣP
under a finite pool of them is a lower bound. The alternatives that are hardest to rule out at
well-chosen points P join the pool, until its value is close to ΣP of a point that satisfies *all*
alternatives. The value is valid whenever the method is stopped: it is computed from multipliers of
the pool's constraints that are scaled to be feasible, and does not rest on the solver's tolerances.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.theory.alternatives import Truth, all_rows
from clustered_bandit_gym.theory.laws import laws_of

#: Constraints within this factor of being violated join the pool; those with more slack leave it.
#: Larger pools need as many programs, and take longer to solve.
_NEARLY = 1.01


class LowerBound(NamedTuple):
    """A lower bound on the expected pulls of an instance.

    Attributes:
        value: expected pulls that every δ-PC learner needs.
        gap: certified relative distance of `value` from the best bound that the families of
            alternatives give.
    """

    value: float
    gap: float


def information_needed(delta: float) -> float:
    """kl(δ, 1 − δ) = (1 − 2δ)·ln((1 − δ)/δ), or 0 for δ ≥ 1/2: the expected log-likelihood ratio
    that a δ-PC learner must collect against any instance with another answer (Kaufmann, Cappé and
    Garivier 2016, Lemma 1)."""
    if not 0 < delta < 1:
        raise UserError(f"delta must lie strictly between 0 and 1, got {delta}")
    return (1 - 2 * delta) * math.log((1 - delta) / delta) if delta < 0.5 else 0.0


def instance_lower_bound(
    instance: Instance, delta: float, eta: float | None = None, **options: Any
) -> float:
    """Expected pulls that every δ-PC learner needs: the value of `solve_lower_bound`."""
    return solve_lower_bound(instance, delta, eta, **options).value


def solve_lower_bound(
    instance: Instance,
    delta: float,
    eta: float | None = None,
    *,
    clusters_told: bool = True,
    tolerance: float = 0.01,
    max_programs: int = 60,
) -> LowerBound:
    """The lower bound of `instance` for learners that are δ-PC on all instances with N, K and what
    they are told.

    Deterministic: it stops at a certified gap of `tolerance` or after `max_programs` linear
    programs, never by the clock. The value is a valid lower bound either way.

    Args:
        eta: the η that the learner is told, at most the instance's own (the default); 0 for a
            learner that is not told η. A smaller η allows more instances, which can only raise the
            bound.
        clusters_told: whether the learner is told M.
        tolerance: certified relative gap at which to stop.
        max_programs: linear programs to solve at most.
    """
    if instance.eta <= 0:
        raise UserError("no lower bound: the instance violates Assumption 1")
    eta = instance.eta if eta is None else eta
    # η = ∞ is told where there is a single cluster: it excludes a second one, and constrains
    # nothing else.
    single = math.isinf(eta)
    if single:
        eta = min(instance.eta, float(np.ptp(instance.means)))
    if not 0 <= eta <= instance.eta * (1 + 1e-9) + 1e-12:
        raise UserError(
            f"eta must be at least 0 and at most the instance's {instance.eta:.6g}, got {eta}"
        )
    whole(max_programs, "max_programs")
    needed = information_needed(delta)
    # With one arm there is nothing to find out; noiseless rewards tell any two instances apart.
    if needed == 0 or instance.n_arms == 1 or instance.rewards.sigma == 0:
        return LowerBound(0.0, 0.0)
    # Bandits without agents come last. A learner that is not told M need not believe in them, only
    # in some further one.
    sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
    kept = np.argsort(sizes == 0, kind="stable")
    if not clusters_told:
        kept = kept[sizes[kept] > 0]
    spare = 0 in sizes or not (clusters_told or single)
    search = Search(Truth(laws_of(instance)[kept], sizes[kept], eta, spare))
    search.run(tolerance, max_programs)
    gap = search.upper / search.value - 1 if search.value > 0 else 0.0
    return LowerBound(needed * search.value, gap)


class Search:
    """Cutting planes for kl(δ, 1 − δ) = 1.

    Attributes:
        value: the largest valid lower bound found so far.
        upper, inside: the smallest ΣP found so far of a P that satisfies all alternatives, and that
            P.
        pool: rows of the alternatives that the program is solved over.
    """

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.value = 0.0
        self.upper = math.inf
        gaps = truth.gaps[: truth.n_played]
        # What it takes to tell an arm from the best one, in units of the largest spread.
        self.inside = 1 / np.maximum(gaps, max(truth.eta / 4, 1e-3 * gaps.max())) ** 2
        self.pool = csr_array((0, gaps.size))

    @np.errstate(divide="ignore")
    def run(self, tolerance: float, max_programs: int) -> None:
        """Solve programs until the gap is certified; without an alternative `value` stays 0."""
        self._ask(self.inside, 0.0)
        if math.isinf(self.upper):
            return
        centre = self.inside
        for nearly in (0.0, 0.0, 0.0, 1.5, 1.5):
            centre = centre * np.clip(1 / self._ask(centre, nearly), 0.25, 4.0)
        for program in range(1, max_programs + 1):
            outside = self._solve()
            if self.upper <= (1 + tolerance) * self.value or program == max_programs:
                break
            # A vertex of the pool jumps about from one program to the next; its running mean
            # settles, and nearly satisfies all alternatives since each is concave in P. Raising
            # the arms that still fall short mends it.
            centre = (centre + outside) / 2
            self._ask(0.95 * outside + 0.05 * centre)
            mended = centre
            for nearly in (_NEARLY, 0.0, 0.0):
                mended = mended * np.clip(1.02 / self._ask(mended, nearly), 1.0, 1.5)
            self._ask(mended)
            centre = (centre + mended) / 2

    def _ask(self, pulls: Floats, nearly: float = _NEARLY) -> Floats:
        """The hardest alternatives at `pulls`; those within the factor `nearly` of it join the pool.

        Returns, of the shape of `pulls`, the least value of an alternative that each cell carries:
        one to which it contributes at least a fifth of what its main cell does.
        """
        flat = pulls.ravel()
        least = math.inf
        carried = np.full(flat.size, np.inf)
        near: list[csr_array] = []
        for rows in all_rows(self.truth, pulls):
            values = rows @ flat
            least = float(values.min(initial=least))
            shares = rows.multiply(flat[None, :]).tocoo()
            largest = shares.max(axis=1).toarray().ravel()
            carries = shares.data >= 0.2 * largest[shares.row]
            np.minimum.at(carried, shares.col[carries], values[shares.row[carries]])
            near = [one[one @ flat < nearly * max(1.0, least)] for one in (*near, rows)]
        if 0 < least < math.inf and pulls.sum() / least < self.upper:
            self.upper = float(pulls.sum() / least)
            self.inside = pulls / least
        self.pool = vstack([self.pool, *near], "csr")
        return carried.reshape(pulls.shape)

    def _solve(self) -> Floats:
        """The program over the pool: raises `value`, drops what is slack, returns the cheapest P."""
        # Rows and unknowns of order one: the solver's tolerances are absolute, pulls run over many
        # orders of magnitude.
        unit = np.maximum(self.inside.ravel(), 1e-5 * self.inside.max())
        scaled = self.pool.multiply(unit[None, :]).tocsr()
        strongest = scaled.max(axis=1).toarray().ravel()
        scaled = scaled.multiply(1 / strongest[:, None]).tocsr()
        limit = 1 / strongest
        options: Any = {"dual_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}
        # Inner points are four times as fast at M = 20, K = 100.
        for method in ("highs-ipm", "highs"):
            found = linprog(unit / unit.mean(), -scaled, -limit, method=method, options=options)
            if found.success:
                break
        else:
            raise RuntimeError(f"the lower bound's linear program failed: {found.message}")
        multipliers = np.maximum(-found.ineqlin.marginals, 0.0) * limit * unit.mean()
        # Σ multipliers·(row @ P) ≥ Σ multipliers, and ≤ ΣP once no cell's load exceeds 1: a lower
        # bound by hand.
        load = (self.pool.T @ multipliers).max(initial=1.0)
        self.value = max(self.value, float(multipliers.sum() / load))
        outside = found.x * unit
        self.pool = self.pool[self.pool @ outside < _NEARLY]
        return outside.reshape(self.inside.shape)
