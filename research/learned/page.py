"""The page and the picture of the learning curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

PAGE = """# A learned player

`python -m research.learned --out docs/results` trains `examples/sb3_ppo.py` with {n} seeds and makes this page.
It is plain PPO of Stable-Baselines3 on `{env}` with {steps:,} steps, {seconds} s of processor time for each
model, the evaluations of the curve included. A player that errs more often needs fewer pulls, so bare pulls
compare nothing. The ratio divides a player's mean pulls by those that uniform sampling with a likelihood-ratio
stop (`uniform-glr`, the best threshold) needs for the player's own error rate. Episodes end at {limit} pulls, as in
the training; on the board, say so: `sb3:model.zip,max_pulls={limit}`.

| player | error rate | pulls | of `uniform-glr` |
|---|---:|---:|---:|
{rows}

Median of the {n} seeds: **{median:.3f}** ({low:.3f} to {high:.3f}); {failed} of them need more than uniform sampling with
that stop. Of uniform sampling without a stop the median is {fixed:.3f}. Each error rate is measured on {trials:,}
held-out episodes. A seed gives the same model each time on one machine, but the first run of this page, with the same
settings, had five seeds between 0.62 and 0.70: train several models and keep the one that does best on held-out
episodes.

![Learning curve](learned.png)

*Held-out episodes of the deterministic policy: each seed and the median of all seeds. Where no episode was wrong the
curve shows half an error.*

The *rule* needs no training: it pulls where a pull is worth most, shares data between agents that look alike, and stops when
less than 0.02 agents are expected to be wrong. PPO starts from random weights, sees the same numbers
(`policies/learned/features.py`), and ends {gain}. {adds} More steps bring it closer:
one model with 400,000 (`--seeds 1 --steps 400000`, 74 s) erred in 0.0160 of the episodes with 53.4 pulls, 0.600 of
`uniform-glr`. Without these features (one seed, 500,000 steps, observations like those of the Box id) the deterministic
policy of plain PPO never stopped.

{longer}`learned:model.zip` and `sb3:model.zip` put models on the board whose actions are single pulls. They have no
guarantee.
"""

LONGER = """## Longer games

One model each with the same settings of PPO and few steps: `python -m research.learned --game large --trials 1000
--steps 40000`, and the same with `--game paper-small`. An action orders several pulls (`pull_sizes`). The last column is
what uniform sampling without a stop needs for the player's error rate.

| game | player | error rate | pulls | uniform |
|---|---|---:|---:|---:|
{rows}

{verdicts}
"""

TITLES = {"large": "N = 20, M = 4, K = 8", "paper-small": "PaperSmall (N = 9, M = 3, K = 10)"}


def write(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    tiny = results["tiny"]
    models, rule, settings = tiny["models"], tiny["lines"]["rule"], tiny["settings"]
    ratio = tiny["ratio"]
    rows = [f"| PPO, seed {one['seed']} | {_cells(one)} {one['ratio']:.3f} |" for one in models]
    rows += [f"| stopping rule | {_cells(rule)} {rule['ratio']:.3f} |"]
    rows += [f"| ten pulls of each arm | {_cells(tiny['lines']['uniform'])} |"]
    times = [one["seconds"] for one in models]
    better = rule["ratio"] - ratio["median"]
    word = "better" if better > 0 else "worse"
    return PAGE.format(
        n=len(models),
        env=settings["env"],
        steps=settings["steps"],
        trials=settings["trials"],
        limit=settings["max_pulls"],
        seconds=f"{min(times):.0f} to {max(times):.0f}",
        rows="\n".join(rows),
        failed=sum(one["ratio"] > 1 for one in models),
        fixed=tiny["ratio_fixed"]["median"],
        gain=f"{abs(better):.3f} {word} ({ratio['median']:.3f} against {rule['ratio']:.3f})",
        adds="" if better > 0 else "Training adds nothing to the rule here.",
        longer=_longer(results),
        **ratio,
    )


def _cells(one: dict[str, Any]) -> str:
    return f"{one['error_rate']:.4f} | {one['pulls']:,.1f} |"


def _longer(results: dict[str, Any]) -> str:
    """The section on the longer games that were played."""
    rows, verdicts = [], []
    for name, title in TITLES.items():
        if name not in results:
            continue
        model, rule = results[name]["models"][0], results[name]["lines"]["rule"]
        for who, one in (("PPO", model), ("stopping rule", rule)):
            rows.append(f"| {title} | {who} | {_cells(one)} {one['uniform_pulls']:,.0f} |")
        verdicts.append(_verdict(results[name], title))
    if not rows:
        return ""
    return LONGER.format(rows="\n".join(rows), verdicts="\n".join(verdicts))


def _verdict(result: dict[str, Any], title: str) -> str:
    """What was learned, by the return, which weighs errors and pulls alike for all."""
    model, settings = result["models"][0], result["settings"]
    rule, curve = result["lines"]["rule"]["return"], model["curve"]
    word = "better" if model["return"] > rule else "worse"
    text = (
        f"{title}: on {settings['curve_trials']} held-out episodes {settings['steps']:,} steps "
        f"({model['seconds']:.0f} s) take the return from {curve[0]['return']:.2f} to "
        f"{curve[-1]['return']:.2f}. On {settings['trials']:,} episodes it is {model['return']:.2f}, "
        f"{word} than the rule's {rule:.2f}."
    )
    if model["pulls"] > 0.99 * settings["max_pulls"]:
        text += f" The model does not stop: it is answered for at {settings['max_pulls']:,} pulls."
    return text + "\n"


def draw(result: dict[str, Any], path: Path) -> None:
    """Return, error rate and pulls against steps: each seed, their median, and what needs no training."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), dpi=120, layout="constrained")
    panels = figure.subplots(1, 3)
    curves = [one["curve"] for one in result["models"]]
    steps = np.array([row["steps"] for row in curves[0]]) / 1000
    least = 0.5 / result["settings"]["curve_trials"]
    named = (("return", "return"), ("error_rate", "error rate"), ("pulls", "pulls per episode"))
    for axes, (key, label) in zip(panels, named, strict=True):
        values = np.array([[row[key] for row in curve] for curve in curves])
        if key == "error_rate":
            values = np.maximum(values, least)
            axes.set_yscale("log")
        for place, one in enumerate(values):
            text = None if place else "PPO, one seed"
            axes.plot(steps, one, color="#7d8b92", linewidth=0.9, label=text)
        median = np.median(values, axis=0)
        axes.plot(steps, median, color="#277a92", linewidth=2.6, label="PPO, median of seeds")
        for name, colour, style, text in (
            ("uniform", "#d3394c", "--", "ten pulls of each arm"),
            ("rule", "#f2a30f", "-.", "stopping rule, no training"),
        ):
            axes.axhline(result["lines"][name][key], color=colour, linestyle=style, label=text)
        axes.set_xlabel("steps (thousands)")
        axes.set_title(label, fontsize=11)
        axes.grid(alpha=0.25)
    panels[0].set_ylim(-9, 0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=9, loc="outside lower center", ncols=len(labels))
    figure.savefig(path)
