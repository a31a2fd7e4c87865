"""Training, the SB3 adapter, and `LearnedPolicy`: small runs of the real thing."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.features import STOP_BELOW, Features, stop_threshold

pytest.importorskip("sb3_contrib")

import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from clustered_bandit_gym.envs.vector_env import ClusteredBAIVectorEnv
from clustered_bandit_gym.policies import LearnedPolicy, make
from clustered_bandit_gym.policies.learned import training
from clustered_bandit_gym.policies.learned.many import play_many
from clustered_bandit_gym.policies.learned.network import CellScores
from clustered_bandit_gym.policies.learned.sb3 import SB3VecEnv
from clustered_bandit_gym.policies.learned.training import TrainSettings, make_model, make_vec_env, train

TINY = "ClusteredBAI-Tiny-v0"


def small(algo: str = "maskable-ppo", **changes: Any) -> TrainSettings:
    quick = {
        "max_pulls": 40,
        "width": 8,
        "steps": 512,
        "n_envs": 8,
        "n_steps": 16,
        "batch_size": 64,
        "evaluations": 4,
        "validation_trials": 10,
    }
    return TrainSettings(algo=algo, **{**quick, **changes})  # type: ignore[arg-type]


def weights(path: Path) -> dict[str, torch.Tensor]:
    import io

    with zipfile.ZipFile(path) as archive:
        return torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learned") / "model.zip"
    train(small(), path, progress=False)
    return path


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", training.ALGOS)
def test_twice_with_one_seed_and_killed_half_way(algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(algo)
    whole, killed = tmp_path / "whole.zip", tmp_path / "killed.zip"
    checkpoint, last = training.TrainingFiles.checkpoint, {}

    def remember(self: Any, model: Any, *rest: Any) -> None:
        """The file keeps the best model, which may be that of the first segment: compare the last ones, too."""
        last[self.out] = {key: value.clone() for key, value in model.policy.state_dict().items()}
        checkpoint(self, model, *rest)

    monkeypatch.setattr(training.TrainingFiles, "checkpoint", remember)
    state = train(settings, whole, progress=False)
    assert len(state.history) == 4
    assert state.steps >= 512

    validate, calls = training._validate, []

    def die_in_third(*arguments: Any) -> dict[str, float]:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return validate(*arguments)

    monkeypatch.setattr(training, "_validate", die_in_third)
    with pytest.raises(KeyboardInterrupt):
        train(settings, killed, progress=False)
    assert killed.with_suffix(".checkpoint").exists()
    monkeypatch.setattr(training, "_validate", validate)
    np.random.seed(123)  # noqa: NPY002 (the state of the process must not matter)
    torch.manual_seed(123)
    resumed = train(settings, killed, progress=False)
    assert resumed.history == state.history
    assert same(weights(whole), weights(killed))
    assert same(last[whole], last[killed])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.json", "killed.zip", "whole.json", "whole.zip"]


def test_another_seed_is_another_model(model: Path, tmp_path: Path) -> None:
    train(small(seed=1), tmp_path / "other.zip", progress=False)
    assert not same(weights(model), weights(tmp_path / "other.zip"))


def test_files(model: Path, tmp_path: Path) -> None:
    about = json.loads(model.with_suffix(".json").read_text())
    assert TrainSettings(**about["settings"]) == small()
    assert about["best"]["return"] == max(row["return"] for row in about["history"])
    before = model.read_bytes()
    with pytest.raises(ValueError, match="overwrite"):
        train(small(), model, progress=False)
    with pytest.raises(ValueError, match="no folder"):
        train(small(), tmp_path / "nowhere" / "model.zip", progress=False)
    with pytest.raises(ValueError, match=r"\.zip"):
        train(small(), tmp_path / "model", progress=False)
    with pytest.raises(ValueError, match="another eta"):
        train(small(env="ClusteredBAI-NearTie-v0"), model, progress=False, overwrite=True)
    assert model.read_bytes() == before


def test_checkpoint_of_other_settings_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "model.zip"

    def die(self: Any, *_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training.TrainingFiles, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            train(small(), out, progress=False)
    with pytest.raises(ValueError, match="learning_rate"):
        train(small(learning_rate=0.1), out, progress=False)
    train(small(learning_rate=0.1), out, progress=False, overwrite=True)
    assert LearnedPolicy(str(out)).training["learning_rate"] == 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": "sarsa"}, "maskable-ppo"),
        ({"steps": 0}, "steps"),
        ({"seed": -1}, "seed"),
        ({"env_kwargs": {"max_pulls": 3}}, "settings of the training"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainSettings(**changes)


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        ("CartPole-v1", {}, "no environment of this package|unexpected keyword"),
        ("ClusteredBAI-v0", {"generator": "random", "n_agents": 3, "n_arms": 3, "n_clusters": 2}, "another eta"),
    ],
)
def test_bad_environments(env: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make_vec_env(TrainSettings(env=env, env_kwargs=kwargs))


# --- the adapter -----------------------------------------------------------------------------------------------------


def test_adapter_equals_dummy_vec_env_step_by_step() -> None:
    """With the same instance and play seeds: same observations, rewards, ends and terminal observations as SB3's own
    vectorisation of the single environment, until the first episode of each ends."""
    kwargs = {"max_pulls": 7, "pull_cost": 0.1, "error_penalty": 2.0}
    n_envs = 5
    mine = SB3VecEnv(ClusteredBAIVectorEnv(n_envs, autoreset_mode=AutoresetMode.SAME_STEP, generator="tiny", **kwargs))
    theirs = DummyVecEnv([lambda: gym.make("ClusteredBAI-Discrete-v0", generator="tiny", **kwargs)] * n_envs)
    rng = np.random.default_rng(0)
    ends = {True: 0, False: 0}
    for episode in range(12):
        options = [{"instance_seed": 10 * episode + i, "play_seed": 500 + 10 * episode + i} for i in range(n_envs)]
        mine.set_options(options)
        theirs.set_options(options)
        a, b = mine.reset(), theirs.reset()
        live = np.ones(n_envs, dtype=bool)
        for _ in range(8):
            for key in ("pulls", "means"):
                np.testing.assert_allclose(a[key][live], b[key][live], rtol=1e-12)
            actions = rng.choice(13, n_envs, p=[0.07] * 12 + [0.16])
            a, rewards, dones, infos = mine.step(actions)
            b, rewards_b, dones_b, infos_b = theirs.step(actions)
            np.testing.assert_allclose(rewards[live], rewards_b[live])
            np.testing.assert_array_equal(dones[live], dones_b[live])
            for i in np.flatnonzero(dones & live):
                assert infos[i]["TimeLimit.truncated"] == infos_b[i]["TimeLimit.truncated"]
                ends[infos[i]["TimeLimit.truncated"]] += 1
                assert infos[i]["correct"] == infos_b[i]["correct"]
                assert infos[i]["cost"] == infos_b[i]["communication"]["cost"]
                assert infos[i]["episode"]["l"] == infos_b[i]["pulls"] + (not infos[i]["TimeLimit.truncated"])
                last, their_last = infos[i]["terminal_observation"], infos_b[i]["terminal_observation"]
                for key in ("pulls", "means"):
                    np.testing.assert_allclose(last[key], their_last[key], rtol=1e-12)
            live &= ~dones
    assert min(ends.values()) > 5


def test_adapter_with_features() -> None:
    """Terminal observations are features of the last state, returns add up, the stop recommends the features' arms."""
    env = make_vec_env(small(n_envs=6, max_pulls=9))
    env.seed(3)
    obs = env.reset()
    rng = np.random.default_rng(1)
    total = np.zeros(6)
    seen_truncated = seen_stop = 0
    for _ in range(80):
        before_pulls, before_arms = env.envs._pulls.copy(), env._seen.arms.copy()
        truth = np.stack([env.envs.instance(i).agent_best_arms for i in range(6)])
        actions = rng.choice(13, 6, p=[0.07] * 12 + [0.16])
        previous = obs
        obs, rewards, dones, infos = env.step(actions)
        total += rewards
        assert obs.dtype == np.float32
        np.testing.assert_allclose(obs, env.features(env.envs._pulls, env.envs._means).features, atol=1e-5)
        for i in np.flatnonzero(dones):
            assert infos[i]["episode"]["r"] == pytest.approx(total[i], abs=1e-5)
            total[i] = 0
            last = infos[i]["terminal_observation"]
            if infos[i]["TimeLimit.truncated"]:
                seen_truncated += 1
                assert not np.array_equal(last, previous[i])
                assert infos[i]["pulls"] == 9
            else:
                seen_stop += 1
                np.testing.assert_array_equal(last, previous[i])
                assert infos[i]["wrong_agents"] == (before_arms[i] != truth[i]).sum()
                assert infos[i]["pulls"] == before_pulls[i].sum()
    assert min(seen_truncated, seen_stop) > 5
    assert env.has_attr("action_masks")
    np.testing.assert_array_equal(np.stack(env.env_method("action_masks")), env.action_masks())
    env.close()


