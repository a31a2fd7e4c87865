"""Policies that tamper with the judge's books: with answers, counts, prices, seeds or copies of the
play.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cheats import Plays, row_of
from harness_players import TINY

import clustered_bandit_gym as cbg
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.judge import Judgement


def test_a_wrong_answer_cannot_be_withdrawn() -> None:
    def stop_and_look(federation: Any) -> None:
        verdict = federation.stop(np.zeros(federation.problem.n_agents, dtype=int))
        if verdict is None or not verdict.correct:
            raise RuntimeError("withdrawn")

    rows = [cbg.play(Plays(stop_and_look), TINY, trial=t) for t in range(5)]
    assert {row["outcome"] for row in rows} == {"wrong"}
    assert "after its stop" in rows[0]["message"]
    board = cbg.evaluate(Plays(stop_and_look), TINY, trials=100, bound=False, progress=False)
    assert board.summary.verdict[0] == "FAIL"


def test_the_first_stop_is_final() -> None:
    def stop_again(federation: Any) -> None:
        for arm in range(federation.problem.n_arms):
            try:
                federation.stop(np.full(federation.problem.n_agents, arm))
            except cbg.PlayOver:
                continue

    assert row_of(stop_again)["outcome"] == "wrong"


def test_the_judge_answers_only_to_the_harness() -> None:
    assert row_of(lambda federation: federation.judgement)["outcome"] == "error"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("problem", None),
        ("judgement", Judgement(True, np.ones(4, bool), np.zeros(4, int), None, None)),
        ("pulls", 1),
        ("max_pulls", 10**18),
        ("rounds", 0),
        ("ledger", None),
        ("pulls_by_phase", {}),
        ("pulls_per_agent", np.zeros(4)),
        ("anything", 1),
    ],
)
def test_attributes_cannot_be_set(name: str, value: Any) -> None:
    row = row_of(lambda federation: setattr(federation, name, value))
    assert row["outcome"] == "error"
    assert "cannot set" in row["message"]


def test_delta_is_the_harness_s() -> None:
    def easier(federation: Any) -> None:
        object.__setattr__(federation.problem, "delta", 0.99)
        assert federation.problem.delta == 0.99
        federation.local([0], lambda block: object.__setattr__(block.problem, "delta", 0.98))

    assert row_of(easier)["delta"] == 0.05
    assert row_of(
        lambda federation: setattr(federation, "problem", replace(federation.problem, delta=0.99))
    )["message"].startswith("AttributeError")


def test_what_is_read_cannot_be_changed() -> None:
    def clear(federation: Any) -> None:
        federation.pull(federation.agents, 0, 10)
        with pytest.raises(ValueError, match="read-only"):
            federation.agents[:] = 0

    row = row_of(clear)
    n = row["n_agents"]
    assert row["outcome"] == "wrong"
    assert row["pulls"] == sum(row["pulls_by_phase"].values()) == 10 * n + 1
    assert row["reals_up"] == n + 1
    assert row["pulls_max_agent"] >= 10


def test_the_price_of_a_message_is_the_ledger_s() -> None:
    def pays_back(federation: Any) -> None:
        def program(block: Any) -> Any:
            payload = cbg.Reals(np.zeros(len(block)))
            payload.bits, payload.reals = -1000, -1000
            return payload

        federation.local(federation.agents, program)

    row = row_of(pays_back)
    assert (row["bits_up"], row["reals_up"]) == (0, row["n_agents"] + 1)  # and one ordered pull

    def too_small_a_set(federation: Any) -> Any:
        def program(block: Any) -> Any:
            payload = cbg.ArmIndex(np.zeros(len(block), dtype=int), among=1)  # no bits
            payload.values = block.pull_grid(1000).argmax(axis=1)
            return payload

        return federation.local(federation.agents, program)

    row = row_of(too_small_a_set)
    assert row["outcome"] == "error"
    assert "out of range" in row["message"]


def test_payloads_of_one_s_own_are_refused() -> None:
    class Free(cbg.Flag):
        def rows(self, n_agents: int) -> np.ndarray:
            return np.zeros((n_agents, 100))

    row = row_of(lambda federation: federation.local([0], lambda block: Free(True)))
    assert row["outcome"] == "error"
    assert "cannot be subclassed" in row["message"]
    assert row_of(lambda federation: federation.local([0], lambda block: 7.0))["outcome"] == "error"


def test_a_real_carries_what_it_is_billed_for() -> None:
    seen: list[np.ndarray] = []

    def send(federation: Any) -> None:
        seen.append(federation.local([0], lambda block: cbg.Reals([math.pi])))
        federation.local([0], lambda block, values: seen.append(values), down=cbg.Reals([math.e]))

    row_of(send, strict=False)
    assert [x.item() for x in seen] == [float(np.float32(math.pi)), float(np.float32(math.e))]
    assert all(x.dtype == np.float64 for x in seen)
    row_of(send, strict=False, env_kwargs={"c_r": 64.0})
    assert [x.item() for x in seen[2:]] == [math.pi, math.e]
    for number, reason in ((math.nan, "NaN"), (1e300, "single precision")):
        row = row_of(
            lambda federation, x=number: federation.local([0], lambda block: cbg.Reals([x]))
        )
        assert row["outcome"] == "error"
        assert reason in row["message"]
    assert (
        row_of(lambda federation: federation.local([0], lambda b: cbg.Reals([math.inf])) and None)[
            "outcome"
        ]
        == "wrong"
    )


def test_the_policy_s_generator_does_not_show_the_seed_of_the_play() -> None:
    seed = 2**100 + 7

    def look(federation: Any) -> None:
        source = federation.rng.bit_generator.seed_seq
        assert source.entropy != seed
        assert seed not in source.entropy
        assert source.spawn_key == ()
        one, other = federation.rng.spawn(2)
        assert one.random() != other.random()

    assert row_of(look, seed=seed)["outcome"] == "wrong"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_play_cannot_be_copied(duplicate: Callable[[Any], Any]) -> None:
    row = row_of(duplicate)
    assert row["outcome"] == "error"
    assert "a play happens once" in row["message"]
    instance = cbg.Instance([[0.0, 1.0]], [0])
    with pytest.raises(TypeError, match="a play happens once"):
        duplicate(cbg.Federation(instance, cbg.Problem.of(instance, 0.1), 0))


def test_stepwise_play_gives_the_same_view() -> None:
    row = row_of(lambda federation: setattr(federation, "pulls", 1), stepwise=True)
    assert "cannot set" in row["message"]


def test_checked_values_and_prices_stay_as_they_were_checked() -> None:
    for payload in (
        cbg.ArmSubset(np.ones((1, 3), dtype=bool)),
        cbg.Symbol(np.array([0]), among=1),
        cbg.Quantised(np.array([0.0]), grid=[0.0], rounding="up"),
        cbg.ArmIndex(np.array([1]), among=3),
        cbg.ArmSet(np.zeros((1, 3), dtype=bool), at_most=0),
        cbg.ArmSet(np.zeros((1, 3), dtype=bool)),
        cbg.Flag([True, False]),
    ):
        for array in (payload.values, payload.bits):
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.setflags(write=True)
    assert cbg.Flag(np.array([200], dtype=np.uint8).view(bool)).values.view(np.uint8)[0] == 1
    with pytest.raises(UserError, match="complex"):
        cbg.Reals([1j])


def test_a_set_that_depends_on_rewards_is_not_known_to_both_sides() -> None:
    """Found wherever agents run in several blocks, as in the audit's plays with one agent in each."""
    instance = cbg.Instance(np.eye(3), np.arange(3))
    play = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    play.block_size = 1
    best = lambda block: block.pull_grid(10**6).argmax(axis=1)  # noqa: E731
    with pytest.raises(UserError, match="among"):
        play.local(play.agents, lambda block: cbg.ArmIndex(best(block), among=best(block)))
    with pytest.raises(UserError, match="grid"):
        play.local(
            play.agents, lambda b: cbg.Quantised(best(b), grid=best(b).astype(float), rounding="up")
        )
    answer = play.local(play.agents, lambda block: cbg.ArmIndex(best(block), among=np.arange(3)))
    assert answer.tolist() == [0, 1, 2]


