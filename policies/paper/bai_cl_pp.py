"""BAI-Cl++: BAI-Cl whose second phase checks a guess (the paper's Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.errors import BudgetExceeded
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Flag, Payload, Reals
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import MAX_TIMES
from clustered_bandit_gym.policies.engines.registry import get_engine
from clustered_bandit_gym.policies.paper.bai_cl import BAICl
from clustered_bandit_gym.policies.sequential.cells import leaders
from clustered_bandit_gym.policy import check_choice

#: Tries of SE-hat before it gives up: 10^-k leaves the range of float64 soon after.
MAX_TRIES = 300


class BAIClPlusPlus(BAICl):
    """BAI-Cl whose second phase checks a cheap guess against the centre's mean of that arm.

    Phase 1 ("identify") is that of `BAICl`; besides, an agent with a *new* best arm pulls it ⌈32σ²
    ln(12M/δ)/η1²⌉ fresh times and sends the average. Phase 2 ("assign") is SE-hat with γ = δ/(6N)
    at every other agent: in the k-th try SE(S, 10^-k, R) proposes the arm of best estimate among
    those left, the agent pulls it ⌈32σ² ln(4k²/γ)/η1²⌉ fresh times, and it is accepted if that
    average is within η1/2 of the stored one.

    Needs M, η and η1.

    Args:
        confidence: "paper" or "certified".
        engine: the best-arm subroutine, as in `BAICl`; SE-hat uses it, too.
        verify: who compares. "centre": each try sends the arm and its average up and one bit
            (accepted or not) down. "agent": the stored means go down with S, |S| reals an agent,
            and only the accepted arm comes up.

    Corners: those of `BAICl`. η1 = ∞ (a single cluster): one pull each, and any average passes. An
    agent whose candidates are all rejected, `MAX_TRIES` times (its best arm is missing from S, or a
    stored mean is wrong: a failure that the error probability covers), ends the play with
    `BudgetExceeded`, as an unfinished one.

    Error, `confidence="certified"`:
        1. eliminations of phase 1: 2δ/3, as in `BAICl`.
        2. stored means: at most M of them, off by η1/4 or more with probability 2·exp(−ln(12M/δ)) =
          δ/(6M) each: δ/6.
        3. phase 2, given that: a wrong arm of S is another cluster's best; its stored mean is more
           than 3η1/4 from the agent's own, so accepting it takes an average off by η1/4:
           2·exp(−ln(4k²/γ)) = γ/(2k²) in the k-th try, less than γ in all tries, N·δ/(6N) = δ/6 at
           all agents. How good SE's proposals are, with 10^-k, does not matter.
        Sum: δ.
    As printed, term 1 is that of `BAICl` as printed.

    Communication: as `BAICl`, and up one real for each arm of S, and for verify="centre" one real
    in each try at each agent of phase 2 and one bit down; the paper's remark leaves these out.
    """

    name = "bai-cl++"
    guarantee = (
        "delta-PC under Assumptions 1 and 2: with confidence=certified, or by default for N <= "
        "theory.bai_cl_most_agents(M, delta)"
    )
    _needs = ("n_clusters", "eta", "eta1")

    def __init__(
        self, confidence: str = "paper", verify: str = "centre", engine: str = "elimination"
    ) -> None:
        super().__init__(confidence, engine)
        self.verify = check_choice("verify", verify, ("centre", "agent"))

    def _describe(self, block: Block, arm: Ints) -> tuple[Payload, ...]:
        """After Algorithm 3, line 12: fresh pulls of the new best arm."""
        p = block.problem
        assert p.n_clusters
        times = check_size(log(12 * p.n_clusters / p.delta), p)
        return (Reals(block.pull([0], arm, times)),)

    def _assign(
        self, federation: FederationView, rest: Ints, arms: Ints, known: ArmSet, means: Floats
    ) -> Ints:
        """Algorithm 3, lines 19 to 24, with SE-hat in line 21."""
        eta1 = federation.problem.eta1
        assert eta1
        if self.verify == "agent":

            def all_tries(block: Block, _: Bools, stored: Floats) -> ArmIndex:
                def attempt(k: int, waiting: Ints) -> tuple[Ints, Bools]:
                    place, averages = self._propose(block.part(waiting), arms, k)
                    return arms[place], np.abs(averages - stored[waiting, place]) < eta1 / 2

                return ArmIndex(se_hat(len(block), attempt), among=arms)

            stored = Reals(np.broadcast_to(means[arms], (rest.size, arms.size)))
            return federation.local(rest, all_tries, down=(known, stored), n_arms=arms.size)

        def attempt(k: int, waiting: Ints) -> tuple[Ints, Bools]:
            def one_try(block: Block, *_: Bools) -> Answer:
                place, averages = self._propose(block, arms, k)
                return ArmIndex(arms[place], among=arms), Reals(averages)

            agents = rest[waiting]
            first = (known,) if k == 1 else ()
            arm, averages = federation.local(agents, one_try, down=first, n_arms=arms.size)
            accepted = np.abs(averages - means[arm]) < eta1 / 2
            federation.local(agents, lambda block, _: None, down=Flag(accepted), n_arms=1)
            return arm, accepted

        return se_hat(rest.size, attempt)

    def _propose(self, block: Block, arms: Ints, k: int) -> tuple[Ints, Floats]:
        """Algorithm 4, lines 3 and 4: each agent's candidate, as a place in S, and its average."""
        p = block.problem
        active, estimates = get_engine(self.engine)(block, arms, 10.0**-k, precision=p.eta)
        place = leaders(estimates, active)
        gamma = p.delta / (6 * p.n_agents)
        times = check_size(log(4 * k * k / gamma), p)
        return place, block.pull(np.arange(len(block)), arms[place], times)


def se_hat(n: int, attempt: Callable[[int, Ints], tuple[Ints, Bools]]) -> Ints:
    """SE-hat (Algorithm 4) at n agents in lock-step: (n,) each agent's arm.

    `attempt` gets k and the rows that are waiting. It returns their arms of the k-th try, and which
    of them are accepted (lines 3 to 5).
    """
    found = np.empty(n, dtype=int)
    waiting = np.arange(n)
    for k in range(1, MAX_TRIES + 1):
        arm, accepted = attempt(k, waiting)
        found[waiting[accepted]] = arm[accepted]  # line 6
        waiting = waiting[~accepted]
        if not waiting.size:
            return found
    raise BudgetExceeded(
        f"{waiting.size} agents had all of {MAX_TRIES} candidates rejected: their best arm is not "
        "among those found, or a stored mean is wrong"
    )


def check_size(log_term: float, problem: Problem) -> int:
    """⌈32σ²·log_term/η1²⌉ ≥ 1: such an average is off by η1/4 with chance 2·exp(−log_term)."""
    assert problem.eta1
    size = np.ceil(32 * problem.sigma**2 * log_term / problem.eta1**2)
    return int(np.clip(size, 1, 2.0 * MAX_TIMES))  # pulls beyond it raise `BudgetExceeded`
