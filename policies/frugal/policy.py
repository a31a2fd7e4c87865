"""FrugalBAI: local sequential tests, few symbols."""

from __future__ import annotations

from functools import partial
from math import sqrt

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, Flag, Payload
from clustered_bandit_gym.policies.engines.track_and_stop import track_and_stop
from clustered_bandit_gym.policies.frugal.assign import ON_ITS_OWN
from clustered_bandit_gym.policies.frugal.best_arms import Stuck, best_arms
from clustered_bandit_gym.policies.frugal.budget import ATTEMPTS, LAST_RESORT, Budget
from clustered_bandit_gym.policies.frugal.classify import by_guess, by_list, by_tree, rest_alone
from clustered_bandit_gym.policies.frugal.facts import find_best
from clustered_bandit_gym.policies.frugal.levels import Tests
from clustered_bandit_gym.policies.frugal.references import (
    best_references,
    plan_tree,
    plan_tree_of_ratings,
    tree_references,
)
from clustered_bandit_gym.policies.frugal.search import search
from clustered_bandit_gym.policies.frugal.sketch import Protocol, discover
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, SPENDING, Spending
from clustered_bandit_gym.policies.frugal.tree import Node
from clustered_bandit_gym.policies.frugal.trial import Trial
from clustered_bandit_gym.policies.structured.policy import StructuredBAI
from clustered_bandit_gym.policy import Policy

#: Pulls of references over those of an agent: more make the agents' tests cheaper, and cost pulls themselves. Bounds on
#: means lose more than averages do: with 8 coins take 80% more pulls, with 32 as many as with 16.
RATIO_BOUNDS = 16.0
#: For guesses, which take averages of all best arms at all representatives, and the difference, in units of η, that
#: these are to tell. 25% less or more of either changes pulls by 2% at most; communication by 6% to 13%, in the other
#: direction.
RATIO_GUESS, GAP_GUESS = 2.2, 1.2
#: For trees and lists, times √(agents per cluster), which makes the sum of all pulls least up to a factor. With N =
#: 1000, half of it takes 7% more pulls in a tree and 24% more with a list, twice 9% and 1% more.
RATIO_TREE, RATIO_LIST = 0.7, 1.5
#: The least ratio of the two, for few agents. With 2 pulls rise by 4% in a tree and by 65% with a list; with 8 by 3% in
#: a tree, and lists take fewer.
RATIO_LEAST = 4.0


class FrugalBAI(Policy):
    """Agents run sequential tests of their own; the centre sends arms and bounds, and gets symbols.

    1. "discover": a few agents send coarse codes of a few averages; one agent of each group of similar codes becomes a
       representative. Where codes show nothing, agents search for their best arm and name it. The result is a guess.
    2. "best arms": representatives test two arms at a time and report which arms are beaten and which are less than η
       worse than the best. By Assumption 1 an arm that is that close at one of them is not the best of any other.
    3. "references": representatives report a few averages (or bounds, where the support of rewards is told) from fresh
       pulls, which show that they are of different clusters.
    4. "classify": agents compare themselves with these: down a tree of tests (few clusters), by confirming the guess
       that their code suggests (many), or by searching the list of best arms (where codes show nothing). An agent that
       fits none of them finds its best arm alone.

    Needs M ≥ 2 and η. If a guess fails, the policy starts again from scratch, in three attempts at most, and then plays
    `StructuredBAI`; each has its own share of δ. Without M or η it plays `StructuredBAI` at once. With one cluster, or
    one agent, one agent identifies the best arm. η1 is not used. An η that is too large voids the guarantee.

    Error. Attempts have 0.9δ, 0.05δ and 0.02δ, the last resort 0.03δ. Of an attempt's δ':
        1. at a representative, one of K − 1 arms is shown better than the best, 0.48δ'/(M(K − 1)) each (or weighted);
           one of M − 1 other best arms is shown less than η worse than it, 0.10δ'/(M(M − 1)) each. Sum 0.58δ'.
        2. two representatives of one cluster are shown to differ, or a bound on a mean is wrong: 0.04δ'.
        3. an agent rejects its own cluster: 0.36δ'/N each, over all its tries.
        4. an agent that finds its arm alone errs: 0.02δ'/N each.
        Sum: δ. docs/frugal-bai.md has the proof.

    Args:
        budget: how many bits may be spent to save pulls: "frugal" (the default: less communication than BAI-Cl++ on the
            paper's families), "balanced" or "lavish". All three have the same guarantee.
    """

    name = "frugal-bai"
    guarantee = "delta-PC under Assumption 1, with any of M, eta not told; eta1 is not used"

    def __init__(self, budget: str = "frugal") -> None:
        if budget not in SPENDING:
            raise UserError(f"budget must be one of {', '.join(SPENDING)}, got {budget!r}")
        self.budget = budget

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        if p.n_clusters == 1 or p.n_agents == 1:
            with federation.phase("best arms"):
                best = federation.local(federation.agents[:1], find_alone)
            return np.full(p.n_agents, best[0])
        if (
            p.n_clusters is None
            or p.eta is None
            or not np.isfinite(p.eta)
            or p.n_clusters > p.n_agents
        ):
            return StructuredBAI().solve(federation)
        for attempt in range(len(ATTEMPTS)):
            try:
                arms = Attempt(federation, attempt, SPENDING[self.budget]).run()
            except Stuck:
                continue
            federation.report_clusters(arms)
            return arms
        return StructuredBAI(share=LAST_RESORT).solve(federation)


