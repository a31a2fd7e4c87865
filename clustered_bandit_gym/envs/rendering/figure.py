"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
PAPER, INK, FAINT, BAR = "#fbfaf6", "#22303c", "#5f6a74", "#8fb3bf"
LEADER, RIGHT, WRONG = "#f2a30f", "#2e9e5b", "#d3394c"
#: The map of agents and arms: left, top, right, bottom.
MAP = (67, 122, 846, 560)
#: Cells without pulls, with the lowest and with the highest estimate.
CELL, LOW, HIGH = (239, 236, 227), (203, 226, 195), (28, 74, 120)

Frame = NDArray[np.uint8]


class Viewer:
    """Draws views of one size: a map of agents and arms, pulls of each agent, and the verdict.

    The colour of a cell shows the estimate. What never changes is drawn once; a frame draws the
    rest on top of it.
    """

    def __init__(self, problem: Problem, fps: float) -> None:
        from PIL import Image, ImageDraw, ImageFont

        self._fps = fps
        self._window: Any = None
        self._fonts = {size: ImageFont.load_default(size) for size in (13, 16, 25)}
        n, k = problem.n_agents, problem.n_arms
        self._x = np.linspace(MAP[0], MAP[2], k + 1).tolist()
        self._y = np.linspace(MAP[1], MAP[3], n + 1).tolist()
        self._still = Image.new("RGB", SIZE, PAPER)
        pen = ImageDraw.Draw(self._still)
        clusters = "hidden" if problem.n_clusters is None else f"{problem.n_clusters:,}"
        told = f"agents {n:,}   arms {k:,}   clusters {clusters}   delta {problem.delta:g}"
        self._text(pen, 67, 67, told, 16, FAINT)
        self._text(pen, 456, 92, "arm", 13, FAINT, "mm")
        self._text(pen, 12, 576, "agent", 13, FAINT)
        self._text(pen, 885, 107, "pulls per agent", 13, FAINT)
        # Every arm and agent has its number; of many, about 26 have.
        for arm in range(0, k, -(-k // 26)):
            middle = (self._x[arm] + self._x[arm + 1]) / 2
            self._text(pen, middle, 111, str(arm), 13, FAINT, "mm")
        for agent in range(0, n, -(-n // 26)):
            middle = (self._y[agent] + self._y[agent + 1]) / 2
            self._text(pen, 60, middle, str(agent), 13, FAINT, "rm")
        key = "dark: high estimate   amber: leads   green: right   red: wrong, dot: the best arm"
        self._text(pen, 67, 610, key, 13, FAINT)

    def frame(self, view: View) -> Frame:
        """(H, W, 3) uint8."""
        from PIL import Image, ImageDraw

        image = self._still.copy()
        cells = Image.fromarray(_colours(view))
        size = (MAP[2] - MAP[0], MAP[3] - MAP[1])
        image.paste(cells.resize(size, Image.Resampling.NEAREST), MAP[:2])
        pen = ImageDraw.Draw(image)
        most = max(int(view.pulls_per_agent.max()), 1)
        for agent in range(len(view.pulls)):
            self._draw_agent(pen, view, agent, most)
        good = view.right is not None and bool(view.right.all())
        title = view.verdict or "Which arm is best for whom?"
        colour = INK if not view.verdict else RIGHT if good else WRONG
        self._text(pen, 67, 35, title, 25, colour)
        self._text(pen, 1053, 35, f"{view.pulls_per_agent.sum():,} pulls", 25, INK, "rm")
        self._text(pen, 1053, 67, f"communication {view.cost:,.0f} units", 16, FAINT, "rm")
        self._text(pen, 1052, 573, f"max {most:,}", 13, FAINT, "rm")
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

    def _draw_agent(self, pen: Any, view: View, agent: int, most: int) -> None:
        """A bar of pulls, a frame around the leading or recommended arm, a dot at a missed best."""
        top, bottom = self._y[agent], self._y[agent + 1]
        middle, high = (top + bottom) / 2, bottom - top
        length = 167 * int(view.pulls_per_agent[agent]) / most
        if length:
            pen.rectangle((885, middle - high / 3, 885 + length, middle + high / 3), fill=BAR)
        arm = int(view.leaders[agent])
        if arm < 0:
            return
        colour = LEADER
        if view.right is not None:
            colour = RIGHT if view.right[agent] else WRONG
        box = (self._x[arm], top, self._x[arm + 1], bottom)
        pen.rectangle(box, outline=colour, width=4 if high > 12 else 2)
        if colour == WRONG and view.best is not None:
            best = int(view.best[agent])
            x = (self._x[best] + self._x[best + 1]) / 2
            pen.ellipse((x - 4, middle - 4, x + 4, middle + 4), fill=WRONG)

    def _text(
        self, pen: Any, x: float, y: float, text: str, size: int, colour: str, anchor: str = "lm"
    ) -> None:
        """Text whose `anchor` (Pillow's code) is at (x, y)."""
        pen.text((x, y), text, fill=colour, font=self._fonts[size], anchor=anchor)


def _colours(view: View) -> Frame:
    """(N, K, 3) the colour of every estimate."""
    pulled = view.pulls > 0
    seen = view.means[pulled] if pulled.any() else np.zeros(1)
    # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
    low, high = np.quantile(seen, 0.1), seen.max()
    level = np.clip((view.means - low) / ((high - low) or 1.0), 0, 1)[..., None]
    estimates = np.array(LOW) + level * (np.array(HIGH) - np.array(LOW))
    return np.where(pulled[..., None], estimates, CELL).astype(np.uint8)


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
        "use render_mode='rgb_array' with RecordVideo",
        UserWarning,
        stacklevel=4,
    )
    return False
