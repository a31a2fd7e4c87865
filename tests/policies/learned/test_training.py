"""Training: repeatable, careful with files, and it learns."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")

import torch
from learned_models import same, small, weights

from clustered_bandit_gym.policies.learned.training import TrainSettings, make_vec_env, train


@pytest.mark.parametrize("algo", ["ppo", "maskable-ppo"])
def test_one_seed_gives_one_model(algo: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.zip" for number in range(2)]
    first, second = (train(small(algo), file, progress=False, trials=20) for file in files)
    assert first == second
    assert same(weights(files[0]), weights(files[1]))
    train(small(algo, seed=1), files[0], overwrite=True, progress=False, trials=20)
    assert not same(weights(files[0]), weights(files[1]))


def test_files_are_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    file.write_text("mine")
    with pytest.raises(ValueError, match="exists"):
        train(small(), file, progress=False)
    assert file.read_text() == "mine"
    with pytest.raises(ValueError, match=r"ends in \.zip"):
        train(small(), tmp_path / "model.pt", progress=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algo": "sac"}, "algo must be ppo or"),
        ({"env_kwargs": {"max_pulls": 3}}, "max_pulls is set by pulls_per_arm"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainSettings(**settings)  # type: ignore[arg-type]


def test_what_is_told_must_be_the_same_in_all_episodes() -> None:
    with pytest.raises(ValueError, match="training needs fixed ones"):
        make_vec_env(TrainSettings(env_kwargs={"told": {"eta": "truth"}}))


def test_it_learns(tmp_path: Path) -> None:
    """Two agents, two arms: guessing returns -8, a fresh network -8.4, training -0.5 to -0.7 (seeds 0 and 2).

    The return of 500 episodes at an error rate of 5% has a standard error below 0.2: a false alarm
    at -4 has a probability below 1e-9.
    """
    torch.set_num_threads(1)
    game = {"n_agents": 2, "n_clusters": 2, "n_arms": 2}
    fresh = TrainSettings(env_kwargs=game, steps=1, n_steps=2)
    settings = TrainSettings(env_kwargs=game, steps=16_384, n_steps=32)
    before = train(fresh, tmp_path / "fresh.zip", progress=False, trials=500)
    after = train(settings, tmp_path / "model.zip", progress=False, trials=500)
    assert before["return"] < -4 < after["return"]
