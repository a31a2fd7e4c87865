"""Policies: the paper's four schemes, baselines, and policies that need fewer pulls.

`make("bai-cl++:confidence=certified")` builds one by name; `POLICIES` lists the names.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from clustered_bandit_gym.policies.registry import POLICIES, make

if TYPE_CHECKING:
    from clustered_bandit_gym.policies.baselines import RandomPolicy, UniformPolicy
    from clustered_bandit_gym.policies.cluster_then_bai import ClusterThenBAI
    from clustered_bandit_gym.policies.collaborative import CollaborativeBAI
    from clustered_bandit_gym.policies.frugal.policy import FrugalBAI
    from clustered_bandit_gym.policies.learned.player import LearnedPolicy
    from clustered_bandit_gym.policies.paper.bai_cl import BAICl
    from clustered_bandit_gym.policies.paper.bai_cl_pp import BAIClPlusPlus
    from clustered_bandit_gym.policies.paper.cl_bai import ClBAI
    from clustered_bandit_gym.policies.paper.naive import NaiveSE
    from clustered_bandit_gym.policies.structured.policy import StructuredBAI
    from clustered_bandit_gym.policies.uniform_glr import UniformGLR

__all__ = [
    "POLICIES",
    "BAICl",
    "BAIClPlusPlus",
    "ClBAI",
    "ClusterThenBAI",
    "CollaborativeBAI",
    "FrugalBAI",
    "LearnedPolicy",
    "NaiveSE",
    "RandomPolicy",
    "StructuredBAI",
    "UniformGLR",
    "UniformPolicy",
    "make",
]

_CLASSES = {target.partition(":")[2]: target for target in POLICIES.values()}


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return resolve_name(_CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES})
