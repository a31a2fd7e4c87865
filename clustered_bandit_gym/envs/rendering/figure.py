"""Pictures of a play: a frame, a window or a table. Matplotlib is loaded when the first picture is drawn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from clustered_bandit_gym.envs.rendering.view import View
from clustered_bandit_gym.game.problem import Problem

#: Width and height of a frame in pixels; even numbers, as video codecs ask for.
SIZE = (1120, 640)
#: Up to this many agents and arms every cell is drawn as a square of its own; beyond, as a pixel of an image.
LARGEST_GRID = 48

_PAPER, _CELL, _LINE, _INK, _FAINT = "#fbfaf6", "#efece3", "#c3bfb2", "#22303c", "#5f6a74"
_LEADER, _RIGHT, _WRONG = "#f2a30f", "#2e9e5b", "#d3394c"
_BAR, _PALE = "#8fb3bf", {"#2e9e5b": "#8ccaa5", "#d3394c": "#e79aa3", "#f2a30f": "#8fb3bf"}
_COLOURS = ["#cbe2c3", "#94cbb3", "#52a9a3", "#277a92", "#1c4a78", "#15264a"]


class Viewer:
    """Draws views of one size. What never changes is drawn once; a frame draws the rest on top of it."""

    def __init__(self, problem: Problem, fps: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure

        self._fps = fps
        self._colours = LinearSegmentedColormap.from_list("estimates", _COLOURS)
        self._figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor=_PAPER)
        self._canvas = FigureCanvasAgg(self._figure)
        self._n, self._k = problem.n_agents, problem.n_arms
        self._grid = max(self._n, self._k) <= LARGEST_GRID
        self._moving: list[Any] = []
        self._window: Any = None
        self._draw_frame(problem)
        self._draw_map()
        self._draw_bars()
        self._canvas.draw()
        self._still = self._canvas.copy_from_bbox(self._figure.bbox)

    def frame(self, view: View) -> np.ndarray:
        """(H, W, 3) uint8."""
        self._update(view)
        self._canvas.restore_region(
            self._still if view.clusters is None else self._by_cluster(view)
        )
        renderer = self._canvas.get_renderer()
        for artist in self._moving:
            artist.draw(renderer)
        return np.asarray(self._canvas.buffer_rgba())[:, :, :3].copy()

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

    # --- what stays --------------------------------------------------------------------------------------------------

    def _text(self, x: float, y: float, text: str = "", size: float = 11, **style: Any) -> Any:
        style = {"color": _INK, "va": "center", **style}
        return self._figure.text(x, y, text, fontsize=size, **style)

    def _add(self, artist: Any) -> Any:
        """An artist that is drawn in every frame."""
        artist.set_animated(True)
        self._moving.append(artist)
        return artist

    def _draw_frame(self, problem: Problem) -> None:
        clusters = "M hidden" if problem.n_clusters is None else f"M = {problem.n_clusters}"
        told = [
            f"N = {self._n:,} agents",
            f"K = {self._k:,} arms",
            f"{clusters} clusters",
            f"δ = {problem.delta:g}",
        ]
        told += (
            [f"η = {problem.eta:.3g}"]
            if problem.eta is not None and np.isfinite(problem.eta)
            else []
        )
        self._title = self._add(self._text(0.06, 0.945, "", 19, weight="bold"))
        self._text(0.06, 0.896, "   ".join(told), 11.5, color=_FAINT)
        self._pulls_text = self._add(self._text(0.94, 0.945, "", 19, weight="bold", ha="right"))
        self._cost_text = self._add(self._text(0.94, 0.896, "", 11.5, color=_FAINT, ha="right"))
        # The key: colour, size, leader.
        strip = self._figure.add_axes((0.085, 0.045, 0.17, 0.022))
        strip.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=self._colours)
        strip.set_axis_off()
        self._low_text = self._add(self._text(0.079, 0.055, "", 9.5, ha="right"))
        self._high_text = self._add(self._text(0.261, 0.055, "", 9.5))
        self._text(0.17, 0.022, "estimated mean", 9.5, color=_FAINT, ha="center")
        key = self._figure.add_axes((0.33, 0.01, 0.61, 0.085))
        key.set(xlim=(0, 61), ylim=(-2, 2))
        key.set_axis_off()
        label: dict[str, Any] = {"fontsize": 9.5, "color": _FAINT, "va": "center"}
        key.scatter(
            [0.6, 1.7, 3.2], [1] * 3, s=[10, 40, 110], marker="s", color=_COLOURS[3], linewidths=0
        )
        key.text(
            4.4, 1, f"{'size' if self._grid else 'strength'}: share of the agent's pulls", **label
        )
        key.scatter(
            [27], [1], s=110, marker="s", facecolor=_CELL if self._grid else _PAPER, edgecolor=_LINE
        )
        if self._grid:
            key.plot([26.4, 27.6], [1.45, 0.55], color=_LINE, linewidth=1.0)
        key.text(28.3, 1, "never pulled", **label)
        key.scatter([41], [1], s=50, color="white", edgecolor=_INK, linewidths=0.8)
        key.text(42.1, 1, "last pull", **label)
        for x, colour, word in (
            (0.9, _LEADER, "leader"),
            (9.3, _RIGHT, "right"),
            (17, _WRONG, "wrong"),
        ):
            key.scatter(
                [x], [-1], s=110, marker="s", facecolor="none", edgecolor=colour, linewidths=2.2
            )
            key.text(x + 1.3, -1, word, **label)
        key.scatter([27], [-1], s=80, marker="*", color=_WRONG, linewidths=0)
        key.text(28.3, -1, "missed best", **label)
        key.plot([40.6, 41.2, 41.2, 40.6], [-0.4, -0.4, -1.6, -1.6], color=_INK, linewidth=1.4)
        key.text(42.1, -1, "true cluster, after the stop", **label)

    def _axes(self, box: tuple[float, float, float, float], width: float) -> Any:
        axes = self._figure.add_axes(box)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(self._n - 0.5, -0.5), facecolor=_PAPER)
        axes.tick_params(length=0, labelsize=9.5, labelcolor=_FAINT)
        for side in axes.spines.values():
            side.set_visible(False)
        return axes

    def _draw_map(self) -> None:
        from matplotlib.collections import LineCollection, PolyCollection

        box = (0.06, 0.125, 0.695, 0.685)
        axes = self._map = self._axes(box, self._k)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("arm", color=_FAINT, fontsize=10.5, labelpad=5)
        axes.set_ylabel("agent", color=_FAINT, fontsize=10.5)
        axes.set_xticks(_ticks(self._k))
        axes.set_yticks(_ticks(self._n))
        wide, high = box[2] * SIZE[0] / self._k, box[3] * SIZE[1] / self._n
        # Half a tile in data units: it fills its cell, up to a shape of 4 : 1.
        self._half = np.array([0.47 * min(1.0, 4 * high / wide), 0.47 * min(1.0, 4 * wide / high)])
        short = 0.72 * min(wide, high)  # the shorter side in points: sets the size of marks
        rows, columns = np.divmod(np.arange(self._n * self._k), self._k)
        self._places = np.column_stack([columns, rows])
        if self._grid:
            axes.add_collection(
                PolyCollection(list(self._tiles(self._places)), facecolor=_CELL, linewidths=0)
            )
            self._unseen = self._add(
                axes.add_collection(LineCollection([], colors=_LINE, linewidths=1.0))
            )
            self._cells = self._add(
                axes.add_collection(PolyCollection(list(self._tiles(self._places)), linewidths=0))
            )
        else:
            # An image of the very pixels: Matplotlib's resampling would take most of a frame's time.
            across, down = round(box[2] * SIZE[0]), round(box[3] * SIZE[1])
            self._columns, self._rows = (
                np.arange(across) * self._k // across,
                np.arange(down) * self._n // down,
            )
            blank = np.zeros((down, across, 4), dtype=np.uint8)
            left, bottom = round(box[0] * SIZE[0]), round(box[1] * SIZE[1])
            self._cells = self._add(self._figure.figimage(blank, left, bottom, origin="upper"))
            self._half = np.maximum(self._half, 2.5 / np.array([wide, high]))
        edge = min(2.6, max(1.2, short / 10))
        self._rings = self._add(
            axes.add_collection(PolyCollection([], facecolor="none", linewidths=edge))
        )
        nowhere, star, dot = np.full(self._n, np.nan), 0.25 * short**2, 0.04 * short**2
        self._stars = self._add(
            axes.scatter(
                nowhere,
                nowhere,
                s=min(max(star, 14.0), 250.0),
                marker="*",
                color=_WRONG,
                linewidths=0,
            )
        )
        self._last = self._add(
            axes.scatter(
                [np.nan],
                [np.nan],
                s=min(max(dot, 6.0), 90.0),
                color="white",
                edgecolor=_INK,
                linewidths=0.8,
            )
        )

    def _tiles(self, places: np.ndarray, scale: Any = 1.0) -> np.ndarray:
        """(n, 4, 2) corners of tiles centred at `places` (n, 2), their sides `scale` (n,) times the full ones."""
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * self._half
        return places[:, None, :] + corners * np.reshape(scale, (-1, 1, 1))

    def _draw_bars(self) -> None:
        from matplotlib.collections import LineCollection

        axes = self._axes((0.79, 0.125, 0.15, 0.685), 1)
        axes.set(xlim=(0, 1))
        axes.set_xticks([])
        axes.set_yticks([])
        self._text(0.79, 0.833, "pulls per agent", 10.5, color=_FAINT)
        # Thick enough that the bars of very many agents leave no gaps to flicker.
        pitch = 0.685 * SIZE[1] / self._n * 0.72
        thick = min(14.0, 0.5 * pitch) if self._grid else 1.3 * pitch
        self._bars = self._add(
            axes.add_collection(LineCollection([], linewidths=thick, capstyle="butt"))
        )
        self._most_text = self._add(self._text(0.94, 0.105, "", 9.5, ha="right", color=_FAINT))
        few = self._n <= 30
        self._marks = [
            self._add(
                axes.text(
                    1.04, row, "", va="center", ha="left", fontsize=12, weight="bold", clip_on=False
                )
            )
            for row in (range(self._n) if few else ())
        ]

    def _by_cluster(self, view: View) -> Any:
        """The background of a play that is over: rows sorted by cluster, labelled with their agents, and bracketed."""
        axes, ticks = self._map, _ticks(self._n)
        axes.set_yticks(ticks, [str(agent) for agent in view.order[ticks]])
        added = []
        for cluster, top, bottom in view.brackets:
            row = 0.685 * SIZE[1] / self._n  # in pixels
            high = (bottom - top + 1) * row
            ends = (top - 0.5 + 2.5 / row, bottom + 0.5 - 2.5 / row)
            line = ([1.008, 1.015, 1.015, 1.008], [ends[0], ends[0], ends[1], ends[1]])
            along = axes.get_yaxis_transform()
            added += axes.plot(*line, color=_INK, linewidth=1.4, transform=along, clip_on=False)
            if high >= 11:
                name = f"cluster {cluster}" if high >= 70 else str(cluster)
                style = {
                    "va": "center",
                    "fontsize": 9.5,
                    "color": _INK,
                    "rotation": 90 if high >= 70 else 0,
                }
                added.append(
                    axes.text(
                        1.021, (top + bottom) / 2, name, transform=along, clip_on=False, **style
                    )
                )
        self._canvas.draw()
        background = self._canvas.copy_from_bbox(self._figure.bbox)
        for artist in added:
            artist.remove()
        axes.set_yticks(ticks, [str(agent) for agent in ticks])
        return background

    # --- what changes ------------------------------------------------------------------------------------------------

    def _update(self, view: View) -> None:
        order = view.order
        pulls, means, shares = view.pulls[order], view.means[order], view.shares[order]
        pulled = pulls > 0
        seen = means[pulled]
        # From a low quantile, not the minimum: an arm pulled once may lie far below all others.
        low, high = (float(np.quantile(seen, 0.1)), float(seen.max())) if seen.size else (0.0, 1.0)
        scaled = np.clip((means - low) / ((high - low) or 1.0), 0.0, 1.0)
        colours = self._colours(np.where(pulled, scaled, 0.0), bytes=not self._grid)
        if self._grid:
            # The area shows the share, but a colour needs some area to be visible.
            sides = np.where(pulled, 0.9 * np.sqrt(0.1 + 0.9 * shares), 0.0)
            self._cells.set_verts(self._tiles(self._places, sides.ravel()))
            self._cells.set_facecolor(colours.reshape(-1, 4))
            self._unseen.set_segments(self._tiles(self._places[~pulled.ravel()], 0.5)[:, [0, 2]])
        else:
            colours[..., 3] = np.where(pulled, 110.0 + 145.0 * shares, 0.0)
            self._cells.set_data(colours[self._rows[:, None], self._columns])
        rows = np.arange(self._n)
        leaders = view.leaders[order]
        led = leaders >= 0
        self._rings.set_verts(self._tiles(np.column_stack([leaders, rows])[led]))
        right = None if view.right is None else view.right[order]
        judged = (
            [_LEADER] * self._n if right is None else [_RIGHT if good else _WRONG for good in right]
        )
        self._rings.set_edgecolor([judged[row] for row in rows[led]])
        lost = np.zeros(self._n, dtype=bool) if right is None else ~right
        best = (
            np.where(lost, view.best[order], np.nan)
            if view.best is not None
            else np.full(self._n, np.nan)
        )
        self._stars.set_offsets(np.column_stack([best, rows]))
        self._last.set_offsets(
            [(np.nan, np.nan) if view.last is None or view.over else view.last[::-1]]
        )
        per_agent = view.pulls_per_agent[order]
        most = int(per_agent.max())
        lengths = per_agent / max(most, 1)
        self._bars.set_segments(
            [[(0.0, row), (length, row)] for row, length in zip(rows, lengths, strict=True)]
        )
        self._bars.set_color([_BAR] if right is None else [_PALE[colour] for colour in judged])
        for row, mark in enumerate(self._marks):
            mark.set_text("" if right is None else "✓" if right[row] else "✗")
            mark.set_color(judged[row])
        self._most_text.set_text(f"max {most:,}")
        self._pulls_text.set_text(f"{int(view.pulls_per_agent.sum()):,} pulls")
        self._cost_text.set_text(f"communication {view.cost:,.0f} units")
        self._low_text.set_text(f"≤ {low:.2f}" if seen.size else "")
        self._high_text.set_text(f"{high:.2f}" if seen.size else "")
        self._title.set_text(view.verdict or "Which arm is best for whom?")
        good = view.right is not None and bool(view.right.all())
        self._title.set_color(_INK if not view.over else _RIGHT if good else _WRONG)


def _ticks(count: int) -> list[int]:
    """Indices to label: all of a few, round steps of many."""
    step = next(
        size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if count <= 26 * size
    )
    return list(range(0, count, step))


def _open_window() -> Any:
    """(image, pause) of a new window, False where none can be opened."""
    reason = "Matplotlib has no interactive backend here"
    try:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
        if figure.canvas.required_interactive_framework is not None:
            axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
            axes.set_axis_off()
            image = axes.imshow(np.full((SIZE[1], SIZE[0], 3), 255, dtype=np.uint8))
            return image, plt.pause
        plt.close(figure)
    except (
        Exception
    ) as error:  # every toolkit has exceptions of its own for a display that is missing
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"render_mode='human' cannot open a window ({reason}); use render_mode='rgb_array' with RecordVideo, or 'ansi'",
        UserWarning,
        stacklevel=4,
    )
    return False
