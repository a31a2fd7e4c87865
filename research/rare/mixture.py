"""The law that tilted plays are drawn from, and the likelihood ratio of a play to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from research.rare.source import Tilt, TiltedSource
from research.rare.ways import Moments, Way, World


class Mixture:
    """The law that plays are drawn from: plays as they are with probability `plain`, else a member
    of a way.

    Args:
        world: the truth.
        ways, shares: families of tilts and their weights (scaled to 1 − plain).
    """

    def __init__(self, world: World, ways: list[Way], shares: Any, plain: float) -> None:
        self.world, self.ways = world, list(ways)
        self.plain = plain if self.ways else 1.0
        shares = np.asarray(shares, dtype=np.float64)
        self.shares: Floats = (1 - self.plain) * shares / shares.sum() if self.ways else np.zeros(0)

    def pick(
        self, rng: np.random.Generator, way: int | None = None
    ) -> tuple[int, tuple[Tilt, ...]]:
        """Draw a way (or take the given one) and one of its members; −1 is a play without a tilt."""
        if way is None:
            way = int(rng.choice(len(self.ways) + 1, p=np.append(self.shares, self.plain)))
            if way == len(self.ways):
                return -1, ()
        chosen = self.ways[way]
        index = int(
            rng.choice(chosen.members.size, p=chosen.members.ravel() / chosen.members.sum())
        )
        cluster, choice = divmod(index, chosen.members.shape[1])
        rank = 0 if chosen.first else int(rng.integers(self.world.sizes[cluster]))
        return way, (chosen.tilt(cluster, rank, choice),)

    def weigh(self, record: Record) -> tuple[float, list[tuple[Ints, Floats]]]:
        """ln dQ/dP of a play, and for every way its agents (A,) and the logs (A, C) of its members'
        parts in dQ/dP.
        """
        parts, logs = [], [np.log(self.plain) if self.plain > 0 else -np.inf]
        for way, share in zip(self.ways, self.shares, strict=True):
            agents, terms, unseen = record.terms(way)
            parts.append((agents, terms + np.log(share)))
            logs.append(np.log(share) + np.logaddexp.reduce(terms, axis=None, initial=-np.inf))
            if unseen > 0:
                logs.append(np.log(share * unseen))
        return float(np.logaddexp.reduce(logs)), parts


class Record:
    """What one play drew, by agent, window and arm, with running sums over the windows."""

    def __init__(self, world: World, source: TiltedSource) -> None:
        self._world, self._ranks = world, source.ranks
        self._running = {
            gated: tuple(np.cumsum(table, axis=1) for table in source.record(gated))
            for gated in (False, True)
        }
        self._seen = np.bincount(
            world.instance.clusters[source.ranks >= 0], minlength=world.sizes.size
        )

    def between(self, way: Way) -> tuple[Floats, Floats]:
        """Pulls and centred sums (N, K) in the windows of a way."""
        times, sums = (
            running[:, way.stop - 1] - (running[:, way.start - 1] if way.start else 0.0)
            for running in self._running[way.gated]
        )
        return times, sums

    def agents(self, way: Way) -> Ints:
        return np.flatnonzero(self._ranks == 0 if way.first else self._ranks >= 0)

    def terms(self, way: Way) -> tuple[Ints, Floats, float]:
        """Agents (A,) that have a role, the logs (A, C) of probability times ratio of the way's
        members, and the probability of members whose role nobody took: their ratio is 1."""
        world, agents = self._world, self.agents(way)
        clusters = world.instance.clusters[agents]
        times, sums = self.between(way)
        logs = way.log_ratios(clusters, times[agents], sums[agents]) + way.log_members[clusters]
        by_cluster = way.members.sum(axis=1)
        if way.first:
            return agents, logs, float(by_cluster[self._seen == 0].sum())
        logs -= np.log(world.sizes[clusters])[:, None]
        missing = (world.sizes - self._seen) / np.maximum(world.sizes, 1)
        return agents, logs, float((by_cluster * missing).sum())

    def moments(self, way: Way, agents: Ints, parts: Floats) -> Moments:
        """`parts` (A, C): how far each member explains the play."""
        clusters = self._world.instance.clusters[agents]
        times, sums = self.between(way)
        members = np.zeros_like(way.members)
        np.add.at(members, clusters, parts)
        return Moments(
            float(parts.sum()), members, way.values(parts, clusters, times[agents], sums[agents])
        )
