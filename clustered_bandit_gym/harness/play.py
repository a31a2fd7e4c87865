"""One trial: one player, one seed, one row.

There are two ways to play. A `Policy` gets the view of a `Federation`, without the environment's observations and loop;
anything with `act(obs, info)` plays the plain Gymnasium loop. Both end in the same row of plain values. The row comes
from the federation itself, which the player never holds.
"""

from __future__ import annotations

import copy
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import TrialSeeds, trial_seeds
from clustered_bandit_gym.harness.bound import bound_of
from clustered_bandit_gym.harness.fingerprint import versions
from clustered_bandit_gym.harness.settings import label_of, path_of, plain, settings_of, writable
from clustered_bandit_gym.harness.surroundings import (
    drew_from_unseeded_torch,
    keyboard,
    seeded_globals,
)

Row = dict[str, Any]

_PACKAGE = str(Path(__file__).parents[1])
_POLICIES = str(Path(__file__).parents[1] / "policies")

#: The most information a real number can carry: a float64.
BITS_OF_A_REAL = 64
#: Characters of an exception's text that a row keeps.
LONGEST_TEXT = 2000
#: Uplinks below this share of what the answers need are flagged.
FAR_BELOW = 0.5


def play(
    policy: Any,
    env: gym.Env[Any, Any] | str,
    seed: int = 0,
    stepwise: bool = False,
    *,
    strict: bool = False,
    trial: int = 0,
    bound: bool = True,
    label: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    on_error: Callable[[BaseException], object] | None = None,
) -> Row:
    """One episode of any player on any environment of this kind.

    A player that raises, or runs out of budget, gives a row too: its outcome says so. The player itself is copied
    first, so that nothing it remembers reaches another trial; global random states (`random`, NumPy, torch) are seeded
    for the play and put back after it.

    Args:
        policy: a `Policy`, a `StepPolicy`, or anything with `act(obs, info)`; or a name such as "bai-cl++".
        env: an environment of this package, wrapped or not, or its id.
        seed, trial: the row equals that of trial `trial` in `evaluate(..., seed=seed)`.
        stepwise: play `Policy.solve` through `env.step`, pull by pull and through all wrappers. Slow; same law.
        strict: nothing reaches the policy from the agents but what they send; see `FederationView`.
        bound: compute the instance's lower bound on the pulls.
        label, env_kwargs: what the row says of the player and the environment; by default what they say themselves.
        on_error: called with the exception that ended the play, if one did.

    Returns:
        A flat dict of plain values. `outcome` is "solved", "wrong", "budget" or "error"; runs over several processes
        also have "crash" and "timeout". `correct` is None unless the player stopped. The first stop is final: an
        exception after it does not change the outcome. `message` says what went wrong. `rounds` counts exchanges
        between centre and agents. `suspicious_communication`: all answers are right, but the bits sent up cannot carry
        half of the information in them.
    """
    if isinstance(policy, str):
        from clustered_bandit_gym.policies import make

        policy = make(policy)
    if isinstance(env, str):
        env = gym.make(env, disable_env_checker=True, **(env_kwargs or {}))
    seeds = trial_seeds(seed, trial)
    row = _identity(policy, env, label, env_kwargs, seed, trial, stepwise, strict)
    player = copy.deepcopy(policy)
    door = _Stepwise if stepwise else _Direct if hasattr(player, "solve") else _Loop
    if door is not _Loop and not hasattr(player, "solve"):
        raise TypeError(
            f"stepwise=True plays solve(federation), which {type(player).__name__} lacks"
        )
    if door is _Loop and not hasattr(player, "act"):
        raise TypeError(
            f"a player needs solve(federation) or act(obs, info); {type(player).__name__} has neither"
        )
    # Outside of the try: if the environment cannot be set up, that is not the policy's failure.
    game = door(env, seeds, strict)
    raised: BaseException | None = None
    knows_torch = "torch" in sys.modules
    start = perf_counter()
    with seeded_globals(seeds.policy), keyboard() as user_interrupted:
        try:
            game.run(player)
        except KeyboardInterrupt as error:
            if user_interrupted():
                raise
            raised = error  # the policy's own: one more way to fail
        except BaseException as error:
            raised = error
    if drew_from_unseeded_torch(
        knows_torch
    ):  # once per process: now that it is there, it is seeded
        return play(
            policy,
            env,
            seed,
            stepwise,
            strict=strict,
            trial=trial,
            bound=bound,
            label=label,
            env_kwargs=env_kwargs,
            on_error=on_error,
        )
    raised = game.federation.failure or raised  # what a policy made of a failure does not matter
    unfinished, message = ("", "") if raised is None else _kind_and_text(raised)
    if raised is not None and on_error is not None:
        on_error(raised)
    seconds = perf_counter() - start
    judged = _judge(game.federation, game.instance, unfinished, message, bound)
    return row | judged | {"seconds": seconds, "version": versions()}


