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

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.suite.checker import verify
from clustered_bandit_gym.suite.leaderboard import load_all, top_lines, write_leaderboard
from clustered_bandit_gym.suite.submission import run_suite

#: Cheap policies, one per guarantee.
POLICIES = (("naive", "proved"), ("suite_toys:Fixed", "claimed"), ("random", "none"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("submissions")
    found = []
    for spec, guarantee in POLICIES:
        folder = home / spec.partition(":")[0]
        run_suite(
            spec,
            folder,
            quick=True,
            progress=False,
            guarantee=guarantee,
            link="https://example.org/proof",
        )
        found.append(folder)
    return found


@pytest.fixture(scope="module")
def page(folders: list[Path]) -> Path:
    return write_leaderboard(folders, folders[0].parent / "pages" / "board.html")


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
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    metadata["name"] = "</script><script>alert(1)</script>"
    (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    page = write_leaderboard([folder], tmp_path / "board.html")
    assert "<script>alert(1)" not in page.read_text(encoding="utf-8")
    assert data_of(page)["policies"][0]["name"].startswith("</script>")


def test_full_and_quick_runs_do_not_mix(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import clustered_bandit_gym.suite.leaderboard as module

    folder = tmp_path / "full"
    shutil.copytree(folders[0], folder)
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    (folder / "metadata.json").write_text(
        json.dumps(metadata | {"quick": False, "name": "full"}), encoding="utf-8"
    )
    with pytest.raises(UserError, match="completeness"):
        load_all([folder])
    monkeypatch.setattr(module, "verify", lambda folder, replay: None)
    with pytest.raises(UserError, match="full and quick runs cannot share a board"):
        load_all([folders[1], folder])
    with pytest.raises(UserError, match="two submissions are named 'naive'"):
        load_all([folders[0], folders[0]])


def test_top_lines(folders: list[Path]) -> None:
    lines = top_lines(folders).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["`naive`", "`fixed`", "`random`"]
    # naive over naive is 1.
    assert lines[2].split("|")[6].strip() == "1"
    assert "quick runs" in lines[-1]


def test_committed_submissions_hold() -> None:
    """Format, digest, completeness and scores; `make submissions` replaces them after a change of policies."""
    import leaderboard

    for folder in leaderboard.reference_folders():
        assert verify(folder, replay=0).replayed == []


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
    data = data_of(page)
    assert column(browser, "board", 1) == ["naive", "fixed", "random"]
    assert "Quick runs" in browser.find_element("id", "quick").text

    # Sorting by any column; a policy without a value comes last either way.
    headings = [button.text for button in browser.find_elements("css selector", "#board th button")]
    assert len(headings) >= 10
    for heading in headings:
        click(browser, "board", heading)
    for heading, key in (("policy", "name"), ("pulls / bound", "vs_bound"), ("rounds", "rounds")):
        values = [(p["groups"][""].get(key, p.get(key)), p["name"]) for p in data["policies"]]
        known = sorted((value, name) for value, name in values if value is not None)
        missing = [name for value, name in values if value is None]
        click(browser, "board", heading)
        up = column(browser, "board", 1)
        click(browser, "board", heading)
        down = column(browser, "board", 1)
        if len({value for value, _ in known}) == len(known):
            assert up == [name for _, name in known] + missing, heading
            assert down == [name for _, name in known][::-1] + missing, heading

    # Filters.
    choose(browser, "guarantee", "proved")
    assert column(browser, "board", 1) == ["naive"]
    assert len(browser.find_elements("css selector", "#plot-profile .trace")) == 1
    choose(browser, "guarantee", "")
    choose(browser, "tag", "bernoulli")
    cells = [cell["name"] for cell in data["cells"] if "bernoulli" in cell["tags"]]
    assert column(browser, "compare", 1) == cells
    assert column(browser, "board", 3)[0].endswith(f"/{len(cells)}")
    choose(browser, "tag", "")

    # One cell: a row and a distribution per policy that pulled at all.
    choose(browser, "cell", "coins")
    assert "Bernoulli rewards" in browser.find_element("id", "probes").text
    assert set(column(browser, "cell-table", 1)) == {"naive", "fixed", "random"}
    traces = browser.find_elements("css selector", "#plot-cell .trace")
    assert {trace.get_attribute("data-policy") for trace in traces} == {"naive", "fixed"}
    assert all(trace.find_elements("css selector", "rect") for trace in traces)

    # Two policies.
    choose(browser, "first", "naive")
    choose(browser, "second", "fixed")
    by_name = {p["name"]: p["cells"]["coins"] for p in data["policies"]}
    row = column(browser, "compare", 1).index("coins")
    shown = float(column(browser, "compare", 4)[row].replace(",", ""))
    assert shown == pytest.approx(by_name["naive"]["pulls"] / by_name["fixed"]["pulls"], rel=0.01)
    assert "common cells" in browser.find_element("id", "summary").text
    choose(browser, "second", "random")
    assert "no cell that both solve" in browser.find_element("id", "summary").text

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
