"""The report: a page that a browser loads without complaint, sorts, and fills with every trace."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.report import report_page, write_report

FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small sweep over two numbers of agents."""
    out = tmp_path_factory.mktemp("store")
    for n_agents in (9, 18):
        cbg.evaluate(
            FOUR, "ClusteredBAI-PaperSmall-v0", n_agents=n_agents, delta=0.05, trials=3, out=out, progress=False
        )
    return write_report(out, out / "pages" / "report.html")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found.group(1))


def test_the_page_holds_all_trials_and_fetches_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    data = data_of(text)
    assert [group["n_agents"] for group in data["groups"]] == [9, 18]
    assert all(len(group["trials"]) == 12 and len(group["summary"]) == 4 for group in data["groups"])
    assert data["sweep"] == "n_agents"
    outside = re.sub(r"http://www\.w3\.org/2000/svg", "", text.replace(json.dumps(data), ""))
    assert not re.search(r"(src|href)=\"(?!data:)", outside)
    assert "https://" not in re.sub(r'<script id="data".*?</script>', "", outside, flags=re.S)


def test_hostile_text_cannot_leave_its_place() -> None:
    board = cbg.evaluate(["random"], "ClusteredBAI-PaperSmall-v0", n_agents=3, delta=0.05, trials=1, progress=False)
    row = board.trials.iloc[0].to_dict() | {"message": "</script><script>alert(1)</script>", "outcome": "error"}
    text = report_page([row])
    assert "<script>alert(1)" not in text
    assert data_of(text)["groups"][0]["trials"][0]["message"].startswith("</script>")


def test_an_empty_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no trials"):
        write_report(tmp_path, tmp_path / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in f"{flags} disable-component-update disable-sync disable-dev-shm-usage window-size=1200,1600".split():
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


def column(browser: Any, place: int) -> list[str]:
    cells = browser.find_elements("css selector", f"#board tbody td:nth-child({place})")
    return [cell.text for cell in cells]


def test_in_a_browser(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    assert column(browser, 1) == FOUR

    heading = next(b for b in browser.find_elements("css selector", "#board th button") if b.text == "mean pulls")
    by_pulls = [
        line["policy"]
        for line in sorted(data_of(page.read_text())["groups"][0]["summary"], key=lambda s: s["pulls_mean"])
    ]
    heading.click()
    assert column(browser, 1) == by_pulls
    heading.click()
    assert column(browser, 1) == by_pulls[::-1]

    for plot in ("plot-pulls", "plot-tradeoff", "plot-phases", "plot-trials", "plot-sweep"):
        traces = browser.find_elements("css selector", f"#{plot} .trace")
        assert {trace.get_attribute("data-policy") for trace in traces} == set(FOUR), plot
        assert all(trace.find_elements("css selector", "circle, rect, path") for trace in traces), plot
    assert len(browser.find_elements("css selector", "#plot-trials .trace circle")) == 12

    # A legend's button hides its policy everywhere.
    browser.find_element("css selector", "#plot-tradeoff .legend button").click()
    assert len(browser.find_elements("css selector", ".trace.off")) >= 4

    # The other setting.
    browser.execute_script(
        "const s = document.getElementById('group'); s.value = 1; s.dispatchEvent(new Event('change'))"
    )
    assert '"n_agents": 18' in browser.find_element("css selector", "#settings pre").text
    words = browser.find_element("id", "verdicts").text
    assert "80 further trials, all right, would give a PASS" in words

    # On a phone nothing sticks out.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
