"""Policies: the paper's four schemes, baselines, and policies that need fewer pulls.

`make("bai-cl++:confidence=certified")` builds one by name; `POLICIES` lists the names.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from clustered_bandit_gym.policies.registry import POLICIES as POLICIES
from clustered_bandit_gym.policies.registry import make as make

# Imported as themselves: so type checkers take them for public names.
if TYPE_CHECKING:
    from clustered_bandit_gym.policies.baselines import (
        RandomPolicy as RandomPolicy,
    )
    from clustered_bandit_gym.policies.baselines import (
        UniformPolicy as UniformPolicy,
    )
    from clustered_bandit_gym.policies.cluster_then_bai import ClusterThenBAI as ClusterThenBAI
    from clustered_bandit_gym.policies.collaborative import CollaborativeBAI as CollaborativeBAI
    from clustered_bandit_gym.policies.frugal.policy import FrugalBAI as FrugalBAI
    from clustered_bandit_gym.policies.learned.player import LearnedPolicy as LearnedPolicy
    from clustered_bandit_gym.policies.paper.bai_cl import BAICl as BAICl
    from clustered_bandit_gym.policies.paper.bai_cl_pp import BAIClPlusPlus as BAIClPlusPlus
    from clustered_bandit_gym.policies.paper.cl_bai import ClBAI as ClBAI
    from clustered_bandit_gym.policies.paper.naive import NaiveSE as NaiveSE
    from clustered_bandit_gym.policies.structured.policy import StructuredBAI as StructuredBAI
    from clustered_bandit_gym.policies.uniform_glr import UniformGLR as UniformGLR

_CLASSES = {target.partition(":")[2]: target for target in POLICIES.values()}


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return resolve_name(_CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES})
