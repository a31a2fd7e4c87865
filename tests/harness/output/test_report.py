"""The report: a page that a browser loads without complaint, sorts, and fills with every trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import chromium
from harness_rows import rows

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.output.report import report_page, write_report
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.scoring.numbers import number

LONG = "my_package.my_module:VeryLongPolicyName:confidence=certified"
FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small sweep over two numbers of agents."""
    out = tmp_path_factory.mktemp("store")
    for n_agents in (9, 18):
        cbg.evaluate(
            FOUR,
            "ClusteredBAI-PaperSmall-v0",
            n_agents=n_agents,
            delta=0.05,
            trials=3,
            out=out,
            progress=False,
        )
    return write_report(out, out / "pages" / "report.html")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found.group(1))


def test_the_page_holds_all_trials_and_fetches_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    data = data_of(text)
    told = [group["settings"]["told to the learner"] for group in data["groups"]]
    assert [problem["n_agents"] for problem in told] == [9, 18]
    assert all(
        len(group["trials"]) == 12 and len(group["summary"]) == 4 for group in data["groups"]
    )
    assert all(row["pulls_max_agent"] > 0 for row in data["groups"][0]["summary"])
    assert 'cut("pulls_max_agent", "busiest")' in text
    assert data["sweep"]["x"] == "agents N"
    outside = re.sub(r"http://www\.w3\.org/2000/svg", "", text.replace(json.dumps(data), ""))
    assert not re.search(r"(src|href)=\"(?!data:)", outside)
    assert "https://" not in re.sub(r'<script id="data".*?</script>', "", outside, flags=re.S)


def test_hostile_text_cannot_leave_its_place() -> None:
    board = cbg.evaluate(
        ["random"], "ClusteredBAI-PaperSmall-v0", n_agents=3, delta=0.05, trials=1, progress=False
    )
    row = board.trials.iloc[0].to_dict() | {
        "message": "</script><script>alert(1)</script>",
        "outcome": "error",
    }
    text = report_page(cbg.Board([row]))
    assert "<script>alert(1)" not in text
    assert data_of(text)["groups"][0]["trials"][0]["message"].startswith("</script>")


def test_a_page_lists_at_most_5000_trials() -> None:
    """Wrong trials are listed wherever they are."""
    outcomes = ["solved"] * 5999 + ["wrong"]
    many = rows("p", [100.0 + trial for trial in range(6000)], outcomes)
    group = data_of(report_page(cbg.Board(many)))["groups"][0]
    assert group["count"] == 6000
    assert [row["trial"] for row in group["trials"]] == [*range(4999), 5999]


def test_an_empty_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no trials"):
        write_report(tmp_path, tmp_path / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(1200, 1600) as session:
        yield session


def column(browser: Any, place: int) -> list[str]:
    cells = browser.find_elements("css selector", f"#board tbody td:nth-child({place})")
    return [cell.text for cell in cells]


def test_in_a_browser(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    assert column(browser, 1) == FOUR

    heading = next(
        b
        for b in browser.find_elements("css selector", "#board th button")
        if b.text == "mean pulls"
    )
    by_pulls = [
        line["policy"]
        for line in sorted(
            data_of(page.read_text(encoding="utf-8"))["groups"][0]["summary"],
            key=lambda s: s["pulls_mean"],
        )
    ]
    heading.click()
    assert column(browser, 1) == by_pulls
    heading.click()
    assert column(browser, 1) == by_pulls[::-1]

    for plot in ("plot-pulls", "plot-tradeoff", "plot-phases", "plot-trials", "plot-sweep"):
        traces = browser.find_elements("css selector", f"#{plot} .trace")
        assert {trace.get_attribute("data-policy") for trace in traces} == set(FOUR), plot
        assert all(trace.find_elements("css selector", "circle, rect, path") for trace in traces), (
            plot
        )
    assert len(browser.find_elements("css selector", "#plot-trials .trace path")) == 12

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

    assert [
        entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ] == []


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two varied settings, a policy that fails, unfinished trials, a heavy tail and a long name."""
    found = []
    for n in (9, 30, 100, 300):
        for delta in (0.05, 1e-10):
            where = {"env_kwargs": {"n_agents": n, "delta": delta}, "delta": delta, "n_agents": n}
            where["pulls_by_phase"] = {"identify": 80.0, "verify": 20.0}
            base = (
                n * np.log(1 / delta) * 1.32e4
            )  # a tick of 5e5 near the right end: its label must not stick out
            spread = 1 + 0.01 * np.arange(20)
            found += rows("naive", list(base * spread), cost=40.0 * n, **where)
            found += rows(
                "bai-cl",
                list(0.1 * base * spread),
                ["budget"] * 2 + ["solved"] * 18,
                cost=90.0 * n,
                **where,
            )
            found += rows(LONG, list(0.01 * base * spread), "wrong", cost=7e6 * n, **where)
    found += rows(
        "heavy",
        [10.0 + t for t in range(49)] + [1e4],
        env="F",
        n_agents=3,
        env_kwargs={"n_agents": 3},
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(
        report_page(cbg.Board(found)),
        encoding="utf-8",
    )
    return path


def resize(browser: Any, width: int, dark: bool = False) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


#: Lowest contrast (WCAG) of any visible text with what is painted behind it, and that text.
CONTRAST = """
function rgb(text) { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; }
function light(c) { const f = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; }
let worst = [99, ""];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || ["SCRIPT", "STYLE", "title"].includes(node.tagName) || !node.getClientRects().length) continue;
  if (node.closest("#tip")) continue;
  const style = getComputedStyle(node), ink = rgb(node instanceof SVGElement ? style.fill : style.color);
  let back = null;
  for (let at = node; at && !back; at = at.parentElement) {
    const paint = rgb(getComputedStyle(at).backgroundColor);
    if (paint[3] > 0) back = paint; }
  const a = light(ink), b = light(back), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < worst[0]) worst = [ratio, node.tagName + " " + node.textContent.slice(0, 40)]; }
