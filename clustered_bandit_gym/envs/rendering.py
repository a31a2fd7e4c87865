"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
PAPER, INK, BAR = (251, 250, 246), (34, 48, 60), (143, 179, 191)
LEADER, BEST, WRONG = (242, 163, 15), (46, 158, 91), (211, 57, 76)
#: The map of agents (rows) and arms (columns): left, top, right, bottom.
MAP = (67, 122, 846, 560)
#: Cells without pulls, with the lowest and with the highest estimate.
CELL, LOW, HIGH = (239, 236, 227), (203, 226, 195), (28, 74, 120)
KEY = "dark: high estimate   amber: the arm that leads   green: the best arm   red: a wrong answer"

Frame = NDArray[np.uint8]


class View(NamedTuple):
    """What a picture shows: what the centre has seen and, once the play is over, the truth.

    Attributes:
        pulls, means: (N, K) the observation.
        pulls_per_agent: (N,) all pulls, those the centre has not seen as well.
        cost: of the communication so far.
        outcome: `info` of the last step; None before the end.
        arms: (N,) the arms recommended at the end; None where nothing was.
    """

    problem: Problem
    pulls: Ints
    means: Floats
    pulls_per_agent: Ints
    cost: float
    outcome: dict[str, Any] | None = None
    arms: Ints | None = None

    @property
    def title(self) -> str:
        if self.outcome is None:
            return "Which arm is best for whom?"
        if self.arms is None:
            return "Out of pulls: nothing recommended"
        return f"{self.outcome['wrong_agents']} of {self.arms.size} agents wrong"

    @property
    def marks(self) -> list[tuple[tuple[int, int, int], Ints]]:
        """Colours, and for each (N,) the arms it marks; −1 for none."""
        if self.outcome is None:
            seen = np.where(self.pulls > 0, self.means, -np.inf)
            return [(LEADER, np.where(self.pulls.any(axis=1), seen.argmax(axis=1), -1))]
        marks = [(BEST, self.outcome["best_arms"])]
        if self.arms is not None:
            marks.append((WRONG, np.where(self.outcome["agent_correct"], -1, self.arms)))
        return marks


def draw_frame(view: View) -> Frame:
    """(H, W, 3) uint8: a map of agents and arms, pulls of each agent, and the outcome."""
    n, k = view.pulls.shape
    x, y = _edges(n, k)
    high = y[1] - y[0]
    clusters = view.problem.n_clusters or "hidden"
    told = f"{n} agents, {k} arms, clusters: {clusters}, delta {view.problem.delta:g}    "
    frame = _empty_frame(n, k, view.title, told).copy()
    rows = np.repeat(_colours(view.pulls, view.means), np.diff(x), axis=1)
    frame[y[0] : y[-1], x[0] : x[-1]] = np.repeat(rows, np.diff(y), axis=0)
    width = 4 if high > 12 else 2
    for colour, arms in view.marks:
        for agent, arm in enumerate(arms.tolist()):
            if arm >= 0:
                cell = frame[y[agent] : y[agent + 1], x[arm] : x[arm + 1]]
                cell[:width] = cell[-width:] = cell[:, :width] = cell[:, -width:] = colour
    most = max(int(view.pulls_per_agent.max()), 1)
    for agent, pulls in enumerate(view.pulls_per_agent.tolist()):
        bar = frame[y[agent] + high // 6 : y[agent + 1] - high // 6]
        bar[:, 885 : 885 + 167 * pulls // most] = BAR
    spent = f"{view.pulls_per_agent.sum():,} pulls, communication {view.cost:,.0f} units"
    _write(frame, x[0] + _font(16).getlength(told), 72, spent, 16)
    _write(frame, 885, 111, f"pulls per agent, at most {most:,}")
    return frame


@lru_cache(maxsize=16)
def _empty_frame(n: int, k: int, title: str, told: str) -> Frame:
    """What most frames of a play share; to write it takes longer than to draw all the rest."""
    frame = np.full((SIZE[1], SIZE[0], 3), PAPER, dtype=np.uint8)
    x, y = _edges(n, k)
    _write(frame, x[0], 35, title, 25)
    _write(frame, x[0], 72, told, 16)
    _write(frame, x[0], 600, KEY)
    # Every arm and agent has its number; of many, about 26 have.
    for arm in range(0, k, -(-k // 26)):
        _write(frame, (x[arm] + x[arm + 1]) / 2, 111, str(arm), anchor="mm")
    for agent in range(0, n, -(-n // 26)):
        _write(frame, 45, (y[agent] + y[agent + 1]) // 2, str(agent), anchor="mm")
    return frame


def _edges(n: int, k: int) -> tuple[list[int], list[int]]:
    """(K + 1) edges of the columns of arms and (N + 1) of the rows of agents, in pixels."""
    left, top, right, bottom = MAP
    x, y = np.linspace(left, right, k + 1), np.linspace(top, bottom, n + 1)
    return x.astype(int).tolist(), y.astype(int).tolist()


def _write(frame: Frame, x: float, y: int, text: str, size: int = 13, anchor: str = "lm") -> None:
    """Write `text` with its `anchor` (Pillow's code) at (x, y)."""
    from PIL import Image, ImageDraw

    strip = frame[y - size : y + size]
    image = Image.fromarray(strip)
    ImageDraw.Draw(image).text((x, size), text, fill=INK, font=_font(size), anchor=anchor)
    strip[:] = np.asarray(image)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _colours(pulls: Ints, means: Floats) -> Frame:
    """(N, K, 3) the colour of every estimate."""
    pulled = pulls > 0
    seen = means[pulled] if pulled.any() else np.zeros(1)
    # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
    low, high = np.quantile(seen, 0.1), seen.max()
    level = np.clip((means - low) / ((high - low) or 1.0), 0, 1)[..., None]
    estimates = np.array(LOW) + level * (np.array(HIGH) - np.array(LOW))
    return np.where(pulled[..., None], estimates, CELL).astype(np.uint8)


class Window:
    """A window of Matplotlib that shows frames; where none can be shown, it warns once."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt

        self._plt = plt
        self._figure = plt.figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
        self._visible = self._figure.canvas.required_interactive_framework is not None
        if not self._visible:
            warnings.warn(
                "render_mode='human' cannot open a window: Matplotlib has no interactive backend "
                "here; use render_mode='rgb_array' with RecordVideo",
                UserWarning,
                stacklevel=3,
            )

    def show(self, frame: Frame, seconds: float) -> None:
        """Show `frame` and wait."""
        if self._visible:
            self._figure.clear()
            self._figure.figimage(frame)
            self._plt.pause(seconds)

    def close(self) -> None:
        self._plt.close(self._figure)
