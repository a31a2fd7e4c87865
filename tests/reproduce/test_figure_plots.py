"""The paper's figures, by their artists: captions, marks, medians over fixed instances."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.reproduce.figures import DELTA, Figure
from clustered_bandit_gym.reproduce.plots import plot
from clustered_bandit_gym.reproduce.run import with_settings

CELLS = tuple({"n_agents": n, "instance_seed": seed} for n in (4, 12) for seed in (0, 1, 2))
FIGURE = Figure("mine", "Data set 9: pulls against N", "ClusteredBAI-v0", CELLS, real=False)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    how = {"trials": 2, "delta": DELTA, "progress": False}
    board = cbg.sweep(["naive", "bai-cl"], FIGURE.env, cells=list(CELLS), **how)
    return with_settings(board.trials)


def heights(ax: object, policy: str) -> list[float]:
    """The marks of a policy, from left to right."""
    marker = style_of(policy).marker
    lines = [line for line in ax.lines if line.get_marker() == marker]  # type: ignore[attr-defined]
    return [float(y) for line in lines for y in line.get_ydata()]


def test_medians_over_fixed_instances(rows: pd.DataFrame, tmp_path: Path) -> None:
    canvas = plot(FIGURE, rows, tmp_path)
    assert (tmp_path / "mine.png").stat().st_size > 5000
    assert canvas.get_suptitle().replace("\n", " ") == (
        "Data set 9: pulls against N (stand-in, not the real data); δ = 1e-10, 6 trials of a scheme "
        "per mark; median over instances; visible bars: quartiles"
    )
    (ax,) = canvas.axes
    for policy in ("naive", "bai-cl"):
        own = rows[rows["policy"] == policy]
        means = own.groupby(["n_agents", "instance_seed"])["pulls"].mean()
        assert heights(ax, policy) == pytest.approx(means.groupby("n_agents").median().tolist())
    cost = plot(replace(FIGURE, measure="cost"), rows, tmp_path).axes[0]
    costs = rows[rows["policy"] == "naive"].groupby(["n_agents", "instance_seed"])["cost"].mean()
    assert heights(cost, "naive") == pytest.approx(costs.groupby("n_agents").median().tolist())


def test_means_and_verdicts(rows: pd.DataFrame, tmp_path: Path) -> None:
    one = rows[rows["instance_seed"] == 0].assign(instance_seed=None)
    one = one.assign(outcome=np.where(one["policy"] == "bai-cl", "wrong", one["outcome"]))
    figure = replace(FIGURE, cells=({"n_agents": 4}, {"n_agents": 12}), real=True)
    canvas = plot(figure, one, tmp_path)
    assert "mean; visible bars: 95% t interval" in canvas.get_suptitle().replace("\n", " ")
    means = one[one["policy"] == "naive"].groupby("n_agents")["pulls"].mean()
    assert heights(canvas.axes[0], "naive") == pytest.approx(means.tolist())
    labels = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert {"Naive", "BAI-Cl, FAIL", "crossed out: FAIL", "lower bound"} <= set(labels)
