"""The paper's figures as lists of settings. Where the paper leaves a setting out, the choice is ours and said here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

#: δ of all the paper's experiments.
DELTA = 1e-10

SCHEMES = ("naive", "cl-bai", "bai-cl", "bai-cl++")
CERTIFIED = ("bai-cl:confidence=certified", "bai-cl++:confidence=certified")
#: A further curve that is not the paper's: what the same problem takes with its structure used.
OURS = "structured-bai"
AT_AGENT = "bai-cl++:verify=agent"

#: Data set 2 is played on these fixed instances: over fresh ones the mean number of pulls is infinite.
INSTANCE_SEEDS = tuple(range(10))
#: Trials on each of them, as a share of the trials of other settings: pulls vary little on a fixed instance.
_SHARE = 5

_AGENTS = (20, 40, 200, 1000)
_ALPHAS = (0.0, 0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Figure:
    """One figure: an environment, the settings to play, and how to plot them.

    Attributes:
        cells: keywords of the environment, one dict a point.
        readings: further settings that the plot leaves out: another reading of what the paper says.
        x, measure: plotted setting and column.
        panel: a setting with one panel for each value; None for a single panel.
        source: where real data came from, or that a stand-in took its place; "" for synthetic figures.
        real: the paper's own data (or law), not a stand-in.
    """

    name: str
    title: str
    env: str
    cells: tuple[dict[str, Any], ...]
    policies: tuple[str, ...] = SCHEMES + CERTIFIED
    readings: tuple[dict[str, Any], ...] = ()
    x: str = "n_agents"
    measure: str = "pulls"
    panel: str | None = None
    source: str = ""
    real: bool = True
    notes: tuple[str, ...] = field(default=())

    def trials(self, trials: int) -> int:
        """Trials of one cell when `trials` are asked for."""
        return max(2, -(-trials // _SHARE)) if self.over_instances else trials

    @property
    def over_instances(self) -> bool:
        """Whether the cells are several fixed instances of the same settings."""
        return any("instance_seed" in cell for cell in self.cells)


@dataclass(frozen=True, eq=False)
class Played:
    """A figure and its rows: `rows` of the plotted settings, `readings` of the others."""

    figure: Figure
    rows: pd.DataFrame
    readings: pd.DataFrame


def _fig1a(data: str | None) -> Figure:
    sizes = (9, 30, 90, 300, 900)
    return Figure(
        "fig1a",
        "Data set 1 (M = 3, K = 10): pulls against N",
        "ClusteredBAI-PaperSmall-v0",
        tuple({"n_agents": n} for n in sizes),
        readings=tuple({"n_agents": n, "told": {"eta": "truth", "eta1": "truth"}} for n in sizes),
        notes=("The paper does not print the values of N; these are ours.",),
    )


def _dataset2() -> tuple[dict[str, Any], ...]:
    return tuple({"n_agents": n, "instance_seed": seed} for n in _AGENTS for seed in INSTANCE_SEEDS)


def _fig1b(data: str | None) -> Figure:
    return Figure(
        "fig1b",
        "Data set 2 (M = 20, K = 100, η = 0.15): pulls against N",
        "ClusteredBAI-PaperRandom-v0",
        _dataset2(),
        notes=(
            f"{len(INSTANCE_SEEDS)} fixed instances; points are medians over the instances of an instance's mean, bars "
            "their quartiles. The paper averages over runs and does not say whether the instance is drawn anew.",
        ),
    )


def _fig1c(data: str | None) -> Figure:
    return Figure(
        "fig1c",
        "Data set 3 (M = 20, K = 100, η = 0.15): pulls against N",
        "ClusteredBAI-PaperFlat-v0",
        tuple({"n_agents": n} for n in _AGENTS),
    )


def _fig1d(data: str | None) -> Figure:
    return Figure(
        "fig1d",
        "Data set 3, N = 100: pulls against η",
        "ClusteredBAI-PaperFlat-v0",
        tuple({"n_agents": 100, "eta": eta} for eta in (0.05, 0.1, 0.2, 0.5)),
        x="eta",
    )


def _fig1e(data: str | None) -> Figure:
    return Figure(
        "fig1e",
        "Data set 3, N = 500, cluster i with probability ∝ i^α: pulls against α",
        "ClusteredBAI-PaperFlat-v0",
        tuple(
            {"n_agents": 500, "n_clusters": m, "sizes": "power", "alpha": alpha}
            for m in (20, 100)
            for alpha in _ALPHAS
        ),
        x="alpha",
        panel="n_clusters",
        notes=("M = 20 is the commented-out passage's, M = 100 the text's.",),
    )


def _fig1f(data: str | None) -> Figure:
    env, extra, source, real = _with_data("movielens", "ClusteredBAI-MovieLens", data)
    sizes = (6, 12, 30, 102, 120)
    # η and η1 of the raw ratings 1..5, told of rewards that are half of them: the other reading of the paper's 0.0027.
    raw = {"eta": 0.0027, "eta1": 0.026}
    return Figure(
        "fig1f",
        "MovieLens-1M (M = 6, K = 316): pulls against N",
        env,
        tuple({"n_agents": n, **extra} for n in sizes),
        readings=tuple({"n_agents": n, "told": raw, "check": False, **extra} for n in sizes),
        source=source,
        real=real,
        notes=(
            "N = 102 is ours: the nearest to the “100 users” of the introduction with clusters of equal size.",
        ),
    )


def _fig_a_a(data: str | None) -> Figure:
    env, extra, source, real = _with_data("yelp", "ClusteredBAI-Yelp", data)
    return Figure(
        "figA-a",
        "Yelp (M = 4, K = 211): pulls against N",
        env,
        tuple({"n_agents": n, **extra} for n in (4, 12, 40, 100, 400)),
        source=source,
        real=real,
        notes=("The paper does not print the values of N; these are ours.",),
    )


def _fig_a_b(data: str | None) -> Figure:
    return Figure(
        "figA-b",
        "Data set 2: communication against N",
        "ClusteredBAI-PaperRandom-v0",
        _dataset2(),
        (*SCHEMES, AT_AGENT),
        measure="cost",
    )


def _fig_a_c(data: str | None) -> Figure:
    return Figure(
        "figA-c",
        "Data set 3: communication against N",
        "ClusteredBAI-PaperFlat-v0",
        tuple({"n_agents": n} for n in _AGENTS),
        (*SCHEMES, AT_AGENT),
        measure="cost",
    )


FIGURES: dict[str, Callable[[str | None], Figure]] = {
    "fig1a": _fig1a,
    "fig1b": _fig1b,
    "fig1c": _fig1c,
    "fig1d": _fig1d,
    "fig1e": _fig1e,
    "fig1f": _fig1f,
    "figA-a": _fig_a_a,
    "figA-b": _fig_a_b,
    "figA-c": _fig_a_c,
}


def _with_data(generator: str, env: str, data: str | None) -> tuple[str, dict[str, Any], str, bool]:
    """(environment, its keywords, what to say, real data?): the user's data where there are any, else the stand-in."""
    from clustered_bandit_gym.datasets import VARIABLE
    from clustered_bandit_gym.generators import make_generator

    try:
        make_generator(generator, data=data)
    except FileNotFoundError:
        stand_in = f"{env}Like-v0"
        return (
            stand_in,
            {},
            f"stand-in ({stand_in}): the real data were not found (--data, or {VARIABLE})",
            False,
        )
    place = os.environ.get(VARIABLE, "") if data is None else data
    return (
        f"{env}-v0",
        {} if data is None else {"data": data},
        f"real data ({os.path.basename(place)})",
        True,
    )
