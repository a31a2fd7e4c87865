"""The test kit finds what it is meant to find."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scripted import check_clustered_env

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.testing import check_policy, odd_instances

SOLVED = ["naive", "cl-bai", "bai-cl", "bai-cl++", "uniform", "random"]


@pytest.mark.parametrize("name", SOLVED)
def test_our_own_policies_pass(name: str) -> None:
    check_policy(cbg.policies.make(name))


class Stepper(cbg.StepPolicy):
    """One pull of every arm at every agent, then the best of what was seen."""

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        rest = np.argwhere(obs["pulls"] == 0)
        return (cbg.PULL, rest[0]) if rest.size else (cbg.STOP, obs["means"].argmax(axis=1))


def test_a_step_policy_passes() -> None:
    check_policy(Stepper())


class OwnDice(cbg.Policy):
    def solve(self, federation: cbg.Federation) -> np.ndarray:
        return np.random.default_rng().integers(
            federation.problem.n_arms, size=federation.problem.n_agents
        )


class Wide(cbg.Policy):
    def solve(self, federation: cbg.Federation) -> np.ndarray:
        return np.zeros(federation.problem.n_agents)


class Hidden(cbg.Policy):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        return np.zeros(federation.problem.n_agents, dtype=int)


class NeverStops(cbg.StepPolicy):
    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        return cbg.PULL, (0, 0)


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (OwnDice(), AssertionError, "differ"),
        (
            Wide(),
            AssertionError,
            "in the game 'gaussian rewards': UserError: solve returned float64",
        ),
        (Hidden(), TypeError, "JSON"),
        (NeverStops(), AssertionError, "after 1,000 pulls"),
        (3, AssertionError, "inherits"),
    ],
)
def test_policies_that_break_the_contract(
    policy: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_policy(policy, max_pulls=1000)


class Leaks(gym.Wrapper):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        truth = self.unwrapped.federation._instance  # type: ignore[attr-defined]
        return obs, reward, terminated, truncated, {**info, "best_arms": truth.agent_best_arms}


class Forgets(gym.Wrapper):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = self.env.step(action)
        return obs, reward, terminated, truncated, {}


class Wobbles(gym.Wrapper):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs, reward + np.random.default_rng().random(), *rest


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (Leaks, "before the end"),
        (Forgets, "info lacks some"),
        (Wobbles, "gave another play"),
        (lambda env: gym.wrappers.TimeLimit(env, 5), "truncated within 25 pulls"),
    ],
)
def test_environments_that_break_the_contract(wrapper: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_clustered_env(wrapper(gym.make("ClusteredBAI-v0")))


def test_odd_instances_are_odd() -> None:
    odd = odd_instances()
    assert {type(one.rewards) for one in odd.values()} == {
        cbg.Gaussian,
        cbg.Bernoulli,
        cbg.Categorical,
    }
    assert min(one.n_agents for one in odd.values()) == min(one.n_arms for one in odd.values()) == 1
    assert any(np.unique(one.clusters).size < one.n_clusters for one in odd.values())


class SubtractsTheBlockMean(cbg.Policy):
    """An honest mistake: the mean over the agents of the block was never sent."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        def program(block: cbg.Block) -> cbg.ArmIndex:
            averages = block.pull_grid(5)
            return cbg.ArmIndex(
                (averages - averages.mean(axis=0)).argmax(axis=1), among=block.problem.n_arms
            )

        arms: np.ndarray = federation.local(federation.agents, program)
        return arms


def test_agents_of_a_block_must_not_see_each_other() -> None:
    with pytest.raises(AssertionError, match="blocks of one agent"):
        check_policy(SubtractsTheBlockMean())


