"""Discovery by search, where sketches show nothing: agents name the arm that stands out.

What is found is a guess, checked later.
"""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Flag, Payload
from clustered_bandit_gym.policies.frugal.memory import empty_cells, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels


class Stuck(Exception):
    """The guesses of an attempt do not work out."""


def stand_out(block: Block, arms: Ints, prior: Floats, lead: Floats, levels: Levels) -> Ints:
    """(n,) columns: the one of `arms` that seems to be η above the average of the others.

    The likeliest arm is pulled until its score, `prior` included, reaches `lead`; both (n, len(arms)).
    """
    eta, k = levels.eta, arms.size
    unit = 2 * (levels.problem.sigma / eta) ** 2  # pulls that tell η with one nat
    limit = 1.5 * levels.settings.patience * unit * k
    cells = empty_cells(block, levels, k)
    top_up(block, cells, np.full(cells.n.shape, np.ceil(unit * max(0.1, 16 / k))), arms)
    answer = np.zeros(len(block), dtype=np.int64)
    todo = np.arange(len(block))
    batch = 0.3 * unit
    while todo.size:
        i = np.arange(todo.size)
        n, mean = cells.n[todo], cells.mean[todo]
        pulls = n.sum(axis=1, keepdims=True)
        others = ((n * mean).sum(axis=1, keepdims=True) - n * mean) / (pulls - n)
        # Log-likelihood ratio of "η above the others" to "like the others".
        score = 2 * n / (unit * eta) * (mean - others - eta / 2) + prior[todo]
        top = score.argmax(axis=1)
        answer[todo] = top
        best = score[i, top]
        missing = lead[todo, top] - best
        go_on = (missing > 0) & (pulls[:, 0] <= limit)
        step = np.where(score >= (best - 1.5)[:, None], batch, 0.0)
        ahead = best - np.partition(score, -2, axis=1)[:, -2]
        step[i, top] = np.maximum(batch, 0.9 * unit * np.minimum(ahead, missing))
        goal = np.zeros(cells.n.shape)
        todo = todo[go_on]
        goal[todo] = (n + step)[go_on]
        goal[goal == cells.n] = 0
        top_up(block, cells, goal, arms)
        batch *= 1.05
    return answer


def name_best(block: Block, _: np.ndarray, known: np.ndarray, levels: Levels) -> Payload:
    """The arm that seems to be the best. Arms that others named, `known` (n, K), are likelier."""
    s, k = levels.settings, block.problem.n_arms
    count = known.sum(axis=1, keepdims=True)
    odds = np.maximum(1, k - count) / np.maximum(1, levels.m - count)
    lead = log(k) + np.where(known, s.named, s.lead)
    prior = np.where(known, np.log(odds), 0.0)
    return ArmIndex(stand_out(block, np.arange(k), prior, lead, levels), among=k)


def search(federation: Federation, levels: Levels) -> Ints:
    """(M,) agents that named M different arms; M agents are asked at a time."""
    n, m, k = federation.problem.n_agents, levels.m, federation.problem.n_arms
    order = federation.rng.permutation(n)
    finder = np.full(k, -1)
    for drawn in range(0, n, m):
        asked = np.sort(order[drawn : drawn + m])
        down = Flag(drawn > 0), ArmSet(finder >= 0, at_most=m - 1 if drawn else 0)
        named = federation.local(asked, partial(name_best, levels=levels), down=down)
        for agent, arm in zip(asked, named, strict=True):
            if finder[arm] < 0 and (finder >= 0).sum() < m:
                finder[arm] = agent
        if (finder >= 0).sum() == m:
            return np.sort(finder[finder >= 0])
    raise Stuck("fewer best arms than clusters were named")
