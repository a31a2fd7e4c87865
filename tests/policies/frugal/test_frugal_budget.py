"""The union bound of docs/frugal-bai.md, term by term, from the levels that the code uses."""

from __future__ import annotations

import re
from math import exp
from pathlib import Path

import numpy as np
import pytest

from clustered_bandit_gym import Problem
from clustered_bandit_gym.policies.frugal import levels
from clustered_bandit_gym.policies.frugal.budget import (
    ATTEMPTS,
    LAST_RESORT,
    SHARES,
    STREAMS,
    Budget,
    try_weight,
)

PROBLEMS = [
    Problem(9, 10, 3, 0.05, eta=0.3),
    Problem(1000, 100, 20, 1e-10, eta=0.15),
    Problem(2, 2, 2, 0.3, eta=0.5),
    Problem(5, 3, 2, 0.3, eta=0.5),
]


def test_shares_sum_to_one() -> None:
    assert sum(ATTEMPTS) + LAST_RESORT == pytest.approx(1, abs=1e-12)
    assert sum(SHARES.values()) == pytest.approx(1, abs=1e-12)
    assert all(share > 0 for share in (*ATTEMPTS, LAST_RESORT, *SHARES.values()))


def test_tries_sum_to_one() -> None:
    assert sum(try_weight(t) for t in range(1, 100_001)) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("attempt", range(len(ATTEMPTS)))
def test_levels_of_all_events_add_up(problem: Problem, attempt: int) -> None:
    n, k, m = problem.n_agents, problem.n_arms, problem.n_clusters
    assert m is not None
    budget = Budget.of(problem, attempt)
    beaten = m * (k - 1) * exp(-budget.beaten(1 / (k - 1)))
    close = m * (m - 1) * exp(-budget.close())
    distinct = STREAMS * m * (m - 1) * exp(-budget.distinct())
    bounds = STREAMS * m * 2 * 5 * exp(-budget.bound(5))
    listed = n * (m - 1) * exp(-budget.classify(1, tests=m - 1))
    # A node compares with one of two averages, or with bounds; a guess with one of 2(M − 1) + 1 averages.
    tree = (
        n
        * (m - 1)
        * max(STREAMS * exp(-budget.node(bounded=False)), exp(-budget.node(bounded=True)))
    )
    tries = n * (STREAMS * (m - 1) + 1) * sum(exp(-budget.guess(t)) for t in range(1, 2000))
    alone = n * budget.alone()
    delta = problem.delta * ATTEMPTS[attempt]
    assert max(distinct, bounds) == pytest.approx(SHARES["reference"] * delta)
    assert max(tree, tries, listed) <= SHARES["classify"] * delta * (1 + 1e-9)
    total = beaten + close + max(distinct, bounds) + max(tree, tries) + alone
    assert 0.95 * delta <= total <= delta * (1 + 1e-9)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_expected_winner_takes_no_more_than_its_share(problem: Problem) -> None:
    """Whichever arm is the best, the weights of the K − 1 others sum to at most one."""
    budget = Budget.of(problem, 0)
    k, m = problem.n_arms, problem.n_clusters
    assert m is not None
    for expected in (False, True):
        tests = levels.Tests(problem, budget, expected)
        prior = np.random.default_rng(k).dirichlet(np.ones(k))[None]
        late = m * np.exp(-tests.late_levels(prior))[0] if tests.late else np.zeros(k)
        for found in range(k):
            spent = m * np.exp(-tests.beaten_levels(np.array([found]))[0]) + late
            for best in range(k):
                assert np.delete(spent, best).sum() <= SHARES["beaten"] * budget.delta * (1 + 1e-9)


#: What the symbols of the page stand for when its formulas are worked out.
VALUES = {"δ'": 0.03, "π_a": 0.25, "v_t": try_weight(3), "M": 7.0, "N": 50.0, "d": 5.0}


def page_levels(text: str) -> list[float]:
    """The formulas in the last column of the page's table, worked out, in their order."""
    rows = re.findall(r"^\| \w+, \w+ \| [0-9.]+ \| (.*) \|$", text, re.MULTILINE)
    formulas = [
        f
        for row in rows
        for f in re.findall(r"0\.\d+δ'(?:[^\s,()]|\((?:[^()]|\([^()]*\))*\))*", row)
    ]
    return [worked_out(formula) for formula in formulas]


def worked_out(formula: str) -> float:
    tokens = re.findall(r"[0-9.]+|δ'|π_a|v_t|[MNd]|[()/−]", formula)
    assert "".join(tokens) == re.sub("[ ·]", "", formula), f"a symbol of {formula} is not known"
    parts: list[str] = []
    for token in tokens:
        if parts and parts[-1] not in "(/−*" and token not in ")/−":
            parts.append("*")
        parts.append(token)
    return float(
        eval("".join("-" if part == "−" else str(VALUES.get(part, part)) for part in parts))
    )


def code_levels() -> list[float]:
    budget = Budget(int(VALUES["N"]), 9, int(VALUES["M"]), VALUES["δ'"])
    return [
        exp(-budget.beaten(VALUES["π_a"])),
        exp(-budget.close()),
        exp(-budget.distinct()),
        exp(-budget.bound(int(VALUES["d"]))),
        exp(-budget.node(bounded=True)),
        exp(-budget.node(bounded=False)),
        exp(-budget.guess(3)),
        budget.alone(),
    ]


def test_formulas_of_the_page_are_read_as_written() -> None:
    assert worked_out("0.5δ'/(2M(M − 1))") == pytest.approx(0.5 * 0.03 / (2 * 7 * 6))
    assert worked_out("0.5δ'·0.9/N") == pytest.approx(0.5 * 0.03 * 0.9 / 50)


def test_the_proof_page_has_the_shares_of_the_code() -> None:
    """The table of docs/frugal-bai.md, shares and levels, and its sentence about attempts."""
    page = Path(__file__).parents[3] / "docs" / "frugal-bai.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    text = page.read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| \w+, (\w+) \| ([0-9.]+) \|", text, re.MULTILINE))
    assert {name: float(share) for name, share in table.items()} == SHARES
    assert page_levels(text) == pytest.approx(code_levels(), rel=1e-12)
    attempts = ", ".join(f"{share:.2f}δ" for share in ATTEMPTS)
    assert f"attempts {attempts}, the last resort {LAST_RESORT:.2f}δ" in text
