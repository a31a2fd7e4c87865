"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
PAPER, CELL, INK, FAINT = "#fbfaf6", "#efece3", "#22303c", "#5f6a74"
LEADER, RIGHT, WRONG = "#f2a30f", "#2e9e5b", "#d3394c"
#: The map of agents and arms: left, top, right, bottom.
MAP = (67, 122, 846, 560)

Frame = NDArray[np.uint8]


class Viewer:
    """Draws views of one size: a map of agents and arms, pulls of each agent, and the verdict.

    The colour of a cell shows the estimate, its strength the share of the agent's pulls. What never
    changes is drawn once; a frame draws the rest on top of it.
    """

    def __init__(self, problem: Problem, fps: float) -> None:
        from PIL import Image, ImageDraw

        self._fps = fps
        self._window: Any = None
        self._n, self._k = problem.n_agents, problem.n_arms
        self._x = np.linspace(MAP[0], MAP[2], self._k + 1).tolist()
        self._y = np.linspace(MAP[1], MAP[3], self._n + 1).tolist()
        #: (256, 3) colours of estimates from low to high.
        self._colours = _scale("#cbe2c3", "#52a9a3", "#1c4a78", "#15264a")
        self._still = Image.new("RGB", SIZE, PAPER)
        self._draw_still(ImageDraw.Draw(self._still), problem)

    def frame(self, view: View) -> Frame:
        """(H, W, 3) uint8."""
        from PIL import ImageDraw

        image = self._still.copy()
        self._paste_cells(image, view)
        pen = ImageDraw.Draw(image)
        self._draw_agents(pen, view)
        if view.clusters is not None:
            pen.rectangle((20, 114, 65, 568), fill=PAPER)
            self._label_agents(pen, view.order)
            for row in np.flatnonzero(np.diff(view.clusters[view.order])).tolist():
                y = self._y[row + 1]
                pen.line((20, y, 1052, y), fill=INK, width=2)
        if view.verdict:
            good = view.right is not None and bool(view.right.all())
            pen.rectangle((60, 15, 800, 55), fill=PAPER)
            _text(pen, 67, 35, view.verdict, 25, RIGHT if good else WRONG)
        elif view.last is not None:
            x, y = self._centre(*view.last)
            pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill="white", outline=INK)
        pulls = f"{int(view.pulls_per_agent.sum()):,} pulls"
        _text(pen, 1053, 35, pulls, 25, INK, "rm")
        _text(pen, 1053, 67, f"communication {view.cost:,.0f} units", 16, FAINT, "rm")
        return np.array(image)

    def show(self, view: View) -> None:
        """Show the frame in a window; without a display, warn once."""
        if self._window is None:
            self._window = _open_window()
        if self._window is not False:
            image, pause = self._window
            image.set_data(self.frame(view))
            pause(1 / self._fps)

    def close(self) -> None:
        if self._window:
            import matplotlib.pyplot as plt

            plt.close(self._window[0].figure)
        self._window = None

    def _paste_cells(self, image: Any, view: View) -> None:
        """Every estimate as a colour, mixed with that of a cell without pulls."""
        from PIL import Image

        pulled = view.pulls > 0
        seen = view.means[pulled] if pulled.any() else np.zeros(1)
        # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
        low, high = np.quantile(seen, 0.1), seen.max()
        level = np.clip((view.means - low) / ((high - low) or 1.0), 0, 1)
        colours = self._colours[(255 * level).astype(np.int64)]
        strength = np.where(pulled, 0.4 + 0.6 * view.shares, 0)[..., None]
        mixed = _rgb(CELL) + strength * (colours - _rgb(CELL))
        cells = Image.fromarray(mixed[view.order].astype(np.uint8))
        size = (MAP[2] - MAP[0], MAP[3] - MAP[1])
        image.paste(cells.resize(size, Image.Resampling.NEAREST), MAP[:2])

    def _draw_agents(self, pen: Any, view: View) -> None:
        """Frames around leading or recommended arms, stars at missed best ones, bars of pulls."""
        most = max(int(view.pulls_per_agent.max()), 1)
        high = self._y[1] - self._y[0]
        for row, agent in enumerate(view.order.tolist()):
            _, y = self._centre(row, 0)
            length = 167 * int(view.pulls_per_agent[agent]) / most
            if length:
                half = min(10.0, high / 3)
                pen.rectangle((885, y - half, 885 + length, y + half), fill="#8fb3bf")
            arm = int(view.leaders[agent])
            if arm < 0:
                continue
            colour = LEADER
            if view.right is not None:
                colour = RIGHT if view.right[agent] else WRONG
            box = (self._x[arm], self._y[row], self._x[arm + 1], self._y[row + 1])
            pen.rectangle(box, outline=colour, width=4 if high > 12 else 2)
            if colour == WRONG and view.best is not None:
                x, y = self._centre(row, int(view.best[agent]))
                _text(pen, x, y, "★", max(9, min(30, round(high / 2))), WRONG, "mm")
        _text(pen, 1052, 573, f"max {most:,}", 13, FAINT, "rm")

    def _draw_still(self, pen: Any, problem: Problem) -> None:
        """Titles, numbers of arms and agents, and the key."""
        clusters = "M hidden" if problem.n_clusters is None else f"M = {problem.n_clusters}"
        told = f"N = {self._n:,} agents   K = {self._k:,} arms   {clusters} clusters"
        _text(pen, 67, 35, "Which arm is best for whom?", 25, INK)
        _text(pen, 67, 67, f"{told}   δ = {problem.delta:g}", 16, FAINT)
        _text(pen, 456, 92, "arm", 14, FAINT, "mm")
        _text(pen, 12, 576, "agent", 13, FAINT)
        _text(pen, 885, 107, "pulls per agent", 14, FAINT)
        for arm in _ticks(self._k):
            x, _ = self._centre(0, arm)
            _text(pen, x, 111, str(arm), 13, FAINT, "mm")
        self._label_agents(pen, np.arange(self._n))
        for x, colour in enumerate(self._colours[np.linspace(0, 255, 190).astype(int)].tolist()):
            pen.line((96 + x, 597, 96 + x, 611), fill=tuple(colour))
        _text(pen, 191, 624, "estimated mean, low to high", 13, FAINT, "mm")
        _text(pen, 374, 604, "strength: share of the agent's pulls     ○ last pull", 13, FAINT)
        _text(pen, 374, 624, "amber: leader   green: right   red: wrong, ★ missed best", 13, FAINT)

    def _label_agents(self, pen: Any, order: Ints) -> None:
        """Numbers of the agents beside their rows."""
        for row in _ticks(self._n):
            _, y = self._centre(row, 0)
            _text(pen, 60, y, str(order[row]), 13, FAINT, "rm")

    def _centre(self, row: int, column: int) -> tuple[float, float]:
        x = (self._x[column] + self._x[column + 1]) / 2
        return x, (self._y[row] + self._y[row + 1]) / 2


