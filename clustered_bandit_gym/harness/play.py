"""One trial: one player, one seed, one row.

A `Policy` plays on a `Federation` directly, without the environment's observations and loop.
Anything with `act(obs, info)` plays the Gymnasium loop. Both give the same row of plain values,
which comes from the federation itself; the player never holds it.
"""

from __future__ import annotations

import copy
import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.seeds import global_seed, trial_seeds
from clustered_bandit_gym.harness.bound import bound_of
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.outcome import describe, outcome_row, text_of
from clustered_bandit_gym.harness.settings import Cell, Env, label_of, path_of, settings_of

Row = dict[str, Any]


@dataclass(frozen=True)
class TrialSpec:
    """Everything that decides a trial's row.

    Attributes:
        cell: the setting of the environment.
        policy, label: the player, which is copied before it plays, and its name on the board.
        seed, trial: root seed of the run, and the trial's number.
        stepwise: play `solve` through `env.step`.
        strict: the policy learns nothing from the agents but what they send.
        bound: compute the instance's lower bound on the pulls.
    """

    cell: Cell
    policy: Any
    label: str
    seed: int
    trial: int
    stepwise: bool = False
    strict: bool = True
    bound: bool = True


class Task(NamedTuple):
    """Which trial of which policy on which cell: positions in `Work`."""

    cell: int
    player: int
    trial: int


@dataclass
class Work:
    """All that the trials of a run share.

    Attributes:
        cells: settings of environments.
        players: policies as (label, object).
        seed, bound, strict: as in `play`.
    """

    cells: list[Cell]
    players: list[tuple[str, Any]]
    seed: int
    bound: bool = True
    strict: bool = True

    def __post_init__(self) -> None:
        #: The environments of the cells. Invalid settings raise here.
        self.envs: list[Any] = [cell.make() for cell in self.cells]

    def __reduce__(self) -> Any:
        return Work, (self.cells, self.players, self.seed, self.bound, self.strict)

    def spec(self, task: Task) -> TrialSpec:
        """What decides the row of a task."""
        label, policy = self.players[task.player]
        cell = self.cells[task.cell]
        return TrialSpec(
            cell, policy, label, self.seed, task.trial, strict=self.strict, bound=self.bound
        )

    def play(self, task: Task) -> Row:
        """The row of a task."""
        return play_trial(self.spec(task), self.envs[task.cell])

    def lost(self, task: Task, outcome: str, message: str) -> Row:
        """The row of a task whose process was lost with its counts: no pulls, messages or bound."""
        env = self.envs[task.cell]
        federation = env.unwrapped.new_federation(*trial_seeds(self.seed, task.trial))
        judged = outcome_row(federation, outcome, message)
        own = {"bound": None, "seconds": 0.0, "version": versions()}
        return _identity(self.spec(task), env) | judged | own


