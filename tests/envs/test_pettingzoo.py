"""The PettingZoo view: PettingZoo's own tests, the bill, the rewards and the end of an episode."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg

pytest.importorskip("pettingzoo", reason="needs the extra 'pettingzoo'")
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test
from pettingzoo.utils.conversions import parallel_to_aec

#: N = 3 agents, M = 2 clusters, K = 2 arms, without noise.
INSTANCE = cbg.Instance([[1.0, 0.0], [0.0, 1.0]], [0, 1, 1], cbg.Gaussian(0.0))


def make(**settings: Any) -> Any:
    return cbg.parallel_env(instance=INSTANCE, **settings)


@pytest.mark.parametrize("communication", ["none", "broadcast"])
# PettingZoo's test notes that observations are not images or that values are large.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_passes_the_tests_of_pettingzoo(communication: str) -> None:
    settings: dict[str, Any] = {"communication": communication, "max_cycles": 50}
    parallel_api_test(cbg.parallel_env(generator="tiny", **settings), num_cycles=200)
    parallel_seed_test(lambda: cbg.parallel_env(generator="tiny", **settings), num_cycles=40)
    api_test(parallel_to_aec(cbg.parallel_env(generator="tiny", **settings)), num_cycles=200)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_passes_the_render_test_of_pettingzoo() -> None:
    render_test(lambda render_mode: parallel_to_aec(make(max_cycles=3, render_mode=render_mode)))


def test_naive_world_hears_nothing_and_bills_the_commitment_alone() -> None:
    env = make()
    obs, infos = env.reset(seed=0)
    assert set(obs["agent_0"]) == {"pulls", "means"}
    assert infos["agent_2"]["n_arms"] == 2
    obs, rewards, _, _, infos = env.step({"agent_0": 0, "agent_1": 1, "agent_2": 2})
    assert obs["agent_0"]["pulls"].tolist() == [1, 0]
    assert obs["agent_0"]["means"].tolist() == [1.0, 0.0]
    assert obs["agent_2"]["pulls"].tolist() == [0, 0]
    assert infos["agent_1"]["sample"] == 1.0
    assert "sample" not in infos["agent_2"]
    assert rewards == {"agent_0": -0.001, "agent_1": -0.001, "agent_2": 0.0}
    assert env.federation.ledger.cost == 0
    *_, infos = env.step({"agent_0": 3, "agent_1": 4, "agent_2": 4})
    outcome = infos["agent_0"]
    assert outcome["correct"]
    assert outcome["pulls"] == 2
    assert outcome["communication"] == {
        "cost": 3.0,
        "bits_up": 3,
        "bits_down": 0,
        "reals_up": 0,
        "reals_down": 0,
    }
    assert env.agents == []


def test_broadcast_is_heard_and_billed() -> None:
    env = make(communication="broadcast")
    obs, _ = env.reset(seed=0)
    assert obs["agent_0"]["heard_pulls"].shape == (2, 2)
    obs, *_ = env.step({"agent_0": 0, "agent_1": 2, "agent_2": 1})
    # The others of agent 1 in cyclic order: 2, then 0.
    assert obs["agent_1"]["heard_pulls"].tolist() == [[0, 1], [1, 0]]
    assert obs["agent_1"]["heard_means"].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    # Two reports, each one bit for the arm and one real up, then two bits for the sender, one for the arm and a real
    # down to each of the two others.
    summary = env.federation.ledger.summary()
    assert (summary["bits_up"], summary["reals_up"]) == (2, 2)
    assert (summary["bits_down"], summary["reals_down"]) == (4 * 3, 4)
    # An agent that has left hears nothing: one hearer is left for the next report.
    env.step({"agent_0": 3, "agent_1": 2, "agent_2": 2})
    env.step({"agent_1": 1, "agent_2": 2})
    assert env.federation.ledger.summary()["reals_down"] == 5


def test_wrong_commitments_cost_and_are_judged() -> None:
    env = make(error_penalty=2.0)
    env.reset(seed=0)
    _, rewards, terminated, _, infos = env.step({"agent_0": 4, "agent_1": 2, "agent_2": 2})
    assert rewards == {"agent_0": -2.0, "agent_1": 0.0, "agent_2": 0.0}
    assert terminated == {"agent_0": True, "agent_1": False, "agent_2": False}
    assert env.agents == ["agent_1", "agent_2"]
    assert "best_arms" not in infos["agent_0"], "the truth must not show while others play"
    *_, infos = env.step({"agent_1": 4, "agent_2": 4})
    assert infos["agent_1"]["wrong_agents"] == 1
    assert infos["agent_1"]["agent_correct"].tolist() == [False, True, True]
    env = make(error_penalty=2.0, epsilon=9.0)
    env.reset(seed=0)
    assert env.step({"agent_0": 4, "agent_1": 2, "agent_2": 2})[1]["agent_0"] == 0, "good enough"


def test_truncation_by_cycles_and_by_pulls() -> None:
    env = make(max_cycles=2)
    env.reset(seed=0)
    idle = dict.fromkeys(env.possible_agents, 2)
    assert not any(env.step(idle)[3].values())
    *_, truncated, infos = env.step(idle)
    assert all(truncated.values())
    assert infos["agent_0"]["stopped"] is False
    env = make(max_pulls=5)
    env.reset(seed=0)
    pull = dict.fromkeys(env.possible_agents, 0)
    # A second step could make six pulls.
    assert all(env.step(pull)[3].values())
    assert env.federation.pulls == 3


def test_same_seeds_same_play_as_the_central_game() -> None:
    env = cbg.parallel_env(generator="tiny")
    env.reset(options={"instance_seed": 3, "play_seed": 4})
    *_, infos = env.step(dict.fromkeys(env.possible_agents, 1))
    federation = cbg.ClusteredBAIEnv(generator="tiny").new_federation(3, 4)
    samples = federation.draw(np.arange(4), np.ones(4, dtype=np.int64), 1)
    assert [infos[agent]["sample"] for agent in env.possible_agents] == samples.tolist()


def test_mistakes() -> None:
    with pytest.raises(TypeError, match=r"'comunication' \(did you mean 'communication'"):
        cbg.parallel_env(comunication="broadcast")
    with pytest.warns(
        UserWarning, match=r"reset options other than \('instance_seed', 'play_seed'\)"
    ):
        make().reset(options={"instance_sed": 3})


def test_copies_and_pickles_go_on_with_the_same_play() -> None:
    env = cbg.parallel_env("broadcast", generator="tiny", max_cycles=30)
    env.reset(seed=3)
    actions = dict.fromkeys(env.agents, 1)
    env.step(actions)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = repr(env.step(actions))
    assert [repr(one.step(actions)) for one in twins] == [expected] * 2


@pytest.mark.parametrize(("communication", "size"), [("none", 13), ("broadcast", 49)])
def test_vectors_as_observations(communication: str, size: int) -> None:
    """The features of the Box ids: own arms first, then those of the others in cyclic order."""
    env = cbg.parallel_env(communication, generator="tiny", max_cycles=10, observation="box")
    obs, _ = env.reset(seed=0)
    assert env.observation_space("agent_2").shape == (size,)
    obs, *_ = env.step({"agent_0": 3, "agent_1": 3, "agent_2": 0, "agent_3": 3})
    assert all(one in env.observation_space("agent_0") for one in obs.values())
    own_pulls = obs["agent_2"][0]
    assert own_pulls > 0
    assert obs["agent_2"][-1] == pytest.approx(0.1)
    heard = obs["agent_1"][12] if communication == "broadcast" else own_pulls
    assert heard == own_pulls  # agent 2 comes after agent 1
    with pytest.raises(ValueError, match="observation must be one of 'dict', 'box'"):
        make(observation="image")


def test_pictures() -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    env.step({"agent_0": 3, "agent_1": 4, "agent_2": 4})
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    env.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"communication": "gossip"}, "communication must be one of 'none', 'broadcast'"),
        ({"max_cycles": 0}, "max_cycles must be a whole number >= 1"),
    ],
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_invalid_actions_change_nothing() -> None:
    env = make()
    env.reset(seed=0)
    for actions in ({"agent_0": 0}, {"agent_0": 0, "agent_1": 0, "agent_2": 5}):
        with pytest.raises(ValueError):
            env.step(actions)
    assert env.federation.pulls == 0


def test_importing_the_package_does_not_import_pettingzoo_or_torch() -> None:
    code = "import sys, clustered_bandit_gym; print([m for m in ('pettingzoo', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