def lost_row(
    policy: Any,
    env: gym.Env[Any, Any],
    seed: int,
    stepwise: bool,
    *,
    outcome: str,
    message: str,
    strict: bool,
    trial: int,
    bound: bool,
    label: str,
    env_kwargs: dict[str, Any],
) -> Row:
    """The row of a trial whose process was lost with its counts: the row has no pulls and no messages."""
    seeds = trial_seeds(seed, trial)
    row = _identity(policy, env, label, env_kwargs, seed, trial, stepwise, strict)
    game = _Direct(env, seeds, strict)
    judged = _judge(game.federation, game.instance, outcome, message, bound)
    return row | judged | {"seconds": 0.0, "version": versions()}


class _Direct:
    """`solve` on a federation of its own."""

    def __init__(self, env: gym.Env[Any, Any], seeds: TrialSeeds, strict: bool) -> None:
        unwrapped: Any = env.unwrapped
        self.strict = strict
        self.instance: Instance = unwrapped.draw_instance(seeds.instance)
        self.federation: Federation = unwrapped.federation_on(self.instance, seeds.play)

    def run(self, player: Any) -> None:
        arms = player.solve(self.federation.view(self.strict))
        if self.federation.judgement is None:
            _check_answer(arms, self.federation.problem.n_agents, self.federation.silent_program)
            self.federation.stop(arms)


def _check_answer(arms: Any, n_agents: int, silent_program: str) -> None:
    """Refuse what `solve` must not return, in one line; `silent_program` returned nothing, if any did."""
    if arms is None and silent_program:
        raise UserError(
            f"the local program {silent_program} returned nothing, so federation.local(...) gave None, and so did "
            "solve; end the program with a payload, e.g. return ArmIndex(arms, among=problem.n_arms)"
        )
    try:
        found = np.asarray(arms)
        shown = (
            f"an array of {found.dtype}"
            if isinstance(arms, np.ndarray | list | tuple)
            else type(arms).__name__
        )
    except ValueError:
        found, shown = np.empty(0), f"a {type(arms).__name__} of unequal parts"
    if found.dtype.kind in "iu" and found.shape == (n_agents,):
        return
    if found.dtype.kind in "iu":
        shown = f"whole numbers of shape {found.shape}"
    raise UserError(
        f"solve returned {'None' if arms is None else shown}; expected one arm per agent: an int array of shape "
        f"({n_agents},)"
    )


class _Stepwise:
    """`solve` through `env.step`."""

    def __init__(self, env: gym.Env[Any, Any], seeds: TrialSeeds, strict: bool) -> None:
        self.env, self.seeds, self.strict = env, seeds, strict
        env.reset(seed=seeds.policy)

    @property
    def federation(self) -> Federation:
        unwrapped: Any = self.env.unwrapped
        federation: Federation = unwrapped.federation
        return federation

    @property
    def instance(self) -> Instance:
        unwrapped: Any = self.env.unwrapped
        truth: Instance = unwrapped.truth
        return truth

    def run(self, player: Any) -> None:
        from clustered_bandit_gym.envs.env import play_stepwise

        seeds = self.seeds
        play_stepwise(
            player,
            self.env,
            seeds.policy,
            instance_seed=seeds.instance,
            play_seed=seeds.play,
            strict=self.strict,
        )


class _Loop:
    """`act` in the plain Gymnasium loop."""

    def __init__(self, env: gym.Env[Any, Any], seeds: TrialSeeds, strict: bool) -> None:
        self.env, self.seed = env, seeds.policy
        options = {"instance_seed": seeds.instance, "play_seed": seeds.play}
        self.obs, self.info = env.reset(seed=self.seed, options=options)
        unwrapped: Any = env.unwrapped
        self.federation: Federation = unwrapped.federation
        self.instance: Instance = unwrapped.truth

    def run(self, player: Any) -> None:
        obs, info = self.obs, self.info
        if hasattr(player, "reset"):
            player.reset(info, seed=self.seed)
        while True:
            obs, _, terminated, truncated, info = self.env.step(player.act(obs, info))
            if terminated:
                return
            if truncated:
                raise BudgetExceeded(
                    f"the environment ended the play after {self.federation.pulls:,} pulls"
                )


