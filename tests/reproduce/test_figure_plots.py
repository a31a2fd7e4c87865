"""The paper's figures, by their artists: looks, captions, verdicts, bars on log axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.markers import CARETDOWN

from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.reproduce.figures import Figure
from clustered_bandit_gym.reproduce.plots import plot


def rows_of(
    policy: str, pulls: list[float], outcome: str = "solved", **more: Any
) -> list[dict[str, Any]]:
    """The trials `pulls` at N = 10 and, ten times as many pulls, at N = 100."""
    base = {
        "policy": policy,
        "outcome": outcome,
        "delta": 1e-10,
        "seed": 0,
        "instance_seed": None,
        "bound": 5.0,
    }
    return [
        base | {"n_agents": n, "trial": t, "pulls": value * n / 10, "cost": 3.0 * n} | more
        for n in (10, 100)
        for t, value in enumerate(pulls)
    ]


FIGURE = Figure(
    "mine", "Data set 9: pulls against N", "E", ({"n_agents": 10}, {"n_agents": 100}), real=False
)


def test_looks_captions_and_verdicts(tmp_path: Path) -> None:
    even = [100.0, 101.0, 102.0]
    rows = pd.DataFrame(
        rows_of("naive", even)
        + rows_of("bai-cl", even, "wrong")
        + rows_of("cl-bai", [50.0, 51.0, 52.0], "budget")
    )
    canvas = plot(FIGURE, rows, tmp_path)
    assert (tmp_path / "mine.png").stat().st_size > 5000
    assert (tmp_path / "mine.svg").exists()
    title = canvas.get_suptitle().replace("\n", " ")
    assert title == (
        "Data set 9: pulls against N (stand-in, not the real data); δ = 1e-10, 3 trials per mark; "
        "mean; bar: 95% t interval"
    )
    labels = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert labels[:3] == ["Naive", "Cl-BAI, 6 of 6 unfinished", "BAI-Cl, FAIL"]
    assert {"hollow: some trials unfinished", "crossed out: FAIL", "lower bound"} <= set(labels)
    (ax,) = canvas.axes
    marks = [line for line in ax.lines if line.get_linestyle() == "None"]
    faces = {line.get_marker(): line.get_markerfacecolor() for line in marks}
    assert faces["s"] == style_of("naive").colour
    assert faces["^"] == "white"
    for marker in "xo":
        at = [line.get_xdata()[0] for line in marks if line.get_marker() == marker]
        assert at == [10, 100]


def test_bars_stay_inside_the_log_axis(tmp_path: Path) -> None:
    canvas = plot(
        FIGURE,
        pd.DataFrame(rows_of("naive", [1.0, 90.0]) + rows_of("bai-cl", [40.0, 41.0])),
        tmp_path,
    )
    (ax,) = canvas.axes
    bottom, top = ax.get_ylim()
    segments = [segment for bars in ax.containers for segment in bars[2][0].get_segments()]
    assert len(segments) == 4
    assert all(bottom < low <= high < top for (_, low), (_, high) in segments)
    carets = [line for line in ax.lines if line.get_marker() == CARETDOWN and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in carets] == [[10, 100]]
    assert np.all(carets[0].get_ydata() > bottom)
