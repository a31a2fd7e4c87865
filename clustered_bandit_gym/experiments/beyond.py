"""How far `StructuredBAI` and `FrugalBAI` go past the paper: one table, made by one call, on its own settings."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.output.tables import Table, to_markdown
from clustered_bandit_gym.harness.run import evaluate
from clustered_bandit_gym.harness.scoring.numbers import number

DELTA = 1e-10
OLD, NEW = "bai-cl++", "structured-bai"
#: All that is played: pulls against communication.
PLAYED = ("naive", "cl-bai", "bai-cl", OLD, NEW, "frugal-bai")


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes:
        env, n_agents: where.
        target: the ratio of pulls to reach.
        median: take the median of the trials' ratios instead of the ratio of means. For instances drawn afresh, whose
            mean number of pulls is infinite.
    """

    env: str
    n_agents: int
    target: float
    median: bool = False


SETTINGS = (
    Setting("ClusteredBAI-PaperSmall-v0", 300, 40),
    Setting("ClusteredBAI-PaperRandom-v0", 200, 50, median=True),
    Setting("ClusteredBAI-PaperFlat-v0", 1000, 12),
    Setting("ClusteredBAI-MovieLensLike-v0", 120, 8),
)


@dataclass(frozen=True)
class BeyondTable:
    """The comparison, setting by setting.

    Attributes:
        cells: a row a setting: env, n_agents, trials, errors_old, errors_new (wrong or unfinished trials), pulls_old,
            pulls_new (means, or medians where `statistic` says so), ratio, target, met, bound_ratio (our pulls over the
            instance's lower bound, geometric mean), cost_ratio and time_ratio (ours over BAI-Cl++'s), and shares of
            our pulls by phase.
        costs: a row per setting and policy: env, n_agents, policy, statistic, pulls, communication, seconds (median),
            errors (wrong or unfinished trials).
        trials: every trial, a row each.
        seed: root seed of the trials.
        made: "2026-05-01, version 0.1.0": date and version.
    """

    cells: pd.DataFrame
    costs: pd.DataFrame
    trials: pd.DataFrame
    seed: int
    made: str

    @property
    def met(self) -> bool:
        """Every target reached and no trial wrong or unfinished."""
        return bool(self.cells["met"].all())

    def to_markdown(self) -> str:
        """The table for a README."""
        heads = ["environment", "N", "trials", "BAI-Cl++", "StructuredBAI", "ratio", "errors", "vs bound"]
        rows = []
        for cell in self.cells.to_dict("records"):
            name = cell["env"].removeprefix("ClusteredBAI-").removesuffix("-v0")
            ratio = f"{cell['ratio']:,.0f}×" + (" (median)" if cell["statistic"] == "median" else "")
            texts = [name, cell["n_agents"], cell["trials"], number(cell["pulls_old"]), number(cell["pulls_new"])]
            texts += [ratio, f"{cell['errors_old']} / {cell['errors_new']}"]
            texts.append(f"{cell['bound_ratio']:.3g}×")
            rows.append([str(text) for text in texts])
        note = (
            f"Pulls at δ = {DELTA:g}: means over trials, and the ratio of the means; on PaperRandom medians, and the "
            "median of the trials' ratios. Same trials for both; errors: wrong or unfinished trials of "
            "BAI-Cl++ / StructuredBAI; vs bound: our pulls over the lower bound, geometric mean. "
            f"Made on {self.made}, seed {self.seed}."
        )
        return "\n".join([to_markdown(Table("", heads, rows)), "", note, "", self.costs_markdown()])

    def costs_markdown(self) -> str:
        """Pulls and communication of all policies."""
        heads = ["environment", "N", "policy", "pulls", "communication", "seconds", "errors"]
        rows = []
        for row in self.costs.to_dict("records"):
            name = row["env"].removeprefix("ClusteredBAI-").removesuffix("-v0")
            pulls = number(row["pulls"]) + (" (median)" if row["statistic"] == "median" else "")
            texts = [name, row["n_agents"], row["policy"], pulls, f"{row['communication']:,.0f}"]
            rows.append([str(text) for text in (*texts, f"{row['seconds']:.2g}", row["errors"])])
        note = (
            f"The same trials: mean pulls (medians where it says so), mean communication with c_b = 1 and c_r = 32, "
            f"median seconds of a trial, wrong or unfinished trials. Made on {self.made}, seed {self.seed}."
        )
        return "\n".join([to_markdown(Table("", heads, rows)), "", note])

    def plot(self, path: str | Path) -> None:
        """Pulls against communication, one panel per setting, one point per policy."""
        import matplotlib

        matplotlib.use("Agg", force=False)
        from matplotlib import pyplot as plt

        settings = list(dict.fromkeys(self.costs["env"]))
        figure, axes = plt.subplots(1, len(settings), figsize=(3.4 * len(settings), 3.3), squeeze=False)
        for ax, env in zip(axes[0], settings, strict=True):
            part = self.costs[self.costs["env"] == env]
            for place, row in enumerate(part.to_dict("records")):
                ax.scatter(row["communication"], row["pulls"], color=f"C{place}", label=row["policy"], zorder=3)
                ax.annotate(
                    row["policy"], (row["communication"], row["pulls"]), (4, 4), textcoords="offset points", size=7
                )
            ax.set(xscale="log", yscale="log", xlabel="communication", title=env.split("-")[1])
            ax.margins(x=0.35, y=0.15)
            ax.grid(alpha=0.3)
        axes[0][0].set_ylabel("pulls")
        figure.tight_layout()
        figure.savefig(path, dpi=130)
        plt.close(figure)

    def __str__(self) -> str:
        extra = [
            f"{cell['env']}: communication ×{cell['cost_ratio']:.3g}, time ×{cell['time_ratio']:.3g}; pulls "
            + ", ".join(f"{phase} {100 * share:.0f}%" for phase, share in cell["phases"].items())
            for cell in self.cells.to_dict("records")
        ]
        wanted = ", ".join(f"{cell['target']:g}×" for cell in self.cells.to_dict("records"))
        verdict = f"The ratios aimed at ({wanted}) are {'' if self.met else 'NOT all '}reached without errors."
        return "\n".join([self.to_markdown(), "", *extra, verdict])


