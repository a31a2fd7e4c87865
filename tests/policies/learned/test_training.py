"""Training: repeatable, resumed after an interruption, and careful with files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import torch
from learned_models import same, small, weights

from clustered_bandit_gym.policies import LearnedPolicy
from clustered_bandit_gym.policies.learned import training
from clustered_bandit_gym.policies.learned.training import TrainSettings, make_vec_env, train


@pytest.mark.parametrize("algo", training.ALGOS)
def test_twice_with_one_seed_and_killed_half_way(
    algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "killed.json",
        "killed.zip",
        "whole.json",
        "whole.zip",
    ]


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


def test_checkpoint_of_other_settings_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        (
            "ClusteredBAI-v0",
            {"generator": "random", "n_agents": 3, "n_arms": 3, "n_clusters": 2},
            "another eta",
        ),
    ],
)
def test_bad_environments(env: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make_vec_env(TrainSettings(env=env, env_kwargs=kwargs))
