"""Trains `examples/sb3_ppo.py` and compares the models with uniform sampling at the same error rate.

With --out the page, its numbers and the learning curve go there as learned.md, learned.json and learned.png. --game
plays one game alone; the figures of the others stay.
"""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

import clustered_bandit_gym as cbg
from research.learned.page import draw, write
from research.learned.play import Uniform, chooser, play, stopping_rule, uniform, uniform_at_error
from research.options import parser, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "sb3_ppo.py"
TINY = "ClusteredBAI-Tiny-v0"

#: Longer games, one model each: environment, settings, steps. Actions order several pulls at once.
LONGER: dict[str, tuple[str, dict[str, Any], int]] = {
    "large": (
        TINY,
        {
            "n_agents": 20,
            "n_clusters": 4,
            "n_arms": 8,
            "pull_sizes": (4, 16),
            "pull_cost": 0.001,
            "error_penalty": 8.0,
            "max_pulls": 3200,
        },
        100_000,
    ),
    # Two arms are 0.01 apart there, with σ = 1: an answer takes some 100,000 pulls.
    "paper-small": (
        "ClusteredBAI-PaperSmall-v0",
        {
            "pull_sizes": (256, 1024, 4096),
            "pull_cost": 1e-5,
            "error_penalty": 8.0,
            "max_pulls": 1_000_000,
        },
        100_000,
    ),
}


class Curve(BaseCallback):
    """Plays the model on held-out instances from time to time."""

    def __init__(self, env: str, game: dict[str, Any], every: int, trials: int) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self._env, self._game, self._every, self._trials = env, game, every, trials

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= len(self.rows) * self._every:
            self.look()

    def _on_training_end(self) -> None:
        self.look()

    def look(self) -> None:
        found = play(chooser(self.model), self._env, self._game, self._trials)
        self.rows.append({"steps": self.num_timesteps, **found})


def study(
    train: Any,
    env: str,
    game: dict[str, Any],
    steps: int,
    seeds: list[int],
    trials: int,
    looks: int,
) -> dict[str, Any]:
    """Models of several seeds, and what needs no training, on the same held-out instances.

    The learning curve has `looks` points after the first.
    """
    settings = cbg.SB3VecEnv(env, n_envs=1, **game).envs.game
    rule = stopping_rule(settings.pull_sizes, settings.n_agents)
    lines = {"rule": play(rule, env, game, trials), "uniform": uniform(env, game, 10, trials)}
    print(json.dumps(lines), flush=True)
    short = max(20, trials // 10)
    about = {"env": env, **game, "steps": steps, "trials": trials, "curve_trials": short}
    models = []
    for seed in seeds:
        curve = Curve(env, game, max(1, steps // looks), about["curve_trials"])
        start = time.process_time()
        model = train(seed, steps, curve, env, game)
        seconds = time.process_time() - start
        found = play(chooser(model), env, game, trials)
        print(json.dumps({"seed": seed, "seconds": round(seconds), **found}), flush=True)
        models.append({"seed": seed, "seconds": seconds, **found, "curve": curve.rows})
    return {"settings": about, "lines": lines, "models": models}


def compare(result: dict[str, Any], env: str, trials: int) -> None:
    """Enter the pulls of each player relative to those of uniform sampling at its error rate."""
    sampling = Uniform(env, max(20, trials // 4))
    for one in (result["lines"]["rule"], *result["models"]):
        fixed, stopping = sampling.pulls_for(one["error_rate"])
        one["ratio_fixed"], one["ratio"] = one["pulls"] / fixed, one["pulls"] / stopping
    for key in ("ratio", "ratio_fixed"):
        result[key] = spread([one[key] for one in result["models"]])


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=3_000)
    options.add_argument("--game", choices=["tiny", *LONGER], help="default: all")
    options.add_argument("--seeds", type=int, default=5, help="models to train on Tiny")
    options.add_argument("--steps", type=int, help="instead of those of the game")
    given = options.parse_args(words)
    spec = importlib.util.spec_from_file_location("sb3_ppo", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    games = {"tiny": (example.ENV, example.GAME, example.STEPS), **LONGER}
    results = {}
    if given.out is not None and (given.out / "learned.json").exists():
        results = json.loads((given.out / "learned.json").read_text())
    for name in [given.game] if given.game else games:
        env, game, steps = games[name]
        seeds = list(range(given.seed, given.seed + (given.seeds if name == "tiny" else 1)))
        trials = given.trials if name == "tiny" else max(20, given.trials // 10)
        looks = 10 if name == "tiny" else 3
        result = study(example.train, env, game, given.steps or steps, seeds, trials, looks)
        if name == "tiny":
            compare(result, env, trials)
        else:
            for one in (result["lines"]["rule"], *result["models"]):
                found = uniform_at_error(env, game, one["error_rate"], trials)
                one["uniform_pulls"] = found["pulls"]
        results[name] = result
    if given.out is not None:
        (given.out / "learned.json").write_text(json.dumps(results, indent=1) + "\n")
        if "tiny" in results:
            (given.out / "learned.md").write_text(write(results))
            draw(results["tiny"], given.out / "learned.png")


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and largest: a seed that did not learn would take over a mean."""
    return {"median": float(np.median(values)), "low": min(values), "high": max(values)}


if __name__ == "__main__":
    run(main)
