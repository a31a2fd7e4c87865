"""FrugalBAI: local sequential tests, few symbols."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, Payload
from clustered_bandit_gym.policies.engines.mixture import mixture
from clustered_bandit_gym.policies.frugal.classify import find_arms
from clustered_bandit_gym.policies.frugal.discover import guesses, search, shown_distinct
from clustered_bandit_gym.policies.frugal.race import best_arms
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, Stuck
from clustered_bandit_gym.policies.structured.policy import StructuredBAI
from clustered_bandit_gym.policy import Policy


class FrugalBAI(Policy):
    """Agents run sequential tests of their own; the centre sends arms and bounds, and gets symbols.

    Its phases, which docs/frugal-bai.md explains, with the proof:

    1. "discover": one agent of each cluster, from coarse codes of a few averages, is shown to differ
       from the others. Where codes show nothing, agents search for their best arm and name it.
    2. "best arms": these representatives test two arms at a time, and report which arms are beaten
       and which are close to the best, so that they are not the best of another cluster.
    3. "references", "classify": every other agent gets the list of the M best arms and accepts the
       one that it shows to be less than η worse than each of the others, or is led down a tree of
       tests against numbers that representatives measure.

    With one cluster, one agent finds the best arm for all. Otherwise it needs M ≤ N, K and η, and
    ε = 0; without, or if stuck, it plays `StructuredBAI`. Too large an η voids the guarantee.

    Args:
        growth: pulls of sketches grow by this factor where they do not suffice, and rough means
            begin with this many times the pulls of the sketch. A larger one sends fewer bits for
            slightly more pulls. It does not change the guarantee.
    """

    name = "frugal-bai"
    guarantee = "delta-PC under Assumption 1, with any of M, eta not told; eta1 is not used"

    def __init__(self, growth: float = 4.0) -> None:
        if not 1.5 <= growth <= 16:
            raise UserError(f"growth must lie between 1.5 and 16, got {growth}")
        self.growth = float(growth)

    def solve(self, federation: FederationView) -> Ints:
        p = federation.problem
        m = p.n_clusters
        if m == 1 or p.n_agents == 1:
            with federation.phase("best arms"):
                arms = federation.local(federation.agents[:1], find_alone).repeat(p.n_agents)
        elif m is None or m > min(p.n_agents, p.n_arms) or p.eta in (None, np.inf) or p.epsilon:
            return StructuredBAI().solve(federation)
        else:
            try:
                arms = solve_together(federation, self.growth)
            except Stuck:
                return StructuredBAI(share=SETTINGS.fallback).solve(federation)
        federation.report_clusters(arms)
        return arms


def find_alone(block: Block) -> Payload:
    """The agent finds its best arm alone, with all of δ."""
    p = block.problem
    active, _ = mixture(block, np.arange(p.n_arms), p.delta, p.epsilon or None)
    return ArmIndex(active.argmax(axis=1), among=p.n_arms)


def solve_together(federation: FederationView, growth: float) -> Ints:
    """(N,) the best arms of all agents, or `Stuck`."""
    p = federation.problem
    bounded = p.support is not None and federation.reward_values is not None
    levels = Levels(p, growth, 1, bounded)
    rough = None
    with federation.phase("discover"):
        for reps, pulls in guesses(federation, levels):
            # Rough means begin with more pulls than the sketch had, so that one order is likely to
            # do. More clusters differ in fewer of a sketch's arms each.
            pulls *= growth * max(1, levels.m / SETTINGS.few)
            rough = shown_distinct(federation, reps, pulls, levels)
            if rough is not None:
                break
            levels = Levels(p, growth, levels.choice + 1, bounded)
        else:
            reps = search(federation, levels)
    with federation.phase("best arms"):
        best = best_arms(federation, reps, levels, together=rough is not None)
    return find_arms(federation, reps, best, rough, levels)
