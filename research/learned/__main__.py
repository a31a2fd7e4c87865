"""Trains `examples/sb3_ppo.py` with several seeds and compares the models with uniform sampling at the same error rate.

With --out the page, its numbers and the learning curve go there as learned.md, learned.json and learned.png.
"""

from __future__ import annotations

import importlib.util
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit
from stable_baselines3.common.callbacks import BaseCallback

from research.learned.page import draw, write
from research.learned.play import Uniform, of_model, play, stopping_rule, uniform_ten
from research.options import parser, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "sb3_ppo.py"


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
            found = play(of_model(self.model), self._env, self._game, self._trials)
            self.rows.append({"steps": self.num_timesteps, **found._asdict()})


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=3_000)
    options.add_argument("--seeds", type=int, default=5, help="models to train")
    options.add_argument("--steps", type=int, help="instead of those of the example")
    given = options.parse_args(words)
    spec = importlib.util.spec_from_file_location("sb3_ppo", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    env, game, steps = example.ENV, example.GAME, given.steps or example.STEPS
    uniform = Uniform(env, max(20, given.trials // 4))
    lines = {
        "uniform": uniform_ten(env, game, given.trials)._asdict(),
        "rule": play(stopping_rule, env, game, given.trials)._asdict(),
    }
    lines["rule"]["ratio"] = (
        lines["rule"]["pulls"] / uniform.pulls_for(lines["rule"]["error_rate"])[1]
    )
    models = []
    for seed in range(given.seed, given.seed + given.seeds):
        curve = Curve(env, game, max(1, steps // 10), max(20, given.trials // 10))
        start = time.process_time()
        model = example.train(seed, steps, curve)
        seconds = time.process_time() - start
        found = play(of_model(model), env, game, given.trials)._asdict()
        fixed, stopping = uniform.pulls_for(found["error_rate"])
        models.append(
            {
                "seed": seed,
                "seconds": round(seconds, 1),
                **found,
                "ratio_fixed": found["pulls"] / fixed,
                "ratio": found["pulls"] / stopping,
                "curve": curve.rows,
            }
        )
        print({key: value for key, value in models[-1].items() if key != "curve"}, flush=True)
    result = {
        "settings": {"env": env, **game, "steps": steps, "trials": given.trials},
        "lines": lines,
        "models": models,
        "played": [{"ratio": interval([one["ratio"] for one in models])}],
        "fixed": interval([one["ratio_fixed"] for one in models]),
    }
    print(json.dumps({key: result[key] for key in ("lines", "played", "fixed")}, indent=2))
    if given.out is not None:
        folder = Path(given.out)
        (folder / "learned.json").write_text(json.dumps({"tiny": result}, indent=1) + "\n")
        (folder / "learned.md").write_text(write(result))
        draw(result, folder / "learned.png")


def interval(values: list[float]) -> dict[str, float]:
    """Mean over training seeds with a 95% interval (Student's t)."""
    mean = float(np.mean(values))
    half = math.nan
    if len(values) > 1:
        half = float(
            stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values))
        )
    return {"mean": mean, "low": mean - half, "high": mean + half}


if __name__ == "__main__":
    run(main)
