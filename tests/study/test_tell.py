"""Asking and telling: partial tells, repetitions, and every kind of bad input."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.study import Order

MEANS = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.2]])
PROBLEM = cbg.Problem(4, 3, 2, 0.1, eta=0.5, sigma=0.5, support=(0, 1))


class TwoRounds(cbg.Policy):
    """Orders three pulls of each arm at each agent, then two more of each agent's best one."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        with federation.phase("all"):
            means = federation.pull(federation.agents[:, None], np.arange(3)[None, :], 3)
        means *= 1  # policies may write into what they are handed
        best = means.argmax(axis=1)
        means[:] = -1
        with federation.phase("best"):
            federation.pull(federation.agents, best, 2)
        federation.report_clusters(best)
        return best


def pull(order: Order) -> list[np.ndarray]:
    rng = np.random.default_rng(order.id)
    cells = zip(order.agents, order.arms, order.times, strict=True)
    return [rng.binomial(1, MEANS[agent % 2, arm], times) for agent, arm, times in cells]


def new(path: Path | None = None, **settings: Any) -> tuple[cbg.Study, Order]:
    study = cbg.Study(TwoRounds(), PROBLEM, path, **settings)
    order = study.ask()
    assert order is not None
    return study, order


def test_ask_and_tell_to_the_end(tmp_path: Path) -> None:
    study, order = new(tmp_path / "study.db")
    assert (order.id, len(order), order.pulls, order.phase) == (1, 12, 36, "all")
    assert order.table.columns.tolist() == ["order", "row", "agent", "arm", "times"]
    assert study.ask().id == 1  # type: ignore[union-attr]
    assert study.arms is None
    assert study.tell(order, pull(order))
    second = study.ask()
    assert second is not None
    assert (second.id, len(second), second.phase) == (2, 4, "best")
    assert (study.status.phase, study.status.pulls, study.status.missing) == ("best", 36, 8)
    assert study.tell(second, sums=[2, 2, 1, 0])
    assert study.ask() is None
    assert study.status.done
    assert study.status.decided.all()
    assert study.status.pulls_per_agent.tolist() == [11] * 4
    assert study.status.pulls_max_agent == 11
    assert study.arms is not None
    assert study.clusters is not None
    assert study.arms.tolist() == study.clusters.tolist()
    assert [(one.phase, one.done.sum()) for one in study.orders()] == [("all", 36), ("best", 8)]
    assert study.ledger.reals("up") == 16


def test_partial_tells_add_up() -> None:
    study, order = new()
    study.tell(order, [[1, 0], [1]], rows=[0, 3])
    left = study.ask()
    assert left is not None
    assert left.id == 1
    assert left.times.tolist() == [1, 3, 3, 2, *[3] * 8]
    study.tell(left, [[]] * 11 + [[1, 1, 1]])
    left = study.ask()
    assert left is not None
    assert left.rows.tolist() == list(range(11))
    study.tell(left, [[0.5] * times for times in left.times])
    assert study.status.orders == 1
    assert study.status.means[0, 0] == 0.5
    assert study.status.means[1, 0] == pytest.approx(2 / 3)


def test_the_same_tell_twice_is_taken_once() -> None:
    study, order = new()
    rewards = pull(order)
    assert study.tell(order, rewards[:2], rows=[0, 1])
    assert not study.tell(order, rewards[:2], rows=[0, 1])
    assert not study.tell(order.id, rewards[:2], rows=[0, 1])
    assert study.status.pulls == 6
    # Part of a row: whether equal rewards are new pulls cannot be known.
    assert study.tell(order, [[1]], rows=[5])
    with pytest.raises(ValueError, match="told before"):
        study.tell(order, [[1]], rows=[5])
    assert study.tell(order, [[1]], rows=[5], key="monday")
    assert not study.tell(order, [[1]], rows=[5], key="monday")
    assert not study.tell(study.ask(), [[1]], rows=[5], key="monday")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="others with the same key"):
        study.tell(order, [[0]], rows=[5], key="monday")
    assert study.status.pulls == 8
    # An order that was asked for again knows what has been told.
    again = study.ask()
    assert again is not None
    assert study.tell(again, [[1]], rows=[5])
    study.tell(again, rewards[2:5], rows=[2, 3, 4])
    study.tell(again, rewards[6:], rows=range(6, 12))
    assert study.status.orders == 1
    assert not study.tell(order, rewards[:2], rows=[0, 1])
    with pytest.raises(ValueError, match=r"row 0 of order 1 gets . more than it asked for"):
        study.tell(order, [[0, 0, 0]], rows=[0])


