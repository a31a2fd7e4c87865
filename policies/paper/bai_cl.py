"""BAI-Cl: best arms at a few agents, then the others among them (the paper's Algorithm 3)."""

from __future__ import annotations

import warnings
from math import log, log1p

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Payload
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.engines.registry import get_engine
from clustered_bandit_gym.policies.sequential.cells import leaders
from clustered_bandit_gym.policy import Policy, check_choice, require


class BAICl(Policy):
    """Best arms first: sample agents until M different best arms are known, then choose among those
    M at all others.

    Phase 1 ("identify"): agents are drawn uniformly without replacement. A drawn agent is sent the
    set S of best arms so far and runs SE([K], γ, R), R = ⌈log2(1/η) + 1⌉. If what is left meets S,
    it sends that arm (the one of best estimate if there are several); else it continues with
    SE(S_i, γ, ∞) and sends a new arm. Until |S| = M.
    Phase 2 ("assign"): every other agent is sent S, runs SE(S, δ/(3N), ∞) and sends its arm.

    Needs M and η. As printed γ = δ·ln(M/(M−1))/ln(3M/δ).

    Args:
        confidence: "paper" (budgets as printed) or "certified".
        engine: the best-arm subroutine, a name of `engines.registry.ENGINES`. Any but "elimination"
            needs "certified".

    Corners: M = 1 makes the printed γ infinite; one agent is drawn and γ = δ/3. Fewer clusters with
    agents than M: the draw runs out, everybody has been asked in phase 1, phase 2 is empty. A
    finite η ≥ 2 would make R ≤ 0; at least one round is played. η = ∞ (a single cluster) does make
    R = 0.

    Error, `confidence="certified"`: the t-th agent drawn uses γ_t = δ/(3t(t+1)) for both of its
    calls, so that neither the number of draws nor the cluster sizes matter:
        1. phase 1: Σ_t 2·δ/(3t(t+1)) ≤ 2δ/3. Otherwise every drawn agent keeps its best arm and
           drops all arms η ≥ 2ε_R worse, among them the other clusters' best arms: S ∩ S_i is its
           own best arm or empty, S has no wrong one.
        2. phase 2, given that: fewer than N calls with δ/(3N): δ/3.
        Sum: δ.
    As printed: the paper's proof does not add up, but with the paper's elimination the scheme is
    δ-PC for up to 19 δ/γ² agents (`theory.bai_cl_most_agents`): a call errs with probability of
    order γ². Proof in docs/paper-read-closely.md. With another engine:
    `python -m research.counterexample`.

    Communication: down S to each agent once, ⌈log2 Σ_{i≤M} C(K, i)⌉ bits; up ⌈log2 K⌉ bits from
    each agent of phase 1, ⌈log2 |S|⌉ of phase 2.
    """

    name = "bai-cl"
    guarantee = (
        "delta-PC under Assumption 1: with confidence=certified, or by default for N <= "
        "theory.bai_cl_most_agents(M, delta)"
    )
    _needs: tuple[str, ...] = ("n_clusters", "eta")

    def __init__(self, confidence: str = "paper", engine: str = "elimination") -> None:
        self.confidence = check_choice("confidence", confidence, ("paper", "certified"))
        get_engine(engine)
        self.engine = engine
        # With the paper's elimination the printed budgets hold, because a call errs with a
        # probability of order γ². An engine that spends its level has no such slack.
        if confidence == "paper" and engine != "elimination":
            warnings.warn(
                f"{self.name} with confidence='paper' and engine={engine!r} is not proved to be "
                "delta-PC: the printed budgets do not add up to delta when almost every agent is "
                "drawn in phase 1; `python -m research.counterexample` plays an instance where "
                "this fails. Use confidence='certified'.",
                stacklevel=2,
            )

    def solve(self, federation: FederationView) -> Ints:
        """Algorithm 3: lines 2 to 17 (first phase), lines 18 to 24 (second phase)."""
        p = federation.problem
        require(self.name, p, *self._needs)
        all_arms = federation.arms
        engine = get_engine(self.engine)
        best = np.full(p.n_agents, -1)
        known = np.zeros(p.n_arms, dtype=bool)  # the set S
        # What the agent that added an arm to S reported of it (`_describe`).
        means = np.zeros(p.n_arms)

        def find(block: Block, known_there: Bools) -> Answer:
            active, estimates = engine(block, all_arms, gamma, precision=p.eta)  # line 7
            shared = active & known_there
            if shared.any():  # lines 8 and 9
                return (ArmIndex(leaders(estimates, shared), among=p.n_arms),)
            own = np.flatnonzero(active)
            last, _ = engine(block, own, gamma)  # line 12
            arm = own[last.argmax(axis=1)]
            return (ArmIndex(arm, among=p.n_arms), *self._describe(block, arm))  # line 13

        with federation.phase("identify"):
            for drawn, agent in enumerate(federation.rng.permutation(p.n_agents), 1):  # line 5
                if known.sum() == p.n_clusters:  # line 4
                    break
                gamma = self._draw_budget(p, drawn)
                known_set = ArmSet(known, at_most=p.n_clusters)
                arm, *report = federation.local([agent], find, down=known_set)
                best[agent] = arm.item()  # line 16
                if report:
                    means[arm] = report[0]
                known[arm] = True
        rest = np.flatnonzero(best < 0)
        with federation.phase("assign"):
            if rest.size:
                known_set = ArmSet(known, at_most=p.n_clusters)  # line 20
                arms = np.flatnonzero(known)
                best[rest] = self._assign(federation, rest, arms, known_set, means)
        federation.report_clusters(best)
        return best

    def _describe(self, block: Block, arm: Ints) -> tuple[Payload, ...]:
        """What an agent adds to the report of a new best arm (1,); nothing here."""
        return ()

    def _draw_budget(self, p: Problem, t: int) -> float:
        """γ of the t-th agent drawn, t = 1, 2, ..."""
        if self.confidence == "certified":
            return p.delta / (3 * t * (t + 1))
        m = p.n_clusters
        assert m
        if m == 1:
            return p.delta / 3
        # ln(M/(M−1)) = −ln(1 − 1/M), without loss of digits for large M.
        return p.delta * -log1p(-1 / m) / log(3 * m / p.delta)

    def _assign(
        self, federation: FederationView, rest: Ints, arms: Ints, known: ArmSet, means: Floats
    ) -> Ints:
        """Algorithm 3, lines 19 to 24: the arms of `rest`, each one of `arms`, the set S."""
        p = federation.problem
        engine = get_engine(self.engine)

        def choose(block: Block, _: Bools) -> ArmIndex:
            active = engine(block, arms, gamma=p.delta / (3 * p.n_agents))[0]  # line 21
            return ArmIndex(arms[active.argmax(axis=1)], among=arms)  # line 22

        return federation.local(rest, choose, down=known, n_arms=arms.size)