def test_adapter_asks_for_same_step_autoreset() -> None:
    with pytest.raises(ValueError, match="SAME_STEP"):
        SB3VecEnv(ClusteredBAIVectorEnv(2, generator="tiny"))


# --- the network -----------------------------------------------------------------------------------------------------


def test_scores_follow_the_agents_and_arms() -> None:
    torch.manual_seed(0)
    network = CellScores(16)
    rng = np.random.default_rng(0)
    pulls, means = rng.integers(1, 9, (30, 4, 3)), rng.normal(size=(30, 4, 3))
    agents, arms = rng.permutation(4), rng.permutation(3)
    see = Features(4, 3, 2, 0.5, 0.4)
    seen = see(pulls, means)
    with torch.no_grad():
        a = network(torch.from_numpy(seen.features)).numpy()
        moved = see(pulls[:, agents][:, :, arms], means[:, agents][:, :, arms])
        b = network(torch.from_numpy(moved.features)).numpy()
    np.testing.assert_allclose(b[:, -1], a[:, -1], atol=0.02)
    before, after = (scores[:, :-1].reshape(-1, 4, 3) for scores in (a, b))
    np.testing.assert_allclose(after, before[:, agents][:, :, arms], rtol=0.005, atol=0.02)


def test_training_starts_from_the_rule_whatever_the_seed() -> None:
    """Stable-Baselines3 initialises the layers of a policy; the actor must still be the rule when it is done."""
    for algo in ("maskable-ppo", "ppo", "a2c"):
        for seed in (0, 1):
            settings = small(algo, seed=seed)
            env = make_vec_env(settings)
            env.seed(5)
            features = torch.as_tensor(env.reset())
            for _ in range(20):
                features = torch.as_tensor(env.step(np.arange(8))[0])
            with torch.no_grad():
                scores = make_model(settings, env).policy.mlp_extractor.actor(features)
            sharpness, threshold, stop_sharpness = 12.0, stop_threshold(STOP_BELOW), 24.0
            value = features[:, :-6].reshape(8, 12, -1)[..., 0]
            stop = stop_sharpness * (threshold - features[:, -6:-5])
            pull = torch.log_softmax(sharpness * value, dim=1) + torch.nn.functional.logsigmoid(-stop)
            torch.testing.assert_close(scores, torch.cat([pull, torch.nn.functional.logsigmoid(stop)], dim=1))


