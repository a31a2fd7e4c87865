"""The page of the documentation about learned players, made from the stored studies: no number is typed by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from clustered_bandit_gym.policies.learned.features import STOP_BELOW
from clustered_bandit_gym.policies.learned.training import TrainSettings

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
drawn from seeds that no training, validation or choice of settings has used.

{table}

Intervals are 95% intervals of the mean over training seeds. They include the noise of the instances, which all models \
of a row share; with one seed they include nothing else. Error rates and pulls are the smallest and largest of the \
models. The rule is the player before its first update: it pulls where a pull tells most and stops when the beliefs \
expect {stop:g} wrong agents.

## What training changes

The ratio to `uniform-glr` falls with the error rate, so a model that errs less has a smaller ratio for that reason \
alone. Here the rule is played with several thresholds of its stop, on the same instances, and a model's pulls are \
divided by those that the rule needs for the model's error rate. Below 1, training saves pulls.

{verdicts}

{rules}

Where models or the rule have only a few errors in all their trials, error rates are uncertain and so is this \
comparison. A player without any error is counted as if it had half an error.

In training a stop is paid the *expected* penalty: the truth is known in every state, so a small network learns from \
all states how many agents a stop would get wrong (`policies/learned/risk.py`). It is meant to keep the noise of rare \
errors out of the gradient. That it does better than paying by outcomes (`--set expected_penalty=false`) is not \
established: single runs of both with otherwise equal settings did not differ by more than their noise.

The largest games are played by models that were trained on small ones. Training on the large game itself was tried \
with one seed and few episodes; on the validation instances it erred more and pulled more often than the rule.

## What the rest of the gain comes from

Agents are clustered softly by likelihood (`policies/learned/beliefs.py`): each cluster is named by its best arm, \
agents that look alike pool their pulls, and the network scores one (agent, arm) cell at a time with shared weights. \
So one model plays at any size. A learned player promises nothing about δ; the harness measures it.

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
    each = [(study, played) for study in studies.values() for played in study["played"]]
    return _PAGE.format(
        command=command(next(iter(studies)), first),
        n=len(first["training_seeds"]),
        steps=first["settings"]["steps"],
        seconds=_seconds(first),
        store="learned.json",
        table=table(studies),
        stop=STOP_BELOW,
        verdicts="\n".join(_verdict(study, played) for study, played in each),
        rules=_rules(each),
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
        "| trained at | played at | models | trials each | error rate | pulls | ratio | ratio of the rule |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for study in studies.values():
        for played in study["played"]:
            models = f"{len(played['models'])} seed{'s' * (len(played['models']) > 1)}"
            rates, pulls = (
                [one[key] for one in played["models"]] for key in ("error_rate", "pulls")
            )
            lines.append(
                f"| {_size(study)} | {_size(study, played['size']) if played['size'] else 'the same'} "
                f"| {models} | {played['trials']:,} | {min(rates):.4f} to {max(rates):.4f} "
                f"| {min(pulls):.1f} to {max(pulls):.1f} | **{_interval(played['ratio'])}** "
                f"| {_interval(played['rule_ratio'])} |"
            )
    return "\n".join(lines)


def _rules(each: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The rule's error rates and pulls, threshold by threshold."""
    stops = [row["stop"] for row in each[0][1]["rule"]]
    lines = [
        "| the rule stops below | " + " | ".join(f"{stop:g}" for stop in stops) + " |",
        "|---|" + "---|" * len(stops),
    ]
    for study, played in each:
        cells = [f"{row['error_rate']:.4f}, {row['pulls']:.1f}" for row in played["rule"]]
        lines.append(
            f"| {_size(study, played['size'])}: error rate, pulls | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines)


def _interval(ratio: dict[str, float]) -> str:
    return f"{ratio['mean']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def _verdict(study: dict[str, Any], played: dict[str, Any]) -> str:
    """One item about training against the rule."""
    change = played["over_rule"]
    if change["high"] < 1:
        word = "training saves pulls"
    elif change["low"] > 1:
        word = "training costs pulls"
    else:
        word = "neither a saving nor a loss by training is established"
    where = f"Trained at {_size(study)}" + (
        f", played at {_size(study, played['size'])}" if played["size"] else ""
    )
    errors, pulls = (
        float(np.mean([one[key] for one in played["models"]])) for key in ("error_rate", "pulls")
    )
    return (
        f"- {where}: mean error rate {errors:.4f}, pulls {pulls:.1f}, **{_interval(change)}** of the rule's pulls: "
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
    own = {
        key: value
        for key, value in changed.items()
        if key not in ("env", "env_kwargs", "seed", "steps", "n_envs")
    }
    given = {**settings["env_kwargs"], **own}
    if given:
        words.append("--set " + " ".join(f"{key}={value}" for key, value in given.items()))
    for played in study["played"][1:]:
        also = {**played["size"], "trials": played["trials"]}
        words.append("--also " + ",".join(f"{key}={value}" for key, value in also.items()))
    words.append(f"--trials {study['played'][0]['trials']} --test-seed {study['test_seed']}")
    return " ".join([*words, f"--out {name}.zip --report docs/results/learned.md"])
