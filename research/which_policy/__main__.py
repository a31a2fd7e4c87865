"""Which policy takes the fewest pulls, over a grid of problems; writes the tables of a page.

Every cell is `cbg.study.plan`: random means with gaps in a range, clusters of equal size.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian
from clustered_bandit_gym.study import Plan, plan
from research.options import parser, run

#: Begin and end of the generated part of the page.
MARKS = ("<!-- begin grid -->\n", "\n<!-- end grid -->")
#: The paper's `naive` is left out: its pulls are far above those of the same with another engine.
POLICIES = (
    "naive:engine=mixture",
    "bai-cl:confidence=certified,engine=mixture",
    "structured-bai",
    "frugal-bai",
)
HIDDEN = {"n_clusters": None, "eta": None, "eta1": None}


class Cell(NamedTuple):
    """A problem of the grid."""

    law: str
    n_clusters: int
    n_arms: int
    gaps: tuple[float, float]
    n_agents: int
    told: bool


def grid(quick: bool) -> list[Cell]:
    """All cells, small ones first."""
    laws = ("0/1",) if quick else ("0/1", "normal")
    shapes = ((2, 3),) if quick else ((2, 3), (6, 10))
    gaps = ((0.2, 0.4),) if quick else ((0.2, 0.4), (0.05, 0.1))
    sizes = (10,) if quick else (10, 100, 500)
    return [
        Cell(law, m, k, gap, n, told)
        for law, (m, k), gap, n, told in product(laws, shapes, gaps, sizes, (True, False))
    ]


def play(cell: Cell, trials: int, seed: int) -> Plan:
    """What `plan` finds; normal rewards have the standard deviation of a coin."""
    return plan(
        cell.n_agents,
        cell.n_arms,
        cell.n_clusters,
        gaps=cell.gaps,
        rewards=Bernoulli() if cell.law == "0/1" else Gaussian(0.5),
        told=None if cell.told else HIDDEN,
        policies=POLICIES,
        trials=trials,
        seed=seed,
    )


def line(cell: Cell, found: Plan) -> str:
    """One line of the table."""
    pulls: dict[str, float] = dict(zip(found.table.policy, found.table.pulls, strict=True))
    busiest: dict[str, Any] = dict(
        zip(found.table.policy, found.table.pulls_max_agent, strict=True)
    )
    shown = [
        f"**{count:,.0f}**" if name == found.policy else f"{count:,.0f}" if count == count else "–"
        for name, count in ((name, pulls[name]) for name in POLICIES)
    ]
    most = f"{busiest[found.policy]:,.0f}" if found.policy else "–"
    gain = "–" if found.gain is None else f"{found.gain:.2g}"
    gaps = f"{cell.gaps[0]:g} to {cell.gaps[1]:g}"
    told = "M, η" if cell.told else "nothing"
    facts = (cell.law, gaps, cell.n_clusters, cell.n_arms, f"{cell.n_agents:,}", told)
    return "| " + " | ".join(map(str, (*facts, *shown, most, gain))) + " |"


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=3)
    options.add_argument("--quick", action="store_true", help="two small cells")
    options.add_argument("--page", type=Path, help="page whose generated part is replaced")
    given = options.parse_args(words)
    head = ("rewards", "gaps", "M", "K", "N", "told", *POLICIES, "busiest agent", "gain")
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * 3 + "---|" + "---:|" * 6]
    for cell in grid(given.quick):
        lines.append(line(cell, play(cell, given.trials, given.seed)))
        print(lines[-1], flush=True)
    if given.page is not None:
        text = given.page.read_text(encoding="utf-8")
        before, after = text.partition(MARKS[0])[0], text.partition(MARKS[1])[2]
        table = "\n".join(lines)
        given.page.write_text(before + MARKS[0] + table + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    run(main)