def beyond_table(
    trials: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int = 1,
    progress: bool = True,
    settings: tuple[Setting, ...] = SETTINGS,
) -> BeyondTable:
    """Play the paper's schemes as printed, StructuredBAI and FrugalBAI on the same trials of each setting, and compare.

    Ctrl-C ends it without a table; the same call goes on from the trials in `out`.

    Args:
        trials: trials of each setting; instances are drawn afresh where the environment draws them.
        seed: root seed.
        out: folder for the trials, for `beyond.md` and for the picture `beyond.png`; a second call skips trials that
            are there.
        n_jobs: processes.
        progress: show a bar for each setting.
    """
    if trials < 1:
        raise UserError(f"trials must be at least 1, got {trials}")
    frames, cells, costs = [], [], []
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
        if board.missing:  # Ctrl-C: the trials are kept, but a table of some of them would be another table
            raise KeyboardInterrupt
        frame = board.trials[board.trials["trial"] < trials]
        frames.append(frame)
        cells.append(_cell(setting, frame))
        costs += [_costs(setting, name, frame[frame["policy"] == name]) for name in PLAYED]
    table = BeyondTable(pd.DataFrame(cells), pd.DataFrame(costs), pd.concat(frames, ignore_index=True), seed, _made())
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        (Path(out) / "beyond.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
        table.plot(Path(out) / "beyond.png")
    return table


def _costs(setting: Setting, name: str, rows: pd.DataFrame) -> dict[str, Any]:
    middle = np.median if setting.median else np.mean
    return {
        "env": setting.env,
        "n_agents": setting.n_agents,
        "policy": name,
        "statistic": "median" if setting.median else "mean",
        "pulls": float(middle(rows["pulls"])),
        "communication": float(rows["cost"].mean()),
        "seconds": float(rows["seconds"].median()),
        "errors": int((rows["outcome"] != "solved").sum()),
    }


def _cell(setting: Setting, frame: pd.DataFrame) -> dict[str, Any]:
    old, new = (frame[frame["policy"] == name].set_index("trial").sort_index() for name in (OLD, NEW))
    if not old.index.equals(new.index) or old.empty:
        raise UserError(f"{setting.env}: the two policies have not played the same trials; was the run interrupted?")
    paired = old["pulls"] / new["pulls"]
    middle = np.median if setting.median else np.mean
    pulls_old, pulls_new = float(middle(old["pulls"])), float(middle(new["pulls"]))
    ratio = float(np.median(paired)) if setting.median else pulls_old / pulls_new
    errors_old, errors_new = (int((part["outcome"] != "solved").sum()) for part in (old, new))
    bound = (new["pulls"] / new["bound"]).astype(float)
    phases = pd.DataFrame(new["pulls_by_phase"].tolist()).fillna(0).sum()
    return {
        "env": setting.env,
        "n_agents": setting.n_agents,
        "trials": len(new),
        "statistic": "median" if setting.median else "mean",
        "errors_old": errors_old,
        "errors_new": errors_new,
        "pulls_old": pulls_old,
        "pulls_new": pulls_new,
        "ratio": ratio,
        "target": setting.target,
        "met": bool(ratio >= setting.target and errors_new == 0),
        "bound_ratio": float(np.exp(np.log(bound).mean())),
        "cost_ratio": float(new["cost"].mean() / old["cost"].mean()),
        "time_ratio": float(new["seconds"].median() / old["seconds"].median()),
        "phases": (phases / phases.sum()).to_dict(),
    }


def _made() -> str:
    from clustered_bandit_gym._version import __version__

    return f"{datetime.date.today().isoformat()} with version {__version__}"