def find_alone(block: Block) -> Payload:
    """The agent identifies its best arm alone, at level δ."""
    p = block.problem
    active, _ = track_and_stop(block, np.arange(p.n_arms), p.delta)
    return ArmIndex(active.argmax(axis=1), among=p.n_arms)


def start_over(block: Block, news: np.ndarray) -> None:
    """Tells agents that a new attempt begins; they use its levels from now on."""


class Attempt:
    """One attempt from scratch, with its own share of δ."""

    def __init__(self, federation: Federation, attempt: int, spending: Spending = FRUGAL) -> None:
        self.federation, self.attempt, self.problem = federation, attempt, federation.problem
        self.spending = spending
        self.budget = Budget.of(self.problem, attempt)
        self.protocol = Protocol.of(federation, attempt)
        self.tree: Node | None = None

    def run(self) -> Ints:
        """(N,) the best arm of every agent; raises `Stuck`."""
        fed, p = self.federation, self.problem
        if self.attempt:
            fed.local(fed.agents, start_over, down=Flag(True), n_arms=1)
        with fed.phase("discover"):
            groups = discover(
                fed,
                self.protocol,
                self._plan if self.protocol.few and self.protocol.bounded else None,
            )
        if groups is None:
            return self._by_list()
        reps, tests = groups.reps, Tests(p, self.budget, expected=False, spending=self.spending)
        with fed.phase("best arms"):
            best = best_arms(fed, reps, tests)
        labels = np.full(p.n_agents, -1)
        labels[reps] = np.arange(reps.size)
        if self.protocol.few:
            bounded = self.protocol.bounded
            ratio = (
                RATIO_BOUNDS
                if bounded
                else max(RATIO_LEAST, RATIO_TREE * sqrt(p.n_agents / reps.size))
            )
            trial = Trial(p, self.budget, ratio, bounded, spending=self.spending)
            with fed.phase("references"):
                tree = self.tree or plan_tree(fed, reps, tests, self.protocol)
                nodes = tree_references(fed, reps, tree, self.protocol, trial)
            with fed.phase("classify"):
                by_tree(fed, self.protocol, nodes, trial, labels)
            codes = self.protocol.arms.size
        else:
            assert p.eta is not None
            trial = Trial(
                p, self.budget, RATIO_GUESS, gap=GAP_GUESS * p.eta, spending=self.spending
            )
            with fed.phase("references"):
                references = best_references(fed, reps, best, trial)
            with fed.phase("classify"):
                by_guess(fed, self.protocol, groups, best, references, trial, labels)
            codes = ON_ITS_OWN
        arms = np.where(labels >= 0, best[labels], -1)
        with fed.phase("classify"):
            rest_alone(fed, arms, best, trial, codes)
        return arms

    def _plan(self, reps: Ints, stage: int) -> bool:
        """Whether a tree of sketches tells agents apart, before any test; keeps the tree."""
        self.tree = plan_tree_of_ratings(self.federation, reps, self.protocol, stage)
        return self.tree is not None

    def _by_list(self) -> Ints:
        """Used where sketches show nothing: agents name their best arms, and those named are tested."""
        fed, p = self.federation, self.problem
        assert p.eta is not None
        with fed.phase("discover"):
            reps = search(fed)
        ratio = max(RATIO_LEAST, RATIO_LIST * sqrt(p.n_agents / reps.size))
        trial = Trial(p, self.budget, ratio, gap=p.eta, spending=self.spending)
        program = partial(
            find_best, tests=Tests(p, self.budget, expected=True), prefix=trial.reference_size
        )
        with fed.phase("best arms"):
            best, top = fed.local(reps, program, down=Flag(True))
        if np.unique(best).size < reps.size:
            raise Stuck("two representatives are of one cluster")
        with fed.phase("classify"):
            return by_list(fed, reps, best, top, trial)
