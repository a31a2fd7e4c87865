"""Fills the generated parts of README.md: `python docs/make_readme.py`, or `make readme`.

What stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is printed by the package or copied from the
results under docs/results, so that no number in the README is typed by hand. The tests compare.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


#: Policies of the board on the first screen.
SHOWN = (
    *("naive", "naive:engine=mixture", "cl-bai", "bai-cl", "bai-cl++"),
    *("structured-bai", "frugal-bai"),
)


def scoreboard(policies: Sequence[str] = SHOWN, trials: int = 100) -> str:
    """The board on the first screen, as `compare` prints it."""
    import clustered_bandit_gym as cbg

    board = cbg.evaluate(
        list(policies), "ClusteredBAI-PaperSmall-v0", delta=0.05, trials=trials, progress=False
    )
    title, pulls = board.to_text().split("\n\n")[:2]
    return f"```text\n{title}\n\n{pulls}\n```"


#: Policies of the leaderboard shown in the README: the paper's schemes among the best.
LEADERS = (
    *("structured-bai", "frugal-bai", "bai-cl++", "bai-cl", "cl-bai"),
    *("naive", "naive:engine=mixture"),
)


def claims() -> str:
    """How many of the paper's claims hold, from the page that `research.paper` has made."""
    page = (RESULTS / "claims.md").read_text(encoding="utf-8")
    summary = re.search(r"Of \d+ claims [^.]*\.", page)
    assert summary is not None
    return summary.group()


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def top_lines(folders: Sequence[Path], track: str = "told") -> str:
    """The order of a track as a Markdown table, class by class."""
    from clustered_bandit_gym.harness.output.escape import markdown
    from clustered_bandit_gym.harness.scoring.numbers import number
    from clustered_bandit_gym.suite.cells import TRACKS
    from clustered_bandit_gym.suite.leaderboard import load_all, standings

    submissions = load_all(folders)
    lines = [
        "| rank | policy | class | solved | pulls / lower bound | busiest agent | bits per agent "
        "| rounds |",
        "|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    for entry in standings(submissions):
        if entry["track"] != track or not entry["rank"]:
            continue
        low, high = number(entry["vs_bound_low"]), number(entry["vs_bound_high"])
        texts = [
            str(entry["rank"]),
            markdown(entry["policy"]),
            entry["class"],
            f"{entry['solved']}/{entry['cells']}",
            f"{number(entry['vs_bound'])} ({low} to {high})",
        ]
        texts += [number(entry[name]) for name in ("busiest", "bits_per_agent", "rounds")]
        lines.append(f"| {' | '.join(texts)} |")
    versions = ", ".join(sorted({one.metadata["package"] for one in submissions}))
    day = max(one.metadata["date"] for one in submissions)
    kind = "quick runs" if submissions[0].quick else "full runs"
    said = (
        f"Suite v2, track “{TRACKS[track]}”, {kind} of version {markdown(versions)}, {markdown(day)}. "
        f"Ranks are those among all {len(submissions)} submissions, by class."
    )
    return "\n".join([*lines, "", said])


def leaderboard() -> str:
    """The track “everything told” of the leaderboard, from the committed reference submissions."""
    from leaderboard import reference_folders

    lines = top_lines(reference_folders()).splitlines()
    shown = [line for line in lines[2:-2] if line.split("|")[2].strip() in LEADERS]
    return "\n".join([*lines[:2], *shown, *lines[-2:]])


def learned() -> str:
    """The learning curve, and what training adds to the rule that needs none."""
    tiny = json.loads((RESULTS / "learned.json").read_text(encoding="utf-8"))["tiny"]
    ratio, rule = tiny["ratio"], tiny["lines"]["rule"]["ratio"]
    n = len(tiny["models"])
    return (
        "![Return, error rate and pulls while PPO learns](docs/results/learned.png)\n\n"
        f"On `{tiny['settings']['env']}` PPO of [`examples/sb3_ppo.py`](examples/sb3_ppo.py) "
        f"[needs](docs/results/learned.md) {ratio['median']:.2f} times the pulls of uniform sampling "
        f"with a stop (`uniform-glr`) at its error rate (median of {n} seeds, {ratio['low']:.2f} to {ratio['high']:.2f}). "
        f"A stopping rule on the same features, without training, needs {rule:.2f}."
    )


#: Policies of the table "Past the paper" that the README shows.
PAST = ("bai-cl++", "structured-bai", "frugal-bai")


def beyond() -> str:
    """Pulls and communication of three policies, from the page that `python -m research.beyond` has made."""
    page = (RESULTS / "beyond.md").read_text(encoding="utf-8")
    head, _, *lines = page.strip().splitlines()
    names = _cells(head)
    rows: dict[str, dict[str, str]] = {}
    for line in lines[: lines.index("")]:
        cell = dict(zip(names, _cells(line), strict=True))
        text = f"{cell['pulls']} / {cell['communication']}"
        rows.setdefault(f"{cell['environment']}, N = {cell['N']}", {})[cell["policy"]] = text
    heads = "".join(f" `{name}` |" for name in PAST)
    table = [f"| pulls / communication |{heads}", "|---|" + "---:|" * len(PAST)]
    table += [
        f"| {setting} |" + "".join(f" {row[name]} |" for name in PAST)
        for setting, row in rows.items()
    ]
    made = re.search(r"on (\S+ with version .*)", page)
    assert made is not None
    return "\n".join(
        [*table, "", f"δ = 1e-10. [All policies](docs/results/beyond.md). Made on {made[1]}"]
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "scoreboard": scoreboard,
    "leaderboard": leaderboard,
    "claims": claims,
    "learned": learned,
    "beyond": beyond,
}


def fill(text: str, name: str, content: str) -> str:
    """`text` with the block `name` replaced."""
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
    if not pattern.search(text):
        raise ValueError(f"README.md has no block {name}")
    return pattern.sub(lambda found: f"{found.group(1)}{content}\n{found.group(2)}", text)


def main(names: list[str]) -> None:
    """Fill the blocks `names`, or all."""
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    for name in names or BLOCKS:
        text = fill(text, name, BLOCKS[name]())
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
