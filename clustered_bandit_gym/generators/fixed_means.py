"""Your own bandits: fixed means, any number of agents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Ints, Rng
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.game.instance import Instance, mean_table
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian, RewardModel
from clustered_bandit_gym.game.tables import Bandits, read_bandits
from clustered_bandit_gym.generators.base import FixedBandits


@dataclass(frozen=True)
class FixedMeans(FixedBandits):
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

    means: Any
    n_agents: int = 0
    rewards: str | RewardModel = ""
    sigma: float = 1.0
    allow_ties: bool = False
    allow_overlap: bool = False

    def __post_init__(self) -> None:
        plain = vars(self)  # settings can be compared, printed and written to JSON
        if isinstance(self.means, str | os.PathLike):
            plain["means"] = os.fspath(self.means)
        else:
            plain["means"] = tuple(map(tuple, mean_table(self.means).tolist()))
        if self.n_agents == 0:
            plain["n_agents"] = len(self._data["means"])
        if not self.rewards:
            plain["rewards"] = "data" if "rewards" in self._data else "gaussian"
        for setting in ("allow_ties", "allow_overlap"):
            check_choice(setting, getattr(self, setting), (True, False))
        if not isinstance(self.sizes, str):
            if not np.iterable(self.sizes):
                raise UserError(
                    f"sizes takes a number for each cluster, got {self.sizes}; where lists are swept, "
                    "as on the command line, write [[3, 1]]"
                )
            plain["sizes"] = tuple(map(float, self.sizes))
            self._split()
        super().__post_init__()

    @cached_property
    def _data(self) -> Bandits:
        if isinstance(self.means, str):
            return read_bandits(self.means)
        return {"means": np.array(self.means)}

    @cached_property
    def bandits(self) -> Instance:
        data = self._data
        laws = {
            "gaussian": Gaussian(self.sigma),
            "bernoulli": Bernoulli(),
            "data": data.get("rewards"),
        }
        law = laws.get(str(self.rewards))
        if law is None:
            raise UserError(
                "rewards must be gaussian, bernoulli, or data for a file of (cluster, arm, reward) "
                f"rows (means alone have no law), got {self.rewards!r}"
            )
        return Instance(
            **{**data, "rewards": law},
            clusters=range(len(data["means"])),
            allow_ties=self.allow_ties,
            allow_overlap=self.allow_overlap,
        )

    def draw_clusters(self, rng: Rng, n: int | None = None) -> Ints:
        """(N,) the cluster of each agent."""
        if isinstance(self.sizes, str):
            return super().draw_clusters(rng, n)
        return rng.permutation(np.repeat(np.arange(self.n_clusters), self._split()))

    def _split(self) -> Ints:
        """(M,) numbers of agents in proportion to `sizes` (M,), by largest remainders."""
        n_clusters = len(self._data["means"])
        parts = np.array(self.sizes)
        if parts.shape != (n_clusters,) or not (parts >= 0).all() or not 0 < parts.sum() < np.inf:
            raise UserError(
                f"sizes must be {n_clusters} numbers >= 0 with a positive sum, got {self.sizes}"
            )
        exact = self.n_agents * parts / sum(self.sizes)
        sizes = np.floor(exact).astype(int)
        order = np.argsort(sizes - exact, kind="stable")
        sizes[order[: self.n_agents - sizes.sum()]] += 1
        return sizes
