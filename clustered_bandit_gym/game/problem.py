"""`Problem`: what the learner is told of an instance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.instance import Instance

#: Default of `Problem.of`: tell the learner the true value. `None` means "not told".
TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Problem:
    """What the learner is told. `None` for M, η, η1 or the support means "not told".

    With a single cluster (M = 1) both assumptions hold for every η, so η and η1 are told as inf.

    Attributes:
        n_agents: number of agents N.
        n_arms: number of arms K.
        n_clusters: number of clusters M.
        delta: the learner may err on any agent with at most this probability.
        eta: separation of Assumption 1; a lower bound on the truth is enough.
        eta1: separation of Assumption 2; a lower bound on the truth is enough.
        sigma: rewards are σ-sub-Gaussian; sample sizes scale with σ². May exceed the model's own.
        support: (low, high), an interval that holds every reward, where there is one. May be wider
            than needed.
        epsilon: an arm counts as right if its mean is within ε of the agent's best; 0 asks for a
            best arm.
        max_pulls_per_agent: a pull that would give an agent more than this raises
            `BudgetExceeded`; None for no limit.
    """

    n_agents: int
    n_arms: int
    n_clusters: int | None
    delta: float
    eta: float | None = None
    eta1: float | None = None
    sigma: float = 1.0
    support: tuple[float, float] | None = None
    epsilon: float = 0.0
    max_pulls_per_agent: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_agents", "n_arms", "n_clusters", "max_pulls_per_agent"):
            value = getattr(self, name)
            if value is not None or name in ("n_agents", "n_arms"):
                object.__setattr__(self, name, whole(value, name))
        for name in ("delta", "eta", "eta1", "sigma", "epsilon"):
            value = getattr(self, name)
            if not isinstance(value, Real) and not (value is None and name in ("eta", "eta1")):
                raise UserError(f"{name} must be a number, got {value!r}")
        rules = {
            "delta": (0 < self.delta < 1, "lie strictly between 0 and 1"),
            "eta": (self.eta is None or self.eta > 0, "be positive (or None: not told)"),
            "eta1": (self.eta1 is None or self.eta1 > 0, "be positive (or None: not told)"),
            "sigma": (0 < self.sigma < np.inf, "be a finite number > 0"),
            "epsilon": (0 <= self.epsilon < np.inf, "be a finite number >= 0"),
        }
        for name, (holds, rule) in rules.items():
            if not holds:
                raise UserError(f"{name} must {rule}, got {getattr(self, name)}")
        if self.support is not None:
            ends = np.asarray(self.support, dtype=float)
            if ends.shape != (2,) or not -np.inf < ends[0] < ends[1] < np.inf:
                raise UserError(
                    f"support must be two finite numbers low < high (or None), got {self.support!r}"
                )
            object.__setattr__(self, "support", (float(ends[0]), float(ends[1])))

    @classmethod
    def of(
        cls,
        instance: Instance,
        delta: float,
        *,
        sigma: float | None = None,
        check: bool = True,
        **told: Any,
    ) -> Problem:
        """The problem of `instance`.

        Args:
            instance: the truth.
            delta: as above.
            sigma: as above; that of the reward model by default.
            check: refuse what the instance does not satisfy. False is for studying misspecified
                problems, where no guarantee holds.
            told: the other attributes. "truth", the default of `n_clusters`, `eta`, `eta1` and
                `support`, tells the true value where there is one; None hides it.
        """
        rewards = instance.rewards
        low, high = (
            [-np.inf, np.inf] if rewards.values is None else rewards.values[[0, -1]].tolist()
        )
        # An overlapping instance has no η, Assumption 2 may hold with η1 = 0 only, and rewards may
        # be unbounded, or all equal: then there is nothing to tell.
        known: Values = {
            "n_clusters": instance.n_clusters,
            "eta": instance.eta or None,
            "eta1": instance.eta1 or None,
            "sigma": (rewards.sigma or 1.0) if sigma is None else sigma,
            "support": (low, high) if -np.inf < low < high else None,
        }
        for name, value in told.items():
            if not isinstance(value, str):
                known[name] = value
            elif value != TRUTH:
                raise UserError(f"{name} must be a number, None or {TRUTH!r}, got {value!r}")
        problem = cls(instance.n_agents, instance.n_arms, delta=delta, **known)
        told_low, told_high = problem.support or (-np.inf, np.inf)
        # The truth, and whether it satisfies what is told; with small tolerances, since
        # 1 − (1 − 0.15) is not 0.15 in floating point.
        holds = {
            "n_clusters": (instance.n_clusters, known["n_clusters"] in (None, instance.n_clusters)),
            "eta": (instance.eta, (problem.eta or 0) <= instance.eta * (1 + 1e-9) + 1e-12),
            "eta1": (instance.eta1, (problem.eta1 or 0) <= instance.eta1 * (1 + 1e-9) + 1e-12),
            "sigma": (rewards.sigma, problem.sigma >= rewards.sigma * (1 - 1e-12)),
            "support": ((low, high), told_low <= low and high <= told_high),
        }
        for name, (true, held) in holds.items():
            if check and not held:
                own = '; generator_kwargs={"sigma": ...} sets that of a generator' * (
                    name == "sigma"
                )
                raise UserError(
                    f"told {name} = {known[name]}, which does not hold: the instance has {true}{own}; "
                    "check=False plays a misspecified problem"
                )
        return problem

    def to_dict(self) -> Values:
        """Plain values, as JSON knows them; the support is a list of two numbers."""
        return asdict(self) | {"support": None if self.support is None else list(self.support)}