class Sly(int):
    """An int that says it is 1."""

    def __sub__(self, other: Any) -> int:
        return 0

    def __int__(self) -> int:
        return 1

    def __pow__(self, *other: Any) -> int:  # type: ignore[override]
        return 1


def test_sizes_are_what_they_are() -> None:
    assert cbg.ArmIndex([3], among=Sly(8)).bits == 3
    assert cbg.Symbol([3], among=Sly(8)).bits == 3
    assert cbg.ArmSet([[True] * 2 + [False] * 6], at_most=Sly(2)).bits == 6
    instance = cbg.Instance(np.eye(3), np.arange(3))
    play = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    play.pull(0, 0, Sly(50))
    assert play.pulls == 50
    for wrong in (0, -1, 2.5, True, "3"):
        with pytest.raises(UserError, match="whole number"):
            cbg.Symbol([0], among=wrong)  # type: ignore[arg-type]


def test_a_set_to_choose_from_is_paid_for() -> None:
    """Otherwise a program could name its findings as the set, at the price of the empty choice."""
    instance = cbg.Instance(np.eye(3), np.arange(3))
    play = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)

    def program(block: Any) -> Any:
        best = block.pull_grid(1000) > 0.5
        return cbg.ArmSubset(best, within=best)

    assert (
        cbg.ArmSubset(np.eye(3, dtype=bool), within=np.eye(3, dtype=bool)).bits.tolist() == [3] * 3
    )
    play.local(play.agents, program)
    assert play.ledger.bits("up") == 3 * (3 + 3)


def test_the_payloads_of_the_docs_are_those_of_the_error_message() -> None:
    from pathlib import Path

    from clustered_bandit_gym.game.payloads import TABLE

    page = (Path(__file__).parents[2] / "docs/game.md").read_text(encoding="utf-8")
    message = row_of(lambda federation: federation.local([0], lambda block: 7.0))["message"]
    for payload, arguments, meaning, price in TABLE:
        form = f"{payload.__name__}({arguments})"
        assert f"| `{form}` | {meaning} | {price.replace('|', chr(92) + '|')} |" in page
        assert form in message
    assert {row[0] for row in TABLE} == set(cbg.Payload.__subclasses__())