def _identity(
    policy: Any,
    env: gym.Env[Any, Any],
    label: str | None,
    env_kwargs: dict[str, Any] | None,
    seed: int,
    trial: int,
    stepwise: bool,
    strict: bool,
) -> Row:
    spec = env.spec
    if env_kwargs is None:
        env_kwargs = dict(spec.kwargs) if spec is not None else {}
        env_kwargs.pop("disable_env_checker", None)
    return {
        "env": spec.id if spec is not None else type(env.unwrapped).__name__,
        "env_kwargs": plain(env_kwargs),
        "policy": label or label_of(policy),
        "policy_class": path_of(type(policy)),
        "settings": settings_of(policy),
        "trial": int(trial),
        "seed": int(seed),
        "stepwise": bool(stepwise),
        "strict": bool(strict),
        "attempts": 1,
    }


def _judge(
    federation: Federation, instance: Instance, unfinished: str, message: str, bound: bool
) -> Row:
    """The row's figures, from the play as it stands. A play that has stopped is judged by its stop alone."""
    judgement, problem, ledger = federation.judgement, federation.problem, federation.ledger
    if judgement is None:
        outcome = unfinished or "error"
        message = message or "the player ended without an answer"
    else:
        outcome = "solved" if judgement.correct else "wrong"
        later = f"after its stop the player raised {message}" if unfinished else ""
        wrong = (
            f"{judgement.wrong_agents} of {problem.n_agents} agents got a wrong arm"
            if outcome == "wrong"
            else ""
        )
        message = "; ".join(text for text in (wrong, later) if text)
    if outcome != "solved":
        message = "; ".join(text for text in (message, federation.hint()) if text)
    return {
        "outcome": outcome,
        "message": message,
        "correct": None if judgement is None else judgement.correct,
        "wrong_agents": None if judgement is None else judgement.wrong_agents,
        "clustering_errors": None if judgement is None else judgement.clustering_errors,
        "arm_errors": None if judgement is None else judgement.arm_errors,
        "pulls": int(federation.pulls),
        "pulls_max_agent": int(federation.pulls_per_agent.max()),
        "pulls_by_phase": {
            writable(phase): int(count) for phase, count in federation.pulls_by_phase.items()
        },
        **ledger.summary(),
        "cost_by_phase": {
            writable(phase): float(cost) for phase, cost in ledger.by_phase().items()
        },
        "rounds": int(federation.rounds),
        "suspicious_communication": bool(
            judgement and judgement.correct and _too_quiet(judgement.arms, ledger)
        ),
        **problem.to_dict(),
        "bound": bound_of(instance, problem) if bound else None,
    }


def _too_quiet(arms: np.ndarray, ledger: Any) -> bool:
    """The centre learnt N answers with empirical entropy H from the agents: about N·H bits must have come up."""
    _, counts = np.unique(arms, return_counts=True)
    needed = float(-(counts * np.log2(counts / arms.size)).sum())
    sent = ledger.bits("up") + BITS_OF_A_REAL * ledger.reals("up")
    return bool(sent < FAR_BELOW * needed)


def _kind_and_text(error: BaseException) -> tuple[str, str]:
    """The outcome of a play that `error` ended, and the row's message."""
    return (
        ("budget", _text(error))
        if isinstance(error, BudgetExceeded)
        else ("error", _describe(error))
    )


def _describe(error: BaseException) -> str:
    """Kind, text and place of an error, on one line: the last line of the player's own code, the file by its name."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if _is_players(frame.filename)
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {_text(error)}{place}".replace("\n", " ")


def _is_players(file: str) -> bool:
    """Not the game's code, a library's or Python's: a mistake is found in the lines of the policy that called them."""
    if file.startswith(_PACKAGE):
        return file.startswith(_POLICIES)
    return not file.startswith((sysconfig.get_path("stdlib"), "<")) and "site-packages" not in file


def _text(error: BaseException) -> str:
    """The text of an error, which may fail, hold lone surrogates, or be too long for a table."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as second:
        text = f"(its text failed with {type(second).__name__})"
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}... ({len(text):,} characters)"
    return writable(text)
