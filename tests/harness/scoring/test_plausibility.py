"""Implausible results: found where they are, and not by chance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from harness_rows import rows
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.scoring.plausibility import (
    LEVEL,
    implausible,
    short_probability,
    too_few_pulls,
)
from clustered_bandit_gym.policies import BAIClPlusPlus

ONES = np.ones(60)


def test_probability_of_short_trials() -> None:
    for delta in (1e-10, 0.05, 0.3):
        found = [short_probability(share, delta) for share in (0.0, 0.02, 0.1, 0.3, 0.6, 1.0)]
        assert found == sorted(found)
        assert found[0] == delta
        assert found[-1] == pytest.approx(1 - delta)
    # kl(p, 1/10) = 0.5·kl(0.1, 0.9), by hand: kl(0.6, 0.1) = 0.6 ln 6 + 0.4 ln(4/9) = 0.7507,
    # kl(0.65, 0.1) = 0.65 ln 6.5 + 0.35 ln(0.35/0.9) = 0.8861; wanted is 0.4·ln 9 = 0.8789.
    assert 0.6 < short_probability(0.5, 0.1) < 0.65


def test_a_likelihood_ratio_test_keeps_the_probability() -> None:
    """The optimal fixed-length test between two known means attains what the rule allows, not more.

    One agent, two Gaussian arms: after n pulls the divergence from the alternative is n·D.
    """
    delta = 0.1
    needed = (1 - 2 * delta) * np.log((1 - delta) / delta)
    for share in (0.02, 0.1, 0.3, 0.6):
        # P(right) of the test at level δ: power Φ(√(2·share·needed) − z_{1−δ}).
        power = stats.norm.cdf(np.sqrt(2 * share * needed) - stats.norm.isf(delta))
        assert power <= short_probability(share, delta)


def few(pulls: np.ndarray, bound: float, right: np.ndarray, delta: float) -> str:
    outcome = np.where(right, "solved", "wrong")
    return too_few_pulls(pd.DataFrame({"pulls": pulls, "bound": bound, "outcome": outcome}), delta)


def test_far_below_the_bound_is_flagged() -> None:
    right = ONES > 0
    assert "0.02 of the lower bound" in few(0.01 * ONES, 1.0, right, 0.05)
    assert "0.6 of the lower bound" in few(0.5 * ONES, 1.0, right, 1e-10)
    assert "at most 0 of the lower bound" in few(0 * ONES, 1.0, right, 0.3)
    assert few(1.05 * ONES, 1.0, right, 0.05) == ""
    assert few(0.1 * ONES[:4], 1.0, right[:4], 0.05) == "", "too few trials"
    assert few(0.01 * ONES, np.nan, right, 0.05) == "", "no bound"
    assert few(0.01 * ONES, 1.0, ~right, 0.05) == "", "wrong or unfinished answers"


#: P(an alarm in one sequence of 200 trials) is at most LEVEL: none is seen in 300 sequences.
Play = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def gambler(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """δ-PC at 0.3: pulls once and guesses among two arms with probability 0.59, else tests at 0.01.

    Errors: 0.59/2 + 0.41·0.01 < 0.3. Its long plays make the mean what the bound asks for.
    """
    guess = rng.random(n) < 0.59
    right = np.where(guess, rng.random(n) < 0.5, rng.random(n) > 0.01)
    return np.where(guess, 1e-4, 1 / 0.41), right


def boldest(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Right after 0.3 of the bound exactly as often as allowed, and never otherwise."""
    right = rng.random(n) < short_probability(0.3, 0.3)
    return np.where(right, 0.3, 5.0), right


@pytest.mark.parametrize("play", [gambler, boldest])
def test_false_alarms(play: Play) -> None:
    """At 5, 50 and 200 trials, 300 sequences each. A t test accuses the gambler in 7% of all
    sequences of 5 trials, and would be seen with probability 1 − 0.93^300 > 1 − 1e-9."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(300):
        pulls, right = play(rng, 200)
        for n in (5, 50, 200):
            alarms += few(pulls[:n], 1.0, right[:n], 0.3) != ""
    assert alarms == 0
    assert LEVEL * 900 < 0.01


def test_the_gambler_played() -> None:
    """The same policy on a real environment: no alarm, and no PASS withheld for it."""

    class Gambler(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            if federation.rng.random() < 0.59:
                federation.pull([0], [0], [1])
                return federation.rng.integers(2, size=1)
            means = federation.pull([0, 0], [0, 1], [2000, 2000])
            return np.array([int(np.argmax(means))])

    board = cbg.evaluate(
        Gambler(),
        "ClusteredBAI-v0",
        instance=cbg.Instance([[0.0, 0.2]], [0]),
        delta=0.3,
        trials=60,
        progress=False,
    )
    score = board.summary.iloc[0]
    assert score.doubt == ""
    assert score.bound_median > 1


@pytest.mark.parametrize(
    ("guarantee", "exempt"),
    [
        (BAIClPlusPlus.guarantee, True),
        ("delta-PC under Assumptions 1 and 2: certified", True),
        ("δ-PC under Assumption 2", True),
        ("delta-PC under Assumption 1: certified, for N <= 2", False),
        ("none", False),
    ],
)
def test_policies_that_rely_on_assumption_2_are_exempt(guarantee: str, exempt: bool) -> None:
    trials = {"pulls": 0.01 * ONES, "bound": ONES, "outcome": "solved"}
    rows = pd.DataFrame(trials | {"suspicious_communication": False})
    assert (implausible(rows, 0.05, guarantee) == "") is exempt


def test_the_board_reads_what_a_policy_states() -> None:
    cheat = [0.01] * 60
    doubts = [
        cbg.Board(rows("p", cheat, guarantee=one, bound=1.0)).summary["doubt"][0]
        for one in ("delta-PC under Assumption 1", BAIClPlusPlus.guarantee)
    ]
    assert doubts[0] != ""
    assert doubts[1] == ""
