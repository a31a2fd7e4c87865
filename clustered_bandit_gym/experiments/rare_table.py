"""What policies' error probabilities are when δ is asked for: a table at δ = 1e-10, a figure over all δ."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.harness.output.progress import progress_bar
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.harness.scoring.rare import keep, kept, rare

DELTA = 1e-10
#: δ of the figure.
DELTAS = (0.3, 1e-2, 1e-4, 1e-7, DELTA)
N_AGENTS = 9
SMALL, NEAR_TIE = "ClusteredBAI-PaperSmall-v0", "ClusteredBAI-NearTie-v0"


class Effort(NamedTuple):
    """Plays of an estimate, plays in a round of a search, independent searches."""

    trials: int
    search_plays: int
    searches: int


#: A play of the paper's schemes takes milliseconds, one of the others ten to fifty times as long.
FAST, SLOW = Effort(600, 80, 3), Effort(200, 40, 2)

#: All policies of the registry whose error depends on δ. `learned` is left out: it needs a model, and stops by reward.
POLICIES: dict[str, Effort] = {
    "naive": FAST,
    "cl-bai": FAST,
    "bai-cl": FAST,
    "bai-cl:confidence=certified": FAST,
    "bai-cl++": FAST,
    "structured-bai": SLOW,
    "frugal-bai": SLOW,
    "uniform-glr": SLOW,
    "naive:engine=mixture": SLOW,
}
#: Baselines that do not look at δ: in the table only.
BASELINES: dict[str, Effort] = {"uniform": FAST, "random": FAST}

_HEADS = ("policy", "error", "standard error", "certified low", "plays worth", "searches, largest/smallest", "seconds")


class Task(NamedTuple):
    """One measurement."""

    policy: str
    env: str
    delta: float
    effort: Effort


def tasks(policies: Sequence[str] | None = None) -> list[Task]:
    """All measurements, those of the table first."""
    efforts = POLICIES | BASELINES
    chosen = list(efforts) if policies is None else list(policies)
    table = [Task(p, env, DELTA, efforts.get(p, SLOW)) for env in (SMALL, NEAR_TIE) for p in chosen]
    swept = [p for p in chosen if p not in BASELINES]
    figure = [Task(p, SMALL, d, efforts.get(p, SLOW)) for d in reversed(DELTAS[:-1]) for p in swept]
    return table + figure


def rare_table(
    out: str | Path, policies: Sequence[str] | None = None, seed: int = 0, progress: bool = True
) -> tuple[Path, Path]:
    """Measure what is missing in `out` and write `rare.md` and `rare.png` there; an interrupted run resumes.

    Returns:
        The paths of the table and of the figure.
    """
    folder = Path(out)
    wanted = tasks(policies)
    with progress_bar(total=len(wanted), desc="rare errors", unit="setting", disable=not progress) as bar:
        for task in wanted:
            if _find(kept(folder), task, seed) is None:
                trials, search_plays, searches = task.effort
                settings: dict[str, Any] = {"n_agents": N_AGENTS, "delta": task.delta}
                result = rare(
                    task.policy, task.env, trials, seed, searches=searches, search_plays=search_plays, **settings
                )
                keep(result, folder)
            bar.update()
    rows = kept(folder)
    table, figure = folder / "rare.md", folder / "rare.png"
    table.write_text(_markdown(rows, policies, seed), encoding="utf-8")
    _plot(rows, policies, seed, figure)
    return table, figure


def _find(rows: list[dict[str, Any]], task: Task, seed: int) -> dict[str, Any] | None:
    """The newest row of a task."""
    for row in reversed(rows):
        same = (row["policy"], row["env"], row["n_agents"], row["delta"], row["seed"])
        if same == (task.policy, task.env, N_AGENTS, task.delta, seed):
            return row
    return None


def _markdown(rows: list[dict[str, Any]], policies: Sequence[str] | None, seed: int) -> str:
    made = f"{datetime.datetime.now(datetime.UTC).date()}, version {__version__}"
    parts = [
        f"`clustered-bai rare-table`, seed {seed}, N = {N_AGENTS}, δ = {DELTA:g}; {made}. Seconds of processor time."
    ]
    for env in (SMALL, NEAR_TIE):
        lines = [f"| {' | '.join(_HEADS)} |", "|---|" + "---:|" * (len(_HEADS) - 1)]
        for task in tasks(policies):
            row = _find(rows, task, seed)
            if row is None or task.env != env or task.delta != DELTA:
                continue
            spread = "one found nothing" if row["spread"] is None else number(row["spread"], digits=2)
            cells = [
                f"`{task.policy}`",
                number(row["error"], digits=2),
                number(row["stderr"], digits=2),
                number(row["low"], digits=2),
                f"{row['ess']:.0f}",
                spread,
                f"{row['seconds']:.0f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        parts += [f"**{env}**", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _plot(rows: list[dict[str, Any]], policies: Sequence[str] | None, seed: int, path: Path) -> None:
    """δ asked for against error measured, a line for each policy; bars reach down to the certified lower bound."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    swept = [p for p in (POLICIES if policies is None else policies) if p not in BASELINES]
    for policy in swept:
        found = [(d, _find(rows, Task(policy, SMALL, d, SLOW), seed)) for d in DELTAS]
        points = [(d, row["error"], row["low"]) for d, row in found if row is not None and row["error"] > 0]
        if not points:
            continue
        deltas, errors, lows = (list(column) for column in zip(*points, strict=True))
        # The bound may lie above an estimate of few plays; a bar never points up.
        below = [max(e - low, 0.0) for e, low in zip(errors, lows, strict=True)]
        look = style_of(policy)
        ax.errorbar(
            deltas,
            errors,
            yerr=[below, [0.0] * len(below)],
            color=look.colour,
            marker=look.marker,
            linestyle=look.dashes,
            markersize=5,
            linewidth=1.2,
            label=look.label,
        )
    ax.plot([DELTAS[-1], 1], [DELTAS[-1], 1], color="grey", ls=":", label="error = δ")
    ax.set(xscale="log", yscale="log", xlabel="δ asked for", ylabel="error probability measured")
    ax.set_title(
        f"PaperSmall, N = {N_AGENTS}: error measured; bars reach down to the certified lower bound", fontsize=10
    )
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=150)
