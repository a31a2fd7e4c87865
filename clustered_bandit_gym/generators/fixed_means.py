"""Your own bandits: fixed means, any number of agents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian, RewardModel
from clustered_bandit_gym.game.tables import Bandits, read_bandits
from clustered_bandit_gym.generators.base import SIZES, InstanceGenerator, shuffled


@dataclass(frozen=True)
class FixedMeans(InstanceGenerator):
    """Fixed bandits; every draw assigns the agents to them at random. The true η and η1 are told.

    Args:
        means: a table (M, K), or the path of a CSV file with a table of means or with (cluster,
            arm, reward) rows.
        n_agents: N; one agent per cluster by default.
        sizes: "equal", "uniform" or "power" as for all generators, or M numbers: the share of each
            cluster. Agents are split in proportion to the shares by largest remainders, in random
            order.
        rewards: "gaussian", "bernoulli", or "data" for the law that a file of raw rewards suggests
            (the default there).
        sigma: standard deviation of Gaussian rewards.
        allow_ties: accept bandits with several best arms; each of them counts as right.
        allow_overlap: accept clusters that share a best arm (Assumption 1 fails). No scheme has a
            guarantee there, and η is not told.
    """

    means: Any = None
    n_agents: int = 0
    sizes: Any = "equal"
    alpha: float = 0.0
    rewards: str | RewardModel = ""
    sigma: float = 1.0
    allow_ties: bool = False
    allow_overlap: bool = False
    name: ClassVar[str] = "fixed-means"

    def __post_init__(self) -> None:
        self.name_rewards()
        if self.means is None:
            raise UserError(
                "generator 'fixed-means' needs means: a table (clusters, arms) or the path of a CSV file"
            )
        if not isinstance(self.means, str | os.PathLike):
            try:
                table = np.array(self.means, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"means must be a table of numbers (clusters, arms): {error}"
                ) from None
            if table.ndim != 2 or not table.size:
                raise UserError(f"means must be a table (clusters, arms), got shape {table.shape}")
            # Plain tuples: the settings of a generator can be compared, printed and written to
            # JSON.
            object.__setattr__(self, "means", tuple(map(tuple, table.tolist())))
        else:
            object.__setattr__(self, "means", os.fspath(self.means))
        if not isinstance(self.sizes, str):
            object.__setattr__(self, "sizes", _shares(self.sizes, self.n_clusters))
        elif self.sizes not in SIZES:
            raise UserError(
                f"sizes must be one of {', '.join(SIZES)}, or one number per cluster; got {self.sizes!r}"
            )
        if self.n_agents == 0:
            object.__setattr__(self, "n_agents", self.n_clusters)
        if not self.rewards:
            object.__setattr__(
                self, "rewards", "gaussian" if self._bandits().rewards is None else "data"
            )
        self._law()
        for setting in ("allow_ties", "allow_overlap"):
            if not isinstance(getattr(self, setting), bool):
                raise UserError(f"{setting} must be True or False, got {getattr(self, setting)!r}")
        self._check_best_arms()
        if isinstance(self.sizes, str):
            super().__post_init__()

    @property
    def n_clusters(self) -> int:  # type: ignore[override]
        return int(self._bandits().means.shape[0])

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return int(self._bandits().means.shape[1])

    def __call__(self, rng: np.random.Generator) -> Instance:
        bandits, law = self._bandits(), self._law()
        return Instance(
            bandits.means,
            self.draw_clusters(rng),
            law,
            arm_names=bandits.arm_names,
            cluster_names=bandits.cluster_names,
            allow_ties=self.allow_ties,
            allow_overlap=self.allow_overlap,
        )

    def draw_clusters(self, rng: np.random.Generator, n: int | None = None) -> Ints:
        """(N,) the cluster of each agent."""
        if isinstance(self.sizes, str):
            return super().draw_clusters(rng, n)
        return shuffled(
            rng, np.repeat(np.arange(self.n_clusters), split(self.n_agents, self.sizes)), n
        )

    def _bandits(self) -> Bandits:
        if isinstance(self.means, str):
            path = Path(self.means)
            changed = path.stat().st_mtime_ns if path.exists() else 0
            return _read(self.means, changed)
        return Bandits(np.array(self.means), None, None, None)

    def _check_best_arms(self) -> None:
        """Refuse ties and shared best arms unless they are allowed, by the names that the file
        gives."""
        bandits = self._bandits()
        found = Instance(
            bandits.means,
            np.arange(self.n_clusters),
            self._law(),
            allow_ties=True,
            allow_overlap=True,
        )
        clusters, arms = (
            bandits.cluster_names or range(found.n_clusters),
            bandits.arm_names or range(found.n_arms),
        )
        tied = np.flatnonzero(found.is_best.sum(axis=1) > 1)
        if tied.size and not self.allow_ties:
            m = int(tied[0])
            best = " and ".join(str(arms[k]) for k in np.flatnonzero(found.is_best[m]))
            raise UserError(
                f"cluster {clusters[m]} has several best arms, {best}; make the best arm unique, or {_allow('ties')}"
            )
        if found.eta <= 0 and not self.allow_overlap:
            a, b = found.closest_pair()
            shared = int(np.flatnonzero(found.is_best[a] & found.is_best[b])[0])
            raise UserError(
                f"Assumption 1 fails: clusters {clusters[a]} and {clusters[b]} share the best arm {arms[shared]}; "
                f"merge the clusters or correct the means, or {_allow('overlap')}"
            )

    def _law(self) -> RewardModel:
        if self.rewards == "data":
            law = self._bandits().rewards
            if law is None:
                raise UserError(
                    "rewards='data' needs a file of (cluster, arm, reward) rows; means alone have no law"
                )
            return law
        if self.rewards == "bernoulli":
            return Bernoulli()
        if self.rewards != "gaussian":
            raise UserError(f"rewards must be gaussian, bernoulli or data, got {self.rewards!r}")
        return Gaussian(self.sigma)


@lru_cache(maxsize=16)
def _read(path: str, changed: int) -> Bandits:
    """The file, parsed once as long as it does not change."""
    return read_bandits(path)


def _allow(what: str) -> str:
    return f"pass allow_{what}=True to play it all the same (command line: --set allow_{what}=true)"


def _shares(values: Any, n_clusters: int) -> tuple[float, ...]:
    try:
        shares = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise UserError(f"sizes must be a name or one number per cluster, got {values!r}") from None
    if len(shares) != n_clusters:
        raise UserError(f"sizes needs {n_clusters} numbers, one per cluster; got {len(shares)}")
    if not all(np.isfinite(share) and share >= 0 for share in shares) or sum(shares) <= 0:
        raise UserError(f"sizes must be numbers >= 0 with a positive sum, got {shares}")
    return shares


def split(n_agents: int, shares: Sequence[float]) -> Ints:
    """(M,) whole numbers that add up to `n_agents`, in proportion to `shares` (M,), by largest
    remainders."""
    exact = n_agents * np.asarray(shares, dtype=np.float64) / sum(shares)
    sizes = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - sizes), kind="stable")
    sizes[order[: n_agents - int(sizes.sum())]] += 1
    return sizes
