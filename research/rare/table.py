"""What policies' error probabilities are when δ is asked for: a table at δ = 1e-10, a figure over
all δ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym.harness.identity import versions
from clustered_bandit_gym.harness.run import progress_bar
from research.rare import keep, kept, rare
from research.rare.page import figure_of, page_of

DELTA = 1e-10
#: δ of the figure. The first and the last are searched from scratch.
DELTAS = (0.3, 1e-2, 1e-4, 1e-7, DELTA)
N_AGENTS = 9
SMALL, NEAR_TIE = "ClusteredBAI-PaperSmall-v0", "ClusteredBAI-NearTie-v0"


class Effort(NamedTuple):
    """Plays of an estimate, plays in a round of a search, independent searches, rounds of a search."""

    trials: int
    search_plays: int
    searches: int
    rounds: int


#: A play of the paper's schemes takes milliseconds, one of the others ten to fifty times as long.
FAST, SLOW = Effort(500, 48, 3, 5), Effort(150, 18, 2, 4)
#: Rounds of a search that starts from the ways found at both ends of the range of δ.
REFITS = 2

#: All policies of the registry whose error depends on δ. `learned` and `sb3` are left out: they
#: need a model, and stop by reward.
POLICIES: dict[str, Effort] = {
    "naive": FAST,
    "cl-bai": FAST,
    "bai-cl": FAST,
    "bai-cl:confidence=certified": FAST,
    "bai-cl++": FAST,
    "bai-cl++:confidence=certified": FAST,
    "naive:engine=mixture": SLOW,
    "naive:engine=lucb": SLOW,
    "structured-bai": SLOW,
    "frugal-bai": SLOW,
    "naive:engine=track-and-stop": SLOW,
    "uniform-glr": SLOW,
}
#: Baselines that do not look at δ: in the table only.
BASELINES: dict[str, Effort] = {"uniform": FAST, "random": FAST}


class Task(NamedTuple):
    """One measurement."""

    policy: str
    env: str
    delta: float
    effort: Effort


def tasks(policies: Sequence[str] | None = None) -> list[Task]:
    """All measurements: those of the table, the other end of the figure, and what lies between."""
    efforts = POLICIES | BASELINES
    chosen = list(efforts) if policies is None else list(policies)
    table = [Task(p, env, DELTA, efforts.get(p, SLOW)) for env in (SMALL, NEAR_TIE) for p in chosen]
    swept = [p for p in chosen if p not in BASELINES]
    order = (DELTAS[0], *reversed(DELTAS[1:-1]))
    return table + [Task(p, SMALL, d, efforts.get(p, SLOW)) for d in order for p in swept]


def rare_table(
    out: str | Path,
    policies: Sequence[str] | None = None,
    seed: int = 0,
    *,
    keep_old: bool = False,
    progress: bool = True,
) -> tuple[Path, Path]:
    """Measure what is missing in `out` and write `rare.md` and `rare.png` there.

    The files are written anew after every measurement and name what is still missing; an
    interrupted run resumes. Rows of other versions of the code or of its libraries are measured
    again, unless `keep_old` says otherwise; the table shows the version of each row.

    Returns:
        The paths of the table and of the figure.
    """
    folder = Path(out)
    wanted = tasks(policies)
    version = None if keep_old else versions()
    with progress_bar(
        total=len(wanted), desc="rare errors", unit="setting", disable=not progress
    ) as bar:
        for task in wanted:
            rows = kept(folder)
            if find(rows, task, seed, version) is None:
                keep(measure(task, seed, rows, version), folder)
                write_results(folder, wanted, seed, version)
            bar.update()
    return write_results(folder, wanted, seed, version)


def write_results(
    folder: Path, wanted: Sequence[Task], seed: int, version: str | None
) -> tuple[Path, Path]:
    """Write `rare.md` and `rare.png` from the rows in `folder`; their paths."""
    rows = kept(folder)
    measured: list[tuple[Task, dict[str, Any]]] = []
    missing: dict[str, list[str]] = {}
    for task in wanted:
        row = find(rows, task, seed, version)
        if row is None:
            missing.setdefault(f"on {task.env} at δ = {task.delta:g}", []).append(
                f"`{task.policy}`"
            )
        else:
            measured.append((task, row))
    table = folder / "rare.md"
    figure = folder / "rare.png"
    at_end = [row for task, row in measured if task.delta == DELTA]
    table.write_text(page_of(at_end, seed, DELTA, N_AGENTS, missing), encoding="utf-8")
    figure_of(
        [row for task, row in measured if task.env == SMALL and task.policy not in BASELINES],
        figure,
        N_AGENTS,
    )
    return table, figure


def measure(task: Task, seed: int, rows: list[dict[str, Any]], version: str | None) -> Any:
    """One measurement.

    Between the ends of the range of δ it starts from the ways that `rows` found at the ends.
    """
    trials, search_plays, searches, rounds = task.effort
    start: list[list[dict[str, Any]]] = []
    if task.delta not in (DELTAS[0], DELTAS[-1]):
        ends = [
            find(rows, task._replace(delta=delta), seed, version)
            for delta in (DELTAS[0], DELTAS[-1])
        ]
        lists = [row.get("families", []) for row in ends if row is not None]
        # Search s starts from what search s found at both ends: the searches stay independent of
        # each other.
        start = [
            [way for found in lists if s < len(found) for way in found[s]] for s in range(searches)
        ]
        rounds = REFITS if all(start) else rounds
    return rare(
        task.policy,
        task.env,
        trials,
        seed,
        searches=searches,
        search_plays=search_plays,
        rounds=rounds,
        start_from=start,
        n_agents=N_AGENTS,
        delta=task.delta,
    )


def find(
    rows: list[dict[str, Any]], task: Task, seed: int, version: str | None = None
) -> dict[str, Any] | None:
    """The newest row of a task; with `version`, of that version of the code."""
    for row in reversed(rows):
        same = (row["policy"], row["env"], row["n_agents"], row["delta"], row["seed"])
        if same == (task.policy, task.env, N_AGENTS, task.delta, seed) and version in (
            None,
            row["version"],
        ):
            return row
    return None
