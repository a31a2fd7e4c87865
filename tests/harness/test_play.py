"""One trial, one row: both doors, every outcome, and the same row from the same seed."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from harness_players import (
    TINY,
    Duck,
    Empirical,
    Fails,
    Greedy,
    Remembers,
    Stepper,
    Telepath,
    truth_of,
)

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.seeds import trial_seeds

KEYS = {
    "env", "env_kwargs", "policy", "policy_class", "guarantee", "settings", "trial", "seed", "stepwise", "strict", "outcome",
    "message", "attempts",
    "correct", "wrong_agents", "clustering_errors", "arm_errors", "pulls", "pulls_max_agent", "pulls_by_phase", "cost",
    "cost_by_phase", "bits_up", "bits_down", "reals_up", "reals_down", "rounds", "suspicious_communication", "n_agents",
    "n_arms", "n_clusters", "delta", "eta", "eta1", "sigma", "support", "epsilon",
    "max_pulls_per_agent", "bound", "seconds", "version",
}  # fmt: skip


FLAT = {"n_agents": 12, "n_clusters": 4, "n_arms": 9}


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return {**first, "seconds": 0} == {**second, "seconds": 0}


def test_row_of_a_policy() -> None:
    row = cbg.play(
        Empirical(10),
        "ClusteredBAI-PaperSmall-v0",
        seed=3,
        env_kwargs={"n_agents": 6, "delta": 0.1},
    )
    assert set(row) == KEYS
    assert json.loads(json.dumps(row)) == row  # plain values only
    assert (row["policy"], row["settings"]) == ("empirical", {"n": 10})
    assert row["pulls"] == 6 * 10 * 10
    assert row["pulls_max_agent"] == 100
    assert row["pulls_by_phase"] == {"look": 600}
    assert row["bits_up"] == 6 * 4  # one of ten arms each
    assert row["cost"] == 24
    assert row["cost_by_phase"] == {"look": 24}
    assert row["rounds"] == 1
    assert (row["n_agents"], row["n_arms"], row["n_clusters"], row["delta"]) == (6, 10, 3, 0.1)
    assert row["outcome"] == ("solved" if row["correct"] else "wrong")


def test_same_seed_same_row_another_seed_another_row() -> None:
    env = gym.make(TINY)
    assert same(cbg.play(Empirical(), env, seed=5), cbg.play(Empirical(), env, seed=5))
    assert not same(
        cbg.play(Empirical(), env, seed=5), cbg.play(Empirical(), env, seed=6) | {"seed": 5}
    )


def test_trials_and_roots_do_not_share_streams() -> None:
    first = [trial_seeds(seed, trial) for seed in range(4) for trial in range(4)]
    words = {tuple(s.generate_state(4)) for pair in first for s in pair} | {
        (pair.policy,) for pair in first
    }
    assert len(words) == 3 * 16


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_bad_seeds(bad: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        trial_seeds(bad, 0)


def test_gymnasium_loop_gives_the_judge_s_own_numbers() -> None:
    env = gym.make(TINY)
    row = cbg.play(Stepper(2), env, seed=1)
    federation: Any = env.unwrapped.federation  # type: ignore[attr-defined]
    assert row["pulls"] == federation.pulls == 2 * row["n_agents"] * row["n_arms"]
    assert row["reals_up"] == row["pulls"] == row["rounds"]  # every step is an exchange, billed
    assert row["bits_down"] == 2 * row["pulls"]  # one of three arms: two bits
    assert row["correct"] is bool(federation.judgement.correct)


def test_both_doors_meet_the_same_instance_and_noise() -> None:
    class Central(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            n, k = federation.problem.n_agents, federation.problem.n_arms
            rewards = np.array([[federation.pull(i, a) for a in range(k)] for i in range(n)])
            return rewards.argmax(axis=1)

    for seed in range(5):
        env = gym.make(TINY)
        centre, loop = cbg.play(Central(), env, seed=seed), cbg.play(Stepper(1), env, seed=seed)
        for key in ("correct", "wrong_agents", "pulls", "rounds", "bound"):
            assert centre[key] == loop[key], (seed, key)
        assert centre["cost"] == loop["cost"] + loop["pulls"], (
            "an order says how many pulls, 1 bit for one; a step not"
        )


def test_anything_with_act_is_a_player_and_global_randomness_is_seeded() -> None:
    np.random.seed(1)  # noqa: NPY002
    first = cbg.play(Duck(), TINY, seed=2)
    after = np.random.randint(10**9)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert after == np.random.randint(10**9)  # noqa: NPY002 (the state was put back)
    assert first["outcome"] in ("solved", "wrong")

    def wrong_agents(state: int) -> list[int]:
        np.random.seed(state)  # noqa: NPY002
        return [
            cbg.play(Duck(), TINY, seed=2, trial=t, bound=False)["wrong_agents"] for t in range(20)
        ]

    assert wrong_agents(1) == wrong_agents(2)
    assert len(set(wrong_agents(1))) > 1


def test_stepwise_has_the_same_bill_and_goes_through_wrappers() -> None:
    class Count(gym.Wrapper[Any, Any, Any, Any]):
        steps = 0

        def step(self, action: Any) -> Any:
            Count.steps += 1
            return self.env.step(action)

    env = Count(gym.make(TINY))
    direct, stepped = (
        cbg.play(Empirical(5), env, seed=1),
        cbg.play(Empirical(5), env, seed=1, stepwise=True),
    )
    assert Count.steps == direct["pulls"] + 1
    for key in ("pulls", "pulls_by_phase", "cost", "bits_up", "reals_up", "rounds", "bound"):
        assert direct[key] == stepped[key]
    assert stepped["outcome"] in ("solved", "wrong")


def test_a_policy_that_raises_loses_its_trial_only() -> None:
    row = cbg.play(Fails(), TINY, seed=0)
    assert (row["outcome"], row["correct"], row["wrong_agents"], row["pulls"]) == (
        "error",
        None,
        None,
        1,
    )
    assert "ZeroDivisionError: no such luck" in row["message"]
    assert "harness_players.py, line" in row["message"]
    assert "/" not in row["message"]  # the file's name, not where it lies on this machine


def test_exit_is_an_error_and_ctrl_c_is_not(keyboard: None) -> None:
    class Quits(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            raise SystemExit

    class Pressed(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError

    assert cbg.play(Quits(), TINY)["outcome"] == "error"
    with pytest.raises(KeyboardInterrupt):
        cbg.play(Pressed(), TINY)


def test_where_no_key_arrives_every_interrupt_is_the_policy_s() -> None:
    class Interrupts(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert cbg.play(Interrupts(), TINY)["outcome"] == "error"
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_go_on_with_the_run(tmp_path: Path) -> None:
    class Forks(cbg.Policy):
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            child = os.fork()
            if child == 0:
                sys.exit()
            os.waitpid(child, 0)
            return np.zeros(federation.problem.n_agents, dtype=int)

    file = tmp_path / "plays"
    for _ in range(2):
        cbg.play(Forks(str(tmp_path)), TINY, bound=False)
        with open(file, "a") as lines:
            lines.write(f"{os.getpid()}\n")
    assert file.read_text().split() == [str(os.getpid())] * 2


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit


def test_texts_of_errors_that_end_the_process_or_fill_the_table() -> None:
    class Says(cbg.Policy):
        def __init__(self, length: int) -> None:
            self.length = length

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            raise ValueError("x" * self.length) if self.length else Unprintable

    assert "str() failed" in cbg.play(Says(0), TINY)["message"]
    message = cbg.play(Says(10**6), TINY)["message"]
    assert "1,000,000 characters" in message
    assert len(message) < 2200


def test_names_with_lone_surrogates_are_kept_and_shown(tmp_path: Path) -> None:
    class Odd(cbg.Policy):
        label = "odd \ud800"  # type: ignore[assignment]

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            with federation.phase("\ud800"):
                federation.pull(0, 0, 3)
            return np.zeros(federation.problem.n_agents, dtype=int)

    board = cbg.evaluate(Odd(), TINY, trials=1, out=tmp_path, progress=False, bound=False)
    assert board.trials["pulls_by_phase"][0] == {"\\ud800": 3}
    assert "odd \\ud800" in str(cbg.Board.load(tmp_path)).encode().decode()


@pytest.mark.parametrize("player", [Greedy(), Stepper(10**6)])
def test_out_of_budget(player: Any) -> None:
    row = cbg.play(player, gym.make(TINY, max_pulls=5000), seed=0)
    assert (row["outcome"], row["correct"]) == ("budget", None)
    assert 0 < row["pulls"] <= 5000


def test_an_answer_of_the_wrong_shape_is_an_error() -> None:
    class Short(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            return np.zeros(1, dtype=int)

    row = cbg.play(Short(), TINY)
    assert row["outcome"] == "error"
    assert (
        "solve returned int64 of shape (1,); expected one arm per agent: an int array (4,)"
        in row["message"]
    )


def test_what_a_policy_remembers_stays_in_its_trial() -> None:
    policy = Remembers()
    rows = [cbg.play(policy, TINY, trial=t) for t in range(3)]
    assert [row["pulls"] for row in rows] == [1, 1, 1]
    assert policy.plays == 0


def test_right_answers_that_were_never_sent_are_flagged() -> None:
    quiet = cbg.play(Telepath(), "ClusteredBAI-PaperSmall-v0")
    assert quiet["correct"]
    assert quiet["suspicious_communication"]
    for honest in ("naive", "cl-bai", "bai-cl", "bai-cl++"):
        row = cbg.play(honest, "ClusteredBAI-PaperSmall-v0")
        assert row["correct"]
        assert not row["suspicious_communication"]
    assert not cbg.play(Fails(1.0), TINY)["suspicious_communication"]


def test_clustering_errors_and_arm_errors_are_told_apart() -> None:
    class Mixed(cbg.Policy):
        """Agent 0 is put into the wrong group; agent 1 is grouped rightly and gets a wrong arm."""

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            truth = truth_of(federation)
            labels, arms = truth.clusters.copy(), truth.agent_best_arms.copy()
            labels[0] = (labels[0] + 1) % truth.n_clusters
            arms[:2] = (arms[:2] + 1) % truth.n_arms
            federation.report_clusters(labels)
            return arms

    row = cbg.play(Mixed(), "ClusteredBAI-PaperSmall-v0", env_kwargs={"n_agents": 30})
    assert (row["outcome"], row["wrong_agents"], row["clustering_errors"], row["arm_errors"]) == (
        "wrong",
        2,
        1,
        1,
    )


def test_bound_is_that_of_the_trial_s_instance_under_the_told_eta() -> None:
    env: Any = gym.make("ClusteredBAI-PaperSmall-v0", n_agents=8, delta=1e-4)
    row = cbg.play(Empirical(), env, seed=4)
    instance = env.unwrapped.draw_instance(trial_seeds(4, 0).instance)
    assert row["bound"] == pytest.approx(
        cbg.theory.instance_lower_bound(instance, 1e-4, 0.3), rel=0.01
    )
    assert cbg.play(Empirical(), env, seed=4, bound=False)["bound"] is None


def test_phases_come_in_the_order_in_which_they_are_played() -> None:
    row = cbg.play(cbg.policies.BAICl(), "ClusteredBAI-PaperSmall-v0", env_kwargs={"n_agents": 30})
    assert list(row["pulls_by_phase"]) == list(row["cost_by_phase"]) == ["identify", "assign"]


def test_neither_solve_nor_act() -> None:
    with pytest.raises(ValueError, match="a policy is a name, or an object with solve"):
        cbg.play(object(), TINY)
    with pytest.raises(ValueError, match="stepwise play needs a policy with solve"):
        cbg.play(Stepper(), TINY, stepwise=True)
