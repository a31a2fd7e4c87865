"""One trial: one player, one seed, one row.

A `Policy` plays on a `Federation` directly, without the environment's observations and loop.
Anything with `act(obs, info)` plays the Gymnasium loop. Both give the same row of plain values,
which comes from the federation itself; the player never holds it.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.play import Play
from clustered_bandit_gym.game.seeds import global_seed, trial_seeds
from clustered_bandit_gym.harness.bound import bound_of
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.outcome import describe, outcome_row, text_of
from clustered_bandit_gym.harness.settings import (
    Cell,
    Env,
    label_of,
    path_of,
    settings_of,
    writable,
)

Row = Values


class Task(NamedTuple):
    """Which trial of which policy on which cell: positions in `Work`."""

    cell: int
    player: int
    trial: int


@dataclass
class Work:
    """Everything that decides the rows of a run.

    Attributes:
        cells: settings of environments.
        players: policies as (label, object); they are copied before they play.
        seed: root seed.
        bound, strict: as in `play`.
        envs: the environments of the cells; made here unless they are given, and never sent to
            another process. Invalid settings raise.
    """

    cells: list[Cell]
    players: list[tuple[str, Any]]
    seed: int
    bound: bool = True
    strict: bool = True
    envs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.envs = self.envs or [cell.make() for cell in self.cells]

    def __reduce__(self) -> Any:
        return Work, (self.cells, self.players, self.seed, self.bound, self.strict)

    def play(
        self,
        task: Task,
        stepwise: bool = False,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> Row:
        """The row of a task; `on_error` gets the exception that ended the play, if one did."""
        row = self._identity(task, stepwise)
        policy = self.players[task.player][1]
        seeds = trial_seeds(self.seed, task.trial)
        direct = hasattr(policy, "solve") and not stepwise
        env = self.envs[task.cell]
        unwrapped = env.unwrapped
        options = {"instance_seed": seeds.instance, "play_seed": seeds.play}
        # Outside of the try: if the environment cannot be set up, that is not the policy's failure.
        if direct:
            truth = unwrapped.draw_instance(seeds.instance)
            federation = unwrapped.federation_on(truth, seeds.play)
        else:
            first = env.reset(seed=seeds.policy, options=options)
        raised = None
        process = os.getpid()
        start = perf_counter()
        with seeded_globals(seeds.policy):
            try:
                player = copy.deepcopy(policy)
                if direct:
                    arms = player.solve(federation.view(self.strict, player))
                    if federation.judgement is None:
                        check_answer(arms, federation)
                        federation.stop(arms)
                elif stepwise:
                    from clustered_bandit_gym.envs.stepwise import play_stepwise

                    play_stepwise(player, env, seeds.policy, **options, strict=self.strict)
                else:
                    _play_loop(player, env, seeds.policy, *first)
            except BaseException as error:
                # In other threads, and where SIGINT is ignored as in worker processes, no interrupt
                # is the user's.
                main = threading.current_thread() is threading.main_thread()
                ours = not main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
                if isinstance(error, KeyboardInterrupt) and not ours:
                    raise
                raised = error
            if os.getpid() != process:
                # A child that the policy forked: the harness goes on in its parent only.
                os._exit(1)
        if not direct:
            federation = unwrapped.federation
            truth = unwrapped.truth
        unfinished = ""
        message = ""
        failure = federation.failure or raised  # what a policy made of a failure does not matter
        if failure is not None:
            seen = raised or failure
            if seen is not failure:
                seen.__cause__ = failure
            unfinished = "budget" if isinstance(failure, BudgetExceeded) else "error"
            message = text_of(failure) if unfinished == "budget" else describe(failure, seen)
            if on_error is not None:
                on_error(seen)
        seconds = perf_counter() - start
        judged = outcome_row(federation, unfinished, message)
        bound = bound_of(truth, federation.problem) if self.bound else None
        return row | judged | {"bound": bound, "seconds": seconds, "version": versions()}

    def lost(self, task: Task, outcome: str, message: str) -> Row:
        """The row of a task whose process was lost with its counts: no pulls, messages or bound."""
        env = self.envs[task.cell].unwrapped
        federation = env.new_federation(*trial_seeds(self.seed, task.trial))
        judged = outcome_row(federation, outcome, message)
        own = {"bound": None, "seconds": 0.0, "version": versions()}
        return self._identity(task) | judged | own

    def _identity(self, task: Task, stepwise: bool = False) -> Row:
        """What is played, as the row says it."""
        label, policy = self.players[task.player]
        spec = self.envs[task.cell].spec
        cell = self.cells[task.cell]
        return {
            "env": cell.env_id if spec is None else spec.id,
            "env_kwargs": cell.plain_kwargs,
            "policy": label,
            "policy_class": path_of(type(policy)),
            "guarantee": writable(str(getattr(policy, "guarantee", ""))),
            "settings": settings_of(policy),
            "trial": int(task.trial),
            "seed": int(self.seed),
            "stepwise": stepwise,
            "strict": self.strict,
            "attempts": 1,
        }


def play(
    policy: Any,
    env: Env | str,
    seed: int = 0,
    stepwise: bool = False,
    *,
    strict: bool = True,
    trial: int = 0,
    bound: bool = True,
    env_kwargs: Values | None = None,
) -> Row:
    """One episode of any player on any environment of this package.

    A player that raises, or runs out of budget, gives a row too: its outcome says so. The player
    itself is copied first, so that nothing it remembers reaches another trial; global random states
    (`random`, NumPy, torch) are seeded for the play and put back after it.

    Args:
        policy: a `Policy`, a `StepPolicy`, or anything with `act(obs, info)`; or a name such as
            "bai-cl++".
        env: an environment of this package, wrapped or not, or its id.
        seed, trial: the row equals that of trial `trial` in `evaluate(..., seed=seed)`.
        stepwise: play `Policy.solve` through `env.step`, pull by pull and through all wrappers.
            Slow; same law.
        strict: nothing reaches the policy from the agents but what they send; see
            `FederationView`.
        bound: compute the instance's lower bound on the pulls.
        env_kwargs: what the row says of the environment; by default what it says itself.

    Returns:
        A flat dict of plain values. `outcome` is "solved", "wrong", "budget" or "error"; runs over
        several processes also have "crash" and "timeout". `correct` is None unless the player
        stopped. The first stop is final: an exception after it does not change the outcome.
        `message` says what went wrong. `rounds` counts exchanges between centre and agents.
        `suspicious_communication`: all answers are right, but the bits sent up cannot carry half of
        the information in them.
    """
    ((label, policy),) = resolve_policies(policy)
    if stepwise and not hasattr(policy, "solve"):
        raise UserError(f"stepwise play needs a policy with solve(federation); got {policy!r}")
    if isinstance(env, str):
        env = Cell(env, env_kwargs or {}).make()
    if env_kwargs is None:
        env_kwargs = dict(env.spec.kwargs) if env.spec is not None else {}
    cell = Cell(type(env.unwrapped).__name__, env_kwargs)
    work = Work([cell], [(label, policy)], seed, bound, strict, [env])
    return work.play(Task(0, 0, trial), stepwise)


def resolve_policies(policies: Any) -> list[tuple[str, Any]]:
    """Policies as (label, object), labels unique; names are looked up."""
    from clustered_bandit_gym.policies import make

    several = isinstance(policies, Iterable) and not isinstance(policies, str)
    players = {}
    for policy in policies if several else [policies]:
        player = make(policy) if isinstance(policy, str) else policy
        if isinstance(player, type) or not (hasattr(player, "solve") or hasattr(player, "act")):
            raise UserError(
                "a policy is a name, or an object with solve(federation) or act(obs, info), such "
                f"as Mine(), not Mine; got {policy!r}"
            )
        label = name = label_of(player)
        number = 1
        while name in players:
            number += 1
            name = f"{label} #{number}"
        players[name] = player
    if not players:
        raise UserError("no policies are given")
    return list(players.items())


def check_answer(arms: Any, federation: Play) -> None:
    """Tell what is wrong with the form of what `solve` returned, and who forgot to return."""
    if arms is None and federation.silent_program:
        raise UserError(
            f"the local program `{federation.silent_program}` returned nothing, so "
            "federation.local(...) gave None, and so did solve; end the program with a payload, "
            "e.g. return ArmIndex(arms, among=problem.n_arms)"
        )
    answer = np.asarray(arms)
    expected = federation.agents.shape
    if answer.dtype.kind not in "iu" or answer.shape != expected:
        got = "None" if arms is None else f"{answer.dtype} of shape {answer.shape}"
        raise UserError(
            f"solve returned {got}; expected one arm per agent: an int array {expected}"
        )


def _play_loop(player: Any, env: Any, seed: int, obs: Any, info: Any) -> None:
    """`act` in the Gymnasium loop."""
    if hasattr(player, "reset"):
        player.reset(info, seed=seed)
    terminated = truncated = False
    while not (terminated or truncated):
        obs, _, terminated, truncated, info = env.step(player.act(obs, info))
    federation = env.unwrapped.federation
    if federation.judgement is None:
        raise BudgetExceeded(f"the environment ended the play after {federation.pulls:,} pulls")


# --- what surrounds a play in its process ----------------------------------------------------------


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Global random states fixed during a play: a policy that uses them must give the same row in
    any process. These states are put back afterwards, and so is what else policies change for their
    own use and would leave to the next trial: NumPy's error handling, warning filters, and the
    working directory. torch is seeded if it is loaded."""
    filters = list(warnings.filters)
    torch = sys.modules.get("torch")
    torch_state = nullcontext() if torch is None else torch.random.fork_rng(devices=[])
    with global_seed(seed), np.errstate(), chdir("."), torch_state:
        if torch is not None:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            warnings.filters[:] = filters  # type: ignore[index]
