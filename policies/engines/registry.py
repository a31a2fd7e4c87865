"""Engines: the best-arm subroutine of `NaiveSE`, `BAICl` and `BAIClPlusPlus`.

Every engine runs many agents in lock-step and pulls in batches whose size grows geometrically, so
that 10^9 pulls are hundreds of steps. It guarantees for each agent, with probability at least 1 −
γ: the agent's best arm among `arms` is left; without `precision` it is the only one; with it, no
arm is left that is `precision` or more below the best.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Protocol

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Block
from clustered_bandit_gym.policy import check_choice

#: What an engine returns, see `Engine`.
Found = tuple[Bools, Floats]


class Engine(Protocol):
    """Find the best of `arms` at every agent of `block`."""

    def __call__(
        self, block: Block, arms: Ints, gamma: float, precision: float | None = None
    ) -> Found:
        """
        Args:
            arms: (k,) the arms that matter, the columns of all that follows.
            gamma: error budget of each agent.
            precision: stop once all arms this much below the best are gone; None: continue to a
                single arm.

        Returns:
            active: (n, k) booleans, what is left. estimates: (n, k) averages, 0 without a pull.
        """


#: Name -> the guarantee with its source. The engine "top-two" is the function top_two of its module.
ENGINES: dict[str, str] = {
    "elimination": "fresh samples in every round, union bound over arms and rounds (Even-Dar, "
    "Mannor, Mansour 2002)",
    "mixture": "cumulative samples, one mixture for each of the best arm's pairs (Robbins 1970); "
    "bets where the support of rewards is told (Waudby-Smith, Ramdas 2023)",
    "lucb": "LUCB sampling (Kalyanakrishnan et al. 2012) with normal-mixture intervals, union over "
    "arms",
    "track-and-stop": "tracks the optimal allocation (Garivier, Kaufmann 2016); evidence as for "
    "mixture",
    "top-two": "EB-TCI sampling (Jourdan, Degenne, Kaufmann 2023); evidence as for mixture",
    "batched": "few, large batches in the optimal proportions (after Jin et al. 2024); evidence as "
    "for mixture",
}


def get_engine(name: str) -> Engine:
    """The engine of that name; an unknown name raises an error that lists the known ones."""
    own = check_choice("engine", name, tuple(ENGINES)).replace("-", "_")
    return resolve_name(f"clustered_bandit_gym.policies.engines.{own}:{own}")