class NeedsEta(cbg.Policy):
    def solve(self, federation: Any) -> np.ndarray:
        assert federation.problem.eta > 0  # a TypeError where it is None
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_check_policy_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    check_policy(cbg.policies.make("uniform"))
    assert capsys.readouterr().out == "10 games OK\n"
    check_policy(NeedsEta())
    text = capsys.readouterr().out
    line = inspect.getsourcelines(NeedsEta)[1] + 2
    assert text.startswith("9 games OK; not robust to eta=None (TypeError: '>' not supported")
    assert f"(test_kit.py, line {line})" in text


class Broken(cbg.Policy):
    def solve(self, federation: Any) -> Any:
        found: list[Any] = []
        federation.local(federation.agents, lambda block: found.append(block.pull_grid(1)))
        return found[0].argmax(axis=1)


class Idles(cbg.Policy):
    def solve(self, federation: Any) -> Any:
        while True:
            try:
                pass
            except Exception:
                continue


def test_errors_name_the_game() -> None:
    with pytest.raises(
        AssertionError, match=r"'gaussian rewards': IndexError: .*\(test_kit.py, line \d+\)"
    ):
        check_policy(Broken())


def test_a_loop_without_pulls_ends() -> None:
    with pytest.raises(AssertionError, match=r"'gaussian rewards': .*no answer within 0.2 s"):
        check_policy(Idles(), max_seconds=0.2)


class SubtractsWithGlobalDice(cbg.Policy):
    """Uses `np.random` at the centre, and lets the agents of a block see each other."""

    def solve(self, federation: Any) -> np.ndarray:
        k = federation.problem.n_arms
        times = np.random.randint(20, 2000)  # noqa: NPY002

        def program(block: Any) -> cbg.ArmIndex:
            means = block.pull_grid(times)
            return cbg.ArmIndex((means - means.mean(axis=0)).argmax(axis=1), among=k)

        return federation.local(federation.agents, program)  # type: ignore[no-any-return]


def test_global_random_numbers_do_not_hide_agents_that_see_each_other() -> None:
    with pytest.raises(AssertionError, match="blocks of one agent"):
        check_policy(SubtractsWithGlobalDice())


class HalvesAgainstTheBlock(cbg.Policy):
    """In blocks of one agent all differences to the block's mean are 0: it never ends."""

    def solve(self, federation: Any) -> np.ndarray:
        k = federation.problem.n_arms

        def program(block: cbg.Block) -> cbg.ArmIndex:
            active = np.ones((len(block), k), dtype=bool)
            times = 4
            while (open_ := active.sum(axis=1) > 1).any():
                means = block.pull_grid(times)
                means -= means.mean(axis=0) if federation.problem.n_agents > 1 else 0
                lead = means.max(axis=1, keepdims=True) - means
                active &= (lead < 1 / np.sqrt(times)) | ~open_[:, None]
                times *= 4
            return cbg.ArmIndex(active.argmax(axis=1), among=k)

        return federation.local(federation.agents, program)  # type: ignore[no-any-return]


def test_a_policy_that_ends_in_large_blocks_alone_is_found() -> None:
    env: Any = gym.make("ClusteredBAI-PaperSmall-v0", n_agents=9).unwrapped
    assert crosstalk(HalvesAgainstTheBlock(), env, 1, 2)
    assert crosstalk(make("naive"), env, 1, 2) == ""


class LeavesItInAClosure(cbg.Policy):
    """Strict mode drops what the program writes; the answers are then arm 0."""

    def solve(self, federation: Any) -> np.ndarray:
        found = np.zeros(federation.problem.n_agents, dtype=int)

        def program(block: Any) -> cbg.Flag:
            found[block.agents] = block.pull_grid(20).argmax(axis=1)
            return cbg.Flag(np.ones(len(block), dtype=bool))

        federation.local(federation.agents, program)
        return found


def test_check_policy_tells_of_changes_in_vain(capsys: pytest.CaptureFixture[str]) -> None:
    check_policy(LeavesItInAClosure())
    assert "a local program changed `found`, but programs run on copies" in capsys.readouterr().out
