"""Figures of a run, kept as JSON, and the page made from them."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import Figure
from clustered_bandit_gym import __version__

_PAGE = """# Speed and memory

`make bench` prints these figures. `python -m benchmarks --out docs/results/bench.json` prints them, keeps them and
makes this page. Most are ratios of two times taken in one run, because absolute times say more about the machine than
about the code.
"""


def keep(path: Path, module: str, figures: list[Figure]) -> None:
    """Enter the figures of a module into the JSON file, and make the page beside it anew."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    stored[module] = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "version": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 1),
        "figures": [asdict(figure) for figure in figures],
    }
    path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(render(stored), encoding="utf-8")


def render(stored: dict[str, Any]) -> str:
    """The page, from the content of the JSON file."""
    parts = [_PAGE]
    for module, run in sorted(stored.items()):
        where = f"{run['machine']}, load average {run['load']}"
        parts.append(
            f"## {module}\n\nMeasured on {run['date']} with version {run['version']} ({where}).\n"
        )
        lines = ["| figure | measured | target | met |", "|---|---|---|---|"]
        for one in run["figures"]:
            figure = Figure(**one)
            target = (
                ""
                if figure.target is None
                else f"{figure.sense} {figure.target:.4g} {figure.unit}".strip()
            )
            met = "" if figure.target is None else "yes" if figure.ok else "**no**"
            lines.append(
                f"| {figure.name} | {f'{figure.value:.4g} {figure.unit}'.strip()} | {target} | {met} |"
            )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
