"""The search finds a game on which each bad policy fails, and the audit can play it again."""

from __future__ import annotations

import numpy as np
import pytest
from bad_policies import BAD_POLICIES

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.harness.audit.games import GAMES
from clustered_bandit_gym.harness.audit.search import search, vary


@pytest.mark.parametrize("bad", BAD_POLICIES)
def test_bad_policies_are_found_out(bad: type[cbg.Policy]) -> None:
    game, _, found = search(bad(), budget=120, seed=1)
    assert found.word == "FAIL"
    (row,) = found.cells.to_dict("records")
    assert row["errors"] > found.delta * row["trials"]
    report = cbg.audit(bad(), found.delta, cells=[game], seed=99, progress=False)
    assert report.word == "FAIL"


def test_a_correct_policy_is_not_failed() -> None:
    """At level 0.01; the seed is fixed."""
    _, played, found = search("naive", budget=2, seed=2)
    assert found.word != "FAIL"
    assert found.alpha == 0.01
    assert played > 0


def test_games_keep_the_assumptions() -> None:
    rng = np.random.default_rng(5)
    built = 0
    for start in (game for game in GAMES if game.in_scope and not game.shared):
        game = start
        for _ in range(10):
            game = vary(game, rng)
            instance = game(rng)
            built += 1
            assert instance.eta > 0
            assert instance.n_agents == sum(game.sizes)
            Problem.of(instance, 0.1, **game.told)  # raises where a promise is broken
    assert built > 150
