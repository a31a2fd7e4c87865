"""A search for the game on which a policy errs most often, relative to δ.

It starts from the audit's games, plays a few trials of each, and varies the worst ones. All games
keep the assumptions: what is told is true, or a lower bound where that is allowed, or hidden. The
counts of the search are biased, since the worst of many was kept: the verdict rests on fresh trials
alone.

The budget is processor time of this process, so that a busy machine does not shorten the search.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Rng, Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.audit.audit import Tally, audit, budget_of
from clustered_bandit_gym.harness.audit.games import GAMES, AuditGame
from clustered_bandit_gym.harness.audit.report import AuditReport
from clustered_bandit_gym.harness.play import Task, Work, resolve_policies

#: Trials of a new candidate.
FIRST_TRIALS = 6
#: Probability that the fresh trials fail a policy that is δ-correct on the game.
LEVEL = 0.01


def vary(game: AuditGame, rng: Rng) -> AuditGame:
    """A game like `game`, with other gaps and sizes, of which more or less is told."""
    means = np.array(game.means)
    top = means.max(axis=1, keepdims=True)
    factors = np.exp(rng.normal(0, 0.7) + rng.normal(0, 0.2, means.shape))
    means = top - (top - means) * factors
    sizes = np.round(np.array(game.sizes) * np.exp(rng.normal(0, 0.5, len(means)))).astype(int)
    sizes[0] = max(1, sizes[0])
    varied = replace(
        game, why="found by a search", means=means.tolist(), sizes=sizes.tolist(), told={}
    )
    try:
        truth = varied(rng)
    except ValueError:  # the numbers do not fit together
        return vary(game, rng)
    hidden = {"n_clusters": None, "eta": None, "eta1": None}
    share = float(rng.choice([0.5, 0.1]))
    lower = {"eta": share * truth.eta, "eta1": share * truth.eta1} if truth.eta1 > 0 else {}
    told: list[Values] = [{}, {"n_clusters": None}, hidden, lower]
    return replace(varied, told=told[rng.choice(4, p=[0.4, 0.1, 0.1, 0.4])])


def search(policy: Any, budget: float = 600.0, seed: int = 0) -> tuple[AuditGame, int, AuditReport]:
    """Search for a game on which `policy` errs more often than δ.

    Args:
        policy: a `Policy`, anything with `act(obs, info)`, or a name.
        budget: seconds of processor time. A FAIL ends the search early.
        seed: of the search and of all trials; the time it takes decides how far the search gets.

    Returns:
        The game with the most errors relative to δ, the number of trials that led to it, and its
        audit with fresh trials, which alone decide.
    """
    if not budget > 0:
        raise UserError(f"budget must be a positive number of seconds, got {budget}")
    players = resolve_policies(policy)
    ((_, policy),) = players
    solves = hasattr(policy, "solve")
    rng = np.random.default_rng([seed, 14])
    start = time.process_time()
    games = [one for one in GAMES if one.in_scope and not one.shared and (one.small or solves)]
    pool: list[Tally] = []
    played = 0
    # The rest of the budget is for fresh trials.
    while time.process_time() - start < 0.7 * budget:
        if games:
            game = games.pop()
            delta = game.delta(0.2)
        else:
            game = vary(pool[int(rng.integers(min(12, len(pool))))].cell, rng)
            delta = float(rng.choice([0.3, 0.2, 0.1, 0.05]))
        new = Tally(replace(game, delta_factor=1.0), delta, 1e-6)
        # The worst ones get more trials until they are known well: luck fades, errors stay.
        for one in [new, *pool[:3]]:
            if one.trials < 96:
                cell = one.cell.env(one.delta, budget_of(policy))
                work = Work([cell], players, 2 * seed, bound=False)
                for _ in range(one.trials or FIRST_TRIALS):
                    one.add(work.play(Task(0, 0, played)))
                    played += 1
        pool = sorted([new, *pool], key=_badness, reverse=True)[:60]
        if pool[0].trials >= 32 and pool[0].judge().word == "FAIL":
            break  # significant even after a search
    worst = pool[0]
    # 200/δ trials pass or fail all but borderline error rates.
    affordable = played * (budget / (time.process_time() - start) - 1)
    trials = min(math.ceil(200 / worst.delta), max(1, int(affordable)))
    report = audit(
        policy, worst.delta, trials, 2 * seed + 1, cells=[worst.cell], alpha=LEVEL, progress=False
    )
    return worst.cell, played, report


def _badness(one: Tally) -> float:
    """Estimated error rate over δ, shrunk towards 1/2 while trials are few."""
    errors = one.errors + 0.5 * one.delta * FIRST_TRIALS
    return errors / (one.trials + FIRST_TRIALS) / one.delta
