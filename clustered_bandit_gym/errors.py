"""Exceptions of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import signature
from typing import Any


class UserError(ValueError):
    """The user asked for something that cannot be done; the message says what to do."""


class UnknownSetting(UserError, TypeError):
    """An environment got keywords that neither it nor its generator has: a `TypeError`, as for any
    function. `known` are the keywords that may have been meant."""

    def __init__(self, text: str, unknown: Iterable[str] = (), known: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.unknown = set(unknown)
        self.known = set(known)

    def __str__(self) -> str:
        text = super().__str__()
        for name in self.unknown - self.known:
            text = text.replace(repr(name), f"{name!r}{suggestion(name, self.known)}")
        return text

    def among(self, *owners: Callable[..., Any]) -> UnknownSetting:
        """The same error, where the keywords of `owners` may have been meant, too."""
        for owner in owners:
            self.known |= signature(owner).parameters.keys()
        return self


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
            f"{error.name} is not installed; it comes with the extra {name!r}: in a clone "
            f".venv/bin/pip install -c constraints.txt -e '.[{name}]'",
            name=error.name,
        ) from None


def suggestion(name: str, known: Iterable[str]) -> str:
    """What a mistyped `name` may stand for, in brackets; "" where nothing known is like it."""
    close = get_close_matches(name, list(known), n=2, cutoff=0.76)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
