"""What a scheme must be told, and which of two sets of error budgets it runs with."""

from __future__ import annotations

from typing import Any

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.problem import Problem

#: "paper": the budgets as printed. "certified": budgets whose union bound adds up to δ, whatever the cluster sizes.
CONFIDENCES = ("paper", "certified")

_MEANING = {
    "n_clusters": "M, the number of clusters",
    "eta": "eta, the separation of Assumption 1",
    "eta1": "eta1, the separation of Assumption 2",
}


def check_choice(what: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UserError(f"{what} must be one of {', '.join(map(repr, known))}; got {value!r}")
    return str(value)


def require(policy: str, problem: Problem, *names: str) -> tuple[Any, ...]:
    """The values of `names` in `problem`; `ValueError` where one was not told."""
    missing = [_MEANING[name] for name in names if getattr(problem, name) is None]
    if missing:
        raise UserError(
            f"{policy} cannot do without {' and '.join(missing)}, which the problem does not tell; "
            "tell it (a lower bound will do for eta and eta1), or use the naive scheme"
        )
    return tuple(getattr(problem, name) for name in names)
