"""FrugalBAI: the levels of all events add up to δ, and the page states the shares of the code."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import Problem
from clustered_bandit_gym.policies import FrugalBAI
from clustered_bandit_gym.policies.frugal import classify, discover, policy
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, Settings
from clustered_bandit_gym.policies.sequential.cells import BettingCells, Cells
from clustered_bandit_gym.policies.sequential.scales import Scales
from clustered_bandit_gym.policies.structured.budget import LIKELY

PROBLEMS = [
    Problem(300, 10, 3, 1e-10, eta=0.3),
    Problem(1000, 100, 20, 1e-10, eta=0.15),
    Problem(2, 2, 2, 0.3, eta=0.5),
    Problem(5, 3, 2, 0.3, eta=0.5),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_levels_of_all_events_add_up_to_delta(problem: Problem) -> None:
    n, k, m = problem.n_agents, problem.n_arms, problem.n_clusters
    assert m is not None
    total = 0.0
    for choice in range(1, 3001):
        levels = Levels(problem, 4.0, choice, bounded=False)
        # The events of the page, each as many times as it can happen.
        total += m * (k - 1) * exp(-levels.beaten)
        total += m * (m - 1) * exp(-levels.close)
        total += m * (m - 1) / 2 * SETTINGS.sketch_arms * exp(-levels.distinct)
        total += m * 2 * SETTINGS.sketch_arms * exp(-levels.bound)
    total += SETTINGS.fallback * problem.delta
    # Agents test only once the choice is made; their levels are the same for all choices. An agent
    # has a tree and then the list, or one test against the height and then the list.
    tree_and_list = n * (m - 1) * (exp(-levels.agent) + exp(-levels.agent_again))
    height_and_list = n * exp(-levels.height) + n * (m - 1) * exp(-levels.agent)
    for agents in (tree_and_list, height_and_list):
        assert 0.999 * problem.delta <= total + agents <= problem.delta * (1 + 1e-9)


def asked_in(game: cbg.Instance, monkeypatch: pytest.MonkeyPatch) -> tuple[Levels, set[str], set]:
    """A play's levels, its phases, and (program, level) of all tests of agents."""
    asked, made = set(), []

    def record(name: str) -> None:
        function = getattr(classify, name)
        arguments = inspect.signature(function)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            given = arguments.bind(*args, **kwargs).arguments
            asked.add((name, given["level"]))
            return function(*args, **kwargs)

        monkeypatch.setattr(classify, name, recorded)

    find_arms = classify.find_arms

    def noted(*args: Any) -> np.ndarray:
        made.append(args[-1])
        return find_arms(*args)

    record("which_side")
    record("accept")
    monkeypatch.setattr(policy, "find_arms", noted)
    federation = cbg.Federation(game, cbg.Problem.of(game, 0.1), seed=1)
    federation.stop(FrugalBAI().solve(federation))
    return made[-1], set(federation.pulls_by_phase), asked


