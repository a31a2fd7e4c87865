"""Policies by name, for the command line and for settings files."""

from __future__ import annotations

from inspect import signature
from pkgutil import resolve_name

from clustered_bandit_gym.errors import UserError, suggestion
from clustered_bandit_gym.imports import load_object
from clustered_bandit_gym.policy import Policy, StepPolicy
from clustered_bandit_gym.settings_text import parse_pair, parse_pairs, parse_value

#: Command-line name -> "module:Class".
POLICIES = {
    "naive": "clustered_bandit_gym.policies.paper.naive:NaiveSE",
    "cl-bai": "clustered_bandit_gym.policies.paper.cl_bai:ClBAI",
    "bai-cl": "clustered_bandit_gym.policies.paper.bai_cl:BAICl",
    "bai-cl++": "clustered_bandit_gym.policies.paper.bai_cl_pp:BAIClPlusPlus",
    "structured-bai": "clustered_bandit_gym.policies.structured.policy:StructuredBAI",
    "frugal-bai": "clustered_bandit_gym.policies.frugal.policy:FrugalBAI",
    "cluster-then-bai": "clustered_bandit_gym.policies.cluster_then_bai:ClusterThenBAI",
    "collaborative": "clustered_bandit_gym.policies.collaborative:CollaborativeBAI",
    "uniform": "clustered_bandit_gym.policies.baselines:UniformPolicy",
    "random": "clustered_bandit_gym.policies.baselines:RandomPolicy",
    "uniform-glr": "clustered_bandit_gym.policies.uniform_glr:UniformGLR",
    "learned": "clustered_bandit_gym.policies.learned.player:LearnedPolicy",
    "sb3": "clustered_bandit_gym.policies.learned.player:SB3Policy",
}


def make(spec: str) -> Policy | StepPolicy:
    """The policy that `spec` names, with its settings.

    A name of `POLICIES`, or `module:Class` for one of your own (the current folder is searched,
    too), optionally followed by a colon and settings: ``bai-cl``,
    ``bai-cl++:confidence=certified,verify=agent``, ``my_module:Mine:c=3,flag=true``. Values are read
    as true/false, none, JSON or text. A setting without ``=`` is the first argument:
    ``learned:model.zip``.
    """
    name, _, rest = spec.partition(":")
    if name in POLICIES:
        cls = resolve_name(POLICIES[name])
    elif rest:
        attribute, _, rest = rest.partition(":")
        cls = load_object(f"{name}:{attribute}", f"policy {spec!r}{_meant(name)}")
        if not (isinstance(cls, type) and issubclass(cls, Policy | StepPolicy)):
            raise UserError(
                f"policy {spec!r}: {attribute!r} of {name!r} is not a class derived from cbg.Policy or cbg.StepPolicy"
            )
    else:
        from clustered_bandit_gym.policies.engines.registry import ENGINES

        if name in ENGINES:
            raise UserError(f"{name!r} is an engine, not a policy: naive:engine={name}")
        raise UserError(
            f"unknown policy {spec!r}{_meant(name)}; known: {', '.join(POLICIES)}, or "
            "module:Class for your own"
        )
    items = [item.strip() for item in rest.split(",") if item.strip()]
    positional = [parse_value(item) for item in items if not parse_pair(item)]
    pairs = list(filter(parse_pair, items))
    settings = parse_pairs(pairs, f"policy {spec!r}") if pairs else {}
    try:
        return cls(*positional, **settings)
    except (UserError, ImportError, OSError):
        raise
    except Exception as error:
        names = ", ".join(signature(cls).parameters) or "none"
        raise UserError(
            f"policy {spec!r}: its constructor raised {type(error).__name__}: {error}; its settings: "
            f"{names}"
        ) from error


def _meant(name: str) -> str:
    return suggestion(name.lower().replace("_", "-"), POLICIES)
