"""Exceptions of the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """The user asked for something that cannot be done; the message says what to do."""


class UnknownSetting(UserError, TypeError):
    """An environment got a keyword that neither it nor its generator has: a `TypeError`, as for
    any function. `known` are the keywords of the generator."""

    def __init__(self, text: str, known: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.known = list(known)


class ImpossibleReward(UserError):
    """A reward that is told cannot occur; `position` counts the rewards, or sums, of the tell."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


class NotApplicable(UserError):
    """A policy cannot play a problem by its definition, e.g. for want of a value that is not told."""


class BudgetExceeded(RuntimeError):
    """The next pulls would exceed a limit (of the play, of an agent, of what can be counted); none
    was drawn."""


class PlayOver(RuntimeError):
    """A play that has stopped was asked to go on."""


class ProgramFailed(RuntimeError):
    """A local program raised in strict mode; what it raised is told to the user alone."""


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Inside, a missing package is reported with the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{error.name} is not installed: in a clone .venv/bin/pip install -c constraints.txt -e "
            f"'.[{name}]', elsewhere pip install 'clustered-bandit-gym[{name}]'",
            name=error.name,
        ) from None
