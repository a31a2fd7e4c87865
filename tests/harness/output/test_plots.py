"""Pictures, by their artists: which points a line joins, how marks look, what axes and legends say."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from harness_players import QUICK, Empirical
from harness_rows import rows
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.style import GREYS, MARKERS, OTHERS, style_of, styles_of
from clustered_bandit_gym.policies import POLICIES
from clustered_bandit_gym.policies.engines.registry import ENGINES
from clustered_bandit_gym.suite.leaderboard import known


def texts(figure: Figure) -> str:
    return "\n".join(item.get_text() for item in figure.findobj(mpl.text.Text))


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def joined(ax: Axes) -> dict[str, list[tuple[list[float], list[float]]]]:
    """Points that lines connect, by colour."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {}
    for line in ax.lines:
        if line.get_linestyle() != "None" and len(line.get_xdata()) > 1:
            points = (list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
            found.setdefault(to_hex(line.get_color()).upper(), []).append(points)
    return found


def marks(ax: Axes, marker: str | int) -> list[tuple[float, float, str]]:
    """(x, y, face) of every mark of this kind."""
    return [
        (float(x), float(y), to_hex(line.get_markerfacecolor()).upper())
        for line in ax.lines
        if line.get_marker() == marker
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def grid(
    policies: dict[str, float], agents: tuple[int, ...], deltas: tuple[float, ...]
) -> cbg.Board:
    """Three trials at each N and δ; pulls are the policy's factor times N / δ, a little more in later trials."""
    found = []
    for n in agents:
        for delta in deltas:
            for policy, factor in policies.items():
                pulls = [factor * n / delta * (1 + 0.01 * t) for t in range(3)]
                found += rows(
                    policy,
                    pulls,
                    env_kwargs={"n_agents": n, "delta": delta},
                    delta=delta,
                    n_agents=n,
                )
    return cbg.Board(found)


@pytest.fixture(scope="module")
def small() -> cbg.Board:
    return cbg.evaluate(["naive", "bai-cl", Empirical(1)], **QUICK, trials=5)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_picture_of_a_board(small: cbg.Board, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new folder" / f"board.{suffix}"
    figure = small.plot(path)
    assert path.stat().st_size > 5000
    for name in (
        "Naive",
        "BAI-Cl",
        "empirical:n=1",
        "communication cost (mean)",
        "visible bars: 95% interval",
        "5 trials of each policy",
    ):
        assert name in texts(figure)


def test_lines_join_points_that_differ_in_the_swept_setting_alone() -> None:
    """The zigzag of old: N = 30 at δ = 0.05 was joined to N = 30 at δ = 1e-10."""
    board = grid({"naive": 1.0, "bai-cl": 0.5}, (9, 30, 100), (0.05, 0.01))
    for figure in (board.plot(), board.plot(x="n_agents", panel="pulls")):
        assert [ax.get_title() for ax in figure.axes] == ["δ = 0.05", "δ = 0.01"]
        for ax, delta in zip(figure.axes, (0.05, 0.01), strict=True):
            for policy, factor in (("naive", 1.0), ("bai-cl", 0.5)):
                ((xs, ys),) = joined(ax)[style_of(policy).colour]
                assert xs == [9, 30, 100]
                assert ys == pytest.approx([factor * n / delta * 1.01 for n in xs])
    other = board.plot(x="delta", panel="pulls")
    assert [ax.get_title() for ax in other.axes] == [
        "N = 9",
        "N = 30",
        "N = 100",
    ]
    assert joined(other.axes[0])[style_of("naive").colour][0][0] == [0.01, 0.05]
    tradeoff = board.plot(x="delta", panel="tradeoff")
    assert len(tradeoff.axes) == 3
    for ax, n in zip(tradeoff.axes, (9, 30, 100), strict=True):
        ((xs, _),) = joined(ax)[style_of("naive").colour]
        assert xs == pytest.approx([n / 0.01 * 1.01, n / 0.05 * 1.01])


def test_most_values_are_swept_by_default() -> None:
    board = grid({"naive": 1.0}, (9, 30), (0.1, 0.05, 0.01))
    assert {ax.get_xlabel() for ax in board.plot().axes} == {"δ"}
    assert {ax.get_xlabel() for ax in board.plot(x="n_agents").axes} == {"agents N"}


def test_environments_have_panels_of_their_own() -> None:
    board = cbg.Board(
        [
            row
            for env in "EF"
            for n in (4, 8)
            for row in rows("naive", [n, n + 1], env=env, env_kwargs={"n_agents": n})
        ]
    )
    assert [ax.get_title() for ax in board.plot().axes] == ["env = E", "env = F"]
    apart = cbg.Board([row for env in "EF" for row in rows("naive", [4, 5], env=env)])
    assert not joined(apart.plot().axes[0]).get(style_of("naive").colour)


def test_fail_and_unfinished_are_visible_in_every_picture() -> None:
    """Wrong in 40 of 40: crossed out and in the legend. Out of budget: hollow and in the legend."""
    found = []
    for n in (4, 8):
        place = {"env_kwargs": {"n_agents": n}}
        found += rows("naive", [100.0 + t for t in range(40)], **place)
        found += rows("bai-cl", [10.0 + t for t in range(40)], "wrong", **place)
        found += rows(
            "cl-bai", [50.0 + t for t in range(40)], ["budget"] + ["solved"] * 39, **place
        )
    swept = cbg.Board(found)
    single = cbg.Board([row for row in found if row["env_kwargs"] == {"n_agents": 4}])
    for figure in (
        swept.plot(),
        single.plot(),
        swept.plot(panel="pulls"),
        swept.plot(panel="tradeoff"),
        single.plot(panel="tradeoff"),
    ):
        assert any(entry.startswith("BAI-Cl, FAIL") for entry in legend(figure))
        assert any(
            entry.startswith("Cl-BAI, ") and "unfinished" in entry for entry in legend(figure)
        )
        assert "crossed out: FAIL" in legend(figure)
        assert "hollow: some trials unfinished" in legend(figure)
        for ax in figure.axes:
            failed = [mark[:2] for mark in marks(ax, "o")]
            assert failed
            assert set(failed) <= {mark[:2] for mark in marks(ax, "x")}
            assert {mark[2] for mark in marks(ax, "^")} == {"#FFFFFF"}
            assert {mark[2] for mark in marks(ax, "s")} == {style_of("naive").colour}


def test_bars_that_reach_zero_end_at_the_log_axis() -> None:
    """A t interval that is cut at zero does not stretch the axis."""
    found = []
    for n in (4, 8):
        place = {"env_kwargs": {"n_agents": n}, "bound": 50.0}
        found += rows("naive", [1.0 * n, 30.0 * n], **place)
        found += rows("bai-cl", [500.0, 510.0], **place)
    board = cbg.Board(found)
    assert (board.summary.query("policy == 'naive'")["pulls_low"] == 0).all()
    ax = board.plot().axes[0]
    bottom, top = ax.get_ylim()
    assert 10 < bottom < 50 < 1500 < top < 5000  # means from 62 on, a bar up to 1494
    assert sum(len(bars.get_segments()) for bars in ax.collections) == 4
    single = cbg.Board([row for row in found if row["env_kwargs"] == {"n_agents": 4}])
    bottom, top = single.plot().axes[0].get_ylim()
    assert 1 < bottom < 50 < 500 < top < 2000


def test_heavy_tails_are_drawn_as_medians() -> None:
    pulls = [10.0 + t for t in range(49)] + [1e6]
    board = cbg.Board(
        [row for n in (4, 8) for row in rows("naive", pulls, env_kwargs={"n_agents": n})]
    )
    ax = board.plot().axes[0]
    assert joined(ax)[style_of("naive").colour][0][1] == [34.5, 34.5]
    assert ax.get_ylabel() == "pulls (median; visible bars: 95% interval)"
    busiest = board.plot(panel="busiest").axes[0].get_ylabel()
    assert busiest == "pulls of the busiest agent (median)"


def test_zero_pulls_are_named_although_a_log_axis_has_no_place_for_them() -> None:
    board = cbg.Board(rows("naive", [5.0, 6.0]) + rows("random", [0.0, 0.0]))
    assert any("zero pulls" in entry for entry in legend(board.plot()))


def test_a_policy_looks_the_same_on_every_board() -> None:
    names = ["bai-cl++", "mine", "naive", "bai-cl++:engine=lucb"]
    boards = [
        cbg.Board([row for name in order for row in rows(name, [5.0, 6.0])])
        for order in (names, names[::-1])
    ]
    looks = []
    for board in boards:
        handles = board.plot().legends[0].legend_handles
        looks.append(
            {
                h.get_label(): (h.get_color(), h.get_marker(), h.get_linestyle())
                for h in handles
                if h
            }
        )
    assert looks[0] == looks[1]
    assert looks[0]["BAI-Cl++"][:2] == ("#009E73", "D")
    assert looks[0]["BAI-Cl++ (engine=lucb)"][0] == "#009E73"  # the family's colour, another marker
    assert looks[0]["BAI-Cl++ (engine=lucb)"][1] != "D"


def test_own_policies_have_markers_of_their_own() -> None:
    """Their looks come from their names; of a hundred some would be alike."""
    shipped = ["naive", "bai-cl", "structured-bai"]
    for start in range(0, 100, 6):
        names = [*shipped, *(f"mine{n}" for n in range(start, start + 6))]
        looks = styles_of(names)
        assert len({look.marker for look in looks.values()}) == len(names)
        assert [looks[name] for name in shipped] == list(map(style_of, shipped))
    many = styles_of(f"mine{n}" for n in range(40))
    assert {look.marker for look in many.values()} == set(MARKERS)


def test_labels_replace_names(small: cbg.Board, tmp_path: Path) -> None:
    assert "Ours" in legend(small.plot(labels={"naive": "Ours"}))
    assert "    Ours & $" in small.to_latex(labels={"naive": "Ours"})
    with pytest.raises(ValueError, match="no policy is called 'naiv' here; there are naive, "):
        small.plot(labels={"naiv": "Ours"})


def test_pages_draw_every_marker() -> None:
    """A browser looks a marker up in the table of shapes."""
    script = files("clustered_bandit_gym.harness.output").joinpath("page.js").read_text("utf-8")
    shapes = script.partition("const SHAPES = {")[2].partition("};")[0]
    for marker in {*MARKERS, *(style_of(name).marker for name in POLICIES)}:
        assert re.search(rf'(^|\s)("{re.escape(marker)}"|{re.escape(marker)}): ', shapes), marker


def test_built_in_policies_have_different_looks() -> None:
    engines = {f"naive:engine={engine}" for engine in ENGINES if engine != "elimination"}
    names = {*POLICIES, *engines, *(one["policy"] for one in known())}
    for part in (slice(1, 3), slice(2, None)):  # colour and marker; marker and line
        alike: dict[object, list[str]] = {}
        for name in names:
            alike.setdefault(style_of(name)[part], []).append(name)
        assert [group for group in alike.values() if len(group) > 1] == []
    assert style_of("naive:engine=top-two").colour != style_of("naive").colour


#: Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of linear RGB (n, 3)."""
    xyz = (
        np.clip(linear, 0, 1)
        @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
        / np.array([0.9505, 1.0, 1.089])
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1
    )


@pytest.mark.parametrize("vision", VISION)
def test_colours_stay_apart_with_any_colour_vision(vision: str) -> None:
    """ΔE of 10 is a plain difference; a just noticeable one is about 2."""
    assert style_of("mine").colour in OTHERS
    colours = sorted({style_of(name).colour for name in POLICIES} | {*OTHERS, *GREYS})
    assert len(colours) == 11
    rgb = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = lab(linear @ np.array(VISION[vision]).T)
    distances = np.linalg.norm(seen[:, None] - seen[None, :], axis=2)
    assert distances[np.triu_indices(len(colours), 1)].min() > 10


def test_a_picture_has_a_positive_width(small: cbg.Board) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        small.plot(width=0)


def test_pictures_touch_no_global_state(small: cbg.Board) -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    small.plot()
    assert plt.get_fignums() == before


def test_mistakes_in_pictures(small: cbg.Board, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot plot against 'n_agents'"):
        small.plot(x="n_agents")
    with pytest.raises(ValueError, match=r"must be one of '.png', '.pdf', '.svg'; got '.xyz'"):
        small.plot(tmp_path / "board.xyz")
    with pytest.raises(ValueError, match="no trials"):
        cbg.Board([]).plot()
    many = grid({"naive": 1.0}, (2, 3), tuple(0.5**k for k in range(2, 15)))
    with pytest.raises(ValueError, match="sweep another setting"):
        many.plot(x="n_agents")


def test_a_figure_for_a_paper(tmp_path: Path) -> None:
    """One panel at a column's width, without a title, the bound as a line, TrueType fonts."""
    board = grid({"naive": 9, "bai-cl": 3}, (4, 8), (0.1,))
    board.trials["bound"] = 7.0
    figure = board.plot(tmp_path / "fig.pdf", style="paper", width=3.25)
    assert figure.get_figwidth() == 3.25
    assert len(figure.axes) == 1
    assert not figure.get_suptitle()
    assert "bar" not in figure.axes[0].get_ylabel()
    assert "lower bound" in legend(figure)
    pdf = (tmp_path / "fig.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/CIDFontType2" in pdf
    busiest = board.plot(panel="busiest").axes[0].get_ylabel()
    assert busiest == "pulls of the busiest agent (mean)"
    with pytest.raises(ValueError, match=r"panel must be one of 'pulls', .*; got 'speed'"):
        board.plot(panel="speed")
    with pytest.raises(ValueError, match="style must be"):
        board.plot(style="poster")


def test_labels_of_swept_values_keep_clear_of_each_other() -> None:
    ax = grid({"naive": 1.0}, (6, 12, 102, 120), (0.1,)).plot(style="paper").axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["6", "12", "102", ""]


@pytest.mark.parametrize("span", [1.03, 1.3, 2.2, 4.5, 8, 30, 90, 150])
def test_a_narrow_log_axis_has_ticks_that_can_be_read(span: float) -> None:
    """Two to seven, with labels that are their values; powers of ten from two decades on."""
    found = []
    for n, factor in ((4, 1.0), (8, span)):
        more = {"env_kwargs": {"n_agents": n}, "n_agents": n, "cost": 2.1e4 * factor}
        found += rows("naive", [1.9e5 * factor] * 3, **more)
    ax = cbg.Board(found).plot(panel="tradeoff", style="paper", width=3.25).axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
        assert 2 <= len(ticks) <= 7
        labels = axis.get_major_formatter().format_ticks(ticks)
        assert not any(axis.get_minor_formatter().format_ticks(axis.get_minorticklocs()))
        if high < 100 * low:
            assert [float(label.replace(",", "")) for label in labels] == pytest.approx(ticks)


def test_titles_name_environments_in_short(small: cbg.Board) -> None:
    assert "ClusteredBAI" not in texts(small.plot())
    assert "PaperSmall  " in texts(
        cbg.Board(rows("p", [5.0], env="ClusteredBAI-PaperSmall-v0")).plot()
    )
