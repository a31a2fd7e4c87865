"""Best-arm identification for clustered bandits: environments, policies, and a judging harness.

Importing the package registers the environments with Gymnasium. Heavy parts (the harness, plots,
data sets) are loaded when they are first used.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from clustered_bandit_gym import envs_registry
from clustered_bandit_gym._version import __version__ as __version__
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver
from clustered_bandit_gym.game.federation import Block, Federation
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.judge import Judgement
from clustered_bandit_gym.game.ledger import Ledger
from clustered_bandit_gym.game.payloads import (
    ArmIndex,
    ArmSet,
    ArmSubset,
    Flag,
    Payload,
    Quantised,
    Reals,
    Symbol,
)
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.rewards import Bernoulli, Categorical, Gaussian, RewardModel
from clustered_bandit_gym.policy import PULL, STOP, Policy, StepPolicy

#: Where names are that are loaded when first used, besides subpackages.
_LAZY = {
    "env": "clustered_bandit_gym.envs.env",
    "Board": "clustered_bandit_gym.harness.output.board:Board",
    "Store": "clustered_bandit_gym.harness.store:Store",
    "audit": "clustered_bandit_gym.harness.audit.audit:audit",
    "evaluate": "clustered_bandit_gym.harness.run:evaluate",
    "play": "clustered_bandit_gym.harness.play:play",
    "replay": "clustered_bandit_gym.harness.replay:replay",
    "Study": "clustered_bandit_gym.study.study:Study",
    "drive": "clustered_bandit_gym.study.study:drive",
    "sweep": "clustered_bandit_gym.harness.run:sweep",
    "ClusteredBAIEnv": "clustered_bandit_gym.envs.env:ClusteredBAIEnv",
    "ClusteredBAIVectorEnv": "clustered_bandit_gym.envs.vector_env:ClusteredBAIVectorEnv",
    "DiscreteActions": "clustered_bandit_gym.envs.flat_env:DiscreteActions",
    "FlatClusteredBAIEnv": "clustered_bandit_gym.envs.flat_env:FlatClusteredBAIEnv",
    "SB3VecEnv": "clustered_bandit_gym.policies.learned.sb3:SB3VecEnv",
    "parallel_env": "clustered_bandit_gym.envs.parallel:parallel_env",
}

if TYPE_CHECKING:
    from clustered_bandit_gym import datasets, generators, harness, policies, study, testing, theory
    from clustered_bandit_gym.envs.env import ClusteredBAIEnv
    from clustered_bandit_gym.envs.flat_env import DiscreteActions, FlatClusteredBAIEnv
    from clustered_bandit_gym.envs.parallel import parallel_env
    from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
    from clustered_bandit_gym.harness.audit.audit import audit
    from clustered_bandit_gym.harness.output.board import Board
    from clustered_bandit_gym.harness.play import play
    from clustered_bandit_gym.harness.replay import replay
    from clustered_bandit_gym.harness.run import evaluate, sweep
    from clustered_bandit_gym.harness.store import Store
    from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv
    from clustered_bandit_gym.study.study import Study, drive

envs_registry.register()

__all__ = [
    "PULL",
    "STOP",
    "ArmIndex",
    "ArmSet",
    "ArmSubset",
    "Bernoulli",
    "Block",
    "Board",
    "BudgetExceeded",
    "Categorical",
    "ClusteredBAIEnv",
    "ClusteredBAIVectorEnv",
    "DiscreteActions",
    "Federation",
    "Flag",
    "FlatClusteredBAIEnv",
    "Gaussian",
    "Instance",
    "Judgement",
    "Ledger",
    "Payload",
    "PlayOver",
    "Policy",
    "Problem",
    "Quantised",
    "Reals",
    "RewardModel",
    "SB3VecEnv",
    "StepPolicy",
    "Store",
    "Study",
    "Symbol",
    "audit",
    "datasets",
    "drive",
    "evaluate",
    "generators",
    "harness",
    "parallel_env",
    "play",
    "policies",
    "replay",
    "study",
    "sweep",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in {*_LAZY, *__all__}:
        return resolve_name(_LAZY.get(name, f"{__name__}.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
