"""What a scheme requires of the problem, and which of two sets of error budgets it runs with."""

from __future__ import annotations

import warnings
from typing import Any

from clustered_bandit_gym.errors import NotApplicable, UserError
from clustered_bandit_gym.game.problem import Problem

#: "paper": the budgets as printed. "certified": budgets whose union bound adds up to δ, whatever
#: the cluster sizes.
CONFIDENCES = ("paper", "certified")

_MEANING = {
    "n_clusters": "M, the number of clusters",
    "eta": "the separation of Assumption 1",
    "eta1": "the separation of Assumption 2",
}


def check_choice(what: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UserError(f"{what} must be one of {', '.join(map(repr, known))}; got {value!r}")
    return str(value)


def require(policy: str, problem: Problem, *names: str) -> tuple[Any, ...]:
    """The values of `names` in `problem`; `NotApplicable` if one of them is None."""
    missing = [name for name in names if getattr(problem, name) is None]
    if missing:
        meanings = " and ".join(f"{name} ({_MEANING[name]})" for name in missing)
        example = ", ".join(f'"{name}": ...' for name in missing)
        raise NotApplicable(
            f"{policy} requires {meanings}, but the problem does not tell it; pass "
            f"told={{{example}}}, or the same to Problem or `study new` (a lower bound is enough "
            "for eta and eta1), or use the naive scheme"
        )
    return tuple(getattr(problem, name) for name in names)


def warn_if_unproved(policy: str, confidence: str, engine: str) -> None:
    """Warn when the printed error budgets are used with another engine than the paper's.

    The printed γ of BAI-Cl is larger than its proof needs. With the paper's elimination the budgets
    hold all the same, because a call errs with a probability of order γ². An engine that spends its
    level has no such slack.
    """
    if confidence == "paper" and engine != "elimination":
        warnings.warn(
            f"{policy} with confidence='paper' and engine={engine!r} is not proved to be delta-PC: "
            "the printed budgets do not add up to delta when almost every agent is drawn in phase 1. "
            "`python -m research.counterexample` plays an instance on which bai-cl with "
            "engine='mixture' fails. Use confidence='certified'.",
            UserWarning,
            stacklevel=3,
        )
