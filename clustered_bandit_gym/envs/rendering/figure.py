"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
PAPER, CELL, INK, FAINT = "#fbfaf6", "#efece3", "#22303c", "#5f6a74"
LEADER, RIGHT, WRONG = "#f2a30f", "#2e9e5b", "#d3394c"

Frame = NDArray[np.uint8]


class Viewer:
    """Draws views of one size.

    What never changes is drawn once; a frame draws the rest on top of it. Up to 32 agents and arms
    every cell is a tile, whose area shows the share of pulls; beyond, a pixel of an image.
    """

    def __init__(self, problem: Problem, fps: float) -> None:
        from PIL import Image, ImageDraw

        self._fps = fps
        self._window: Any = None
        self._n, self._k = problem.n_agents, problem.n_arms
        self._tiled = max(self._n, self._k) <= 32
        # The map of agents and arms: 67 to 846 across, 122 to 560 down.
        self._x = np.linspace(67, 846, self._k + 1).tolist()
        self._y = np.linspace(122, 560, self._n + 1).tolist()
        self._wide, self._high = 779 / self._k, 438 / self._n
        #: (256, 3) colours of estimates from low to high.
        self._colours = _scale("#cbe2c3", "#52a9a3", "#1c4a78", "#15264a")
        self._still = Image.new("RGB", SIZE, PAPER)
        self._draw_still(ImageDraw.Draw(self._still), problem)

    def frame(self, view: View) -> Frame:
        """(H, W, 3) uint8."""
        from PIL import ImageDraw

        image = self._still.copy()
        pen = ImageDraw.Draw(image)
        low, high = self._draw_cells(image, pen, view)
        self._draw_leaders(pen, view)
        self._draw_bars(pen, view)
        if view.clusters is not None:
            self._draw_clusters(pen, view)
        if view.over:
            good = view.right is not None and bool(view.right.all())
            pen.rectangle((60, 15, 800, 55), fill=PAPER)
            _text(pen, 67, 35, view.verdict, 25, RIGHT if good else WRONG, bold=True)
        pulls = f"{int(view.pulls_per_agent.sum()):,} pulls"
        _text(pen, 1053, 35, pulls, 25, INK, "rm", bold=True)
        _text(pen, 1053, 67, f"communication {view.cost:,.0f} units", 16, FAINT, "rm")
        if view.pulls.any():
            _text(pen, 90, 604, f"≤ {low:.2f}", 13, INK, "rm")
            _text(pen, 292, 604, f"{high:.2f}", 13, INK)
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

    # --- what changes -----------------------------------------------------------------------------

    def _draw_cells(self, image: Any, pen: Any, view: View) -> tuple[float, float]:
        """Every estimate as a colour; returns the ends of the colour scale."""
        order = view.order
        means, shares = view.means[order], view.shares[order]
        pulled = view.pulls[order] > 0
        seen = means[pulled] if pulled.any() else np.zeros(1)
        # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
        low, high = float(np.quantile(seen, 0.1)), float(seen.max())
        level = np.clip((means - low) / ((high - low) or 1.0), 0, 1)
        colours = self._colours[(255 * level).astype(np.int64)]
        if self._tiled:
            # The area shows the share, but a colour needs some area to be visible.
            sides = 0.9 * np.sqrt(0.1 + 0.9 * shares)
            for row, column in np.ndindex(self._n, self._k):
                if pulled[row, column]:
                    tile = self._tile(row, column, float(sides[row, column]))
                    pen.rectangle(tile, fill=tuple(colours[row, column].tolist()))
                else:
                    pen.line(self._tile(row, column, 0.5), fill=FAINT)
        else:
            self._paste(image, colours, np.where(pulled, 0.43 + 0.57 * shares, 0.0))
        return low, high

    def _paste(self, image: Any, colours: Frame, strength: Floats) -> None:
        """The cells as pixels, mixed with the colour of an empty one."""
        from PIL import Image

        empty = _rgb(CELL)
        mixed = empty + strength[..., None] * (colours - empty)
        cells = Image.fromarray(mixed.astype(np.uint8))
        image.paste(cells.resize((779, 438), Image.Resampling.NEAREST), (67, 122))

    def _draw_leaders(self, pen: Any, view: View) -> None:
        """Frames around leading or recommended arms, stars at missed best ones, the last pull."""
        wide = max(2, round(min(self._wide, self._high) / 14)) if self._tiled else 2
        leaders = view.leaders.tolist()
        for row, agent in enumerate(view.order.tolist()):
            arm = leaders[agent]
            if arm < 0:
                continue
            colour = _verdict(view, agent, LEADER)
            pen.rectangle(self._tile(row, arm, 1.0), outline=colour, width=wide)
            if colour == WRONG and view.best is not None:
                x, y = self._centre(row, int(view.best[agent]))
                size = min(30, max(9, round(0.6 * min(self._wide, self._high))))
                _text(pen, x, y, "★", size, WRONG, "mm")
        if view.last is not None and not view.over:
            x, y = self._centre(*view.last)
            pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill="white", outline=INK)

    def _draw_bars(self, pen: Any, view: View) -> None:
        """Pulls of each agent, and after the end whether it was answered right."""
        most = max(int(view.pulls_per_agent.max()), 1)
        half = min(10.0, 0.25 * self._high) if self._tiled else self._high / 2
        for row, agent in enumerate(view.order.tolist()):
            _, y = self._centre(row, 0)
            length = 167 * int(view.pulls_per_agent[agent]) / most
            if length:
                pen.rectangle((885, y - half, 885 + length, y + half), fill="#8fb3bf")
            if view.right is not None and self._tiled:
                mark = "✓" if view.right[agent] else "✗"
                _text(pen, 1059, y, mark, 16, _verdict(view, agent, INK), bold=True)
        _text(pen, 1052, 573, f"max {most:,}", 13, FAINT, "rm")

    def _draw_clusters(self, pen: Any, view: View) -> None:
        """After the end rows are sorted by cluster: numbers of agents, a bracket for each cluster."""
        for cluster, top, bottom in view.brackets:
            first, last = self._y[top] + 3, self._y[bottom + 1] - 3
            points = [(852, first), (858, first), (858, last), (852, last)]
            pen.line(points, fill=INK, width=2)
            if last - first >= 11:
                _text(pen, 864, (first + last) / 2, str(cluster), 13, INK)
        pen.rectangle((20, 114, 65, 568), fill=PAPER)
        self._label_agents(pen, view.order)

    # --- what stays -------------------------------------------------------------------------------

    def _draw_still(self, pen: Any, problem: Problem) -> None:
        """Titles, numbers of arms and agents, empty cells and the key."""
        clusters = "M hidden" if problem.n_clusters is None else f"M = {problem.n_clusters}"
        told = f"N = {self._n:,} agents   K = {self._k:,} arms   {clusters} clusters"
        told += f"   δ = {problem.delta:g}"
        if problem.eta is not None and np.isfinite(problem.eta):
            told += f"   η = {problem.eta:.3g}"
        _text(pen, 67, 35, "Which arm is best for whom?", 25, INK, bold=True)
        _text(pen, 67, 67, told, 16, FAINT)
        _text(pen, 456, 92, "arm", 14, FAINT, "mm")
        _text(pen, 12, 576, "agent", 13, FAINT)
        _text(pen, 885, 107, "pulls per agent", 14, FAINT)
        for arm in _ticks(self._k):
            x, _ = self._centre(0, arm)
            _text(pen, x, 111, str(arm), 13, FAINT, "mm")
        self._label_agents(pen, np.arange(self._n))
        if self._tiled:
            for row, column in np.ndindex(self._n, self._k):
                pen.rectangle(self._tile(row, column, 1.0), fill=CELL)
        for x, colour in enumerate(self._colours[np.linspace(0, 255, 190).astype(int)].tolist()):
            pen.line((96 + x, 597, 96 + x, 611), fill=tuple(colour))
        _text(pen, 191, 624, "estimated mean", 13, FAINT, "mm")
        word = "size" if self._tiled else "strength"
        _text(pen, 374, 604, f"{word}: share of the agent's pulls", 13, FAINT)
        _text(pen, 672, 604, "stroke: never pulled     ○ last pull", 13, FAINT)
        _text(pen, 672, 624, "★ missed best     ] true cluster, after the stop", 13, FAINT)
        key = {"leader": LEADER, "right": RIGHT, "wrong": WRONG}
        for x, (text, colour) in zip((374, 468, 556), key.items(), strict=True):
            pen.rectangle((x, 617, x + 13, 630), outline=colour, width=2)
            _text(pen, x + 20, 624, text, 13, FAINT)

    def _label_agents(self, pen: Any, order: Ints) -> None:
        """Numbers of the agents beside their rows."""
        for row in _ticks(self._n):
            _, y = self._centre(row, 0)
            _text(pen, 60, y, str(order[row]), 13, FAINT, "rm")

    def _centre(self, row: int, column: int) -> tuple[float, float]:
        return self._x[column] + self._wide / 2, self._y[row] + self._high / 2

    def _tile(self, row: int, column: int, scale: float) -> tuple[float, float, float, float]:
        """Corners of a tile that fills `scale` of its cell, up to a shape of 4 : 1."""
        x, y = self._centre(row, column)
        across = max(2.5, 0.47 * scale * min(self._wide, 4 * self._high))
        down = max(2.5, 0.47 * scale * min(self._high, 4 * self._wide))
        return x - across, y - down, x + across, y + down


def _verdict(view: View, agent: int, before: str) -> str:
    """The colour of an agent's answer; `before` the end."""
    if view.right is None:
        return before
    return RIGHT if view.right[agent] else WRONG


def _text(
    pen: Any,
    x: float,
    y: float,
    text: str,
    size: int,
    colour: str,
    anchor: str = "lm",
    bold: bool = False,
) -> None:
    """Text whose `anchor` (Pillow's code) is at (x, y)."""
    pen.text((x, y), text, fill=colour, font=_font(size, bold), anchor=anchor)


@cache
def _font(size: int, bold: bool) -> Any:
    """A font that ships with Matplotlib and has the marks; Matplotlib itself is not loaded."""
    from PIL import ImageFont

    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf" / name, size)


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