BAD: list[tuple[str, dict[str, Any]]] = [
    ("reward nan in row 1 is impossible", {"rewards": [[1], [np.nan]], "rows": [0, 1]}),
    ("reward inf in row 0 is impossible", {"rewards": [[np.inf]], "rows": [0]}),
    ("reward 1.5 in row 2 is impossible", {"rewards": [[1.5]], "rows": [2]}),
    ("reward -0.1 in row 2 is impossible", {"rewards": [[-0.1]], "rows": [2]}),
    ("one array of rewards for each of 12 rows, got 1", {"rewards": [[1]]}),
    ("rewards must be numbers", {"rewards": [["a"]], "rows": [0]}),
    ("must be numbers: .* 'yes'; nothing", {"rewards": [["1", "0.5", "yes"] * 99], "rows": [0]}),
    ("must be numbers: .* shape .*; nothing", {"rewards": [[[1]] * 99 + [[]]], "rows": [0]}),
    (
        r"row 0 of order 1 gets 1 more than it asked for",
        {"rewards": [[1] * 4], "rows": [0]},
    ),
    ("at least one reward", {"rewards": [[]], "rows": [0]}),
    ("row 12 is out of range", {"rewards": [[1]], "rows": [12]}),
    ("different rows", {"rewards": [[1], [1]], "rows": [1, 1]}),
    ("exactly one of", {"rewards": [[1]], "sums": [1], "rows": [0]}),
    ("exactly one of", {"rows": [0]}),
    ("sum / pulls = 1.16667 in row 0 is impossible", {"sums": [3.5], "rows": [0]}),
    ("sum / pulls = 1.5 in row 0 is impossible", {"sums": [1.5], "pulls": [1], "rows": [0]}),
    ("sum / pulls = nan in row 0 is impossible", {"sums": [np.nan], "rows": [0]}),
    ("one sum for each of 2 rows", {"sums": [1], "rows": [0, 1]}),
    ("whole numbers >= 1", {"sums": [0], "pulls": [0], "rows": [0]}),
    ("whole numbers >= 1", {"sums": [1], "pulls": [1.5], "rows": [0]}),
    ("counts need a study that knows the values", {"counts": [[1, 2]], "rows": [0]}),
    ("there is no order 7; the last one is 1", {"order": 7, "rewards": [[1]], "rows": [0]}),
    ("there is no order 0", {"order": 0, "rewards": [[1]], "rows": [0]}),
    ("there is no order 'x'", {"order": "x", "rewards": [[1]], "rows": [0]}),
]


def contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as file:
        return list(file.iterdump())


@pytest.mark.parametrize(("message", "tell"), BAD)
def test_bad_input_is_an_error_and_changes_nothing(
    message: str, tell: dict[str, Any], tmp_path: Path
) -> None:
    study, order = new(tmp_path / "study.db")
    before = contents(tmp_path / "study.db")
    with pytest.raises(ValueError, match=message):
        study.tell(tell.pop("order", order), **tell)
    assert contents(tmp_path / "study.db") == before


def test_known_values() -> None:
    study, order = new(values=(0, 1))
    assert study.problem.support == (0, 1)
    for message, tell in (
        (r"reward 0.5 in row 0 is impossible: rewards are 0 or 1", {"rewards": [[0.5]]}),
        (r"sums of rewards that are 0 or 1 cannot be \[1.5\]", {"sums": [1.5]}),
        ("sum / pulls = 1.33333 in row 0 is impossible", {"sums": [4]}),
        ("whole numbers >= 0 of shape", {"counts": [[-1, 4]]}),
        ("whole numbers >= 0 of shape", {"counts": [[np.inf, 0]]}),
        ("whole numbers >= 0 of shape", {"counts": [[np.nan, 0]]}),
        ("whole numbers >= 0 of shape", {"counts": [[1, 1, 1]]}),
        ("more than it asked for", {"counts": [[1, 3]]}),
    ):
        with pytest.raises(ValueError, match=message):
            study.tell(order, rows=[0], **tell)  # type: ignore[arg-type]
    study.tell(order, counts=[[1, 2]], rows=[0])
    study.tell(order, sums=[2], rows=[1])
    study.tell(order, [[1, 0, 1]], rows=[2])
    assert study.status.means[0].tolist() == pytest.approx([2 / 3] * 3)
    for values, message in (((0, 2), "in the support"), ((0, 0), "strictly"), ((), "vector")):
        with pytest.raises(ValueError, match=message):
            cbg.Study(TwoRounds(), PROBLEM, values=values)
    ratings = cbg.Study(TwoRounds(), cbg.Problem(4, 3, 2, 0.1), values=(1, 2, 3))
    assert ratings.problem.support == (1, 3)
    with pytest.raises(ValueError, match="a sum is not enough"):
        ratings.tell(ratings.ask(), sums=[4] * 12)  # type: ignore[arg-type]


def test_an_order_of_another_study_is_refused() -> None:
    study, _ = new()
    other = cbg.Study("naive", PROBLEM).ask()
    assert other is not None
    with pytest.raises(ValueError, match="not of this study"):
        study.tell(other, [[1]] * len(other))


