"""`rare`: the probability that a policy stops with a wrong answer, even if it is tiny."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.run import progress_bar
from clustered_bandit_gym.harness.settings import Cell, label_of
from research.rare.bounds import log_lower_bound, upper_bound
from research.rare.game import Game
from research.rare.mixture import Mixture, Record
from research.rare.result import Estimate, Rare, WayShare
from research.rare.search import Found, search

#: Cross-entropy rounds of a search.
ROUNDS = 6


def rare(
    policy: Any,
    env: gym.Env[Any, Any] | str = "ClusteredBAI-PaperSmall-v0",
    trials: int = 2000,
    seed: int = 0,
    *,
    searches: int = 3,
    search_plays: int = 200,
    rounds: int = ROUNDS,
    start_from: Sequence[Sequence[dict[str, Any]]] = (),
    alpha: float = 0.05,
    progress: bool = False,
    **env_settings: Any,
) -> Rare:
    """Measure P(stopped and wrong) of a policy on one instance, by plays whose rewards are tilted
    towards an error.

    Every play is weighed by its exact likelihood ratio, so the estimate is unbiased whatever the
    policy does, for plays up to 50 times as long as natural ones. Longer plays are cut off; `high`
    counts them as wrong. Ways to err are searched for first, several times and independently; the
    plays of the estimate are fresh. `low` is a certified lower bound at any number of plays. So is
    `high` from above, but it is never below a few hundredths: a way to err that no search found is
    missing from `error` and from `stderr`.

    Args:
        policy: a `Policy` or `StepPolicy`, or a name such as "bai-cl++".
        env: an environment of this package or its id. The instance is that of trial 0 of `seed`.
        trials: plays of the estimate, all searches together.
        searches: independent searches.
        search_plays: plays in each of the rounds of a search.
        rounds: rounds of a search.
        start_from: ways to start from, one list for each search, as another result's `families` has
            them. A search that has some plays no pilot.
        alpha: 1 − confidence of `low`.
        progress: show a progress bar.
        env_settings: for `gym.make` when `env` is an id: `n_agents`, `delta`, ...
    """
    for name, value in (
        ("trials", trials),
        ("searches", searches),
        ("search_plays", search_plays),
        ("rounds", rounds),
    ):
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise UserError(f"{name} must be a whole number >= 1, got {value!r}")
    if isinstance(policy, str):
        from clustered_bandit_gym.policies.registry import make

        policy = make(policy)
    if isinstance(env, str):
        cell = Cell(env, env_settings)
        env = cell.make()
    elif env_settings:
        raise UserError(
            f"settings {sorted(env_settings)} need an environment id, got an environment"
        )
    else:
        given = dict(env.spec.kwargs) if env.spec is not None else {}
        given.pop("disable_env_checker", None)
        cell = Cell(env.spec.id if env.spec is not None else type(env.unwrapped).__name__, given)
    start = process_time()
    game = Game(policy, env, seed)
    with progress_bar(
        total=searches + trials, disable=not progress, unit="play", desc="searching"
    ) as bar:
        found = []
        for s in range(searches):
            found.append(
                search(game, s, rounds, search_plays, start_from[s] if s < len(start_from) else ())
            )
            bar.update()
        bar.set_description("measuring")
        searched = game.plays
        result = _measure(game, found, trials, alpha, bar)
    return Rare(
        policy=label_of(policy),
        env=cell.env_id,
        env_kwargs=cell.plain_kwargs,
        n_agents=game.world.instance.n_agents,
        delta=float(game.problem.delta),
        seed=int(seed),
        alpha=alpha,
        search_plays=searched,
        seconds=process_time() - start,
        version=versions(),
        **result,
    )


def _measure(game: Game, found: list[Found], trials: int, alpha: float, bar: Any) -> dict[str, Any]:
    """Fresh plays of all searches' mixtures in equal parts, weighed against them all (the balance
    heuristic).
    """
    mixtures = [f.mixture for f in found]
    rng = game.rng(len(found), 3)
    chosen = rng.integers(len(found), size=trials)
    log_weights = np.full(trials, -np.inf)
    own_weights = np.full(trials, -np.inf)
    log_ratios = np.zeros(trials)
    finished = np.ones(trials, dtype=np.bool_)
    shares: dict[str, list[Floats]] = {}
    for i, s in enumerate(chosen):
        _, tilts = mixtures[s].pick(rng)
        play = game.play(len(found), 3, i, tilts=tilts)
        finished[i] = play.finished
        record = Record(game.world, play.source)
        weighed = [mixture.weigh(record) for mixture in mixtures]
        log_ratios[i] = np.logaddexp.reduce([ratio for ratio, _ in weighed]) - np.log(len(found))
        if play.wrong:
            log_weights[i], own_weights[i] = -log_ratios[i], -weighed[s][0]
            _credit(
                shares,
                i,
                mixtures,
                [parts for _, parts in weighed],
                log_ratios[i] + np.log(len(found)),
            )
        bar.update()
    every = [np.where(chosen == s, own_weights, np.nan) for s in range(len(found))]
    sequences = [log_weights, *every]
    low = log_lower_bound(sequences, [0.5, *[0.5 / len(every)] * len(every)], alpha)
    # A play that was cut off might have gone wrong later: from above it counts as wrong. A play's
    # weight is at most one over the probability of an untilted play.
    at_most = np.where(finished, np.exp(log_weights), np.exp(-log_ratios))
    largest = 1 / float(np.mean([mixture.plain for mixture in mixtures]))
    return {
        "log_weights": log_weights,
        "log_ratios": log_ratios,
        "log_low": low,
        "high": min(1.0, upper_bound(at_most, largest, alpha)),
        "unfinished": int((~finished).sum()),
        "searches": [Estimate.of(logs[~np.isnan(logs)]) for logs in every],
        "families": [[way.family for way in f.mixture.ways] for f in found],
        "ways": _ways(shares, log_weights, mixtures, found),
    }


def _credit(
    shares: dict[str, Any], play: int, mixtures: list[Mixture], parts: Any, log_total: float
) -> None:
    """How far each way explains a wrong play: its part of the mixture's density there."""
    for mixture, of_ways in zip(mixtures, parts, strict=True):
        for way, (_, terms) in zip(mixture.ways, of_ways, strict=True):
            part = float(np.exp(np.logaddexp.reduce(terms, axis=None, initial=-np.inf) - log_total))
            shares.setdefault(way.name, []).append((play, part))
        if mixture.plain > 0:
            shares.setdefault(PLAIN_NAME, []).append(
                (play, float(np.exp(np.log(mixture.plain) - log_total)))
            )


PLAIN_NAME = "rewards as they are"


def _ways(
    shares: dict[str, Any], log_weights: Floats, mixtures: list[Mixture], found: list[Found]
) -> list[WayShare]:
    """All ways tried, with their parts of the error and of the plays; the largest first."""
    top = log_weights.max(initial=-np.inf)
    weights = np.exp(log_weights - top) if np.isfinite(top) else np.zeros(log_weights.size)
    total = weights.sum() or 1.0
    plays: dict[str, float] = {}
    for f in found:
        for name in f.tried:
            plays.setdefault(name, 0.0)
    for mixture in mixtures:
        for way, share in zip(mixture.ways, mixture.shares, strict=True):
            plays[way.name] = plays.get(way.name, 0.0) + float(share) / len(mixtures)
        plays[PLAIN_NAME] = plays.get(PLAIN_NAME, 0.0) + mixture.plain / len(mixtures)
    of_error = {
        name: sum(weights[i] * part for i, part in rows) / total for name, rows in shares.items()
    }
    rows = [WayShare(name, float(of_error.get(name, 0.0)), share) for name, share in plays.items()]
    return sorted(rows, key=lambda row: (-row.error, -row.plays))
