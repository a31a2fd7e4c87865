"""What a policy gets of a play: `FederationView` at the centre, `Block` at the agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, Floats, Ints, Rng
from clustered_bandit_gym.errors import BudgetExceeded, PlayOver, ProgramFailed, UserError
from clustered_bandit_gym.game.checks import indices, read_only
from clustered_bandit_gym.game.isolation import Isolation
from clustered_bandit_gym.game.ledger import Ledger
from clustered_bandit_gym.game.payloads import Payload
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import Play


class FederationView:
    """The centre's side of a play: everything a policy may use, nothing that it could change.

    It has the methods of a `Federation` with two differences. Attributes are read-only, and what
    they return are copies. `stop` is final and returns None: a policy does not learn whether it was
    right. Counts, ledger and judgement are kept in the federation itself, which no public name
    leads to.

    Args:
        federation: the `Federation`.
        strict: nothing comes from the agents but what they send. Local programs run as serialised
            copies. An exception in a program, or a spent budget, ends the play, and what it says is
            not shown to the policy. The centre does not see how many pulls the agents made.

    Attributes:
        problem: what the learner is told; the harness judges by its own copy.
        agents, arms: (N,) and (K,) ids of all agents and arms.
        reward_values: (S,) the values that rewards can take, increasing; None where they are not
            finitely many.
        rng: the policy's own randomness; apart from the stream of rewards.
        max_pulls: pulls beyond this raise `BudgetExceeded`.
    """

    problem: Problem
    agents: Ints
    arms: Ints
    reward_values: Floats | None
    rng: Rng
    max_pulls: int
    #: The `Federation`.
    _books: Any
    _strict: bool

    def __init__(self, federation: Any, strict: bool = False) -> None:
        shared = ("agents", "arms", "reward_values", "rng", "max_pulls")
        vars(self).update({name: getattr(federation, name) for name in shared})
        # A copy for the centre: the agents' own is within reach of local programs.
        vars(self).update(problem=copy(federation.told), _books=federation, _strict=strict)
        if strict:
            federation.isolation = Isolation(self)

    @property
    def pulls(self) -> int:
        """Pulls made so far."""
        return int(self._counts().pulls)

    @property
    def pulls_per_agent(self) -> Ints:
        """(N,) pulls made at each agent so far, a copy."""
        per_agent: Ints = self._counts().pulls_per_agent
        return per_agent

    @property
    def pulls_by_phase(self) -> dict[str, int]:
        """Pulls made in each phase so far, a copy."""
        return dict(self._counts().pulls_by_phase)

    @property
    def rounds(self) -> int:
        """Exchanges between centre and agents so far."""
        return int(self._books.rounds)

    @property
    def ledger(self) -> Ledger:
        """A copy of the ledger as it stands: what was sent so far."""
        ledger: Ledger = self._books.ledger.copy()
        return ledger

    def phase(self, name: str) -> AbstractContextManager[None]:
        """See `Federation.phase`."""
        phase: AbstractContextManager[None] = self._books.phase(name)
        return phase

    def local(
        self,
        agents: ArrayLike,
        program: Callable[..., Payload | Sequence[Payload] | None],
        down: Payload | Sequence[Payload] = (),
        *,
        n_arms: int | None = None,
    ) -> Any:
        """See `Federation.local`."""
        local = self._books.local
        return self._attempt(BaseException, local, agents, program, down, n_arms=n_arms)

    def pull(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """See `Federation.pull`."""
        averages: Floats = self._attempt(BudgetExceeded, self._books.pull, agents, arms, times)
        return averages

    def pull_counts(self, agents: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """See `Federation.pull_counts`."""
        request = self._books.pull_counts
        counts: Ints = self._attempt(BudgetExceeded, request, agents, arms, times)
        return counts

    def report_clusters(self, labels: ArrayLike) -> None:
        """See `Federation.report_clusters`."""
        self._books.report_clusters(labels)

    def stop(self, arms: ArrayLike) -> None:
        """End the play with one arm per agent (N,).

        The first stop is final. Returning the arms has the same effect.
        """
        self._books.stop(arms)

    def _attempt(
        self, ends: type[BaseException], request: Callable[..., Any], *order: Any, **options: Any
    ) -> Any:
        """`request(...)`; in strict mode an exception of the kind `ends` ends the play.

        The policy learns what kind of failure it was, nothing else. What is wrong with an answer
        could tell what is in it. A policy that could go on after a spent budget would find out,
        order by order, how many pulls the agents have made.
        """
        if not self._strict:
            return request(*order, **options)
        self._books.check_open()
        try:
            return request(*order, **options)
        except ends as error:
            failure = error
        # Outside of the clause, so that what is raised does not carry the first one with it.
        self._books.failure = failure
        if isinstance(failure, KeyboardInterrupt):
            raise KeyboardInterrupt
        if isinstance(failure, BudgetExceeded):
            raise BudgetExceeded("the budget is spent; in strict mode this ends the play")
        raise ProgramFailed(
            "a local program raised an exception; in strict mode this ends the play"
        )

    def _counts(self) -> Any:
        if self._strict:
            raise AttributeError(
                "strict mode: the centre does not see how many pulls the agents made; let them "
                "send it, or count the pulls that it orders itself"
            )
        return self._books

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"cannot set {name!r}: a policy only reads the federation's attributes"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a federation cannot be copied or pickled: a play happens once")


class Block:
    """Agents that run a local program side by side; rows 0..n−1 are `agents`.

    A block is valid while the program runs: the centre cannot keep it to pull arms without sending
    anything.

    Attributes:
        problem: what the learner is told.
        values: (S,) the values that rewards can take, increasing; None where they are not finitely
            many.
    """

    def __init__(self, play: Play, agents: Ints, whole: Block | None = None) -> None:
        self.problem = play.told
        self.values = play.reward_values
        self._play = play
        self._whole = whole or self
        self._over = False
        self._agents: Ints = read_only(agents)

    def __len__(self) -> int:
        return self._agents.size

    @property
    def agents(self) -> Ints:
        """(n,) the ids of the agents, read-only."""
        return self._agents

    @property
    def _open_play(self) -> Play:
        if self._whole._over:
            raise PlayOver(
                "this block's program has returned; start another one with federation.local(...)"
            )
        return self._play

    def close(self) -> None:
        """End the block: the program has returned, and any later use raises `PlayOver`."""
        self._over = True

    def part(self, rows: ArrayLike) -> Block:
        """The agents of `rows` as a block of their own."""
        return Block(self._open_play, self._ids(rows), whole=self._whole)

    def _ids(self, rows: ArrayLike) -> Ints:
        return self._agents[indices(rows, len(self), "row")]

    def pull(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Floats:
        """Average of `times` fresh pulls of `arms` at the agents of `rows` (integer arrays that
        broadcast).

        A grid `pull(rows[:, None], arms[None, :], n)` is the fastest form.
        """
        return self._open_play.draw(self._ids(rows), arms, times)

    def pull_grid(self, times: int) -> Floats:
        """Average of `times` fresh pulls of every arm at every agent of the block: (n, K)."""
        play = self._open_play
        return play.draw(self._agents[:, None], play.arms[None, :], times)

    def pull_counts(self, rows: ArrayLike, arms: ArrayLike, times: ArrayLike = 1) -> Ints:
        """As `pull`, but returns how often each of `values` occurred instead of an average: (...,
        S).

        An agent sees its rewards one by one; the counts hold everything about them except their
        order.
        """
        return self._open_play.draw(self._ids(rows), arms, times, "counts")

    def random(self, size: int) -> Floats:
        """(n, size) uniform random numbers in [0, 1), each row its agent's own: the same in
        whatever block it is."""
        return self._open_play.agent_streams.uniform(self._agents, size)

    def save(self, name: str, values: ArrayLike) -> None:
        """Keep `values` (n, ...) at the agents for a later program: what stays at an agent is not
        sent."""
        values = np.asarray(values)
        empty = np.zeros((self.problem.n_agents, *values.shape[1:]), dtype=values.dtype)
        kept = self._open_play.memory.setdefault(name, empty)
        expected = (len(self), *kept.shape[1:])
        if (values.shape, values.dtype) != (expected, kept.dtype):
            raise UserError(
                f"save {name!r}: expected {kept.dtype} of shape {expected}, got {values.dtype} of "
                f"shape {values.shape}; each name keeps rows of one form"
            )
        kept[self.agents] = values

    def load(self, name: str) -> Array:
        """What these agents saved under `name`: (n, ...), zeros where an agent saved nothing."""
        memory = self._open_play.memory
        if name not in memory:
            raise KeyError(f"no agent has saved {name!r}")
        return memory[name][self.agents]
