"""`LearnedPolicy`: plays, copies, and model files that it refuses."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.features import Features

pytest.importorskip("sb3_contrib")

import torch
from learned_models import TINY, small, weights

from clustered_bandit_gym.policies import LearnedPolicy, make
from clustered_bandit_gym.policies.learned import training
from clustered_bandit_gym.policies.learned.many import play_many
from clustered_bandit_gym.policies.learned.training import make_model, make_vec_env


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
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
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
