"""The search finds a game on which each bad policy fails, and the audit can play it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bad_policies import BAD_POLICIES

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.harness.audit.games import GAMES
from clustered_bandit_gym.harness.audit.search import load_game, search, vary


@pytest.mark.parametrize("bad", BAD_POLICIES)
def test_bad_policies_are_found_out(bad: type[cbg.Policy], tmp_path: Path) -> None:
    found = search(bad(), budget=120, seed=1)
    assert found.verdict.word == "FAIL", str(found)
    assert found.seconds < 120
    assert found.found.errors > found.found.delta * found.found.trials
    path = found.save(tmp_path / "game.json")
    game, delta = load_game(path)
    assert game == found.found.cell
    assert delta == found.found.delta
    report = cbg.audit(bad(), delta, cells=[game], seed=99, progress=False)
    assert report.word == "FAIL"


def test_a_correct_policy_is_not_failed() -> None:
    """At level 0.01; the seed is fixed."""
    found = search("naive", budget=2, seed=2)
    assert found.verdict.word != "FAIL"
    assert found.searched >= 2
    assert "does not prove that none exists" in str(found)


def test_games_keep_the_assumptions() -> None:
    rng = np.random.default_rng(5)
    built = 0
    for start in GAMES:
        if not start.in_scope:
            continue
        game = start
        for _ in range(10):
            try:
                game = vary(game, rng)
            except ValueError:
                continue
            instance = game(rng)
            built += 1
            assert game.in_scope
            assert instance.eta > 0
            assert instance.n_agents == sum(game.sizes)
            Problem.of(instance, 0.1, **game.told)  # raises where a promise is broken
    assert built > 150


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"cell": {}}', encoding="utf-8")
    with pytest.raises(UserError, match="is not a game"):
        load_game(tmp_path / "x.json")
