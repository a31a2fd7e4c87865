"""Policies that try to look better than they are. Each is prevented, or its row is marked and cannot PASS."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from harness_players import TINY, Telepath, truth_of

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.judge import Judgement

Cheat = Callable[[Any], Any]


class Plays(cbg.Policy):
    """Runs a function with the federation. Without an answer of its own it guesses arm 0, after one pull."""

    def __init__(self, cheat: Cheat) -> None:
        self._cheat = cheat

    def solve(self, federation: Any) -> np.ndarray:
        answer = self._cheat(federation)
        federation.pull(0, 0)
        return np.zeros(federation.problem.n_agents, dtype=int) if answer is None else answer


def row_of(cheat: Cheat, **kwargs: Any) -> dict[str, Any]:
    return cbg.play(Plays(cheat), TINY, **kwargs)


# --- the judge's books -----------------------------------------------------------------------------------------------


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
    assert row_of(lambda federation: delattr(federation, name))["outcome"] == "error"


def test_delta_is_the_harness_s() -> None:
    def easier(federation: Any) -> None:
        object.__setattr__(federation.problem, "delta", 0.99)
        assert federation.problem.delta == 0.99
        federation.local([0], lambda block: object.__setattr__(block.problem, "delta", 0.98))

    assert row_of(easier)["delta"] == 0.05
    assert row_of(lambda federation: setattr(federation, "problem", replace(federation.problem, delta=0.99)))[
        "message"
    ].startswith("AttributeError")


def test_what_is_read_is_a_copy() -> None:
    def clear(federation: Any) -> None:
        federation.pull(federation.agents, 0, 10)
        federation.ledger.totals.clear()
        federation.pulls_by_phase.clear()
        federation.pulls_per_agent[:] = 0
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
    assert "outside the set" in row["message"]


def test_payloads_of_one_s_own_are_refused() -> None:
    class Free(cbg.Flag):
        def rows(self, n_agents: int) -> np.ndarray:
            return np.zeros((n_agents, 100))

    row = row_of(lambda federation: federation.local([0], lambda block: Free(True)))
    assert row["outcome"] == "error"
    assert "no subclass" in row["message"]
    assert row_of(lambda federation: federation.local([0], lambda block: 7.0))["outcome"] == "error"


def test_a_real_carries_what_it_is_billed_for() -> None:
    seen: list[np.ndarray] = []

    def send(federation: Any) -> None:
        seen.append(federation.local([0], lambda block: cbg.Reals([math.pi])))
        federation.local([0], lambda block, values: seen.append(values), down=cbg.Reals([math.e]))

    row_of(send)
    assert [x.item() for x in seen] == [float(np.float32(math.pi)), float(np.float32(math.e))]
    assert all(x.dtype == np.float64 for x in seen)
    row_of(send, env_kwargs={"c_r": 64.0})
    assert [x.item() for x in seen[2:]] == [math.pi, math.e]
    for number, reason in ((math.nan, "NaN"), (1e300, "single precision")):
        row = row_of(lambda federation, x=number: federation.local([0], lambda block: cbg.Reals([x])))
        assert row["outcome"] == "error"
        assert reason in row["message"]
    assert (
        row_of(lambda federation: federation.local([0], lambda b: cbg.Reals([math.inf])) and None)["outcome"] == "wrong"
    )


def test_the_policy_s_generator_shows_no_seed() -> None:
    def look(federation: Any) -> None:
        source = federation.rng.bit_generator.seed_seq
        assert not hasattr(source, "entropy")
        assert not hasattr(source, "spawn_key")
        one, other = federation.rng.spawn(2)
        assert one.random() != other.random()

    assert row_of(look)["outcome"] == "wrong"


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


# --- what is returned is what is sent (strict mode) ------------------------------------------------------------------

FOUND: list[Any] = []


def module_level_program(block: Any) -> None:
    FOUND.append(block.pull_grid(1000).argmax(axis=1))


class WritesHome(cbg.Policy):
    """Its programs leave their findings, unsent, wherever the centre might look."""

    def __init__(self, where: str = "closure") -> None:
        self.where = where

    def solve(self, federation: Any) -> np.ndarray:
        n, kept, self._kept = federation.problem.n_agents, [], []
        array = np.full(n, -1)
        FOUND.clear()

        def program(block: Any) -> Any:
            best = block.pull_grid(1000).argmax(axis=1)
            if self.where == "closure":
                kept.append(best)
            elif self.where == "array":
                array[:] = best
            elif self.where == "self":
                self._kept.append(best)
            elif self.where == "global":
                FOUND.append(best)
            elif self.where == "exception":
                raise ValueError(best)
            elif self.where == "pulls":
                block.pull(np.arange(n), 0, best + 1)
            return None

        if self.where == "module":
            federation.local(federation.agents, module_level_program)
        else:
            try:
                federation.local(federation.agents, program)
            except ValueError as error:
                kept.append(error.args[0])
        if self.where == "pulls":
            k = federation.problem.n_arms
            kept.append(federation.pulls_per_agent - 1000 * k - 1)
        found = [*kept, *self._kept, *FOUND, *([array] if array.min() >= 0 else [])]
        return found[0] if found else np.zeros(n, dtype=int)


WAYS_HOME = ["closure", "array", "self", "global", "module", "exception", "pulls"]


@pytest.mark.parametrize("where", WAYS_HOME)
def test_a_program_cannot_write_home(where: str) -> None:
    row = cbg.play(WritesHome(where), TINY)
    assert row["outcome"] == "solved", "the cheat works where nothing prevents it"
    assert (row["bits_up"], row["reals_up"]) == (0, 0)
    assert row["suspicious_communication"]
    row = cbg.play(WritesHome(where), TINY, strict=True)
    assert row["outcome"] in ("wrong", "error")


def test_strict_exceptions_carry_nothing_to_the_policy_and_all_to_the_user() -> None:
    seen: list[BaseException] = []

    class Catches(cbg.Policy):
        def solve(self, federation: Any) -> np.ndarray:
            def program(block: Any) -> None:
                raise ValueError(block.pull_grid(10))

            try:
                federation.local(federation.agents, program)
            except Exception as error:
                seen.append(error)
            return np.zeros(federation.problem.n_agents, dtype=int)

    row = cbg.play(Catches(), TINY, strict=True)
    (error,) = seen
    assert error.__context__ is None
    assert error.__cause__ is None
    assert all(isinstance(x, str) for x in error.args)
    assert row["outcome"] == "error"
    assert row["message"].startswith("ValueError: [[")
    assert row["pulls"] == 10 * row["n_agents"] * row["n_arms"]


def test_a_spent_budget_ends_a_strict_play() -> None:
    """Otherwise a policy could ask, order by order, how much of the budget its agents have used."""

    answers: list[str] = []

    class Asks(cbg.Policy):
        def solve(self, federation: Any) -> np.ndarray:
            for times in (10**6, 1):
                try:
                    federation.pull(0, 0, times)
                except Exception as error:
                    answers.append(str(error))
            return np.zeros(federation.problem.n_agents, dtype=int)

    row = cbg.play(Asks(), TINY, strict=True, env_kwargs={"max_pulls": 1000})
    assert row["outcome"] == "budget"
    assert "0 pulls made" in row["message"]
    assert len(answers) == 2
    assert not any("pulls made" in text for text in answers)


def test_programs_send_the_same_form_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    from clustered_bandit_gym.game import federation as module

    monkeypatch.setattr(module, "BLOCK_CELLS", 1)

    def talkative(federation: Any) -> None:
        federation.local(federation.agents, lambda block: [cbg.Flag(True)] * (1 + int(block.agents[0] == 2)))

    row = row_of(talkative)
    assert row["outcome"] == "error"
    assert "same form" in row["message"]


def test_a_program_pulls_at_its_own_agents_only() -> None:
    row = row_of(lambda federation: federation.local([0], lambda block: setattr(block, "agents", federation.agents)))
    assert row["outcome"] == "error"
    row = row_of(lambda federation: federation.local([0], lambda block: block.agents.fill(3)))
    assert row["outcome"] == "error"


STRICT_ROWS = [
    "naive", "naive:engine=lucb", "cl-bai", "bai-cl", "bai-cl:confidence=certified", "bai-cl++",
    "bai-cl++:verify=centre", "structured-bai", "uniform", "uniform-glr", "random",
]  # fmt: skip


@pytest.mark.parametrize("name", STRICT_ROWS)
def test_honest_policies_get_the_same_rows_in_strict_mode(name: str) -> None:
    for env, kwargs in ((TINY, {}), ("ClusteredBAI-PaperFlat-v0", {"n_agents": 40, "delta": 0.1})):
        plain, strict = (cbg.play(name, env, strict=s, bound=False, env_kwargs=kwargs) for s in (False, True))
        assert (plain.pop("strict"), strict.pop("strict")) == (False, True)
        plain.pop("seconds"), strict.pop("seconds")
        assert plain == strict


def test_strict_mode_reaches_every_trial(tmp_path: Any) -> None:
    players = [WritesHome("closure"), "naive"]
    board = cbg.evaluate(players, TINY, trials=3, strict=True, out=tmp_path, bound=False, progress=False)
    assert board.trials.strict.all()
    assert not board.trials[board.trials.policy == "WritesHome"].correct.any()
    # Kept rows of the other mode are not reused.
    again = cbg.evaluate(players, TINY, trials=3, out=tmp_path, bound=False, progress=False)
    assert again.trials[again.trials.policy == "WritesHome"].correct.all()


# --- attempts, seeds, state, and what is too good to be true ---------------------------------------------------------


class TriesAgain(cbg.Policy):
    """Raises now and then, with entropy of its own: played again, a trial may end better."""

    def solve(self, federation: Any) -> np.ndarray:
        if np.random.default_rng().random() < 0.3:
            raise RuntimeError("not this time")
        return cbg.policies.make("uniform:pulls_per_arm=1000").solve(federation)


def test_trials_that_failed_stay_on_record(tmp_path: Any) -> None:
    """False alarms: 0.7^60 that no trial ever fails, 60·0.3^30 that one is unfinished after 30 runs."""
    settings: dict[str, Any] = {"trials": 60, "delta": 0.1, "bound": False, "progress": False}
    failed: set[int] = set()
    for _ in range(30):
        board = cbg.evaluate(TriesAgain(), TINY, out=tmp_path, **settings)
        trials, score = board.trials, board.summary.iloc[0]
        failed |= set(trials.trial[trials.outcome == "error"])
        assert set(trials.trial[trials.attempts > 1]) <= failed
        if score.unfinished == 0:
            break
    assert score.crashed == 0
    assert set(trials.trial[trials.attempts > 1]) == failed != set()
    assert score.retried == ((trials.attempts > 1) & (trials.outcome == "solved")).sum()
    assert score.verdict != "PASS"
    assert "first attempt" in str(board)
    fresh = cbg.evaluate("uniform:pulls_per_arm=1000", TINY, **settings)
    assert fresh.summary.verdict[0] == "PASS", "without failures these trials would pass"


def test_a_secret_seed_is_drawn_and_shown() -> None:
    boards = [cbg.evaluate("random", TINY, trials=1, seed="secret", bound=False, progress=False) for _ in range(2)]
    first, second = (board.trials.seed[0] for board in boards)
    assert first != second
    assert min(first, second) > 2**64  # fails with probability 2^-63
    assert str(first) in str(boards[0])
    row = cbg.replay(boards[0].trials.iloc[0])
    assert row["pulls"] == boards[0].trials.pulls[0]
    with pytest.raises(ValueError, match="secret"):
        cbg.evaluate("random", TINY, trials=1, seed="hidden", progress=False)


class KnowsTheAnswer(cbg.Policy):
    """Right with one pull of each agent, and sends what a right answer takes."""

    def solve(self, federation: Any) -> np.ndarray:
        best, k = truth_of(federation).agent_best_arms, federation.problem.n_arms

        def program(block: Any) -> cbg.ArmIndex:
            block.pull(np.arange(len(block)), 0)
            return cbg.ArmIndex(best[block.agents], among=k)

        answer: np.ndarray = federation.local(federation.agents, program)
        return answer


@pytest.mark.parametrize("pulls", [0, 1])
def test_too_good_to_be_true(pulls: int) -> None:
    policy = KnowsTheAnswer() if pulls else Telepath()
    board = cbg.evaluate([policy, "naive"], "ClusteredBAI-PaperSmall-v0", trials=100, n_agents=6, progress=False)
    cheat, honest = board.summary.iloc[0], board.summary.iloc[1]
    assert (cheat.errors, cheat.verdict) == (0, "INCONCLUSIVE")
    assert ("lower bound" if pulls else "without a single pull") in cheat.doubt
    assert "cannot PASS" in str(board)
    assert (honest.doubt, honest.verdict) == ("", "PASS")
    report = cbg.audit(policy, cells=["small game"], trials=60, progress=False)
    assert report.word == "FAIL"
    assert "breaks the rules" in report.text


class Pools(cbg.Policy):
    """Sends the best arm of the block's mean: agents of a block share their rewards without sending them."""

    def solve(self, federation: Any) -> np.ndarray:
        def program(block: Any) -> cbg.ArmIndex:
            averages = block.pull_grid(300)
            centred = averages - averages.mean(axis=0)
            return cbg.ArmIndex(centred.argmax(axis=1), among=block.problem.n_arms)

        answer: np.ndarray = federation.local(federation.agents, program)
        return answer


