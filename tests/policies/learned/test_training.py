"""Training: repeatable, careful with files, and it learns."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib")

from learned_models import SMALL, same, weights

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.training import make_model, train

TINY = "ClusteredBAI-Tiny-v0"


@pytest.mark.parametrize("algo", ["ppo", "maskable-ppo"])
def test_one_seed_gives_one_model(algo: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.zip" for number in range(2)]
    for file in files:
        train(TINY, file, progress=False, algo=algo, **SMALL)
    assert same(weights(files[0]), weights(files[1]))
    train(TINY, files[0], overwrite=True, progress=False, algo=algo, seed=1, **SMALL)
    assert not same(weights(files[0]), weights(files[1]))


def test_files_are_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    file.write_text("mine")
    with pytest.raises(ValueError, match="exists"):
        train(TINY, file, progress=False, **SMALL)
    assert file.read_text() == "mine"
    with pytest.raises(ValueError, match=r"ends in \.zip"):
        train(TINY, tmp_path / "model.pt", progress=False, **SMALL)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="algo must be one of 'ppo', 'maskable-ppo'"):
        make_model(TINY, algo="sac")
    with pytest.raises(ValueError, match="steps must be a whole number >= 1, got 0"):
        make_model(TINY, steps=0)
    with pytest.raises(ValueError, match="training needs fixed ones"):
        make_model(TINY, told={"eta": "truth"})
    with pytest.raises(ValueError, match="pull_sizes is for SB3VecEnv"):
        make_model(TINY, pull_sizes=(1, 4))
    for seed in (-3, 2**32):
        with pytest.raises(ValueError, match="seed must be"):
            make_model(TINY, seed=seed)
    for name in ("n_steps", "n_envs"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number >= 1"):
            make_model(TINY, **{name: 0})
    with pytest.raises(TypeError, match=r"'n_step' \(did you mean 'n_steps'"):
        make_model(TINY, n_step=3)
    with pytest.raises(ValueError, match="error_penalty must be a finite number >= 0, got 'abc'"):
        make_model(TINY, error_penalty="abc")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "batch"), [(500_000, 2048), (3_000, 1504), (1, 64)], ids=["default", "few", "least"]
)
@pytest.mark.filterwarnings("error:You have specified a mini-batch size")
def test_batches_divide_what_is_collected(steps: int, batch: int) -> None:
    assert make_model(TINY, steps=steps).batch_size == batch
    assert make_model(TINY, steps=steps, n_envs=1, n_steps=1).batch_size == 2


def test_an_episode_is_answered_after_ten_pulls_of_each_arm() -> None:
    for max_pulls, limit in (("auto", 120), (36, 36), (None, 120)):
        assert make_model(TINY, max_pulls=max_pulls).get_env().envs.game.limit == limit


def test_it_learns(tmp_path: Path) -> None:
    """Two agents, two arms. Measured: a fresh network stops at once and returns -8.00 (seeds 0 to 2); a trained one
    returns -1.37 and -1.00 (seeds 0 and 1).

    So short a training learns not to stop: the player answers at its limit of 100 pulls. Standard errors are at most 0.2.
    """
    game = {"n_agents": 2, "n_clusters": 2, "n_arms": 2}

    def learned(name: str, **settings: int) -> float:
        file = tmp_path / name
        train(TINY, file, progress=False, **game, **settings)
        board = cbg.evaluate(
            [f"learned:{file}"], TINY, trials=100, seed=1, progress=False, bound=False, **game
        )
        return float((-0.01 * board.trials.pulls - 8 * board.trials.wrong_agents).mean())

    before = learned("fresh.zip", steps=1, n_steps=2)
    after = learned("model.zip", steps=16_384, n_steps=32)
    assert before < -4 < after