return worst;
"""

#: Parts of policies' names, between two places where a line may break, that are on two lines.
BROKEN = """
return [...document.querySelectorAll("#board td:first-child span")].flatMap(span => [...span.childNodes]).filter(node => {
  const range = document.createRange();
  range.selectNode(node);
  return node.nodeType === 3 && range.getClientRects().length > 1; }).map(node => node.textContent);
"""

#: Pairs of tick labels of one drawing that touch each other.
OVERLAPS = """
const found = [];
for (const kind of [".xtick", ".ytick"]) for (const svg of document.querySelectorAll("svg")) {
  const boxes = [...svg.querySelectorAll(kind)].map(t => [t.getBoundingClientRect(), t.textContent]);
  boxes.forEach(([a, s], i) => boxes.slice(i + 1).forEach(([b, t]) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) found.push([kind, s, t]); })); }
return found;
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1400])
def test_readable_at_both_widths_in_both_themes(
    browser: Any, awkward: Path, width: int, dark: bool
) -> None:
    resize(browser, width, dark)
    browser.get(awkward.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    table = "const box = document.querySelector('#board').parentElement; return box.scrollWidth - box.clientWidth"
    assert browser.execute_script(table) <= 0  # no column is cut
    assert browser.execute_script(OVERLAPS) == []
    assert browser.execute_script(BROKEN) == []
    ratio, text = browser.execute_script(CONTRAST)
    assert ratio >= 4.5, text
    smallest = "return Math.min(...[...document.querySelectorAll('svg[role=img]')].map(s => s.getScreenCTM().a))"
    assert browser.execute_script(smallest) > 0.95  # drawings are not shrunk, so 12 px stay 12 px
    outside = (
        "return [...document.querySelectorAll('svg[role=img] text')].filter(t => { const a = t.getBoundingClientRect(),\
        b = t.ownerSVGElement.getBoundingClientRect(); return a.right > b.right + 2 || a.left < b.left - 2 })\
        .map(t => t.textContent)"
    )
    assert browser.execute_script(outside) == []


def test_a_phone_sorts_by_a_list(browser: Any, awkward: Path) -> None:
    resize(browser, 400)
    browser.get(awkward.as_uri())
    assert not browser.find_element("css selector", "#board thead").is_displayed()
    chosen = "const s = document.getElementById('sortby'); s.value = [...s.options].find(o => o.text === 'cost').value;"
    browser.execute_script(chosen + "s.dispatchEvent(new Event('change'))")
    assert column(browser, 1) == ["naive", "bai-cl", LONG]


def test_the_whole_heading_cell_sorts(browser: Any, awkward: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    resize(browser, 1400)
    browser.get(awkward.as_uri())
    heading = next(
        th for th in browser.find_elements("css selector", "#board th") if th.text == "mean pulls"
    )
    box = heading.rect
    for side in (-1, 1):
        ActionChains(browser).move_to_element_with_offset(
            heading, side * (int(box["width"]) // 2 - 2), side * (int(box["height"]) // 2 - 2)
        ).click().perform()
        assert heading.get_attribute("aria-sort") == ("ascending" if side < 0 else "descending")


def test_pictures_of_the_report(browser: Any, awkward: Path) -> None:
    """Lines join what differs in N alone; FAIL is crossed out and unfinished is hollow in each picture."""
    resize(browser, 1400)
    browser.get(awkward.as_uri())
    titles = [box.text for box in browser.find_elements("css selector", "#panels h3")]
    assert titles == ["env = E, δ = 0.05", "env = E, δ = 1e-10", "env = F, δ = 0.1"]
    for panel in browser.find_elements("css selector", "#panels .panel")[:2]:
        lines = [
            path.get_attribute("d") for path in panel.find_elements("css selector", "path.line")
        ]
        assert [line.count("L") for line in lines] == [3, 3, 3]
        xs = [float(point.split(",")[0]) for point in lines[0][1:].split("L")]
        assert xs == sorted(set(xs))  # no zigzag
    for plot in ("plot-pulls", "plot-tradeoff", "plot-sweep"):
        for policy, cross, hollow in (
            ("naive", False, "0"),
            ("bai-cl", False, "1"),
            (LONG, True, "0"),
        ):
            for trace in browser.find_elements(
                "css selector", f'#{plot} .trace[data-policy="{policy}"]'
            ):
                assert bool(trace.find_elements("css selector", ".cross")) == cross, (plot, policy)
                marks = trace.find_elements("css selector", ".mark")
                assert {mark.get_attribute("data-hollow") for mark in marks} == {hollow}, (
                    plot,
                    policy,
                )
    for plot in ("plot-tradeoff", "plot-trials", "plot-sweep"):
        words = [
            button.text
            for button in browser.find_elements("css selector", f"#{plot} .legend button")
        ]
        assert any(word.endswith(", FAIL") for word in words)
        assert any("unfinished" in word for word in words)
    colours = (
        "return Object.fromEntries(Object.entries(DATA.styles).map(([k, s]) => [k, s.colour]))"
    )
    assert browser.execute_script(colours)["bai-cl"] == style_of("bai-cl").colour


def test_heavy_tails_lead_with_the_median(browser: Any, awkward: Path) -> None:
    resize(browser, 1400)
    browser.get(awkward.as_uri())
    last = "const s = document.getElementById('group'); s.value = s.options.length - 1;"
    browser.execute_script(last + "s.dispatchEvent(new Event('change'))")
    heads = [th.text for th in browser.find_elements("css selector", "#board th")]
    assert heads[5:7] == ["median pulls", "mean"]
    assert column(browser, 6) == ["34.5 [27, 42]"]
    assert "Heavy tail (heavy)" in browser.find_element("id", "notes").text


def test_means_of_unfinished_trials_are_lower_bounds_as_on_the_board(
    browser: Any, awkward: Path
) -> None:
    resize(browser, 1400)
    browser.get(awkward.as_uri())
    policies = column(browser, 1)
    heads = [th.text for th in browser.find_elements("css selector", "#board th")]
    for head in ("vs naive", "vs bound", "cost", "bits up", "reals down", "rounds"):
        cells = dict(zip(policies, column(browser, heads.index(head) + 1), strict=True))
        assert cells["bai-cl"].startswith("≥"), head
        assert not cells["naive"].startswith("≥"), head


def test_numbers_are_written_as_on_the_board(browser: Any, awkward: Path) -> None:
    browser.get(awkward.as_uri())
    values = [
        0,
        1,
        12,
        999.9,
        0.1,
        27.449,
        1234.0,
        99_999.7,
        123_456,
        1.62e9,
        4e-5,
        0.00123,
        6.42e7,
        9.999,
        -3.5,
    ]
    for digits in (2, 3):
        found = browser.execute_script(
            "return arguments[0].map(v => num(v, arguments[1]))", values, digits
        )
        assert found == [number(value, digits=digits) for value in values]
