"""Training measured: several seeds, and the rule they start from, on fresh instances, kept as JSON, shown as a page.

A study is one setting of the training with several seeds. Its models are played at the size they were trained at and at
others, and so is the rule of thumb that all of them start from, with several thresholds of its stop: training counts
for what it saves at the same error rate. All play the same instances. `learned.json` keeps the numbers of all
studies, `learned.md` beside it is made from them: no number in the page is typed by hand.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.evaluation import Comparison, compare_all
from clustered_bandit_gym.policies.learned.features import STOP_BELOW, stop_threshold
from clustered_bandit_gym.policies.learned.files import TrainingFiles, replace_file
from clustered_bandit_gym.policies.learned.page import render
from clustered_bandit_gym.policies.learned.training import TrainSettings, make_model, make_vec_env
from clustered_bandit_gym.policies.learned.uniform_curves import pulls_at_error

#: The yardstick of the page: uniform sampling with a GLR stop.
YARDSTICK = "uniform with a GLR stop"
#: Thresholds of the rule's stop, in expected wrong agents: the one that training starts from, and a range around it.
STOPS = (0.08, 0.04, STOP_BELOW, 0.01, 0.005)


def measure(
    models: list[Path],
    sizes: list[dict[str, Any]],
    trials: int,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Play the models, which differ in their training seed only, and the rule that they started from.

    Args:
        models: files that training wrote.
        sizes: settings of the environment to play with, besides those of the training. `trials` among them is the
            number of trials there: larger games take longer.
        trials, seed: as in `compare_with_uniform`.
        say: told about every comparison.
    """
    about = [json.loads(model.with_suffix(".json").read_text()) for model in models]
    settings = [{**one["settings"], "seed": None} for one in about]
    if any(one != settings[0] for one in settings):
        raise UserError(
            "the models of a study must have the same settings except for the training seed; these differ in others"
        )
    if settings[0]["algo"] == "dqn":
        raise UserError(
            "a study compares with the rule that training starts from, which dqn lacks; choose another algo"
        )
    return {
        "settings": settings[0],
        "training_seeds": [one["settings"]["seed"] for one in about],
        "test_seed": seed,
        "processor_seconds": [one.get("processor_seconds") for one in about],
        "histories": [one["history"] for one in about],
        "date": datetime.now(tz=UTC).date().isoformat(),
        "version": __version__,
        "played": [
            play_at(
                models,
                {key: value for key, value in also.items() if key != "trials"},
                int(also.get("trials", trials)),
                seed,
                say,
            )
            for also in [{}, *sizes]
        ],
    }


def play_at(
    models: list[Path], size: dict[str, Any], trials: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """What is kept of one size: the models, the rule with each of `STOPS`, the ratios. Arguments as in `measure`."""
    settings = TrainSettings(**json.loads(models[0].with_suffix(".json").read_text())["settings"])
    with tempfile.TemporaryDirectory() as folder:
        rules = [save_rule(settings, Path(folder) / f"rule-{stop}.zip", stop) for stop in STOPS]
        files = [str(file) for file in (*models, *rules)]
        rows = compare_all(files, trials=trials, seed=seed, say=lambda row: say(str(row)), **size)
    trained, rule = rows[: len(models)], rows[len(models) :]
    return {
        "size": size,
        "trials": trials,
        "models": [_short(one) for one in trained],
        "rule": [{"stop": stop, **_short(one)} for stop, one in zip(STOPS, rule, strict=True)],
        "ratio": mean_over_seeds(np.stack([_ratios(one) for one in trained])),
        "rule_ratio": mean_over_seeds(_ratios(rule[STOPS.index(STOP_BELOW)])[None]),
        "over_rule": mean_over_seeds(np.stack([_over_rule(one, rule) for one in trained])),
    }


def enter(page: Path, name: str, study: dict[str, Any]) -> None:
    """Keep a study under a name, in the JSON beside `page`, and make the page anew."""
    if page.suffix != ".md":
        raise UserError(f"the file name of a report must end in .md, got {page.name}")
    store = page.with_suffix(".json")
    studies = json.loads(store.read_text(encoding="utf-8")) if store.is_file() else {}
    studies[name] = study
    replace_file(store, (json.dumps(studies, indent=1) + "\n").encode())
    replace_file(page, render(studies).encode())


def mean_over_seeds(numbers: Floats) -> dict[str, float]:
    """Mean over S models of numbers (S, 1 + resamples), the first of them measured, with a 95% interval.

    Its half width has two parts, added as independent: that of the instances, which all models share (from the
    resamples), and that of training seeds (Student's t; none for a single model).
    """
    mean = float(numbers[:, 0].mean())
    low, high = np.quantile(numbers[:, 1:].mean(axis=0), [0.025, 0.975])
    seeds = 0.0
    if len(numbers) > 1:
        spread = numbers[:, 0].std(ddof=1) / math.sqrt(len(numbers))
        seeds = float(stdtrit(len(numbers) - 1, 0.975) * spread)
    half = math.hypot((high - low) / 2, seeds)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def save_rule(settings: TrainSettings, path: Path, stop_below: float = STOP_BELOW) -> Path:
    """The player that a run with these settings starts from, as a model file: the rule, whatever the seed."""
    import torch

    files = TrainingFiles(path)
    env = make_vec_env(settings)
    model = make_model(settings, env)
    with torch.no_grad():
        model.policy.mlp_extractor.actor.rule[1] = stop_threshold(stop_below)
    files.save_model(model, settings)
    files.keep()
    env.close()
    return path


def _over_rule(found: Comparison, rule: list[Comparison]) -> Floats:
    """(1 + resamples,) pulls over those that the rule needs for the same error rate."""
    pulls, errors = (
        np.stack([getattr(one, name) for one in rule], axis=1)
        for name in ("pulls_resampled", "errors_resampled")
    )
    needed = pulls_at_error(pulls, errors, found.errors_resampled, floor=0.5 / found.trials)
    return found.pulls_resampled / needed


def _ratios(found: Comparison) -> Floats:
    """(1 + resamples,) ratios to the yardstick, the measured one first."""
    ratio = next(one for one in found.ratios if one.yardstick == YARDSTICK)
    return np.array([ratio.ratio, *ratio.resampled])


def _short(found: Comparison) -> dict[str, float]:
    """What is kept of a comparison."""
    ratio = next(one for one in found.ratios if one.yardstick == YARDSTICK)
    return {
        "errors": found.errors,
        "error_rate": found.error_rate,
        "pulls": found.pulls_mean,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
    }
