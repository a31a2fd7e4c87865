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
stop (`uniform-glr`, the best threshold) needs for the player's own error rate.

| player | error rate | pulls | of `uniform-glr` |
|---|---:|---:|---:|
{rows}

Mean over the {n} seeds: **{mean:.3f}** ({low:.3f} to {high:.3f}, Student's t). Of uniform sampling without a stop it is
{fixed:.3f}. Each error rate is measured on {trials:,} held-out episodes.

![Learning curve](learned.png)

The *rule* needs no training: it pulls where a pull is worth most, shares data between agents that look alike, and stops when
less than 0.02 agents are expected to be wrong. PPO starts from random weights, sees the
same numbers (`policies/learned/features.py`), and ends {gain}. Without these features
(one seed, 500,000 steps, observations like those of the Box id) the deterministic policy of plain PPO never stopped.

`learned:model.zip` and `sb3:model.zip` put such models on the board. They have no guarantee.
"""


def write(result: dict[str, Any]) -> str:
    """The page as Markdown."""
    models, lines, settings = result["models"], result["lines"], result["settings"]
    ratio = result["played"][0]["ratio"]
    rows = [f"| PPO, seed {one['seed']} {_cells(one)}" for one in models]
    rows += [f"| stopping rule {_cells(lines['rule'])}"]
    rows += [f"| ten pulls of each arm {_cells(lines['uniform'])}"]
    times = [one["seconds"] for one in models]
    better = lines["rule"]["ratio"] - ratio["mean"]
    word = "better" if better > 0 else "worse"
    return PAGE.format(
        n=len(models),
        env=settings["env"],
        steps=settings["steps"],
        trials=settings["trials"],
        seconds=f"{min(times):.0f} to {max(times):.0f}",
        rows="\n".join(rows),
        fixed=result["fixed"]["mean"],
        gain=f"{abs(better):.3f} {word} ({ratio['mean']:.3f} against {lines['rule']['ratio']:.3f})",
        **ratio,
    )


def _cells(one: dict[str, Any]) -> str:
    ratio = f"{one['ratio']:.3f}" if "ratio" in one else ""
    return f"| {one['error_rate']:.4f} | {one['pulls']:.1f} | {ratio} |"


def draw(result: dict[str, Any], path: Path) -> None:
    """Return, error rate and pulls against steps: each seed, their mean, and what needs no training."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), dpi=120, layout="constrained")
    panels = figure.subplots(1, 3)
    named = (("returns", "return"), ("error_rate", "error rate"), ("pulls", "pulls per episode"))
    for axes, (key, label) in zip(panels, named, strict=True):
        curves = [one["curve"] for one in result["models"]]
        shortest = min(len(curve) for curve in curves)
        steps = np.array([row["steps"] for row in curves[0][:shortest]]) / 1000
        values = np.array([[row[key] for row in curve[:shortest]] for curve in curves])
        for one in values:
            axes.plot(steps, one, color="#277a92", alpha=0.3, linewidth=1)
        axes.plot(steps, values.mean(axis=0), color="#277a92", linewidth=2.2, label="PPO, mean")
        for name, colour, style, text in (
            ("uniform", "#d3394c", "--", "ten pulls of each arm"),
            ("rule", "#f2a30f", "-.", "stopping rule"),
        ):
            axes.axhline(result["lines"][name][key], color=colour, linestyle=style, label=text)
        axes.set_xlabel("steps (thousands)")
        axes.set_title(label, fontsize=11)
        axes.grid(alpha=0.25)
        if key == "error_rate":
            axes.set_yscale("log")
    panels[0].legend(fontsize=8.5, loc="lower right")
    figure.savefig(path)