def test_scores_are_probabilities_whatever_the_size() -> None:
    network = CellScores(16)
    for n, k in ((4, 3), (20, 8)):
        see = Features(n, k, 2, 0.5, 0.4)
        rng = np.random.default_rng(0)
        seen = see(rng.integers(0, 9, (5, n, k)), rng.normal(size=(5, n, k)))
        with torch.no_grad():
            scores = network(torch.from_numpy(seen.features))
        np.testing.assert_allclose(scores.exp().sum(dim=1).numpy(), 1, rtol=1e-4)


# --- the player ------------------------------------------------------------------------------------------------------


def test_plays_through_step_and_is_billed(model: Path) -> None:
    policy = make(f"learned:{model}")
    assert policy.label == f"learned:{model}"
    row = cbg.play(policy, TINY, seed=1)
    assert row["outcome"] in ("solved", "wrong")
    assert row["rounds"] == row["reals_up"] == row["pulls"]
    assert row["bits_down"] == 2 * row["pulls"]  # ⌈log2 3⌉ bits to name an arm
    assert {key: row[key] for key in ("pulls", "correct", "cost")} == {
        key: cbg.play(policy, TINY, seed=1)[key] for key in ("pulls", "correct", "cost")
    }


def test_side_by_side_equals_the_harness(model: Path) -> None:
    policy = LearnedPolicy(str(model))
    played = play_many(policy, TINY, 12, seed=7)
    for t in range(12):
        row = cbg.play(policy, TINY, seed=7, trial=t, bound=False)
        assert (row["pulls"], not row["correct"]) == (played.pulls[t], bool(played.wrong[t]))


def untrained(folder: Path, stop: float) -> Path:
    """A model file of fresh weights with this bias on the stop."""
    settings, path = small(), folder / "model.zip"
    model = make_model(settings, make_vec_env(settings))
    with torch.no_grad():
        model.policy.mlp_extractor.actor.stop.bias.fill_(stop)
    training.TrainingFiles(path)._write(path, model, {"settings": vars(settings)})
    return path