def _text(
    pen: Any, x: float, y: float, text: str, size: int, colour: str, anchor: str = "lm"
) -> None:
    """Text whose `anchor` (Pillow's code) is at (x, y)."""
    pen.text((x, y), text, fill=colour, font=_font(size), anchor=anchor)


@cache
def _font(size: int) -> Any:
    """A font that ships with Matplotlib and has the marks; Matplotlib itself is not loaded."""
    from PIL import ImageFont

    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return ImageFont.truetype(folder / "DejaVuSans.ttf", size)


def _rgb(colour: str) -> Ints:
    """(3,) of a colour like "#efece3"."""
    return np.array(list(bytes.fromhex(colour[1:])))


def _scale(*colours: str) -> Frame:
    """(256, 3) colours between the given ones."""
    anchors = np.array([_rgb(colour) for colour in colours])
    places = np.linspace(0, 255, len(colours))
    channels = [np.interp(np.arange(256), places, anchor) for anchor in anchors.T]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def _ticks(count: int) -> range:
    """Indices to label: all of a few, round steps of many."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)
    return range(0, count, next(step for step in steps if count <= 26 * step))


def _open_window() -> Any:
    """(image, pause) of a new window, False where none can be opened."""
    reason = "Matplotlib has no interactive backend here"
    try:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
        if figure.canvas.required_interactive_framework is not None:
            axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
            axes.set_axis_off()
            return axes.imshow(np.full((SIZE[1], SIZE[0], 3), 255, dtype=np.uint8)), plt.pause
        plt.close(figure)
    except Exception as error:  # every toolkit has exceptions of its own for a missing display
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"render_mode='human' cannot open a window ({reason}); "
        "use render_mode='rgb_array' with RecordVideo, or 'ansi'",
        UserWarning,
        stacklevel=4,
    )
    return False
