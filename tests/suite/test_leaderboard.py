"""The leaderboard: a page that a browser loads without complaint, sorts, filters, and uses to compare two policies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import chromium
from make_readme import top_lines
from suite_small import CELLS, made_up, small_suite
from typer.testing import CliRunner

from clustered_bandit_gym.cli import app
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite.cells import TRACKS
from clustered_bandit_gym.suite.files import cell_table, load_submission
from clustered_bandit_gym.suite.leaderboard import board_json, leaderboard_page, load_all

POLICIES = ("naive", "naive:engine=mixture", "fixed", "random")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Two proved policies, one that says so, one that is always wrong."""
    home = tmp_path_factory.mktemp("submissions")
    with small_suite():
        slow = dict.fromkeys(CELLS, 8.0)
        made_up(home / "0", "naive", slow)
        made_up(home / "1", "naive:engine=mixture")
        made_up(home / "2", "mine:Fixed", wrong={"one-ladder": 9, "nothing-tiny": 9}, name="fixed")
        made_up(home / "3", "random", wrong=dict.fromkeys(CELLS, 60), guarantee="none")
        yield sorted(home.iterdir())


@pytest.fixture(scope="module")
def page(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "board.html"
    path.write_text(leaderboard_page(folders, ["fixed"]), encoding="utf-8")
    return path


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(
        r'<script id="data" type="application/json">(.*?)</script>', page.read_text("utf-8"), re.S
    )
    assert found
    return json.loads(found.group(1))


def test_the_page_fetches_nothing(page: Path) -> None:
    outside = re.sub(
        r'<script id="data".*?</script>', "", page.read_text(encoding="utf-8"), flags=re.S
    )
    outside = outside.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(src|href)=\"(?!data:)", outside)
    assert "https://" not in outside
    assert "fetch(" not in outside


def test_hostile_text_cannot_leave_its_place(folders: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    shutil.copytree(folders[2], folder)
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    metadata["name"] = "</script><script>alert(1)</script>"
    path.write_text(json.dumps(metadata), encoding="utf-8")
    page = tmp_path / "board.html"
    page.write_text(leaderboard_page([folder]), encoding="utf-8")
    assert "<script>alert(1)" not in page.read_text(encoding="utf-8")
    assert data_of(page)["policies"][0]["name"].startswith("</script>")


def test_only_names_on_the_board_can_be_highlighted(folders: list[Path]) -> None:
    with pytest.raises(UserError, match="no submission is named mine; there are naive"):
        leaderboard_page(folders, ["mine"])


def test_submissions_that_do_not_fit(folders: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "full"
    shutil.copytree(folders[0], folder)
    path = folder / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(metadata | {"quick": False, "name": "full"}), encoding="utf-8")
    with pytest.raises(UserError, match="completeness"):
        load_all([folder])
    with pytest.raises(UserError, match="two submissions are named 'naive'"):
        load_all([folders[0], folders[0]])
    with pytest.raises(
        UserError, match="either full runs or quick runs of v2; got quick runs of v1"
    ):
        load_all([Path(__file__).parent / "data" / "v1-random"])


def test_the_order_as_json(folders: list[Path]) -> None:
    order = json.loads(board_json(folders))
    places = {(e["track"], e["class"], e["policy"]): e for e in order}
    assert len(order) == len(TRACKS) * len(POLICIES)
    # The mixture engine needs a fraction of the pulls of elimination.
    assert places["told", "proved", "naive:engine=mixture"]["rank"] == 1
    assert places["told", "proved", "naive"]["rank"] == 2
    assert places["relaxed", "proved", "naive"]["rank"] == 2
    toy = places[
        "bounded", "empirical", "fixed"
    ]  # says "proved", but nobody has read a proof of it
    assert toy["rank"] == 1
    assert {"solved", "vs_bound_low", "busiest", "bits_per_agent", "rounds"} <= set(toy)
    assert places["small-delta", "empirical", "fixed"]["rank"] is None
    assert "only proved" in places["small-delta", "empirical", "fixed"]["reason"]
    assert "solves none" in places["told", "empirical", "random"]["reason"]


def test_reasons_name_no_line_of_code() -> None:
    submission = load_submission(Path(__file__).parents[2] / "submissions/quick/collaborative")
    assert "(collaborative.py, line" in str(submission.scores)
    for shown in (submission.entries, cell_table(submission)):
        assert "but M = 3; use cluster-then-bai" in str(shown)
        assert ".py" not in str(shown)


def test_the_order_as_a_table(folders: list[Path]) -> None:
    lines = top_lines(folders).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:4]] == ["naive:engine=mixture", "naive"]
    assert "quick runs" in lines[-1]


def test_the_command_prints_json(folders: list[Path]) -> None:
    table = CliRunner().invoke(app, ["suite", "board", str(folders[0]), "--format", "text"])
    assert table.output.split()[:5] == ["track", "class", "rank", "policy", "solved"]
    found = CliRunner().invoke(app, ["suite", "board", str(folders[0]), "--format", "json"])
    assert found.exit_code == 0
    assert json.loads(found.output)[0]["policy"] == "naive"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(1400, 1600) as session:
        yield session


def column(browser: Any, table: str, place: int) -> list[str]:
    cells = browser.find_elements("css selector", f"#{table} tbody td:nth-child({place})")
    return [cell.text for cell in cells]


def choose(browser: Any, select: str, value: str) -> None:
    browser.execute_script(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))",
        select,
        value,
    )


def click(browser: Any, table: str, heading: str) -> None:
    buttons = browser.find_elements("css selector", f"#{table} th button")
    next(button for button in buttons if button.text == heading).click()


def test_in_a_browser(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    assert column(browser, "proved", 1) == ["naive:engine=mixture", "naive"]
    assert sorted(column(browser, "unranked", 1)) == ["fixed", "random"]
    assert "solves none" in column(browser, "unranked", 3)[0]
    assert browser.find_element("css selector", "tr.mine").text.startswith("fixed")
    assert "Quick runs" in browser.find_element("id", "quick").text
    assert browser.find_element("css selector", "#plot-cell text.mine").text.startswith("fixed")
    for plot in ("plot-frontier", "plot-cell"):
        box, chart = (browser.find_element("css selector", f"#{plot}{end}") for end in ("", " svg"))
        assert chart.size["width"] > 0.9 * box.size["width"]

    # Sorting, either way.
    click(browser, "proved", "policy")
    assert column(browser, "proved", 1) == ["naive", "naive:engine=mixture"]
    click(browser, "proved", "policy")
    assert column(browser, "proved", 1) == ["naive:engine=mixture", "naive"]

    # Another track; one of its cells; two policies.
    choose(browser, "track", "bounded")
    assert column(browser, "empirical", 1) == ["fixed"]
    assert column(browser, "compare", 1) == ["easy-10"]
    assert "ten agents" in browser.find_element("id", "probes").text
    assert set(column(browser, "cell-table", 1)) == {
        "naive", "naive:engine=mixture", "fixed", "random"
    }  # fmt: skip
    choose(browser, "first", "naive")
    choose(browser, "second", "naive:engine=mixture")
    assert "common cells" in browser.find_element("id", "summary").text
    choose(browser, "track", "small-delta")
    assert "only proved" in column(browser, "unranked", 3)[0]

    # On a phone nothing sticks out.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert [
        entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ] == []
