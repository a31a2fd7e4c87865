"""Training measured: several seeds, trained and untrained networks on fresh instances, kept as JSON, shown as a page.

A study is one setting of the training with several seeds. Its models, and the networks they started from, are played
at the size they were trained at and at others, all on the same instances. `learned.json` keeps the numbers of all
studies, `learned.md` beside it is made from them: no number in the page is typed by hand.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned.evaluation import Comparison, compare_with_uniform
from clustered_bandit_gym.policies.learned.files import TrainingFiles, replace_file
from clustered_bandit_gym.policies.learned.training import TrainSettings, make_model, make_vec_env

#: The yardstick of the page: uniform sampling with a GLR stop.
YARDSTICK = "uniform with a GLR stop"
#: What part of the trials is played at sizes other than that of the training: larger games take longer.
ELSEWHERE = 4


def measure(
    models: list[Path],
    sizes: list[dict[str, Any]],
    trials: int,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Play the models, which differ in their training seed only, and the networks they started from.

    Args:
        models: files that training wrote.
        sizes: settings of the environment to play with, besides those of the training.
        trials, seed: as in `compare_with_uniform`.
        say: told about every comparison.
    """
    about = [json.loads(model.with_suffix(".json").read_text()) for model in models]
    settings = [{**one["settings"], "seed": None} for one in about]
    if any(one != settings[0] for one in settings):
        raise UserError("the models of a study differ in their training seed only")
    played = []
    with tempfile.TemporaryDirectory() as folder:
        starts = [
            _untrained(TrainSettings(**one["settings"]), Path(folder) / f"{i}.zip") for i, one in enumerate(about)
        ]
        for size in [{}, *sizes]:
            number = max(1, trials // ELSEWHERE) if size else trials
            found: dict[str, list[Comparison]] = {"trained": [], "untrained": []}
            for kind, files in (("trained", models), ("untrained", starts)):
                for file, one in zip(files, about, strict=True):
                    found[kind].append(compare_with_uniform(str(file), trials=number, seed=seed, **size))
                    say(f"{kind}, training seed {one['settings']['seed']}: {found[kind][-1]}")
            ratios = {kind: np.stack([_ratios(one) for one in rows]) for kind, rows in found.items()}
            ratios["difference"] = ratios["trained"] - ratios["untrained"]
            played.append(
                {
                    "size": size,
                    "trials": number,
                    "models": {kind: [_short(one) for one in rows] for kind, rows in found.items()},
                    "ratio": {kind: mean_over_seeds(rows) for kind, rows in ratios.items()},
                }
            )
    return {
        "settings": settings[0],
        "training_seeds": [one["settings"]["seed"] for one in about],
        "test_seed": seed,
        "processor_seconds": [one.get("processor_seconds") for one in about],
        "histories": [one["history"] for one in about],
        "date": datetime.now(tz=UTC).date().isoformat(),
        "version": __version__,
        "played": played,
    }


def enter(page: Path, name: str, study: dict[str, Any]) -> None:
    """Keep a study under a name, in the JSON beside `page`, and make the page anew."""
    if page.suffix != ".md":
        raise UserError(f"the name of a report ends in .md, got {page.name}")
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


def _untrained(settings: TrainSettings, path: Path) -> Path:
    """The network that a run with these settings starts from, as a model file."""
    files = TrainingFiles(path)
    env = make_vec_env(settings)
    files.save_model(make_model(settings, env), settings)
    files.keep()
    env.close()
    return path


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


# --- the page --------------------------------------------------------------------------------------------------------

_PAGE = """# Learned players

```bash
{command}
```

trains {n} models with the defaults ({steps:,} steps each, {seconds} of processor time on one core, evaluations \
included), plays them, and writes this page and `{store}`. A single model, and a board with it:

```bash
.venv/bin/clustered-bai train ClusteredBAI-Tiny-v0 --algo maskable-ppo --out model.zip
.venv/bin/clustered-bai compare ClusteredBAI-Tiny-v0 --policies learned:model.zip uniform-glr --trials 100 --jobs 2
```

## Pulls at the same error rate

How many pulls does uniform sampling with a likelihood-ratio stop (`uniform-glr`, over all thresholds) need for the \
player's own error rate? The ratio is the player's pulls over those; below 1 the player needs fewer. Instances were \
drawn from seeds that no training, validation or choice of settings has used. Untrained means the network before its \
first update, with the same features and the rule of thumb it starts from.

{table}

Intervals are 95% intervals of the mean over training seeds. They include the noise of the instances, which all models \
of a row share; with one seed they include nothing else. Error rates and pulls are the smallest and largest of the \
models. What training changes, with the same seeds and instances before and after (paired):

{verdicts}

## What the gain comes from

Agents are clustered softly by likelihood (`policies/learned/beliefs.py`): each cluster is named by its best arm, \
agents that look alike pool their pulls, and the network scores one (agent, arm) cell at a time with shared weights. \
So one model plays at any size. Most of the gain is in these features and in the rule of thumb that the network \
starts from: compare the two columns of ratios. A learned player promises nothing about δ; the harness measures it.

## Settings

{settings}

Your own scripts (PPO, MaskablePPO, DQN, a CleanRL-style file, a custom feature extractor, PettingZoo) are in the \
folder `examples`; `sb3:model.zip` puts a model of Stable-Baselines3 on the board. An SB3 model file holds pickles, \
which can run any code when SB3 loads it: `learned:`, `sb3:` and `train` read only its tensors and plain text, unless \
you ask for more with `sb3:model.zip,full=true`.
"""


def render(studies: dict[str, dict[str, Any]]) -> str:
    """The page, from the content of the JSON."""
    first = next(iter(studies.values()))
    return _PAGE.format(
        command=command(next(iter(studies)), first),
        n=len(first["training_seeds"]),
        steps=first["settings"]["steps"],
        seconds=_seconds(first),
        store="learned.json",
        table=table(studies),
        verdicts="\n".join(_verdict(study, played) for study in studies.values() for played in study["played"]),
        settings="\n".join(
            f"- {_size(study)}: measured on {study['date']} with version {study['version']}, instances from seed "
            f"{study['test_seed']}, {_seconds(study)} of processor time for each model. Command: "
            f"`{command(name, study)}`"
            for name, study in studies.items()
        ),
    )


def table(studies: dict[str, dict[str, Any]]) -> str:
    """A row for each size at which the models of a study were played."""
    lines = [
        "| trained at | played at | models | trials each | error rate | pulls | ratio | ratio untrained |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for study in studies.values():
        for played in study["played"]:
            trained = played["models"]["trained"]
            models = f"{len(trained)} seed{'s' * (len(trained) > 1)}"
            rates, pulls = ([one[key] for one in trained] for key in ("error_rate", "pulls"))
            lines.append(
                f"| {_size(study)} | {_size(study, played['size']) if played['size'] else 'the same'} "
                f"| {models} | {played['trials']:,} | {min(rates):.4f} to {max(rates):.4f} "
                f"| {min(pulls):.1f} to {max(pulls):.1f} | **{_interval(played['ratio']['trained'])}** "
                f"| {_interval(played['ratio']['untrained'])} |"
            )
    return "\n".join(lines)


def _interval(ratio: dict[str, float]) -> str:
    return f"{ratio['mean']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def _verdict(study: dict[str, Any], played: dict[str, Any]) -> str:
    """One item about training against no training."""
    before, after = played["models"]["untrained"], played["models"]["trained"]
    errors, pulls = (
        [float(np.mean([one[key] for one in rows])) for rows in (before, after)] for key in ("error_rate", "pulls")
    )
    change = played["ratio"]["difference"]
    if change["high"] < 0:
        word = "training lowers the ratio"
    elif change["low"] > 0:
        word = "training raises the ratio"
    else:
        word = "no change of the ratio by training is established"
    where = f"Trained at {_size(study)}" + (f", played at {_size(study, played['size'])}" if played["size"] else "")
    return (
        f"- {where}: mean error rate {errors[0]:.4f} before and {errors[1]:.4f} after training, pulls {pulls[0]:.1f} "
        f"and {pulls[1]:.1f}, ratio changed by {change['mean']:+.3f} ({change['low']:+.3f} to {change['high']:+.3f}): "
        f"{word}."
    )


def _size(study: dict[str, Any], other: dict[str, Any] | None = None) -> str:
    tiny = {"n_agents": 4, "n_clusters": 2, "n_arms": 3}
    size = {**tiny, **study["settings"]["env_kwargs"], **(other or {})}
    return f"N = {size['n_agents']}, M = {size['n_clusters']}, K = {size['n_arms']}"


def _seconds(study: dict[str, Any]) -> str:
    known = [one for one in study["processor_seconds"] if one is not None]
    return f"{min(known):.0f} to {max(known):.0f} s" if known else "an unknown number of seconds"


def command(name: str, study: dict[str, Any]) -> str:
    """The command that makes a study anew."""
    settings, defaults = study["settings"], asdict(TrainSettings())
    words = ["clustered-bai train", settings["env"], f"--seeds {len(study['training_seeds'])}"]
    for key in ("steps", "n_envs"):
        if settings[key] != defaults[key]:
            words.append(f"--{key.replace('_', '-')} {settings[key]}")
    changed = {key: settings[key] for key in defaults if settings.get(key) != defaults[key]}
    own = {key: value for key, value in changed.items() if key not in ("env", "env_kwargs", "seed", "steps", "n_envs")}
    given = {**settings["env_kwargs"], **own}
    if given:
        words.append("--set " + " ".join(f"{key}={value}" for key, value in given.items()))
    for played in study["played"][1:]:
        words.append("--also " + ",".join(f"{key}={value}" for key, value in played["size"].items()))
    words.append(f"--trials {study['played'][0]['trials']} --test-seed {study['test_seed']}")
    return " ".join([*words, f"--out {name}.zip --report docs/results/learned.md"])
