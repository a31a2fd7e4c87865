"""Best arms of representatives, the centre's side: facts about one of them narrow down all the others."""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmSubset, Flag, Symbol
from clustered_bandit_gym.policies.frugal.facts import begin, exchange, explore
from clustered_bandit_gym.policies.frugal.levels import Tests


class Stuck(Exception):
    """An attempt's guesses do not work out; another one starts from scratch."""


def best_arms(federation: Federation, reps: Ints, tests: Tests) -> Ints:
    """(M,) the best arm of each representative, `reps` (M,) ids, if they are of M different clusters.

    An arm k leaves the live set of x when it is beaten at x, or when some y ≠ x shows it less than η worse than every
    live arm there: Assumption 1. An arm that is alone in its live set is close there. All representatives work at the
    same effort, which grows from exchange to exchange; so whatever is cheap anywhere is used everywhere before
    anything dear is tried.
    """
    live, reached = federation.local(reps, partial(explore, tests=tests), down=Flag(True))
    live = live.copy()
    wanted, close = live.copy(), np.zeros_like(live)
    code, efforts = int(reached.min()), tests.spending.efforts
    federation.local(
        reps, partial(begin, tests=tests), down=Symbol(np.full(reps.size, code), among=efforts)
    )
    for _ in range(code, efforts):
        told_live, told_wanted = live.copy(), wanted.copy()
        close |= live & (live.sum(axis=1) == 1)[:, None]
        live &= (close.sum(axis=0) - close) == 0
        if not live.any(axis=1).all():
            raise Stuck("a representative has no arm left: two of them are of one cluster")
        alone = live.sum(axis=1) == 1
        if alone.all():
            best = live.argmax(axis=1)
            if np.unique(best).size < reps.size:
                raise Stuck("two representatives have the same best arm: they are of one cluster")
            return best
        # An arm is of interest where its closeness would rid someone else of it.
        open_ = live & ~alone[:, None]
        wanted &= ((open_.sum(axis=0) - open_) > 0) & ~close
        busy = np.flatnonzero(~alone | wanted.any(axis=1))
        excluded, dull = told_live & ~live, told_wanted & ~wanted
        down = (
            ArmSubset(excluded[busy], within=told_live[busy]),
            ArmSubset(dull[busy], within=told_wanted[busy]),
        )
        shown, beaten = federation.local(reps[busy], partial(exchange, tests=tests), down=down)
        close[busy] |= shown
        live[busy] &= ~beaten
        wanted[busy] &= ~shown
    raise Stuck("arms that cannot be told apart")