@pytest.mark.parametrize("top", [0.5, 3.5], ids=["height sent", "no height sent"])
def test_the_list_after_a_search(top: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list has one level whether or not a height is sent: that depends on the references."""
    means = np.zeros((3, 30))
    means[[0, 1, 2], [1, 3, 4]] = top, 0.5, 0.5  # not among the arms of a sketch
    game = cbg.Instance(means, np.arange(30) % 3)
    levels, phases, asked = asked_in(game, monkeypatch)
    assert "references" in phases
    height, of_list = ("which_side", levels.height), ("accept", levels.agent)
    assert asked <= {height, of_list}
    assert (height if top == 0.5 else of_list) in asked


def test_the_list_after_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "tree_references", lambda *_: [])  # agents stay unsure
    game = cbg.Instance([[1.0, 0.7, -3.0], [0.7, 1.0, 0.0]], np.arange(12) % 2)
    levels, _, asked = asked_in(game, monkeypatch)
    assert asked == {("accept", levels.agent_again)}


# What evidence is compared with: shares of δ' = 0.95δ and numbers of tests as in the page's table.
DELTA = 0.95 * 0.1
#: Each of arms 3 to 5 is nearly the best of one cluster, close to the best of another, and last.
#: Rewards have no noise: nothing depends on chance.
MEANS = [[*np.roll([0.9, 0.7, 0.7], j), *np.roll([0.85, 0.8, 0.1], j)] for j in range(3)]
VALUES = np.array([0.0, 0.1, 0.7, 0.8, 0.85, 0.9, 1.0])
NEAR = cbg.Instance(MEANS, np.arange(30) % 3, cbg.Gaussian(0.0))
LAWS = np.array(MEANS)[..., None] == VALUES
RATED = cbg.Instance(None, NEAR.clusters, cbg.Categorical(VALUES, LAWS))


def told(game: cbg.Instance) -> cbg.Federation:
    return cbg.Federation(game, cbg.Problem.of(game, 0.1, sigma=1.0), seed=0)


def play(game: cbg.Instance, after: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Pulls by phase where agents 0 to 2 are chosen by a guess, for which a tree is made, or a search."""
    guesses = [(np.arange(3), 1000.0)] if after == "guess" else []
    monkeypatch.setattr(policy, "guesses", lambda *_: guesses)
    monkeypatch.setattr(policy, "search", lambda *_: np.arange(3))
    federation = told(game)
    federation.stop(FrugalBAI().solve(federation))
    return federation.pulls_by_phase


@pytest.mark.parametrize(("skipped", "share"), [("choose_tree", 0.9), ("tree_references", 0.1)])
def test_arms_are_compared_at_the_levels_of_the_page(
    skipped: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shift 0: event 1a. Shift η: event 1b at representatives, and at agents the list: 3a, or 3b
    after a tree."""
    asked: dict[float, set[float]] = {}
    original = Cells.shows

    def spy(self: Cells, a: Any, b: Any, shift: float, level: Any, other: Any = None) -> Any:
        asked.setdefault(shift, set()).update(np.ravel(level).tolist())
        return original(self, a, b, shift, level, other)

    monkeypatch.setattr(classify, skipped, lambda *_: [])
    monkeypatch.setattr(Cells, "shows", spy)
    play(NEAR, "guess", monkeypatch)
    close, of_list = log(3 * 2 / (0.1 * DELTA * 0.9)), log(30 * 2 / (0.38 * share * DELTA))
    assert asked.keys() == {0.0, NEAR.eta}
    assert sorted(asked[0.0]) == pytest.approx([log(3 * 5 / (0.48 * DELTA * 0.9))])
    assert sorted(asked[NEAR.eta]) == pytest.approx(sorted([close, of_list]))


TREE, HEIGHT = log(30 * 2 / (0.38 * 0.9 * DELTA)), log(30 / (0.38 * 0.1 * DELTA))


@pytest.mark.parametrize(
    ("game", "after", "level"),
    [(NEAR, "guess", TREE), (RATED, "guess", TREE), (NEAR, "search", HEIGHT)],
    ids=["tree", "tree-of-intervals", "height"],
)
def test_numbers_are_compared_at_the_levels_of_the_page(
    game: cbg.Instance, after: str, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events 3a and 3c: every test sees a little less evidence than level and price ask for, then a
    little more. It goes on, then ends. The price is ½ln(1 + n/ρ) for averages, made for η/2. They are
    worth no more than their pulls."""
    needed = np.array([level, level])
    if game is NEAR:
        levels = Levels(told(game).problem, 4.0, 1, bounded=False)
        n = np.ceil(levels.pulls(game.eta / 2)) + [0, 1]  # one pull more may be paid for
        needed += 0.5 * np.log1p(n / levels.rho)
    looks, worths, tests = [], [], []
    which_side = classify.which_side

    def look(self: Cells, bound: np.ndarray, up: Any, worth: np.ndarray, rho: Any) -> np.ndarray:
        worths.append(worth.max())
        looks.append(needed[1] + 1e-6 if looks else needed[0] - 1e-6)
        return np.full(bound.shape, looks[-1])

    def counted(*args: Any) -> np.ndarray:
        looks.clear()
        side = which_side(*args)
        tests.append((len(looks), side.max() < 2))
        return side

    monkeypatch.setattr(Cells if game is NEAR else BettingCells, "side", look)
    monkeypatch.setattr(classify, "which_side", counted)
    references = play(game, after, monkeypatch)["references"] / 3
    assert set(tests) == {(2, True)}
    assert game is RATED or max(worths) <= references


def test_ends_of_intervals_have_the_level_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event 2b, at the second choice."""
    asked, ends = [], np.zeros((2, 1, 6))
    monkeypatch.setattr(BettingCells, "interval", lambda _, level: asked.append(level) or ends)
    federation = told(RATED)
    levels = Levels(federation.problem, 4.0, 2, bounded=True)
    classify.order_references(federation, np.array([0]), np.array([[2]]), 0.3, levels)
    assert asked == pytest.approx([log(2 * 12 * 3 / (0.02 * DELTA * 0.05))])


def test_pairs_are_told_apart_at_the_level_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event 2a, at the second choice: with a little less evidence than needed it goes on, then it
    ends. Here the weight of ρ takes 7 nats off."""
    needed = log(12 * 3 / (0.02 * DELTA * 0.05))
    shown = iter([needed + 7 - 1e-9, needed + 7 + 1e-9])
    monkeypatch.setattr(discover, "pair_evidence", lambda d, *_: np.full(d.shape, next(shown)))
    monkeypatch.setattr(Scales, "at", lambda self, n: (np.ones_like(n), np.full_like(n, -7.0)))
    federation = told(NEAR)
    levels = Levels(federation.problem, 4.0, 2, bounded=False)
    found = discover.shown_distinct(federation, np.arange(3), 1000.0, levels)
    assert (found is not None, list(shown)) == (True, [])


def test_agents_need_not_know_which_choice_it_is() -> None:
    first, later = (Levels(PROBLEMS[0], 4.0, choice, bounded=False) for choice in (1, 5))
    for name in ("agent", "agent_again", "height"):
        assert getattr(first, name) == getattr(later, name)
    assert first.beaten < later.beaten


def test_the_page_states_the_shares_of_the_code() -> None:
    """Event, share and parts of it: the first two columns of the page's table."""
    page = (Path(__file__).parents[3] / "docs" / "frugal-bai.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\w?)\. [^|]*\| ([^|]*) \|", page, flags=re.MULTILINE)
    s = SETTINGS
    stated = {event: [float(x) for x in re.findall(r"[\d.]+", share)] for event, share in rows}
    assert stated == {
        "1a": [s.beaten],
        "1b": [s.close],
        "2a": [s.distinct],
        "2b": [s.bound],
        "3a": [s.classify, LIKELY],
        "3b": [s.classify, pytest.approx(1 - LIKELY)],
        "3c": [s.classify, pytest.approx(1 - LIKELY)],
    }
    assert all("v_t" in share for event, share in rows if event[0] in "12")
    assert f"StructuredBAI has {s.fallback}δ. Let δ' = {1 - s.fallback}δ" in page
    assert f"v_1 = {LIKELY} and v_t = {1 - LIKELY:.1f}/((t − 1)t)" in page


def test_there_are_few_settings_each_with_a_sentence() -> None:
    names = [field.name for field in fields(Settings)]
    assert len(names) <= 25
    lines = inspect.getsource(Settings).splitlines()
    for name in names:
        (line,) = [one for one in lines if one.startswith(f"    {name}: ")]
        assert "  # " in line
