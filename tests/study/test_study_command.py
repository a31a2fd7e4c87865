"""`clustered-bai study`: files in and out, and the page."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_calls import call, error

import clustered_bandit_gym as cbg
from clustered_bandit_gym.study import report

MEANS = np.array([[0.9, 0.1], [0.2, 0.8]])
NEW = ("--n-agents", 4, "--n-arms", 2, "--n-clusters", 2, "--eta", 0.5, "--values", 0, 1)


def begin(folder: Path, policy: str = "naive") -> Path:
    call("study", "new", folder / "s.db", "-p", policy, *NEW)
    return folder / "s.db"


def pulled(table: pd.DataFrame, form: str) -> pd.DataFrame:
    """The rewards of an order, in one of the forms that a file may have."""
    ones = np.rint(MEANS[table.agent % 2, table.arm] * table.times).astype(int)
    if form == "sum":
        return table.assign(sum=ones)
    lines = table.loc[table.index.repeat(table.times)]
    place = lines.groupby("row").cumcount()
    lines = lines.assign(reward=(place < np.repeat(ones, table.times).to_numpy()).astype(int))
    return lines[["order", "row", "reward"]]


def test_a_study_starts_without_what_only_boards_need() -> None:
    check = "import clustered_bandit_gym.study, sys; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_a_study_by_files(tmp_path: Path) -> None:
    """Rewards in each of the two forms in turn."""
    study, forms = begin(tmp_path, "naive:engine=mixture"), ["reward", "sum"]
    order, rewards = tmp_path / "order.csv", tmp_path / "rewards.csv"
    while "done" not in call("study", "ask", study, "-o", order, code=None):
        forms.append(forms.pop(0))
        pulled(pd.read_csv(order), forms[-1]).to_csv(rewards, index=False)
        call("study", "tell", study, rewards)
        assert "taken before" in call("study", "tell", study, rewards)
    call("study", "ask", study, code=3)
    state = json.loads(call("study", "status", study, "--json"))
    assert state["done"]
    assert state["orders"] > 3
    assert state["arms"] == [0, 1, 0, 1]
    assert state["pulls"] == sum(state["pulls_per_agent"])
    assert "0,0" in call("study", "status", study)
    call("study", "report", study, "-o", tmp_path / "page.html")
    assert "Every agent has its arm" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("left_out", [["times"], []])
def test_a_sum_counts_for_the_pulls_that_were_asked_for_last(
    left_out: list[str], tmp_path: Path
) -> None:
    study, order, rewards = begin(tmp_path), tmp_path / "order.csv", tmp_path / "rewards.csv"
    call("study", "ask", study, "-o", order)
    first = pd.read_csv(order)
    first.head(1).assign(reward=1).to_csv(rewards, index=False)
    call("study", "tell", study, rewards)
    assert "order 1:" in call("study", "ask", study, "-o", order)
    rest = pd.read_csv(order)
    assert rest.times[0] == first.times[0] - 1
    # Sums of the first order: too many now.
    first.assign(sum=0).to_csv(rewards, index=False)
    assert "more than it asked for" in error("study", "tell", study, rewards)
    rest.assign(sum=0).drop(columns=left_out).to_csv(rewards, index=False)
    call("study", "tell", study, rewards)
    call("study", "ask", study, "-o", order)
    assert pd.read_csv(order).order[0] == 2


def test_rewards_that_are_not_text_are_refused(tmp_path: Path) -> None:
    study, rewards = begin(tmp_path), tmp_path / "rewards.csv"
    rewards.write_text("order,row,reward\n1,0,1\n", encoding="utf-16")
    assert "'utf-8' codec can't decode" in error("study", "tell", study, rewards)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_sums_and_counts_of_a_file_give_the_averages(form: str, tmp_path: Path) -> None:
    study, order, rewards = begin(tmp_path), tmp_path / "order.csv", tmp_path / "rewards"
    call("study", "ask", study, "-o", order)
    table = pulled(pd.read_csv(order), "sum")
    if form == "csv":
        table.to_csv(rewards, index=False)
    else:
        counts = np.stack([table.times - table["sum"], table["sum"]], axis=1).tolist()
        rewards.write_text(json.dumps({"order": 1, "counts": counts}))
    call("study", "tell", study, rewards)
    status = cbg.Study.open(study).status
    assert status.missing == 0
    assert np.allclose(status.means, MEANS[[0, 1, 0, 1]], atol=0.1)


def test_equal_parts_of_a_row_need_names(tmp_path: Path) -> None:
    study, part = begin(tmp_path), tmp_path / "part.csv"
    call("study", "ask", study, "-o", tmp_path / "order.csv")
    part.write_text("order,row,reward\n1,0,1\n", encoding="utf-8")
    call("study", "tell", study, part)
    assert "--key" in error("study", "tell", study, part)
    call("study", "tell", study, part, "--key", "monday")
    assert "taken before" in call("study", "tell", study, part, "--key", "monday")
    call("study", "tell", study, part, "--key", "tuesday")
    assert cbg.Study.open(study).status.pulls == 3


def test_every_option_of_new_reaches_the_study(tmp_path: Path) -> None:
    given = {"n-agents": 3, "n-arms": 4, "n-clusters": 2, "delta": 0.2, "eta": 0.3, "eta1": 0.1}
    given |= {"sigma": 0.7, "epsilon": 0.05, "max-pulls-per-agent": 900, "seed": 5}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    path = tmp_path / "s.db"
    call("study", "new", path, "-p", "naive", *words, "--support", -1, 2, "--values", 0, 1)
    study = cbg.Study.open(path)
    expected = cbg.Problem(3, 4, 2, 0.2, 0.3, 0.1, 0.7, (-1, 2), 0.05, 900)
    assert (study.problem, study.seed) == (expected, 5)
    assert study.values is not None
    assert study.values.tolist() == [0, 1]
    state = json.loads(call("study", "status", path, "--json"))
    assert (state["done"], state["pulls_max_agent"], state["arms"]) == (False, 0, None)


def test_large_numbers_of_a_report_have_separators() -> None:
    study = cbg.Study("naive", cbg.Problem(2000, 2, None, 0.1))
    order = study.ask()
    assert order is not None
    study.tell(order, sums=np.zeros(len(order)))
    page = report(study)
    pulls = study.status.pulls
    assert pulls > 10**6
    assert f"<td>{pulls // 2:,}</td>" in page, "pulls of each arm"
    assert "n_agents = 2,000" in page
    assert str(pulls) not in page


def test_json_in_and_out(tmp_path: Path) -> None:
    study, rewards = begin(tmp_path), tmp_path / "rewards.json"
    asked = json.loads(call("study", "ask", study, "--json"))
    told = {"order": asked["order"], "rows": [0, 2], "rewards": [[1], [0]], "key": "first"}
    rewards.write_text(json.dumps(told))
    call("study", "tell", study, rewards)
    assert "taken before" in call("study", "tell", study, rewards)
    assert json.loads(call("study", "status", study, "--json"))["pulls"] == 2


def test_report_of_an_unfinished_study() -> None:
    problem = cbg.Problem(3, 2, None, 0.1)
    study = cbg.Study("naive", problem)
    order = study.ask()
    assert order is not None
    study.tell(order, sums=np.arange(6.0), rows=np.arange(6))
    page = report(study)
    assert "No arm is final before" in page
    for head in ("mean of arm 1", "phase", "tells"):
        assert f"<th>{head}</th>" in page
    assert "<td>0.028</td>" in page  # the average of agent 2 and arm 1: 5 in 176 pulls
    assert page.count("<td>528</td>") == 2, "pulls of each arm"
    assert "<td>1,056</td>" in page, "pulls of the order"
    assert "$" not in page


@pytest.mark.parametrize(("guarantee", "promised"), [("none", False), ("delta-PC", True)])
def test_a_report_promises_only_what_the_policy_does(guarantee: str, promised: bool) -> None:
    class Once(cbg.Policy):
        def solve(self, federation: cbg.Federation) -> np.ndarray:
            agents = federation.agents
            federation.pull(agents, np.zeros(len(agents), dtype=int), 1)
            return np.zeros(len(agents), dtype=int)

    Once.guarantee = guarantee
    study = cbg.drive(Once(), lambda agents, arms, times: [[0.0]] * 3, cbg.Problem(3, 2, None, 0.1))
    page = report(study)
    assert ("With probability at least 0.9" in page) == promised
    assert ("states no guarantee" in page) != promised


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "not a CSV file with a header"),
        ("order,row,reward\n", "expected lines of one order, got none"),
        ("order;row;reward\n1;0;1\n", "separated by commas"),
        ("agent,arm,reward\n0,0,1\n", "expected the columns order, row"),
        ("order,row\n1,0\n", "either reward or sum"),
        ("order,row,reward,sum\n1,0,1,1\n", "either reward or sum"),
        ("order,row,reward\n1,0,1\n1,0,yes\n", "line 3: reward must be a number, got yes"),
        ("order,row,reward\n1,0,\n", "line 2: reward must be a number, got nan"),
        ("order,row,reward\n1,0,0.5\n", "line 2: reward 0.5 in row 0 is impossible"),
        ("order,row,reward\n1,1,1\n1,0,1\n1,1,2\n1,0,0\n", "line 4: reward 2 in row 1"),
        ("order,row,sum\n1,1,2\n1,0,9999\n", "line 3: sum / pulls ="),
        ("order,row,reward\n9,0,1\n", "there is no order 9"),
        ("order,row,reward\n1,99,1\n", "row 99 is out of range"),
        ("order,row,reward\n1,0,1\n2,0,1\n", "lines of one order"),
        ("order,row,sum\n1,0,1\n1,0,1\n", "different rows"),
        ("order,row,reward\n1,2.5,1\n", "row indices must be integers"),
        ("order,row,reward\n1,x,1\n", "line 2: row must be a number, got x"),
        ("order,row,sum\n1,0,9999\n", "rewards are finite numbers from 0 to 1"),
        ('{"order": 1, "rewards": [[2]], "rows": [0]}', "tell: reward 2 in row 0 is impossible"),
        ("order,reward\n1,1\n", "expected the columns order, row"),
        ("order,agent,arm,reward\n1,0,0,1\n", "expected the columns order, row"),
        ("order,row,reward\n1,0,0,5\n", "as many cells in each line, and decimal points"),
        ("order,row,sum\n1,0,1\n1,1,24,75\n", "as many cells in each line, and decimal points"),
        (
            "order,row,agent,arm,reward\n1,0,0,0,1\n1,0,2,1,1\n",
            "line 3: row 0 of order 1 is of agent 0",
        ),
        ("order,row,arm,reward\n1,0,1,1\n", "line 2: row 0 of order 1 is of arm 0, got 1"),
        ('{"order": 1, "reward": 1}', "got order, reward"),
        ('{"order": 1', "not JSON"),
    ],
)
def test_bad_files(lines: str, message: str, tmp_path: Path) -> None:
    study = begin(tmp_path)
    call("study", "ask", study)
    before = study.read_bytes()
    (tmp_path / "rewards").write_text(lines)
    assert message in error("study", "tell", study, tmp_path / "rewards")
    assert study.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ask", "nowhere.db"), "there is no file nowhere.db"),
        (("new", "x.db", "-p", "no-such", *NEW), "unknown policy"),
        (("new", "x.db", "-p", "uniform:x=1", *NEW), "its settings"),
    ],
)
def test_mistakes(arguments: tuple[Any, ...], message: str, tmp_path: Path) -> None:
    assert message in error("study", *arguments)
    assert "exists" in error("study", "new", begin(tmp_path), "-p", "naive", *NEW)


def test_a_policy_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names its class and is not asked to load it: the user is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("own_of_study.py").write_text(
        "import numpy as np\nimport clustered_bandit_gym as cbg\n\n\n"
        "class Own(cbg.Policy):\n"
        "    def solve(self, federation):\n"
        "        return federation.pull(federation.agents[:, None], [0, 1], 3).argmax(axis=1)\n"
    )
    study = begin(tmp_path, "own_of_study:Own")
    try:
        for verb in ("ask", "report"):
            text = error("study", verb, study)
            assert (
                "is played by own_of_study:Own, a policy of your own: give it, as --policy" in text
            )
            call("study", verb, study, "-p", "own_of_study:Own", "-o", "out.csv")
        table = pd.read_csv(io.StringIO(call("study", "ask", study, "-p", "own_of_study:Own")))
        pulled(table, "sum").to_csv("rewards.csv", index=False)
        call("study", "tell", study, "rewards.csv", "-p", "own_of_study:Own")
        assert "done" in call("study", "status", study, "-p", "own_of_study:Own")
    finally:
        sys.modules.pop("own_of_study", None)


def test_a_spent_limit_is_an_end_and_no_bug(tmp_path: Path) -> None:
    study = tmp_path / "s.db"
    call("study", "new", study, "-p", "naive", *NEW, "--max-pulls-per-agent", 3)
    assert "max_pulls_per_agent = 3" in error("study", "ask", study)
    assert "stopped without an answer" in call("study", "status", study)


def test_a_limit_can_be_raised(tmp_path: Path) -> None:
    """As far as the policy does not plan with it; a lower one is another study."""
    study, order = tmp_path / "s.db", tmp_path / "order.csv"
    call("study", "new", study, "-p", "naive:engine=mixture", *NEW, "--max-pulls-per-agent", 6)
    for _ in range(9):
        if "max_pulls_per_agent" in call("study", "ask", study, "-o", order, code=None):
            break
        pulled(pd.read_csv(order), "sum").to_csv(tmp_path / "rewards.csv", index=False)
        call("study", "tell", study, tmp_path / "rewards.csv")
    assert "a larger limit lets it go on" in report(cbg.Study.open(study))
    said = error("study", "ask", study, "--max-pulls-per-agent", 5)
    assert "holds another study: max_pulls_per_agent is 6, not 5" in said
    call("study", "ask", study, "--max-pulls-per-agent", 10_000, "-o", order)
    assert cbg.Study.open(study).problem.max_pulls_per_agent == 10_000
    assert len(pd.read_csv(order))


def test_what_is_shown_names_the_study(tmp_path: Path) -> None:
    study = begin(tmp_path)
    opened = cbg.Study.open(study)
    assert repr(opened) == f"Study('naive', '{study}')"
    assert repr(opened.ask()).startswith("Order(id=1, phase='identify', rows=8, pulls=")
    call("study", "report", study)
    assert (tmp_path / "s.html").exists()
    assert "must be one of '.csv', '.json'" in error("study", "ask", study, "-o", "order.xlsx")


def test_numbers_of_a_spreadsheet(tmp_path: Path) -> None:
    study = begin(tmp_path)
    call("study", "ask", study)
    text = "order,row,agent,arm,reward\n1.0,0.0,0.0,0.0,1.0\n1.0,1.0,0.0,1.0,0.0\n"
    (tmp_path / "rewards.csv").write_text(text)
    assert "2 pulls told" in call("study", "tell", study, tmp_path / "rewards.csv")
    (tmp_path / "more.json").write_text('{"order": 1, "row": [2], "rewards": [[1]]}')
    assert "3 pulls told" in call("study", "tell", study, tmp_path / "more.json")
