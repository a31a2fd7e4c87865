"""FrugalBAI: local sequential tests, few symbols."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, Payload, Symbol
from clustered_bandit_gym.policies.engines.mixture import mixture
from clustered_bandit_gym.policies.frugal.discover import Protocol, guesses, search
from clustered_bandit_gym.policies.frugal.distinct import shown_distinct
from clustered_bandit_gym.policies.frugal.lists import by_height, by_list
from clustered_bandit_gym.policies.frugal.memory import Stuck
from clustered_bandit_gym.policies.frugal.race import best_arms, listen
from clustered_bandit_gym.policies.frugal.references import References
from clustered_bandit_gym.policies.frugal.settings import Levels, Settings
from clustered_bandit_gym.policies.frugal.tree import by_tree, choose_tree
from clustered_bandit_gym.policies.sequential.cells import bounded
from clustered_bandit_gym.policies.structured.policy import StructuredBAI
from clustered_bandit_gym.policy import Policy


class FrugalBAI(Policy):
    """Agents run sequential tests of their own; the centre sends arms and bounds, and gets symbols.

    1. "discover": some agents send coarse codes of a few averages. One agent of each group of
       similar codes becomes a representative, and representatives are shown to be of different
       clusters. Where codes show nothing, agents search for their best arm and name it.
    2. "best arms": representatives test two arms at a time and report which arms are beaten and
       which are less than η worse than the best. By Assumption 1 an arm that is that close at one
       of them is not the best arm of any other.
    3. "classify": every other agent gets the list of the M best arms, and accepts the one that it
       shows to be less than η worse than each of the others. Where it is forecast to take fewer
       pulls, agents are led down a tree of tests instead, each against numbers that representatives
       measured ("references"). After a search, one number is added that only the best arm exceeds.

    Needs M and η, 2 ≤ M ≤ N. If guesses fail it starts again, once, with other agents, and then
    plays `StructuredBAI`. Without M or η it plays `StructuredBAI` at once; with one cluster, one
    agent finds the best arm for all. η1 is not used. An η that is too large voids the guarantee.
    ε > 0 is used with one cluster or agent only; otherwise the problem for ε = 0 is solved.

    Error. Attempts have 0.9δ and 0.05δ, `StructuredBAI` has 0.05δ. The t-th choice of
    representatives in an attempt has v_t of it, v_1 = 0.9, v_t = 0.1/((t − 1)t); call that δ'.
        1. at a representative, one of K − 1 arms is shown better than the best:
           0.48δ'/(M(K − 1)) each; one of M − 1 other best arms is shown less than η worse than it:
           0.10δ'/(M(M − 1)) each.
        2. two representatives of one cluster are shown to differ on one of 12 arms, or one of 24
           ends of intervals at a representative is wrong: 0.02δ' in all, each of the two.
        3. in its s-th try, an agent rejects its own cluster in one of M − 1 tests:
           0.38δ'·v_s/(N(M − 1)) each.
        Sum: δ. docs/frugal-bai.md has the proof.

    Args:
        growth: pulls of sketches grow by this factor where they do not suffice. A larger one sends
            fewer bits for slightly more pulls, a smaller one buys nothing: on random games at δ =
            1e-10 growth = 2, 4, 8 took 1.27, 1.24, 1.31 of `StructuredBAI`'s pulls and sent 2.13,
            1.89, 1.69 of BAI-Cl++'s bits. It does not change the guarantee.
    """

    name = "frugal-bai"
    guarantee = "delta-PC under Assumption 1, with any of M, eta not told; eta1 is not used"

    def __init__(self, growth: float = 4.0, budget: str | None = None) -> None:
        if budget is not None:
            raise UserError("frugal-bai has no setting budget any more; growth=8 sends fewer bits")
        if not 1.5 <= growth <= 16:
            raise UserError(f"growth must lie between 1.5 and 16, got {growth}")
        self.growth = float(growth)

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        if p.n_clusters == 1 or p.n_agents == 1:
            with federation.phase("best arms"):
                best = federation.local(federation.agents[:1], find_alone)
            return np.full(p.n_agents, best[0])
        told = p.n_clusters is not None and p.eta is not None and np.isfinite(p.eta)
        if not told or (p.n_clusters or 0) > p.n_agents:
            return StructuredBAI().solve(federation)
        settings = replace(Settings(), growth=self.growth)
        for attempt in range(len(settings.attempts)):
            try:
                arms = _attempt(federation, settings, attempt)
            except Stuck:
                continue
            federation.report_clusters(arms)
            return arms
        return StructuredBAI(share=1 - sum(settings.attempts)).solve(federation)


def find_alone(block: Block) -> Payload:
    """The agent finds its best arm alone, with all of δ."""
    p = block.problem
    active, _ = mixture(block, np.arange(p.n_arms), p.delta, p.epsilon or None)
    return ArmIndex(active.argmax(axis=1), among=p.n_arms)


def _attempt(federation: Federation, settings: Settings, attempt: int) -> Ints:
    """(N,) the best arms of all agents, or `Stuck`."""
    p = federation.problem
    levels = Levels(p, settings, attempt, 1)
    protocol = Protocol(levels)
    rough = None
    with federation.phase("discover"):
        for reps, pulls in guesses(federation, protocol):
            name = f"representative {attempt} {levels.number}"
            # More clusters differ in fewer of a sketch's arms each.
            pulls *= settings.growth * max(1, levels.m / settings.few)
            rough = shown_distinct(federation, reps, name, pulls, protocol.arms, levels)
            if rough is not None:
                break
            levels = replace(levels, number=levels.number + 1)
        else:
            reps = search(federation, levels)
            name = f"representative {attempt} {levels.number}"
    if attempt or levels.number > 1:
        number = min(levels.number, settings.codes - 1) + settings.codes * attempt
        down = Symbol(np.full(p.n_agents, number), among=2 * settings.codes)
        federation.local(federation.agents, listen, down=down, n_arms=1)
    with federation.phase("best arms"):
        best = best_arms(federation, reps, name, levels, together=rough is not None)
    ref = References(levels, bounded(p, federation.reward_values))
    arms = np.full(p.n_agents, -1)
    arms[reps] = best
    tries = 1
    if rough is None:
        by_height(federation, reps, best, name, ref, arms)
    elif levels.m <= settings.few and (tree := choose_tree(rough, ref)):
        labels = by_tree(federation, reps, tree, protocol.arms, name, ref)
        arms = np.where(labels >= 0, best[labels], -1)
        tries = 2
    by_list(federation, best, levels, arms, tries)
    return arms
