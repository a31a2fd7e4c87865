"""Ways to err: families of tilts, each with a few numbers that a search can fit.

A policy sees averages, not means. For a rival to win, its average must come out ahead of the best
arm's by some *lead*, whatever the two true means are; so one lead serves every cluster and every
rival, and a way found with one of them covers the others. A *member* of a way is one agent's role
together with what it is led to: a rival arm, or another cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.instance import Instance
from research.rare.source import WINDOWS, Tilt, first_draw
from research.rare.tilt import Law

#: Share of a way's plays that goes to members as the prior has them, whatever a fit says.
PRIOR_SHARE = 0.2


class World(NamedTuple):
    """The truth as a way to err needs it."""

    instance: Instance
    law: Law
    sizes: Ints  # (M,) agents of each cluster

    @classmethod
    def of(cls, instance: Instance) -> World:
        return cls(
            instance, Law(instance), np.bincount(instance.clusters, minlength=instance.n_clusters)
        )


class Moments(NamedTuple):
    """What a fit needs of one wrong play, weighted by how far each member explains it.

    `total`: sum of these responsibilities; `members`: (M, C) by cluster and choice; `values`: the
    way's statistics.
    """

    total: float
    members: Floats
    values: Floats


@dataclass(frozen=True, eq=False)
class Way(ABC):
    """Attributes:
    world: the truth.
    start, stop: the windows [start, stop) of an agent's draws that are tilted.
    first: only the first agent of a cluster to be pulled (else every agent with the same
        probability).
    gated: the tilt ends when the agent's best arm is no longer in play.
    prior: (M, C) probability of each cluster and choice; sums to 1.
    members: (M, C) the fitted probabilities; by default the prior.
    """

    world: World
    start: int
    stop: int
    first: bool
    gated: bool
    prior: Floats
    members: Floats

    @abstractmethod
    def shift(self, cluster: int, choice: int) -> Floats:
        """(K,) by how much the mean of each arm is moved at the member's agent."""

    @abstractmethod
    def log_ratios(self, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        """(A, C) ln dQ/dP of each choice for agents of `clusters`, from pulls and centred sums (A,
        K).
        """

    @abstractmethod
    def values(self, parts: Floats, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        """Statistics for `fitted`, weighted by `parts` (A, C)."""

    @abstractmethod
    def fitted(self, values: Floats) -> Way | None:
        """The way with the strength that the mean `values` of wrong plays suggest; None if they
        suggest none.
        """

    @abstractmethod
    def stronger(self, factor: float) -> Way:
        """The same way with all shifts larger by about `factor`."""

    @property
    @abstractmethod
    def strength(self) -> tuple[float, ...]:
        """The fitted numbers on a scale where 0.1 is a small difference: to tell ways of one name
        apart.
        """

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @property
    def family(self) -> dict[str, Any]:
        """Windows, role, gate and strength as plain values: `way_of` makes a way of them, with the
        prior's members.
        """
        return {"start": self.start, "stop": self.stop, "first": self.first, "gated": self.gated}

    @property
    def name(self) -> str:
        who = "the first agent of a cluster" if self.first else "one agent"
        last = first_draw(self.stop) if self.stop < WINDOWS else None
        begin = first_draw(self.start) + 1
        if last is None:
            when = "all draws" if begin == 1 else f"draws from {begin} on"
        else:
            when = f"draw {begin}" if last == begin else f"draws {begin} to {last}"
        return f"{self.kind}, {who}, {when}{' while its best arm is in play' if self.gated else ''}"

    @cached_property
    def log_members(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.members)

    @cached_property
    def groups(self) -> Ints:
        """(M, C) members that are alike share a number: same prior probability, which depends on
        the means alone.
        """
        return np.unique(np.round(self.prior, 12), return_inverse=True)[1].reshape(self.prior.shape)

    def with_members(self, responsibilities: Floats) -> Way:
        """Members in proportion to `responsibilities` (M, C), pooled over members that are alike,
        and the prior.
        """
        groups = self.groups.ravel()
        pooled = np.bincount(groups, responsibilities.ravel()) / np.bincount(groups)
        fit = np.where(self.prior > 0, pooled[groups].reshape(self.prior.shape), 0.0)
        if not fit.sum() > 0:
            return self
        return replace(self, members=(1 - PRIOR_SHARE) * fit / fit.sum() + PRIOR_SHARE * self.prior)

    def tilt(self, cluster: int, rank: int, choice: int) -> Tilt:
        arms = np.arange(self.world.instance.n_arms)
        theta = np.zeros((WINDOWS, arms.size))
        theta[self.start : self.stop] = self.world.law.theta(
            self.shift(cluster, choice), cluster, arms
        )
        return Tilt(cluster, rank, theta, self.gated)


@dataclass(frozen=True, eq=False)
class Overtake(Way):
    """A rival comes out `lead` ahead of the best arm; the best arm's fall is `share` of it.
    Choices: K rivals.
    """

    lead: float
    share: float

    @property
    def kind(self) -> str:
        return "a rival overtakes the best arm"

    @property
    def family(self) -> dict[str, Any]:
        return super().family | {"lead": self.lead, "share": self.share}

    @property
    def strength(self) -> tuple[float, ...]:
        return float(np.log(np.maximum(self.distance[self.prior > 0].min(), 1e-300))), self.share

    @cached_property
    def distance(self) -> Floats:
        """(M, K) what the difference of averages must be moved by."""
        means = self.world.instance.means
        return np.maximum(means.max(axis=1, keepdims=True) - means + self.lead, 0.0)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(M, K) θ and κ of the best arm, and of the rival, for each rival."""
        law, instance = self.world.law, self.world.instance
        m, k = np.arange(instance.n_clusters)[:, None], np.arange(instance.n_arms)[None, :]
        best = instance.best_arms[:, None]
        down = law.theta(-self.share * self.distance, m, best)
        up = law.theta((1 - self.share) * self.distance, m, k)
        return down, law.cumulant(down, m, best), up, law.cumulant(up, m, k)

    def shift(self, cluster: int, choice: int) -> Floats:
        shift = np.zeros(self.world.instance.n_arms)
        shift[choice] = (1 - self.share) * self.distance[cluster, choice]
        shift[self.world.instance.best_arms[cluster]] = -self.share * self.distance[cluster, choice]
        return shift

    def log_ratios(self, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        down, cost_down, up, cost_up = (table[clusters] for table in self._tables)
        rows, best = np.arange(clusters.size), self.world.instance.best_arms[clusters]
        of_best = down * sums[rows, best][:, None] - cost_down * times[rows, best][:, None]
        return of_best + up * sums - cost_up * times

    def values(self, parts: Floats, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        """Pulls and sums of the best arm, of the rival, and the gap: (5,)."""
        rows, best = np.arange(clusters.size), self.world.instance.best_arms[clusters]
        weight = parts.sum(axis=1)
        means = self.world.instance.means[clusters]
        gaps = means.max(axis=1, keepdims=True) - means
        return np.array(
            [
                weight @ times[rows, best],
                weight @ sums[rows, best],
                (parts * times).sum(),
                (parts * sums).sum(),
                (parts * gaps).sum(),
            ]
        )

    def fitted(self, values: Floats) -> Way | None:
        best_times, best_sum, rival_times, rival_sum, gap = values
        fall = -best_sum / best_times if best_times > 0 else 0.0
        rise = rival_sum / rival_times if rival_times > 0 else 0.0
        if not fall + rise > 0:
            return None
        share = float(np.clip(fall / (fall + rise), 0.0, 1.0))
        fit = replace(self, lead=float(fall + rise - gap), share=share)
        return fit if fit.distance[fit.prior > 0].min() > 0 else None

    def stronger(self, factor: float) -> Way:
        return replace(
            self, lead=self.lead + (factor - 1) * float(self.distance[self.prior > 0].min())
        )


@dataclass(frozen=True, eq=False)
class Imposter(Way):
    """An agent's averages move by `part` of the way towards another cluster's means.

    Choices: M target clusters.
    """

    part: float

    @property
    def kind(self) -> str:
        return "an agent looks like one of another cluster"

    @property
    def family(self) -> dict[str, Any]:
        return super().family | {"part": self.part}

    @property
    def strength(self) -> tuple[float, ...]:
        return (float(np.log(max(self.part, 1e-300))),)

    @cached_property
    def _away(self) -> Floats:
        """(M, M, K) means of the target minus one's own."""
        means = self.world.instance.means
        return means[None, :, :] - means[:, None, :]

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        law, instance = self.world.law, self.world.instance
        m, k = (
            np.arange(instance.n_clusters)[:, None, None],
            np.arange(instance.n_arms)[None, None, :],
        )
        theta = law.theta(self.part * self._away, m, k)
        return theta, law.cumulant(theta, m, k)

    def shift(self, cluster: int, choice: int) -> Floats:
        return self.part * self._away[cluster, choice]

    def log_ratios(self, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        theta, cost = (table[clusters] for table in self._tables)
        return np.einsum("axk,ak->ax", theta, sums) - np.einsum("axk,ak->ax", cost, times)

    def values(self, parts: Floats, clusters: Ints, times: Floats, sums: Floats) -> Floats:
        """Sums along the direction of the target, and the pulls times its squared length: (2,)."""
        away = self._away[clusters]
        return np.array(
            [
                np.einsum("ax,axk,ak->", parts, away, sums),
                np.einsum("ax,axk,ak->", parts, away**2, times),
            ]
        )

    def fitted(self, values: Floats) -> Way | None:
        along, length = values
        return replace(self, part=float(along / length)) if along > 0 and length > 0 else None

    def stronger(self, factor: float) -> Way:
        return replace(self, part=self.part * factor)


def overtake(
    world: World,
    lead: float,
    share: float,
    windows: tuple[int, int],
    *,
    first: bool,
    gated: bool,
    times: float,
) -> Overtake | None:
    """A way whose prior prefers near rivals; `times`: typical pulls of an arm in those windows."""
    means = world.instance.means
    gaps = means.max(axis=1, keepdims=True) - means
    energy = times * np.maximum(gaps + lead, 0.0) ** 2 / (4 * max(world.law.sigma, 1e-300) ** 2)
    prior = _prior(energy, ~world.instance.is_best & (world.sizes > 0)[:, None], world.sizes, first)
    return (
        None
        if prior is None
        else Overtake(world, *windows, first, gated, prior, prior, lead, share)
    )


def imposter(
    world: World, part: float, windows: tuple[int, int], *, first: bool, gated: bool, times: float
) -> Imposter | None:
    """A way whose prior prefers near clusters."""
    means = world.instance.means
    squares = ((means[None, :, :] - means[:, None, :]) ** 2).sum(axis=2)
    energy = times * part**2 * squares / (2 * max(world.law.sigma, 1e-300) ** 2)
    allowed = (squares > 0) & (world.sizes > 0)[:, None] & (world.sizes > 0)[None, :]
    prior = _prior(energy, allowed, world.sizes, first)
    return None if prior is None else Imposter(world, *windows, first, gated, prior, prior, part)


def way_of(world: World, family: dict[str, Any], times: float) -> Way | None:
    """The way with the windows, role, gate and strength of `family`; `times` as in `overtake`."""
    windows = (int(family["start"]), int(family["stop"]))
    role: dict[str, Any] = {
        "first": bool(family["first"]),
        "gated": bool(family["gated"]),
        "times": times,
    }
    if "part" in family:
        return imposter(world, float(family["part"]), windows, **role)
    return overtake(world, float(family["lead"]), float(family["share"]), windows, **role)


def _prior(energy: Floats, allowed: np.ndarray, sizes: Ints, first: bool) -> Floats | None:
    """Probabilities that fall slowly with the cost of a member (its energy), in (M, C)."""
    if not allowed.any():
        return None
    # A quarter of the exponent: the energy is a guess, and what is likelier than it says must stay
    # in reach.
    excess = np.where(allowed, energy - energy[allowed].min(), 0.0)
    weight = np.where(allowed, np.exp(-excess / 4), 0.0)
    scale = np.ones(sizes.size) if first else sizes
    weight, flat = weight * scale[:, None], allowed * scale[:, None]
    return 0.9 * weight / weight.sum() + 0.1 * flat / flat.sum()
