"""Strict mode: local programs as copies that hold nothing of the centre's.

A closure shares its variables with the function that made it, so that a program could write its findings into a list
of the centre's without sending anything. Here a program is serialised at the centre and every block of agents runs a
copy of its own: the return value is the only way back.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import cloudpickle
import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import BudgetExceeded, ProgramFailed
from clustered_bandit_gym.game.ledger import Payload
from clustered_bandit_gym.game.problem import Problem

if TYPE_CHECKING:
    from clustered_bandit_gym.game.block import Block

Answer = Payload | Sequence[Payload] | None

#: Modules of this package are trusted to keep no state, and travel by name; a user's own travel by value.
_PACKAGE = __name__.partition(".")[0]


class AgentSide:
    """What a program that mentions the federation finds at the agents in its place: what everybody is told."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def agents(self) -> Ints:
        return np.arange(self.problem.n_agents)

    @property
    def arms(self) -> Ints:
        return np.arange(self.problem.n_arms)

    def __getattr__(self, name: str) -> NoReturn:
        hint = "; block.random(...) draws random numbers at the agents" if name == "rng" else ""
        raise AttributeError(f"strict mode: a local program cannot use the centre's federation.{name}{hint}")


class IsolatedProgram:
    """A local program that runs as a fresh copy in every block.

    Args:
        program: what the policy passed to `local`. `TypeError` if it cannot be serialised.
        centre: types whose objects are replaced by `AgentSide` wherever the program mentions them.
        problem: what the learner is told.
        fail: called with the exception that a program raised. The policy gets another one, which carries nothing.
    """

    def __init__(
        self,
        program: Callable[..., Answer],
        centre: tuple[type, ...],
        problem: Problem,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._problem, self._fail = problem, fail
        self._packed = _pack(program, centre)

    def __call__(self, block: Block, *values: np.ndarray) -> Answer:
        program = _Unpickler(io.BytesIO(self._packed), self._problem).load()
        try:
            answer: Answer = program(block, *(table.copy() for table in values))
            return answer
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
        # Not within the handler: there the original would travel along as the context of the new exception.
        self._fail(failure)
        raise ended(failure)


def ended(failure: BaseException) -> Exception:
    """What a policy sees of an exception that ended its play in strict mode: its kind, and nothing that was in it."""
    if isinstance(failure, BudgetExceeded):
        return BudgetExceeded("the budget is spent; in strict mode this ends the play")
    return ProgramFailed("a local program raised an exception; in strict mode this ends the play")


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, centre: tuple[type, ...]) -> None:
        super().__init__(file)
        self._centre = centre

    def persistent_id(self, obj: object) -> str | None:
        return "federation" if type(obj) in self._centre else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, problem: Problem) -> None:
        super().__init__(file)
        self._problem = problem

    def persistent_load(self, _: str) -> AgentSide:
        return AgentSide(self._problem)


def _pack(program: Callable[..., Answer], centre: tuple[type, ...]) -> bytes:
    name = getattr(program, "__module__", None) or type(program).__module__
    module = sys.modules.get(name)
    foreign = module is not None and name.partition(".")[0] != _PACKAGE and name != "__main__"
    # By value, so that the functions of that module get copies of its global variables too.
    by_value = foreign and name not in cloudpickle.list_registry_pickle_by_value()
    file = io.BytesIO()
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        _Pickler(file, centre).dump(program)
    except Exception as error:
        raise TypeError(
            f"strict mode: a local program runs as a copy at the agents, but this one cannot be serialised ({error}); "
            "let it refer to arrays, numbers and functions only"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return file.getvalue()
