"""The two kinds of player, and the checks that policies share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import NotApplicable
from clustered_bandit_gym.game.checks import check_choice as check_choice
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.game.problem import Problem

#: First element of an action: pull an arm at an agent, or stop and recommend.
PULL = 0
STOP = 1
#: What a policy may require of a problem.
_MEANING = {
    "n_clusters": "M, the number of clusters",
    "eta": "the separation of Assumption 1",
    "eta1": "the separation of Assumption 2",
}


class _Player:
    """What both kinds share: a name for the scoreboard, and settings as plain values."""

    #: Short name for tables and the command line; the class name if not set.
    name: ClassVar[str] = ""
    #: What the policy promises, one line; "none" for a heuristic.
    guarantee: ClassVar[str] = "none stated"

    @property
    def settings(self) -> Values:
        """The policy's settings as plain values: by default its public instance attributes."""
        return {key: value for key, value in sorted(vars(self).items()) if not key.startswith("_")}

    @property
    def label(self) -> str:
        """Name and the settings that differ from the defaults: ``bai-cl:confidence=certified``."""
        own = self.name or type(self).__name__
        try:
            defaults = type(self)().settings
        except TypeError:
            defaults = {}
        changed = [
            f"{key}={value}"
            for key, value in self.settings.items()
            if key not in defaults or not np.array_equal(defaults[key], value)
        ]
        return ":".join([own, ",".join(changed)]) if changed else own

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"{type(self).__name__}({inside})"


class Policy(_Player, ABC):
    """A learner that runs at the centre of a `Federation`, configured by how it works, never by the
    instance: N, K, M, δ, η, η1 and σ come with `federation.problem`."""

    @abstractmethod
    def solve(self, federation: FederationView) -> np.ndarray:
        """Play until done and return an arm for every agent: integers (N,)."""


class StepPolicy(_Player, ABC):
    """A learner that plays the plain Gymnasium loop, one action at a time."""

    def reset(self, info: Values, seed: int | None = None) -> None:
        """Called after `env.reset` with its `info`: the problem as plain numbers. `seed` is for own
        randomness."""

    @abstractmethod
    def act(self, obs: dict[str, np.ndarray], info: Values) -> Any:
        """The next action: `(cbg.PULL, (agent, arm))` or `(cbg.STOP, arms)`."""


def require(policy: str, problem: Problem, *names: str) -> tuple[Any, ...]:
    """The values of `names` in `problem`; `NotApplicable` if one of them is None."""
    missing = [name for name in names if getattr(problem, name) is None]
    if missing:
        meanings = " and ".join(f"{name} ({_MEANING[name]})" for name in missing)
        example = ", ".join(f'"{name}": ...' for name in missing)
        raise NotApplicable(
            f"{policy} requires {meanings}, but the problem does not tell it; pass "
            f"told={{{example}}}, or the same to Problem or `study new` (a lower bound is enough "
            "for eta and eta1, which shared best arms lack), or use the naive scheme"
        )
    return tuple(getattr(problem, name) for name in names)