def test_stops_at_the_length_it_was_trained_on(tmp_path: Path) -> None:
    """A network that never wants to stop."""
    path = untrained(tmp_path, stop=-1e9)
    assert cbg.play(f"learned:{path}", TINY, bound=False)["pulls"] == small().max_pulls


def test_no_stop_before_every_agent_has_a_pull(tmp_path: Path) -> None:
    path = untrained(tmp_path, stop=1e9)
    policy = LearnedPolicy(str(path))
    pulls = np.array([[[1, 0, 0]] * 4, [[1, 0, 0]] * 3 + [[0, 0, 0]]])
    actions, _ = policy.decide(Features(4, 3, 2, 0.5, 0.4), pulls, np.zeros(pulls.shape))
    assert actions[0] == 12
    assert actions[1] != 12


def test_plays_other_sizes(model: Path) -> None:
    """Trained on 4 agents and 3 arms for at most 40 pulls; larger games may take more in proportion to their cells."""
    for n_agents, n_arms in ((5, 4), (12, 6)):
        sizes = {"n_agents": n_agents, "n_arms": n_arms}
        row = cbg.play(f"learned:{model}", TINY, bound=False, env_kwargs=sizes)
        assert row["outcome"] in ("solved", "wrong")
        assert row["pulls"] <= 40 * n_agents * n_arms / 12 + 1


def test_copies_and_pickles(model: Path) -> None:
    policy = LearnedPolicy(str(model))
    assert copy.deepcopy(policy)._network is policy._network
    twin = pickle.loads(pickle.dumps(policy))
    assert twin.settings == policy.settings
    with pytest.raises(RuntimeError, match="reset"):
        policy.act({"pulls": np.zeros((4, 3)), "means": np.zeros((4, 3))}, {})


def test_a_model_file_runs_no_code(model: Path, tmp_path: Path) -> None:
    """A file whose SB3 part is a pickle bomb plays; one whose tensors are a bomb is refused. Neither goes off."""
    mark = tmp_path / "gone off"

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (mark,)

    with zipfile.ZipFile(model) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    import base64

    poisoned = json.loads(parts["data"])
    bomb = base64.b64encode(pickle.dumps(Bomb())).decode()
    poisoned["policy_class"] = {":type:": "bomb", ":serialized:": bomb}
    for name, changes in {
        "data.zip": {"data": json.dumps(poisoned).encode()},
        "tensors.zip": {"policy.pth": pickle.dumps(Bomb(), protocol=2)},
    }.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for part, content in {**parts, **changes}.items():
                archive.writestr(part, content)
    assert cbg.play(f"learned:{tmp_path / 'data.zip'}", TINY, bound=False)["outcome"] != "error"
    with pytest.raises(Exception, match=r"(?i)weights|pickle|magic"):
        LearnedPolicy(str(tmp_path / "tensors.zip"))
    assert not mark.exists()


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model file"):
        LearnedPolicy(str(tmp_path / "missing.zip"))
    (tmp_path / "text.zip").write_text("hello")
    with pytest.raises(ValueError, match="clustered-bai train"):
        LearnedPolicy(str(tmp_path / "text.zip"))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(ValueError, match="clustered-bai train"):
        LearnedPolicy(str(tmp_path / "other.zip"))


WITHOUT_TORCH = """
import sys
for name in ("torch", "stable_baselines3", "sb3_contrib"):
    sys.modules[name] = None
import clustered_bandit_gym as cbg
from clustered_bandit_gym import policies
policies.UniformGLR, policies.LearnedPolicy
for ask in (lambda: policies.make("learned:model.zip"), lambda: __import__(
        "clustered_bandit_gym.policies.learned.training", fromlist=["train"]).train(None)):
    try:
        ask()
    except ImportError as error:
        assert "clustered-bandit-gym[rl]" in str(error), error
    else:
        raise SystemExit("no error")
print("fine")
"""


def test_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("fine", 0), done.stderr


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(model: Path, tmp_path: Path, value: float) -> None:
    import io

    broken = weights(model)
    for tensor in broken.values():
        tensor.view(-1)[0] = value
    packed = io.BytesIO()
    torch.save(broken, packed)
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(tmp_path / "model.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, packed.getvalue() if name == "policy.pth" else old.read(name))
    with pytest.raises(ValueError, match="weights that are not finite"):
        LearnedPolicy(str(tmp_path / "model.zip"))
