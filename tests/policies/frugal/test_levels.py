"""FrugalBAI: the levels of all events add up to δ, and the page states the shares of the code."""

from __future__ import annotations

import inspect
from dataclasses import fields
from math import exp
from pathlib import Path

import pytest

from clustered_bandit_gym import Problem
from clustered_bandit_gym.policies.frugal.settings import Levels, Settings

SETTINGS = Settings()
PROBLEMS = [
    Problem(300, 10, 3, 1e-10, eta=0.3),
    Problem(1000, 100, 20, 1e-10, eta=0.15),
    Problem(2, 2, 2, 0.3, eta=0.5),
    Problem(5, 3, 2, 0.3, eta=0.5),
]


def test_choices_sum_to_one() -> None:
    assert sum(SETTINGS.weight(t) for t in range(1, 100_001)) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_levels_of_all_events_add_up_to_delta(problem: Problem) -> None:
    n, k, m = problem.n_agents, problem.n_arms, problem.n_clusters
    assert m is not None
    total = 0.0
    for number in range(1, 3001):
        levels = Levels(problem, SETTINGS, number)
        # The events of the page, each as many times as it can happen.
        total += m * (k - 1) * exp(-levels.beaten)
        total += m * (m - 1) * exp(-levels.close)
        total += m * (m - 1) / 2 * SETTINGS.sketch_arms * exp(-levels.distinct)
        total += m * 2 * SETTINGS.sketch_arms * exp(-levels.bound)
    # Agents test only once the choice is made; their levels are the same for all choices.
    total += n * (m - 1) * (exp(-levels.agent) + exp(-levels.agent_again))
    total += SETTINGS.fallback * problem.delta
    assert 0.999 * problem.delta <= total <= problem.delta * (1 + 1e-9)


def test_agents_need_not_know_which_choice_it_is() -> None:
    first, later = (Levels(PROBLEMS[0], SETTINGS, number) for number in (1, 5))
    assert (first.agent, first.agent_again) == (later.agent, later.agent_again)
    assert first.beaten < later.beaten


def test_the_page_states_the_shares_of_the_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "frugal-bai.md").read_text(encoding="utf-8")
    s = SETTINGS
    for share in (s.fallback, s.beaten, s.close, s.distinct, s.classify, s.likely):
        assert f"{share:.2f}".rstrip("0") in page, share


def test_there_are_few_settings_each_with_a_sentence() -> None:
    names = [field.name for field in fields(Settings)]
    assert len(names) <= 25
    lines = inspect.getsource(Settings).splitlines()
    for name in names:
        (line,) = [one for one in lines if one.startswith(f"    {name}: ")]
        assert "  # " in line
