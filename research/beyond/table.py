"""How far `StructuredBAI` and `FrugalBAI` go past the paper: pulls and communication on its own
settings, one call.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.run import evaluate
from clustered_bandit_gym.harness.scoring.numbers import number
from research.markdown import table as markdown_table

DELTA = 1e-10
#: All that is played.
PLAYED = ("naive", "cl-bai", "bai-cl", "bai-cl++", "structured-bai", "frugal-bai")


class Setting(NamedTuple):
    """Where policies are compared.

    Attributes:
        env, n_agents: the environment, and N.
        median: take the median of pulls instead of the mean. For instances drawn afresh, whose mean
            number of pulls is infinite.
    """

    env: str
    n_agents: int
    median: bool = False


SETTINGS = (
    Setting("ClusteredBAI-PaperSmall-v0", 300),
    Setting("ClusteredBAI-PaperRandom-v0", 200, median=True),
    Setting("ClusteredBAI-PaperFlat-v0", 1000),
    Setting("ClusteredBAI-MovieLensLike-v0", 120),
)


@dataclass(frozen=True)
class BeyondTable:
    """The comparison.

    Attributes:
        rows: one row per setting and policy: env, n_agents, policy, statistic ("mean" or "median"),
            pulls, vs_bound (pulls over the instance's lower bound, geometric mean over trials),
            communication, errors (wrong or unfinished trials).
        trials: every trial, one row each.
        seed: root seed of the trials.
        made: date and version.
    """

    rows: pd.DataFrame
    trials: pd.DataFrame
    seed: int
    made: str

    @property
    def n_trials(self) -> int:
        """Trials of each policy in each setting."""
        return int(self.trials["trial"].nunique())

    def to_markdown(self) -> str:
        """The table, with a note on how it was made."""
        heads = ["environment", "N", "policy", "pulls", "vs bound", "communication", "errors"]
        lines = []
        for row in self.rows.to_dict("records"):
            pulls = number(row["pulls"]) + (" (median)" if row["statistic"] == "median" else "")
            texts = [
                _short(row["env"]),
                str(row["n_agents"]),
                row["policy"],
                pulls,
                f"{number(row['vs_bound'])}×",
            ]
            lines.append([*texts, f"{row['communication']:,.0f}", str(row["errors"])])
        note = (
            f"δ = {DELTA:g}, {self.n_trials} trials, the same for all policies. Pulls: means, or "
            "medians where it says "
            "so; vs bound: pulls over the lower bound, geometric mean; communication: means, with "
            "c_b = 1 and c_r = "
            f"32; errors: wrong or unfinished trials. Made by "
            f"`python -m research.beyond --out docs/results --seed {self.seed}` on {self.made}."
        )
        return "\n".join([markdown_table(heads, lines), "", note])

    def plot(self, path: str | Path) -> None:
        """Pulls against communication, one panel per setting, one point per policy."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        settings = self.rows[["env", "n_agents"]].drop_duplicates().to_numpy().tolist()
        figure = Figure(figsize=(3.1 * len(settings), 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(settings), squeeze=False)[0]
        for ax, (env, n_agents) in zip(panels, settings, strict=True):
            part = self.rows[(self.rows["env"] == env) & (self.rows["n_agents"] == n_agents)]
            for row in part.to_dict("records"):
                look = style_of(row["policy"])
                at = row["pulls"], row["communication"]
                ax.scatter(
                    *at, color=look.colour, marker=look.marker, s=55, label=look.label, zorder=3
                )
            which = "median" if (part["statistic"] == "median").any() else "mean"
            ax.set(xscale="log", yscale="log", xlabel=f"pulls ({which})")
            ax.set_ylabel("communication cost (mean)")
            ax.set_title(f"{_short(env)}, N = {n_agents}", fontsize=11)
            ax.margins(0.12)
            ax.grid(alpha=0.3)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(PLAYED), frameon=False)
        figure.suptitle(
            f"δ = {DELTA:g}, {self.n_trials} trials: fewer pulls is left, less communication is lower"
        )
        figure.savefig(path, dpi=130)

    def __str__(self) -> str:
        return self.to_markdown()


def beyond_table(
    trials: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int = 1,
    progress: bool = True,
    settings: tuple[Setting, ...] = SETTINGS,
) -> BeyondTable:
    """Play the paper's schemes as printed, StructuredBAI and FrugalBAI on the same trials of each
    setting, and compare.

    Ctrl-C ends it without a table; the same call resumes from the trials in `out`.

    Args:
        trials: trials of each setting; instances are drawn afresh where the environment draws them.
        seed: root seed.
        out: folder for the trials, for `beyond.md` and for the picture `beyond.png`; a second call
            skips trials that are there.
        n_jobs: processes.
        progress: show a bar for each setting.
    """
    if trials < 1:
        raise UserError(f"trials must be at least 1, got {trials}")
    frames, rows = [], []
    for setting in settings:
        folder = None if out is None else Path(out) / setting.env
        board = evaluate(
            list(PLAYED),
            setting.env,
            n_agents=setting.n_agents,
            delta=DELTA,
            trials=trials,
            seed=seed,
            n_jobs=n_jobs,
            out=folder,
            progress=progress,
        )
        if board.missing:  # Ctrl-C: trials are kept; a table of some of them would mislead
            raise KeyboardInterrupt
        frame = board.trials[board.trials["trial"] < trials]
        frames.append(frame)
        rows += [_row(setting, name, frame[frame["policy"] == name]) for name in PLAYED]
    made = f"{datetime.date.today().isoformat()} with version {__version__}"
    table = BeyondTable(pd.DataFrame(rows), pd.concat(frames, ignore_index=True), seed, made)
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        table.plot(Path(out) / "beyond.png")
        text = f"{table.to_markdown()}\n\n![Pulls against communication, one panel per setting](beyond.png)\n"
        (Path(out) / "beyond.md").write_text(text, encoding="utf-8")
    return table


def _row(setting: Setting, name: str, trials: pd.DataFrame) -> dict[str, Any]:
    middle = np.median if setting.median else np.mean
    ratio = (trials["pulls"] / trials["bound"]).astype(float)
    return {
        "env": setting.env,
        "n_agents": setting.n_agents,
        "policy": name,
        "statistic": "median" if setting.median else "mean",
        "pulls": float(middle(trials["pulls"])),
        "vs_bound": float(np.exp(np.log(ratio).mean())),
        "communication": float(trials["cost"].mean()),
        "errors": int((trials["outcome"] != "solved").sum()),
    }


def _short(env: str) -> str:
    return env.removeprefix("ClusteredBAI-").removesuffix("-v0")