def play(
    policy: Any,
    env: Env | str,
    seed: int = 0,
    stepwise: bool = False,
    *,
    strict: bool = True,
    trial: int = 0,
    bound: bool = True,
    env_kwargs: dict[str, Any] | None = None,
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
        env_kwargs.pop("disable_env_checker", None)
    cell = Cell(type(env.unwrapped).__name__, env_kwargs)
    spec = TrialSpec(cell, policy, label, seed, trial, stepwise, strict, bound)
    return play_trial(spec, env)


def resolve_policies(policies: Any) -> list[tuple[str, Any]]:
    """Policies as (label, object), labels unique; names are looked up."""
    from clustered_bandit_gym.policies import make

    several = isinstance(policies, Iterable) and not isinstance(policies, str)
    players: dict[str, Any] = {}
    for policy in policies if several else [policies]:
        player = make(policy) if isinstance(policy, str) else policy
        if isinstance(player, type) or not (hasattr(player, "solve") or hasattr(player, "act")):
            raise UserError(
                "a policy is a name, or an object with solve(federation) or act(obs, info), such "
                f"as Mine(), not Mine; got {policy!r}"
            )
        label = label_of(player)
        names = itertools.chain([label], (f"{label} #{n}" for n in itertools.count(2)))
        players[next(name for name in names if name not in players)] = player
    if not players:
        raise UserError("no policies are given")
    return list(players.items())


def play_trial(
    spec: TrialSpec, env: Env, on_error: Callable[[BaseException], object] | None = None
) -> Row:
    """The row of a trial on the environment of its cell.

    `on_error` is called with the exception that ended the play, if one did.
    """
    seeds = trial_seeds(spec.seed, spec.trial)
    direct = hasattr(spec.policy, "solve") and not spec.stepwise
    row = _identity(spec, env)
    unwrapped: Any = env.unwrapped
    federation: Federation
    options = {"instance_seed": seeds.instance, "play_seed": seeds.play}
    # Outside of the try: if the environment cannot be set up, that is not the policy's failure.
    if direct:
        truth = unwrapped.draw_instance(seeds.instance)
        federation = unwrapped.federation_on(truth, seeds.play)
    else:
        first = env.reset(seed=seeds.policy, options=options)
    raised: BaseException | None = None
    process = os.getpid()
    start = perf_counter()
    with seeded_globals(seeds.policy):
        try:
            player = copy.deepcopy(spec.policy)
            if direct:
                arms = player.solve(federation.view(spec.strict))
                if federation.judgement is None:
                    _check_not_none(arms, federation.silent_program)
                    federation.stop(arms)
            elif spec.stepwise:
                from clustered_bandit_gym.envs.stepwise import play_stepwise

                play_stepwise(player, env, seeds.policy, **options, strict=spec.strict)
            else:
                _play_loop(player, env, seeds.policy, *first)
        except BaseException as error:
            # In other threads, and where SIGINT is ignored as in worker processes, no interrupt is
            # the user's.
            main = threading.current_thread() is threading.main_thread()
            ours = not main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            if isinstance(error, KeyboardInterrupt) and not ours:
                raise
            raised = error
        if os.getpid() != process:
            os._exit(1)  # a child that the policy forked: the harness goes on in its parent only
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
    bound = bound_of(truth, federation.problem) if spec.bound else None
    return row | judged | {"bound": bound, "seconds": seconds, "version": versions()}


def _check_not_none(arms: Any, silent_program: str) -> None:
    """Tell who forgot to return an answer; `silent_program` returned nothing, if any did."""
    if arms is None and silent_program:
        raise UserError(
            f"the local program {silent_program} returned nothing, so federation.local(...) gave "
            "None, and so did solve; end the program with a payload, e.g. return ArmIndex(arms, "
            "among=problem.n_arms)"
        )
    if arms is None:
        raise UserError("solve returned None; expected one arm per agent: an int array (N,)")


def _play_loop(player: Any, env: Env, seed: int, obs: Any, info: Any) -> None:
    """`act` in the Gymnasium loop."""
    if hasattr(player, "reset"):
        player.reset(info, seed=seed)
    terminated = truncated = False
    while not (terminated or truncated):
        obs, _, terminated, truncated, info = env.step(player.act(obs, info))
    unwrapped: Any = env.unwrapped
    if truncated and unwrapped.federation.judgement is None:
        pulls = unwrapped.federation.pulls
        raise BudgetExceeded(f"the environment ended the play after {pulls:,} pulls")


def _identity(spec: TrialSpec, env: Env) -> Row:
    return {
        "env": spec.cell.env_id if env.spec is None else env.spec.id,
        "env_kwargs": spec.cell.plain_kwargs,
        "policy": spec.label,
        "policy_class": path_of(type(spec.policy)),
        "settings": settings_of(spec.policy),
        "trial": int(spec.trial),
        "seed": int(spec.seed),
        "stepwise": bool(spec.stepwise),
        "strict": bool(spec.strict),
        "attempts": 1,
    }


# --- what surrounds a play in its process ----------------------------------------------------------


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Global random states fixed during a play: a policy that uses them must give the same row in
    any process.

    These states are put back afterwards, and so is what else policies change for their own use and
    would leave to the next trial: NumPy's error handling, warning filters, and the working
    directory. torch is seeded if it is loaded.
    """
    filters = list(warnings.filters)
    torch = sys.modules.get("torch")
    torch_state = nullcontext() if torch is None else torch.random.fork_rng(devices=[])
    with global_seed(seed), np.errstate(), chdir("."), torch_state:
        if torch is not None:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            if warnings.filters != filters:
                warnings.filters[:] = filters  # type: ignore[index]
