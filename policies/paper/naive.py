"""The naive scheme: every agent on its own."""

from __future__ import annotations

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.federation import Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex
from clustered_bandit_gym.policies.engines.registry import get_engine
from clustered_bandit_gym.policies.sequential.cells import leaders
from clustered_bandit_gym.policy import Policy


class NaiveSE(Policy):
    """Each agent runs SE([K], δ/N, ∞) and sends the arm that is left. Needs neither M nor η.

    Error: N agents, each wrong with probability at most γ = δ/N; N·δ/N = δ. With ε > 0 the engine
    stops at the precision ε: every arm that is left is within ε of the best.

    Communication: N⌈log2 K⌉ bits up.

    Args:
        engine: the best-arm subroutine, a name of `engines.registry.ENGINES`.
    """

    name = "naive"
    guarantee = "delta-PC"

    def __init__(self, engine: str = "elimination") -> None:
        get_engine(engine)
        self.engine = engine

    def solve(self, federation: FederationView) -> Ints:
        p = federation.problem
        all_arms = federation.arms
        engine = get_engine(self.engine)

        # The naive scheme has no pseudo-code of its own: Algorithm 2 (SE) at every agent.
        def find_best(block: Block) -> ArmIndex:
            active, estimates = engine(
                block, all_arms, gamma=p.delta / p.n_agents, precision=p.epsilon or None
            )
            return ArmIndex(leaders(estimates, active), among=p.n_arms)

        with federation.phase("identify"):
            return federation.local(federation.agents, find_best)
