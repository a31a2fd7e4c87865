"""The paper's figures as lists of settings.

Settings that the paper leaves out are our choice; the page of claims says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.datasets import VARIABLE
from clustered_bandit_gym.generators import make_generator

#: δ of all the paper's experiments.
DELTA = 1e-10
SCHEMES = ("naive", "cl-bai", "bai-cl", "bai-cl++")
#: An additional curve, not the paper's: what the same problem takes when its structure is used.
OURS = "structured-bai"
AT_AGENT = "bai-cl++:verify=agent"
#: Data set 2 is played on these fixed instances: over fresh ones the mean number of pulls is
#: infinite.
INSTANCE_SEEDS = tuple(range(10))

Cells = tuple[Values, ...]


def fifth(trials: int) -> int:
    """A fifth of the trials, at least the two that an interval needs."""
    return max(2, -(-trials // 5))


@dataclass(frozen=True)
class Figure:
    """One figure: an environment, the settings to play, and how to plot them.

    Attributes:
        cells: keywords of the environment, one dict per point.
        x, measure: plotted setting and column.
        panel: a setting with one panel for each value; None for a single panel.
        dataset: the real data set that the figure needs, "" for synthetic figures.
        source: where real data came from, or that a stand-in took its place.
        real: played on the paper's own data or law, not on a stand-in.
    """

    name: str
    title: str
    env: str
    cells: Cells
    policies: tuple[str, ...] = SCHEMES
    x: str = "n_agents"
    measure: str = "pulls"
    panel: str | None = None
    dataset: str = ""
    source: str = ""
    real: bool = True

    def trials(self, trials: int) -> int:
        """Trials of one cell: of `trials`, a fifth on each of several fixed instances."""
        return fifth(trials) if self.over_instances else trials

    @property
    def over_instances(self) -> bool:
        """Whether the cells are several fixed instances of the same settings."""
        return any("instance_seed" in cell for cell in self.cells)

    @property
    def keys(self) -> list[str]:
        """The settings that identify a point of the figure."""
        return [key for key in (self.x, self.panel) if key]

    def on(self, data: str | None) -> Figure:
        """The figure on the user's data, or on the stand-in if there are none."""
        if not self.dataset:
            return self
        try:
            make_generator(self.dataset, data=data)
        except FileNotFoundError:
            env = self.env.replace("-v0", "Like-v0")
            source = f"stand-in ({env}): the real data were not found (--data, or {VARIABLE})"
            return replace(self, env=env, source=source, real=False)
        cells = tuple(cell | ({"data": data} if data else {}) for cell in self.cells)
        return replace(self, cells=cells, source="real data")


@dataclass(frozen=True, eq=False)
class Played:
    """A figure and its rows, one per trial."""

    figure: Figure
    rows: pd.DataFrame


def _agents(*sizes: int) -> Cells:
    return tuple({"n_agents": size} for size in sizes)


_SIZES = (20, 40, 200, 1000)
_DATASET2 = tuple(
    {"n_agents": size, "instance_seed": seed} for size in _SIZES for seed in INSTANCE_SEEDS
)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "fig1a",
            "Data set 1 (M = 3, K = 10): pulls against N",
            "ClusteredBAI-PaperSmall-v0",
            _agents(9, 30, 90, 300, 900),
        ),
        Figure(
            "fig1b",
            "Data set 2 (M = 20, K = 100, η = 0.15): pulls against N",
            "ClusteredBAI-PaperRandom-v0",
            _DATASET2,
        ),
        Figure(
            "fig1c",
            "Data set 3 (M = 20, K = 100, η = 0.15): pulls against N",
            "ClusteredBAI-PaperFlat-v0",
            _agents(*_SIZES),
        ),
        Figure(
            "fig1d",
            "Data set 3, N = 100: pulls against η",
            "ClusteredBAI-PaperFlat-v0",
            tuple({"n_agents": 100, "eta": eta} for eta in (0.05, 0.1, 0.2, 0.5)),
            x="eta",
        ),
        Figure(
            "fig1e",
            "Data set 3, N = 500, cluster i with probability ∝ i^α: pulls against α",
            "ClusteredBAI-PaperFlat-v0",
            tuple(
                {"n_agents": 500, "n_clusters": m, "sizes": "power", "alpha": alpha}
                for m in (20, 100)
                for alpha in (0.0, 0.5, 1.0, 1.5, 2.0)
            ),
            x="alpha",
            panel="n_clusters",
        ),
        Figure(
            "fig1f",
            "MovieLens-1M (M = 6, K = 316): pulls against N",
            "ClusteredBAI-MovieLens-v0",
            _agents(6, 12, 30, 102, 120),
            dataset="movielens",
        ),
        Figure(
            "figA-a",
            "Yelp (M = 4, K = 211): pulls against N",
            "ClusteredBAI-Yelp-v0",
            _agents(4, 12, 40, 100, 400),
            dataset="yelp",
        ),
        Figure(
            "figA-b",
            "Data set 2: communication against N",
            "ClusteredBAI-PaperRandom-v0",
            _DATASET2,
            (*SCHEMES, AT_AGENT),
            measure="cost",
        ),
        Figure(
            "figA-c",
            "Data set 3: communication against N",
            "ClusteredBAI-PaperFlat-v0",
            _agents(*_SIZES),
            (*SCHEMES, AT_AGENT),
            measure="cost",
        ),
    )
}
