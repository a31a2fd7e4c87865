"""Pictures of a play: a frame or a window. Pillow is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
#: Up to this many agents and arms every cell is drawn as a square of its own; beyond, as a pixel of an image.
LARGEST_GRID = 32
#: The map of agents and arms, and the bars beside it: left, top, right, bottom in pixels.
MAP = (67, 122, 846, 560)
BARS = (885, 122, 1052, 560)

PAPER, CELL, LINE, INK, FAINT = "#fbfaf6", "#efece3", "#c3bfb2", "#22303c", "#5f6a74"
LEADER, RIGHT, WRONG = "#f2a30f", "#2e9e5b", "#d3394c"
BAR, RIGHT_BAR, WRONG_BAR = "#8fb3bf", "#8ccaa5", "#e79aa3"
SCALE = ("#cbe2c3", "#94cbb3", "#52a9a3", "#277a92", "#1c4a78", "#15264a")


class Viewer:
    """Draws views of one size. What never changes is drawn once; a frame draws the rest on top of it."""

    def __init__(self, problem: Problem, fps: float) -> None:
        from PIL import Image

        self._fps = fps
        self._n, self._k = problem.n_agents, problem.n_arms
        self._grid = max(self._n, self._k) <= LARGEST_GRID
        anchors = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in SCALE])
        places = np.linspace(0, 1, len(SCALE))
        levels = np.linspace(0, 1, 256)
        #: (256, 3) colours of estimates from low to high.
        self._colours = (
            np.stack([np.interp(levels, places, anchors[:, i]) for i in range(3)], axis=1)
            .round()
            .astype(np.uint8)
        )
        self._edges = (
            np.linspace(MAP[0], MAP[2], self._k + 1),
            np.linspace(MAP[1], MAP[3], self._n + 1),
        )
        self._fonts: dict[tuple[int, bool], Any] = {}
        self._words: dict[tuple[str, int, bool], Any] = {}
        self._window: Any = None
        still = Image.new("RGBA", SIZE, PAPER)
        self._draw_background(still, problem)
        self._still = np.array(still)

    def frame(self, view: View) -> np.ndarray:
        """(H, W, 3) uint8."""
        from PIL import Image, ImageDraw

        # Pillow draws into NumPy's memory: to convert an image takes as long as to draw it.
        pixels = self._still.copy()
        image = Image.frombuffer("RGBA", SIZE, pixels, "raw", "RGBA", 0, 1)
        image.readonly = 0
        pen = ImageDraw.Draw(image)
        order = view.order
        low, high = self._draw_cells(image, pen, view, order)
        right = None if view.right is None else view.right[order]
        self._draw_leaders(pen, view, order, right)
        self._draw_bars(pen, view, order, right)
        if view.clusters is not None:
            self._draw_brackets(pen, view)
        good = view.right is not None and bool(view.right.all())
        colour = INK if not view.over else RIGHT if good else WRONG
        title = view.verdict or "Which arm is best for whom?"
        self._text(pen, 67, 35, title, 25, colour, bold=True)
        pulls = f"{int(view.pulls_per_agent.sum()):,} pulls"
        self._text(pen, 1053, 35, pulls, 25, INK, "rm", bold=True)
        self._text(pen, 1053, 67, f"communication {view.cost:,.0f} units", 16, FAINT, "rm")
        if low is not None:
            self._text(pen, 90, 604, f"≤ {low:.2f}", 13, INK, "rm")
            self._text(pen, 292, 604, f"{high:.2f}", 13, INK)
        return np.ascontiguousarray(pixels[:, :, :3])

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

    # --- what changes ------------------------------------------------------------------------------------------------

    def _draw_cells(self, image: Any, pen: Any, view: View, order: Ints) -> tuple[Any, Any]:
        """Every estimate as a colour, by its size the share of pulls; returns the ends of the colour scale."""
        pulls, means, shares = view.pulls[order], view.means[order], view.shares[order]
        pulled = pulls > 0
        low = high = None
        level: Ints = np.zeros(pulls.shape, dtype=np.int64)
        if pulled.any():
            # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
            low, high = float(np.quantile(means[pulled], 0.1)), float(means[pulled].max())
            level = (255 * np.clip((means - low) / ((high - low) or 1.0), 0, 1)).astype(np.int64)
        colours = self._colours[level]
        if not self._grid:
            from PIL import Image

            strength = np.where(pulled, 0.43 + 0.57 * shares, 0.0)[..., None]
            paper = np.array([int(PAPER[i : i + 2], 16) for i in (1, 3, 5)])
            blend = (paper + strength * (colours - paper)).astype(np.uint8)
            width, height = MAP[2] - MAP[0], MAP[3] - MAP[1]
            columns = np.arange(width) * self._k // width
            rows = np.arange(height) * self._n // height
            image.paste(Image.fromarray(blend[rows[:, None], columns]), MAP[:2])
            return low, high
        # The area shows the share, but a colour needs some area to be visible.
        sides = np.sqrt(0.1 + 0.9 * shares)
        for row in range(self._n):
            for column in range(self._k):
                if pulled[row, column]:
                    colour = tuple(colours[row, column].tolist())
                    pen.rectangle(self._tile(row, column, 0.9 * sides[row, column]), fill=colour)
                else:
                    pen.line(self._tile(row, column, 0.5), fill=LINE)
        return low, high

    def _draw_leaders(self, pen: Any, view: View, order: Ints, right: np.ndarray | None) -> None:
        """Frames around the leading or recommended arms, stars at missed best arms, a dot at the last pull."""
        wide = max(2, round(min(self._pitch) / 14)) if self._grid else 2
        for row, arm in enumerate(view.leaders[order].tolist()):
            if arm < 0:
                continue
            wrong = right is not None and not right[row]
            colour = LEADER if right is None else WRONG if wrong else RIGHT
            pen.rectangle(self._tile(row, arm, 1.0), outline=colour, width=wide)
            if wrong and view.best is not None:
                x, y = self._centre(row, int(view.best[order[row]]))
                size = int(min(30, max(9, 0.6 * min(self._pitch))))
                self._text(pen, x, y, "★", size, WRONG, "mm")
        if view.last is not None and not view.over:
            x, y = self._centre(*view.last)
            half = min(6.0, max(2.0, min(self._pitch) / 8))
            pen.ellipse((x - half, y - half, x + half, y + half), fill="white", outline=INK)

    def _draw_bars(self, pen: Any, view: View, order: Ints, right: np.ndarray | None) -> None:
        """Pulls of each agent, and after the end whether it was answered right."""
        per_agent = view.pulls_per_agent[order]
        most = max(int(per_agent.max()), 1)
        tall = min(20.0, 0.5 * self._pitch[1]) if self._grid else self._pitch[1]
        for row, count in enumerate(per_agent.tolist()):
            middle = (self._edges[1][row] + self._edges[1][row + 1]) / 2
            colour = BAR if right is None else RIGHT_BAR if right[row] else WRONG_BAR
            length = (BARS[2] - BARS[0]) * count / most
            if count:
                box = (BARS[0], middle - tall / 2, BARS[0] + length, middle + tall / 2)
                pen.rectangle(box, fill=colour)
            if right is not None and self._n <= LARGEST_GRID:
                mark = ("✗", WRONG) if not right[row] else ("✓", RIGHT)
                self._text(pen, BARS[2] + 7, middle, mark[0], 16, mark[1], bold=True)
        self._text(pen, BARS[2], 573, f"max {int(per_agent.max()):,}", 13, FAINT, "rm")

    def _draw_brackets(self, pen: Any, view: View) -> None:
        """After the end rows are sorted by cluster: which agents, and which cluster."""
        for cluster, top, bottom in view.brackets:
            ends = self._edges[1][top] + 3, self._edges[1][bottom + 1] - 3
            points = [(852, ends[0]), (858, ends[0]), (858, ends[1]), (852, ends[1])]
            pen.line(points, fill=INK, width=2)
            if ends[1] - ends[0] >= 11:
                self._text(pen, 864, sum(ends) / 2, str(cluster), 13, INK)
        self._label_agents(pen, view.order)

    # --- what stays --------------------------------------------------------------------------------------------------

    def _draw_background(self, image: Any, problem: Problem) -> None:
        from PIL import ImageDraw

        pen = ImageDraw.Draw(image)
        clusters = "M hidden" if problem.n_clusters is None else f"M = {problem.n_clusters}"
        told = f"N = {self._n:,} agents   K = {self._k:,} arms   {clusters} clusters"
        told += f"   δ = {problem.delta:g}"
        if problem.eta is not None and np.isfinite(problem.eta):
            told += f"   η = {problem.eta:.3g}"
        self._text(pen, 67, 67, told, 16, FAINT)
        self._text(pen, sum(MAP[::2]) / 2, 92, "arm", 14, FAINT, "mm")
        self._text(pen, 885, 107, "pulls per agent", 14, FAINT)
        for arm in _ticks(self._k):
            x = (self._edges[0][arm] + self._edges[0][arm + 1]) / 2
            self._text(pen, x, 111, str(arm), 13, FAINT, "mm")
        self._label_agents(pen, np.arange(self._n))
        if self._grid:
            for row in range(self._n):
                for column in range(self._k):
                    pen.rectangle(self._tile(row, column, 1.0), fill=CELL)
        self._draw_key(pen)

    def _label_agents(self, pen: Any, order: Ints) -> None:
        """Numbers of the agents beside their rows."""
        pen.rectangle((20, MAP[1] - 8, MAP[0] - 2, MAP[3] + 8), fill=PAPER)
        self._text(pen, 12, MAP[3] + 16, "agent", 13, FAINT)
        for row in _ticks(self._n):
            y = (self._edges[1][row] + self._edges[1][row + 1]) / 2
            self._text(pen, MAP[0] - 7, y, str(order[row]), 13, FAINT, "rm")

    def _draw_key(self, pen: Any) -> None:
        for x in range(190):
            colour = tuple(self._colours[x * 255 // 189].tolist())
            pen.line((96 + x, 597, 96 + x, 611), fill=colour)
        self._text(pen, 191, 624, "estimated mean", 13, FAINT, "mm")
        for x, half in ((374, 2), (386, 4), (402, 7)):
            pen.rectangle((x - half, 604 - half, x + half, 604 + half), fill=SCALE[3])
        word = "size" if self._grid else "strength"
        self._text(pen, 416, 604, f"{word}: share of the agent's pulls", 13, FAINT)
        pen.rectangle((672, 597, 686, 611), fill=CELL, outline=LINE)
        pen.line((675, 600, 683, 608), fill=LINE)
        self._text(pen, 694, 604, "never pulled", 13, FAINT)
        pen.ellipse((824, 599, 834, 609), fill="white", outline=INK)
        self._text(pen, 841, 604, "last pull", 13, FAINT)
        for x, mark, text in (
            (374, LEADER, "leader"),
            (468, RIGHT, "right"),
            (556, WRONG, "wrong"),
        ):
            pen.rectangle((x, 617, x + 13, 630), outline=mark, width=2)
            self._text(pen, x + 20, 624, text, 13, FAINT)
        self._text(pen, 679, 624, "★", 15, WRONG, "mm")
        self._text(pen, 694, 624, "missed best", 13, FAINT)
        pen.line([(825, 618), (832, 618), (832, 630), (825, 630)], fill=INK, width=2)
        self._text(pen, 841, 624, "true cluster, after the stop", 13, FAINT)

    # --- geometry and letters ----------------------------------------------------------------------------------------

    @property
    def _pitch(self) -> tuple[float, float]:
        """Width and height of a cell in pixels."""
        return (MAP[2] - MAP[0]) / self._k, (MAP[3] - MAP[1]) / self._n

    def _centre(self, row: int, column: int) -> tuple[float, float]:
        across, down = self._edges
        return (across[column] + across[column + 1]) / 2, (down[row] + down[row + 1]) / 2

    def _tile(self, row: int, column: int, scale: float) -> tuple[float, float, float, float]:
        """Corners of a tile that fills `scale` of its cell, up to a shape of 4 : 1."""
        x, y = self._centre(row, column)
        wide, high = self._pitch
        half = 0.47 * scale * min(wide, 4 * high), 0.47 * scale * min(high, 4 * wide)
        if not self._grid:
            half = max(half[0], 2.5), max(half[1], 2.5)
        return x - half[0], y - half[1], x + half[0], y + half[1]

    def _text(
        self,
        pen: Any,
        x: float,
        y: float,
        text: str,
        size: int,
        colour: str,
        anchor: str = "lm",
        bold: bool = False,
    ) -> None:
        """Text whose `anchor` (Pillow's code) is at (x, y). Most words occur in every frame: they are drawn once."""
        key = (text, size, bold)
        if key not in self._words:
            if len(self._words) > 500:
                self._words.clear()
            self._words[key] = self._word(*key)
        mask, left, top = self._words[key]
        x -= {"l": 0, "m": mask.size[0] / 2, "r": mask.size[0]}[anchor[0]]
        pen.bitmap((round(x + left), round(y + top)), mask, fill=colour)

    def _word(self, text: str, size: int, bold: bool) -> tuple[Any, int, int]:
        """The word in white on black, and where it is relative to its left middle."""
        from PIL import Image, ImageDraw, ImageFont

        if (size, bold) not in self._fonts:
            self._fonts[size, bold] = ImageFont.truetype(str(_font_file(bold)), size)
        font = self._fonts[size, bold]
        left, top, right, bottom = (int(one) for one in font.getbbox(text, anchor="lm"))
        mask = Image.new("L", (max(right - left, 1), max(bottom - top, 1)))
        ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor="lm")
        return mask, left, top


def _font_file(bold: bool) -> Path:
    """A font that ships with Matplotlib and has the marks; Matplotlib itself is not loaded for it."""
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    fonts = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return fonts / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")


def _ticks(count: int) -> list[int]:
    """Indices to label: all of a few, round steps of many."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)
    return list(range(0, count, next(step for step in steps if count <= 26 * step)))


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
        f"render_mode='human' cannot open a window ({reason}); use render_mode='rgb_array' with RecordVideo, or 'ansi'",
        UserWarning,
        stacklevel=4,
    )
    return False
