"""Too good to be true: found where it is, and not by chance."""

from __future__ import annotations

import numpy as np
import pytest

from clustered_bandit_gym.harness.scoring.doubt import needs_assumption_2, too_good

ONES = np.ones(50)


def test_fewer_pulls_than_the_bound() -> None:
    rng = np.random.default_rng(0)
    finished = ONES > 0
    assert "0.6" in too_good(rng.normal(0.6, 0.1, 50), ONES, finished, 0.05)
    assert too_good(rng.normal(1.05, 0.1, 50), ONES, finished, 0.05) == ""
    # A mean below one that noise explains: with σ = 1 and n = 50 its standard error is 0.14.
    assert too_good(0.8 + (np.arange(50) % 2 - 0.5) * 2, ONES, finished, 0.05) == ""
    assert too_good(0.1 * ONES[:4], ONES[:4], finished[:4], 0.05) == ""
    assert too_good(0.1 * ONES, np.nan * ONES, finished, 0.05) == ""


def test_unfinished_trials_might_have_gone_on() -> None:
    assert too_good(0.5 * ONES, ONES, np.arange(50) >= 25, 0.05) == ""
    assert too_good(0.1 * ONES, ONES, np.arange(50) >= 1, 0.05) != ""


def test_heavy_tails_accuse_nobody() -> None:
    """Three trials in four far below the bound, and a mean of one through rare long trials."""
    pulls = np.full(50, 0.1)
    pulls[7] = 40.0
    assert too_good(pulls, ONES, ONES > 0, 0.05) == ""


@pytest.mark.parametrize(("guesses", "accused"), [(0, False), (2, False), (50, True), (20, True)])
def test_answers_without_a_pull(guesses: int, accused: bool) -> None:
    pulls = np.where(np.arange(50) < guesses, 0.0, 5.0)
    assert ("without a single pull" in too_good(pulls, ONES, ONES > 0, 0.05)) is accused


@pytest.mark.parametrize(
    ("guarantee", "needs"),
    [
        ("delta-PC under Assumptions 1 and 2: certified", True),
        ("δ-PC under Assumption 2", True),
        ("delta-PC under Assumption 1: certified, for N <= 2", False),
        ("delta-PC", False),
        ("none", False),
    ],
)
def test_who_relies_on_assumption_2(guarantee: str, needs: bool) -> None:
    class Player:
        pass

    player = Player()
    assert not needs_assumption_2(player)
    player.guarantee = guarantee  # type: ignore[attr-defined]
    assert needs_assumption_2(player) is needs