def test_agents_that_see_each_other_fail_the_audit() -> None:
    report = cbg.audit(Pools(), cells=["small game"], trials=5, progress=False)
    assert report.word == "FAIL"
    assert "blocks of one agent" in report.text
    report = cbg.audit("naive", cells=["small game"], trials=5, progress=False)
    assert report.breaches == ()


class Learns(cbg.Policy):
    """Carries what it saw from trial to trial."""

    seen: ClassVar[list[int]] = []

    def solve(self, federation: Any) -> np.ndarray:
        self.seen.append(1)
        federation.pull(0, 0, 100 + len(self.seen))
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_state_carried_from_trial_to_trial_shows_in_a_fresh_process() -> None:
    Learns.seen.clear()
    settings: dict[str, Any] = {"trials": 3, "replays": 1, "bound": False, "progress": False}
    board = cbg.evaluate([Learns(), "uniform"], TINY, **settings)
    by_policy = board.trials.groupby("policy")["reproduced"].apply(lambda column: column.dropna().tolist())
    assert by_policy["Learns"] == [False]
    assert by_policy["uniform"] == [True]
    assert "fresh process" in board.summary.doubt[0]


@pytest.mark.parametrize("where", ["closure", "class"])
def test_answers_that_no_message_carried_cannot_pass(where: str) -> None:
    """Without strict mode a closure writes home, and even in strict mode a class attribute does: neither can PASS."""

    class ByClass(cbg.Policy):
        best: ClassVar[Any] = None

        def solve(self, federation: Any) -> np.ndarray:
            def program(block: Any) -> None:
                ByClass.best = block.pull_grid(1000).argmax(axis=1)

            federation.local(federation.agents, program)
            return np.array(ByClass.best)

    policy = WritesHome("closure") if where == "closure" else ByClass()
    score = cbg.evaluate(policy, TINY, trials=80, strict=where == "class", bound=False, progress=False).summary.iloc[0]
    assert score.errors == 0
    assert score.verdict == "INCONCLUSIVE"
    assert "less than half of the bits" in score.doubt


class Untidy(cbg.Policy):
    """Changes what belongs to the whole process, as people do for their own use."""

    def solve(self, federation: Any) -> np.ndarray:
        np.seterr(all="raise")
        warnings.simplefilter("error")
        os.chdir("/")
        federation.pull(0, 0)
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_a_play_leaves_the_process_as_it_was() -> None:
    before = np.geterr(), list(warnings.filters), os.getcwd()
    cbg.play(Untidy(), TINY)
    assert (np.geterr(), list(warnings.filters), os.getcwd()) == before


LAZY = """
import numpy as np, clustered_bandit_gym as cbg

class Lazy(cbg.Policy):
    def solve(self, federation):
        import torch
        federation.pull(0, 0, 1 + int(1e6 * torch.rand(1).item()))
        return np.zeros(federation.problem.n_agents, dtype=int)

print([cbg.play(Lazy(), "ClusteredBAI-Tiny-v0", bound=False)["pulls"] for _ in range(2)])
"""


def test_torch_is_seeded_even_if_the_policy_imports_it() -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    assert first == second
