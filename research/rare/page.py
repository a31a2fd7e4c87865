"""The page and the figure of measured error probabilities, from rows that
`harness.scoring.rare.kept` reads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.scoring.numbers import number
from research.rare.result import FEW

_HEADS = (
    "policy",
    "estimate",
    "standard error",
    "certified: at least",
    "at most",
    "effective plays",
    "estimates of the searches",
    "processor seconds",
    "measured",
)

_INTRODUCTION = """\
# Error probabilities, measured

Made by `python -m research.rare table --seed {seed} --out docs/results`: P(a policy stops with a wrong arm), N = {n_agents},
where δ = {delta:g} was asked for. [How, and what is proved](../rare.md). `rare.jsonl` has all figures.

- *Certified: at least* and *at most* are confidence bounds, each at {level:.0%}, whatever the policy does.
- *Estimate* is unbiased, but **not certified**: a way to err that no search found is missing from it and from its
  standard error, and an estimate that misses one is too small.
- *Effective plays*: the number of equal weights that would be as good. Below {few:.0f} an estimate is an order of
  magnitude at best, and is printed as one.
- *Estimates of the searches*: each independent search by its own plays. How far they differ is part of the result.
- *Measured*: the day, and the checksum of the code. Times are of a shared machine.
"""


def page_of(
    rows: list[dict[str, Any]],
    seed: int,
    delta: float,
    n_agents: int,
    missing: dict[str, list[str]] | None = None,
) -> str:
    """Markdown: one table for each environment of `rows`; `missing`: where -> policies not measured
    yet.
    """
    level = 1 - max((row.get("alpha", 0.05) for row in rows), default=0.05)
    parts = [_INTRODUCTION.format(seed=seed, n_agents=n_agents, delta=delta, level=level, few=FEW)]
    for env in dict.fromkeys(row["env"] for row in rows):
        lines = [f"| {' | '.join(_HEADS)} |", "|---|" + "---:|" * (len(_HEADS) - 1)]
        lines += [f"| {' | '.join(_cells(row))} |" for row in rows if row["env"] == env]
        parts += [f"## {env}", "\n".join(lines)]
    parts.append(
        "## δ asked for, error measured\n\n"
        "PaperSmall. Points: estimates, hollow where they are an order of magnitude at best. Bars "
        "reach down to the "
        "certified lower bounds.\n\n![Error measured against δ asked for](rare.png)"
    )
    if missing:
        places = [f"- {place}: {', '.join(policies)}" for place, policies in missing.items()]
        parts.append("\n".join(["## Not measured yet", "", *places]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _cells(row: dict[str, Any]) -> list[str]:
    found = [
        number(error, digits=2) if error > 0 else "none found" for error, _, _ in row["searches"]
    ]
    if not row["error"] > 0:
        estimate, spread = "no error found", "–"
    elif row["ess"] < FEW:
        estimate, spread = f"order of {row['error']:.0e}", "–"
    else:
        estimate, spread = number(row["error"], digits=2), number(row["stderr"], digits=2)
    code = re.search(r"\(([0-9a-f]+)\)", row["version"])
    return [
        f"`{row['policy']}`",
        estimate,
        spread,
        number(row["low"], digits=2),
        number(min(row["high"], 1.0), digits=2),
        f"{row['ess']:.0f}",
        ", ".join(found),
        f"{row['seconds']:.0f}",
        f"{row.get('made', '')} {code.group(1)[:8] if code else ''}".strip(),
    ]


def figure_of(rows: list[dict[str, Any]], path: Path, n_agents: int) -> None:
    """δ asked for against error measured, a line for each policy; bars reach down to the certified
    lower bound.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy and row["error"] > 0]
        mine.sort(key=lambda row: row["delta"])
        if not mine:
            continue
        look = style_of(policy)
        deltas, errors = [row["delta"] for row in mine], [row["error"] for row in mine]
        # The bound may lie above an estimate of few plays; a bar never points up.
        below = [max(row["error"] - row["low"], 0.0) for row in mine]
        ax.errorbar(
            deltas,
            errors,
            yerr=[below, [0.0] * len(mine)],
            fmt="none",
            ecolor=look.colour,
            elinewidth=1,
        )
        ax.plot(deltas, errors, color=look.colour, linestyle=look.dashes, linewidth=1.2)
        for row in mine:
            face = "white" if row["ess"] < FEW else look.colour
            ax.plot(
                row["delta"],
                row["error"],
                look.marker,
                color=look.colour,
                markerfacecolor=face,
                markersize=6,
            )
        ax.plot(
            [], [], color=look.colour, marker=look.marker, linestyle=look.dashes, label=look.label
        )
    ends = sorted(row["delta"] for row in rows)
    if ends:
        ax.plot([ends[0], ends[-1]], [ends[0], ends[-1]], color="grey", ls=":", label="error = δ")
    ax.set(xscale="log", yscale="log", xlabel="δ asked for", ylabel="error probability measured")
    ax.set_title(f"PaperSmall, N = {n_agents}; hollow: an order of magnitude at best", fontsize=11)
    ax.grid(alpha=0.3)
    if ends:
        figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    figure.savefig(path, dpi=140)
