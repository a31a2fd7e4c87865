"""What a policy gets from the harness: a federation without its books."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import BudgetExceeded, ProgramFailed
from clustered_bandit_gym.game.isolation import Isolation
from clustered_bandit_gym.game.ledger import Ledger
from clustered_bandit_gym.game.payloads import Payload
from clustered_bandit_gym.game.problem import Problem

if TYPE_CHECKING:
    from clustered_bandit_gym.game.federation import Federation


class FederationView:
    """The centre's side of a play: everything a policy may use, nothing that it could change.

    It has the methods of a `Federation` with two differences. Attributes are read-only, and what
    they return are copies. `stop` is final and returns None: a policy does not learn whether it was
    right.

    Problem, δ, counts, budget, ledger and judgement are kept in the federation itself, which no
    public name leads to.

    Args:
        federation: the play.
        strict: nothing comes from the agents but what they send. Local programs run as serialised
            copies. An exception in a program, or a spent budget, ends the play, and what it says is
            not shown to the policy. The centre does not see how many pulls the agents made.
    """

    __slots__ = ("__books", "__problem", "__strict")
    __books: Federation
    __strict: bool
    __problem: Problem

    def __init__(self, federation: Federation, strict: bool = False) -> None:
        object.__setattr__(self, "_FederationView__books", federation)
        object.__setattr__(self, "_FederationView__strict", strict)
        # A copy for the centre: the agents' own is within reach of local programs.
        object.__setattr__(self, "_FederationView__problem", copy(federation.told))
        federation.isolation = Isolation((FederationView, type(federation)), federation.told)

    # --- what the centre is told ------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """What the learner is told. The harness judges by its own copy."""
        return self.__problem

    @property
    def agents(self) -> Ints:
        """(N,) ids of all agents."""
        return self.__books.agents.view()

    @property
    def arms(self) -> Ints:
        """(K,) ids of all arms."""
        return self.__books.arms.view()

    @property
    def reward_values(self) -> Floats | None:
        """(S,) the values that rewards can take, increasing; None where they are not finitely many."""
        return self.__books.reward_values

    @property
    def rng(self) -> np.random.Generator:
        """The policy's own randomness; apart from the stream of rewards."""
        return self.__books.rng

    @property
    def max_pulls(self) -> int:
        """Pulls beyond this raise `BudgetExceeded`."""
        return self.__books.max_pulls

    # --- the books, to read -----------------------------------------------------------------------

    @property
    def pulls(self) -> int:
        """Pulls made so far."""
        return self.__counts().pulls

    @property
    def pulls_per_agent(self) -> Ints:
        """(N,) pulls made at each agent so far, a copy."""
        return self.__counts().pulls_per_agent.copy()

    @property
    def pulls_by_phase(self) -> dict[str, int]:
        """Pulls made in each phase so far, a copy."""
        return dict(self.__counts().pulls_by_phase)

    @property
    def rounds(self) -> int:
        """Exchanges between centre and agents so far."""
        return self.__books.rounds

    @property
    def ledger(self) -> Ledger:
        """A copy of the ledger as it stands: what was sent so far."""
        return self.__books.ledger.copy()

    @property
    def current_phase(self) -> str:
        """The phase under which pulls and messages are counted now."""
        return self.__books.current_phase

    # --- what the centre does ---------------------------------------------------------------------

    def phase(self, name: str) -> AbstractContextManager[None]:
        """See `Federation.phase`."""
        return self.__books.phase(name)

    def local(
        self,
        agents: ArrayLike,
        program: Callable[..., Payload | Sequence[Payload] | None],
        down: Payload | Sequence[Payload] = (),
        *,
        n_arms: int | None = None,
    ) -> Any:
        """See `Federation.local`."""
        books = self.__books
        if not self.__strict or books.isolation is None:
            return books.local(agents, program, down, n_arms=n_arms)
        books.check_open()
        try:
            return books.local(agents, books.isolation.isolated(program), down, n_arms=n_arms)
        except BaseException as error:
            failure = error
        raise self.__ended(failure)

    def pull(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """See `Federation.pull`."""
        try:
            return self.__books.pull(agents, arms, times)
        except BudgetExceeded as error:
            failure = error
        raise self.__ended(failure)

    def pull_counts(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """See `Federation.pull_counts`."""
        try:
            return self.__books.pull_counts(agents, arms, times)
        except BudgetExceeded as error:
            failure = error
        raise self.__ended(failure)

    def __ended(self, failure: BaseException) -> BaseException:
        """End a strict play, and say what kind of failure it was, nothing else.

        What is wrong with an answer could tell the policy what is in it. A policy that could go on
        after a spent budget would find out, order by order, how many pulls the agents have made.
        """
        if not self.__strict:
            return failure
        self.__books.failure = failure
        if isinstance(failure, KeyboardInterrupt):
            return KeyboardInterrupt()
        if isinstance(failure, BudgetExceeded):
            return BudgetExceeded("the budget is spent; in strict mode this ends the play")
        return ProgramFailed(
            "a local program raised an exception; in strict mode this ends the play"
        )

    def report_clusters(self, labels: ArrayLike) -> None:
        """See `Federation.report_clusters`."""
        self.__books.report_clusters(labels)

    def stop(self, arms: ArrayLike) -> None:
        """End the play with one arm per agent (N,).

        The first stop is final. Returning the arms has the same effect.
        """
        self.__books.end(arms)

    def __counts(self) -> Federation:
        if self.__strict:
            raise AttributeError(
                "strict mode: the centre does not see how many pulls the agents made; let them "
                "send it, or count the pulls that it orders itself"
            )
        return self.__books

    # --- what is refused --------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"cannot set {name!r}: a policy reads the federation's attributes, the harness "
            "keeps them"
        )

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a federation cannot be copied or pickled: a play happens once. Keep what you need of "
            "it instead"
        )
