"""Cl-BAI: cluster the agents, then identify one best arm per cluster (the paper's Algorithm 1)."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Bools, Ints
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Flag, Reals
from clustered_bandit_gym.policies.engines.elimination import elimination
from clustered_bandit_gym.policies.paper.graph import components
from clustered_bandit_gym.policies.sequential.cells import leaders
from clustered_bandit_gym.policy import Policy, check_choice, require


class ClBAI(Policy):
    """Cluster first: short eliminations, a graph, one full elimination per component.

    Phase 1 ("cluster"): each agent runs SE([K], γ, R) with γ = (δ/(12NK))^(4/3) and R =
    ⌈log2(17/η)⌉ and sends what is left and all K estimates. Agents with one arm left are done. The
    others are vertices of a graph with an edge where two agents' estimates differ by at most η/2 on
    every arm that either of them still holds.
    Phase 2 ("identify"): one agent of each component runs SE(S_i, δ/(2M), ∞) and answers for its
    component.

    Args:
        confidence: "paper" (budgets as printed) or "certified".

    Needs η. M is not needed: if it is not told, the number m of components takes its place.

    Corners: a finite η ≥ 17 would make R = 0, hence estimates of nothing; at least one round is
    played. η = ∞ (a single cluster) does make R = 0, and all agents form one component without a
    pull.

    Error, `confidence="certified"` (γ as printed; phase 2 runs with δ/(2m)), with ε_R ≤ η/17, in
    this order:
        1. e0, some average of phase 1 is off by ε_r/2 or more: N·γ·Σ_r 1/(2r²) ≤ Nγ ≤ δ/(12K) ≤
           δ/12. Without e0 the best arm is never dropped, hence agents that are done are right.
        2. e2, an edge between agents i, j of different clusters, without e0. Say j's best mean is
           the larger one. Then i's estimate of j's best arm is too high by (η − ε_R)/2 or more,
           which without e0 takes a round with ε_r > η − ε_R; and that round dropped the arm, which
           takes an average above i's best mean by ε_r − (η + ε_R)/2, without e0 ε_r < η + ε_R. At
           most one round fits, ε_r = 32ε_R, and there the overshoot of 15/32·ε_r or more has
           probability at most (γ/(4K))^0.87 ≤ δ/(12NK) for each agent and arm: N·K·δ/(12NK) = δ/12.
        3. phase 2, given phase 1: m calls with δ/(2m), fresh pulls: δ/2.
        Sum: δ/12 + δ/12 + δ/2 < δ.
    A cluster split into several components costs pulls and no error with δ/(2m). As printed
    (δ/(2M)) it must be counted too: e1, an arm within 2ε_R of the best dropped with an estimate too
    low by 7/16·ε_r (rounds with ε_r ≥ 32ε_R): N·K·Σ_r (γ/(4Kr²))^0.75 ≤ N·K·0.93·γ^0.75/K^0.75 ≤
    δ/12. So the printed budgets add up, too, if M is true.

    With ε > 0 the calls of phase 2 end after ⌈log2(1/ε) + 1⌉ rounds: every arm left is within ε of
    the best, with the same probability.

    Communication: up N(K bits + K reals) and ⌈log2 K⌉ bits a component; down one bit a component.
    """

    name = "cl-bai"
    guarantee = "delta-PC under Assumption 1"

    def __init__(self, confidence: str = "paper") -> None:
        self.confidence = check_choice("confidence", confidence, ("paper", "certified"))

    def solve(self, federation: FederationView) -> Ints:
        """Algorithm 1: lines 2 to 14 (first phase), lines 15 to 28 (second phase)."""
        p = federation.problem
        (eta,) = require(self.name, p, "eta")
        all_arms = federation.arms
        gamma = (p.delta / (12 * p.n_agents * p.n_arms)) ** (4 / 3)

        def shortlist(block: Block) -> Answer:
            # Line 4: R = ⌈log2(17/η)⌉ rounds, after which arms 2η/17 below the best are gone.
            active, estimates = elimination(block, all_arms, gamma, 2 * eta / 17)
            block.save("shortlist", active)
            return ArmSet(active), Reals(estimates)  # line 5

        def go_on(block: Block, _: Bools) -> ArmIndex:
            active, averages = elimination(  # line 21
                block, all_arms, budget, p.epsilon or None, block.load("shortlist")
            )
            return ArmIndex(leaders(averages, active), among=p.n_arms)  # line 22

        with federation.phase("cluster"):
            left, estimates = federation.local(federation.agents, shortlist)
            best = left.argmax(axis=1)  # lines 6 to 8: final where one arm is left
            undecided = np.flatnonzero(left.sum(axis=1) > 1)
            labels = components(estimates[undecided], left[undecided], eta / 2)  # lines 10 to 14
            _, representatives = np.unique(labels, return_index=True)  # lines 16 to 18
        with federation.phase("identify"):
            if representatives.size:
                told = p.n_clusters if self.confidence == "paper" else None
                budget = p.delta / (2 * (told or representatives.size))
                answers = federation.local(undecided[representatives], go_on, down=Flag(True))
                best[undecided] = answers[labels]  # lines 24 to 28
        # An agent that finished alone is grouped with those of the same arm, the others with their
        # component.
        groups = best.copy()
        groups[undecided] = p.n_arms + labels
        federation.report_clusters(groups)
        return best
