"""Best arms of all representatives, by facts that travel: the centre's side of `race.py`."""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmSubset, Flag, Symbol
from clustered_bandit_gym.policies.frugal.race import exchange, explore
from clustered_bandit_gym.policies.frugal.search import Stuck
from clustered_bandit_gym.policies.frugal.settings import Levels


def listen(block: Block, news: np.ndarray) -> None:
    """Agents take note of a number: the effort of the first exchange, or which attempt it is."""


def best_arms(
    federation: Federation, reps: Ints, name: str, levels: Levels, together: bool
) -> Ints:
    """(M,) best arms of the representatives.

    Arm k leaves the live set of x when it is beaten at x, or when some y ≠ x shows it less than η
    worse than every live arm there. The second is used only if x and y are known to be of different
    clusters (`together`): then Assumption 1 says that k, if it were the best arm of x, would be at
    least η worse than the best arm of y.
    """
    settings = levels.settings
    few = max(settings.settle, federation.problem.n_arms // 32) if together else 1
    program = partial(explore, name=name, levels=levels, few=few)
    live, near, code = federation.local(reps, program, down=Flag(together))
    live = live.copy()
    if together:
        first = int(code.min())
        down = Symbol(np.full(reps.size, first), among=settings.codes)
        federation.local(reps, listen, down=down, n_arms=1)
        _exchange_facts(federation, reps, name, levels, live, live | near, first)
    best = live.argmax(axis=1)
    if np.unique(best).size < reps.size or np.any(live.sum(axis=1) > 1):
        raise Stuck("two representatives have the same best arm, or cannot find it")
    return np.asarray(best)


def _exchange_facts(
    federation: Federation,
    reps: Ints,
    name: str,
    levels: Levels,
    live: np.ndarray,
    wanted: np.ndarray,
    first: int,
) -> None:
    """Exchange facts until every representative has one arm in `live` (M, K), which is changed.

    `wanted` (M, K) are arms whose closeness could exclude them elsewhere.
    """
    close = np.zeros_like(live)
    for code in range(first, levels.settings.codes):
        told_live, told_wanted = live.copy(), wanted.copy()
        close |= live & (live.sum(axis=1) == 1)[:, None]
        live &= (close.sum(axis=0) - close) == 0
        if not live.any(axis=1).all():
            raise Stuck("a representative has no arm left")
        open_ = live & (live.sum(axis=1) > 1)[:, None]
        if not open_.any():
            return
        wanted &= ((open_.sum(axis=0) - open_) > 0) & ~close
        busy = np.flatnonzero(open_.any(axis=1) | wanted.any(axis=1))
        down = (
            ArmSubset((told_live & ~live)[busy], within=told_live[busy]),
            ArmSubset((told_wanted & ~wanted)[busy], within=told_wanted[busy]),
        )
        program = partial(exchange, code=code, name=name, levels=levels)
        shown, beaten = federation.local(reps[busy], program, down=down)
        close[busy] |= shown
        live[busy] &= ~beaten
        wanted[busy] &= ~shown
