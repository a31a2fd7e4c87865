"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints, Values
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
PAPER = (251, 250, 246)
INK = (34, 48, 60)
BAR = (143, 179, 191)
LEADER = (242, 163, 15)
BEST = (46, 158, 91)
WRONG = (211, 57, 76)
#: The map of agents (rows) and arms (columns).
LEFT = 67
TOP = 122
WIDTH = 779
HEIGHT = 438
#: Cells without pulls, with the lowest and with the highest estimate.
CELL, LOW, HIGH = np.array([(239, 236, 227), (203, 226, 195), (28, 74, 120)])
KEY = "dark: high estimate   amber: the arm that leads   green: the best arm   red: a wrong answer"

Frame = NDArray[np.uint8]


def draw_frame(
    problem: Problem, pulls: Ints, means: Floats, info: Values, arms: Ints | None = None
) -> Frame:
    """(H, W, 3) uint8: a map of agents and arms, pulls of each agent, and the outcome.

    Args:
        pulls, means: (N, K) the observation.
        info: of the last step.
        arms: (N,) the arms recommended at the end, −1 for none; None before the end.
    """
    n, k = pulls.shape
    # The edges of cells, in pixels.
    x = np.linspace(LEFT, LEFT + WIDTH, k + 1).astype(int).tolist()
    y = np.linspace(TOP, TOP + HEIGHT, n + 1).astype(int).tolist()
    high = y[1] - y[0]
    told = (
        f"{n} agents, {k} arms, clusters: {problem.n_clusters or 'hidden'}, delta {problem.delta:g}"
    )
    if arms is None:
        title = "Which arm is best for whom?"
    elif arms[0] < 0:
        title = "Out of pulls: nothing recommended"
    else:
        title = f"{info['wrong_agents']} of {n} agents wrong"
    # Cells, marks and bars by NumPy: a whole image of Pillow takes three times as long.
    frame = _empty_frame(n, k, title, told).copy()
    rows = np.repeat(_colours(pulls, means), np.diff(x), axis=1)
    frame[TOP : TOP + HEIGHT, LEFT : LEFT + WIDTH] = np.repeat(rows, np.diff(y), axis=0)
    width = 4 if high > 12 else 2
    for colour, marked in marks(pulls, means, info, arms):
        for agent, arm in enumerate(marked.tolist()):
            if arm >= 0:
                cell = frame[y[agent] : y[agent + 1], x[arm] : x[arm + 1]]
                cell[:width] = cell[-width:] = cell[:, :width] = cell[:, -width:] = colour
    per_agent = info["pulls_per_agent"]
    most = per_agent.max(initial=1)
    for agent, count in enumerate(per_agent.tolist()):
        bar = frame[y[agent] + high // 6 : y[agent + 1] - high // 6]
        bar[:, 885 : 885 + 167 * count // most] = BAR
    cost = info["communication"]["cost"]
    made = int(per_agent.sum())
    spent = f"{made:,} pull{'s' * (made != 1)}, communication {cost:,.0f} units"
    _write(frame, LEFT + WIDTH, 72, spent, 16, "rm")
    _write(frame, 885, 111, f"pulls per agent, at most {most:,}")
    return frame


def marks(pulls: Ints, means: Floats, info: Values, arms: Ints | None) -> list[tuple[Any, Ints]]:
    """Colours, and for each (N,) the arms it marks, −1 for none; arguments as for `draw_frame`."""
    if arms is None:
        seen = np.where(pulls > 0, means, -np.inf)
        return [(LEADER, np.where(pulls.any(axis=1), seen.argmax(axis=1), -1))]
    wrong = np.where(info["agent_correct"], -1, arms)
    return [(BEST, info["best_arms"]), (WRONG, wrong)]


@lru_cache(maxsize=16)
def _empty_frame(n: int, k: int, title: str, told: str) -> Frame:
    """What most frames of a play share; to write it takes longer than to draw all the rest."""
    frame = np.full((SIZE[1], SIZE[0], 3), PAPER, dtype=np.uint8)
    _write(frame, LEFT, 35, title, 25)
    _write(frame, LEFT, 72, told, 16)
    _write(frame, LEFT, 600, KEY)
    # Every arm and agent has its number; of many, about 26 have.
    for arm in range(0, k, -(-k // 26)):
        _write(frame, LEFT + (arm + 0.5) * WIDTH / k, 111, str(arm), anchor="mm")
    for agent in range(0, n, -(-n // 26)):
        _write(frame, 45, TOP + (2 * agent + 1) * HEIGHT // (2 * n), str(agent), anchor="mm")
    return frame


def _write(frame: Frame, x: float, y: int, text: str, size: int = 13, anchor: str = "lm") -> None:
    """Write `text` with its `anchor` (Pillow's code) at (x, y)."""
    from PIL import Image, ImageDraw

    strip = frame[y - size : y + size]
    image = Image.fromarray(strip)
    ImageDraw.Draw(image).text((x, size), text, INK, _font(size), anchor)
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
    low = np.quantile(seen, 0.1)
    high = seen.max()
    level = np.clip((means - low) / ((high - low) or 1.0), 0, 1)[..., None]
    colours = np.where(pulled[..., None], LOW + level * (HIGH - LOW), CELL)
    return np.asarray(colours, dtype=np.uint8)


class Window:
    """A window of Matplotlib that shows frames; where none can be shown, it warns once."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt

        self._plt = plt
        self._figure = plt.figure(figsize=[side / 100 for side in SIZE], dpi=100)
        self._visible = self._figure.canvas.required_interactive_framework is not None
        if not self._visible:
            warnings.warn(
                "render_mode='human' cannot open a window: Matplotlib has no interactive backend "
                "here; use render_mode='rgb_array' with RecordVideo",
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