def test_a_policy_that_refuses_the_problem_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="eta"):
        cbg.Study("cl-bai", cbg.Problem(4, 3, 2, 0.1), tmp_path / "study.db")
    assert not (tmp_path / "study.db").exists()


def test_a_limit_for_each_agent_ends_the_study() -> None:
    study = cbg.Study(TwoRounds(), replace(PROBLEM, max_pulls_per_agent=10))
    order = study.ask()
    assert order is not None
    study.tell(order, pull(order))
    with pytest.raises(cbg.BudgetExceeded):
        study.ask()
    assert (study.status.phase, study.status.done) == ("stopped", False)
    assert str(study.status).startswith("stopped without an answer: agent 0 has made 9 pulls;")
    assert study.status.pulls_max_agent == 9
    assert study.arms is None


def test_a_policy_that_catches_everything_is_an_error() -> None:
    class Greedy(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            with suppress(BaseException):
                federation.pull([0], [0])
            return np.zeros(4, dtype=int)

    with pytest.raises(ValueError, match="must not catch BaseException"):
        cbg.Study(Greedy(), PROBLEM)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "pull must return an array of rewards for each row, .*; got None"),
        (0.5, "one array of rewards for each of 12 rows, got 1"),
        ({"means": [0.5]}, r"pull must return .*; got \{'means'"),
        ({3: [0.5]}, r"pull must return .*; got \{3"),
        (np.ones(12), "row 0 waits for 3 rewards and got a number: .*sums"),
    ],
)
def test_drive_says_what_pull_must_return(result: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cbg.drive(TwoRounds(), lambda *_: result, PROBLEM)


@pytest.mark.parametrize(
    ("policy", "changes", "message"),
    [
        ("random", {}, "random states no guarantee"),
        ("naive", {"sigma": 0.3}, "sigma = 0.3 is less than half the width of the support"),
        ("naive", {"epsilon": 1.0}, "epsilon covers all rewards"),
    ],
)
def test_likely_mistakes_are_told_once(
    policy: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    with pytest.warns(UserWarning, match=message):
        cbg.Study(policy, replace(PROBLEM, **changes), path)
    with warnings.catch_warnings(action="error"):
        cbg.Study.open(path)


def test_drive_takes_what_the_agents_give() -> None:
    calls: list[int] = []

    def slow(agents: np.ndarray, arms: np.ndarray, times: np.ndarray) -> Any:
        calls.append(int(times.sum()))
        rewards = MEANS[agents % 2, arms]
        if len(calls) == 1:  # only one of each row is back
            return rewards[:, None]
        return {"sums": rewards * times}

    with pytest.warns(UserWarning, match="fewer rewards than asked for"):
        study = cbg.drive(TwoRounds(), slow, PROBLEM)
    assert calls == [36, 24, 8]
    assert study.arms is not None
    assert study.arms.tolist() == [0, 1, 0, 1]


def test_drive_says_that_a_study_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    cbg.drive(TwoRounds(), lambda i, k, t: {"sums": MEANS[i % 2, k] * t}, PROBLEM, path)
    with pytest.warns(UserWarning, match="holds a finished study: nothing is pulled"):
        again = cbg.drive(TwoRounds(), lambda *_: pytest.fail("it pulls"), PROBLEM, path)
    assert again.arms is not None


def test_an_eta_beyond_the_range_of_rewards_is_refused() -> None:
    problem = cbg.Problem(n_agents=4, n_arms=3, n_clusters=2, delta=0.1, eta=2.0)
    with pytest.raises(ValueError, match="exceeds the range of rewards"):
        cbg.Study("naive", problem, values=(0, 1))
    assert cbg.Study("naive", problem).seed == 0  # nothing bounds the rewards


def test_a_key_of_another_order_is_refused() -> None:
    """Also with equal rewards, which would otherwise be taken for a repetition."""
    study, order = new()
    assert study.tell(order, [[1]], rows=[0], key="monday")
    rest = study.ask()
    assert rest is not None
    study.tell(rest, pull(rest))
    second = study.ask()
    assert second is not None
    assert second.id == 2
    with pytest.raises(ValueError, match="others with the same key"):
        study.tell(second, [[1]], rows=[0], key="monday")


def test_numbers_of_numpy_are_plain_in_the_file(tmp_path: Path) -> None:
    problem = replace(PROBLEM, eta=np.float32(0.5), delta=np.float64(0.1))
    for seed in (np.int64(3), 3):
        study = cbg.Study(TwoRounds(), problem, tmp_path / "study.db", seed=seed)  # type: ignore[arg-type]
        assert study.ask()
        study.close()


def test_rewards_whose_sum_overflows_are_refused() -> None:
    study = cbg.Study(TwoRounds(), replace(PROBLEM, support=None))
    order = study.ask()
    assert order is not None
    with pytest.raises(ValueError, match="too large to be added up"):
        study.tell(order, [[1e308] * 3], rows=[0])
