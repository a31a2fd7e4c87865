"""Numbers behind the paper's claims by hand, and verdicts that can go either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.reproduce.figures import FIGURES
from research.paper import claim, page, ratios
from research.paper import figures as claims_figures
from research.paper import theory as claims_theory
from research.paper.claim import FAILS, HOLDS, OPEN, UNTESTED
from research.paper.play import Played
from research.paper.points import points, units


def made_up(figure: str, pulls: dict[str, list[float]], **columns: Any) -> Played:
    """Rows of one point, trial t of a policy with the pulls given."""
    rows = [
        {
            "policy": policy,
            "seed": 0,
            "trial": t,
            "pulls": value,
            "cost": value,
            "n_agents": 20,
            "instance_seed": None,
        }
        | {
            "outcome": "solved",
            "env": "e",
            "env_kwargs": {},
            "told": None,
            "alpha": None,
            "n_clusters": 2,
        }
        | columns
        for policy, values in pulls.items()
        for t, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows)
    return Played(FIGURES[figure], frame, frame.iloc[:0])


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_paired_ratio_by_hand() -> None:
    rows = made_up("fig1c", {"naive": [100.0, 200.0, 400.0], "bai-cl": [50.0, 50.0, 400.0]}).rows
    ratio = ratios.paired(rows, "bai-cl", "naive")
    # logs of 1/2, 1/4, 1: mean ln(1/2), standard deviation ln 2, t quantile with 2 degrees of
    # freedom 4.302653
    assert ratio.value == pytest.approx(0.5)
    half = 4.302652729696142 * np.log(2) / np.sqrt(3)
    assert ratio.low == pytest.approx(0.5 * np.exp(-half))
    assert ratio.high == pytest.approx(0.5 * np.exp(half))
    assert ratio.sign == 0
    assert ratio.saving == f"50.0% ({100 * (1 - ratio.high):.1f} to {100 * (1 - ratio.low):.1f})"


def test_several_instances_count_once_each() -> None:
    one = made_up("fig1b", {"naive": [10.0, 30.0, 100.0, 300.0, 5.0, 5.0]}).rows
    one["instance_seed"] = [0, 0, 1, 1, 2, 2]
    assert units(one, "pulls").tolist() == [20.0, 200.0, 5.0]
    point = points(one, FIGURES["fig1b"]).iloc[0]
    assert (point["centre"], point["low"], point["high"]) == (
        20.0,
        12.5,
        110.0,
    )  # median and quartiles


def test_mean_and_interval_of_a_point() -> None:
    rows = made_up("fig1c", {"naive": [1.0, 2.0, 3.0, 4.0]}).rows
    point = points(rows, FIGURES["fig1c"]).iloc[0]
    half = (
        3.182446305284263 * np.sqrt(5 / 3) / 2
    )  # t quantile with 3 degrees of freedom, standard error
    assert (point["centre"], point["high"]) == (2.5, pytest.approx(2.5 + half))


def test_the_instance_of_a_row_is_the_one_it_was_played_on() -> None:
    kwargs = {"n_agents": 30, "n_clusters": 4, "n_arms": 8, "sizes": "power", "alpha": 1.0}
    row = play("naive", "ClusteredBAI-PaperRandom-v0", seed=5, trial=3, env_kwargs=kwargs)
    from clustered_bandit_gym.theory import instance_lower_bound

    instance = claims_theory.instance_of(pd.Series(row))
    assert row["bound"] == pytest.approx(
        instance_lower_bound(instance, row["delta"], row["eta"]), rel=0.01
    )


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_verdict_needs_every_comparison() -> None:
    assert claim.judge([-1, -1], -1) == HOLDS
    assert claim.judge([-1, 1, 0], -1) == FAILS
    assert claim.judge([-1, 0], -1) == OPEN


STEADY = {"naive": [100.0, 101.0, 99.0], "cl-bai": [80.0, 81.0, 79.0]}


@pytest.mark.parametrize(
    ("bai_cl", "verdict"),
    [([10.0, 11.0, 9.0], HOLDS), ([90.0, 91.0, 89.0], FAILS), ([60.0, 81.0, 100.0], OPEN)],
)
def test_best_two(bai_cl: list[float], verdict: str) -> None:
    found = claims_figures.JUDGES["fig1a"](
        made_up("fig1a", STEADY | {"bai-cl": bai_cl, "bai-cl++": [9.0, 9.1, 8.9]})
    )
    assert [claim.verdict for claim in found] == [verdict, HOLDS]
    assert "Cl-BAI 0.8, BAI-Cl" in found[0].measured


def test_skew_and_eta_verdicts() -> None:
    def figure(name: str, x: str, values: dict[float, float]) -> Played:
        parts = [
            made_up(
                name,
                {policy: [level, 1.001 * level, 0.999 * level] for policy in ("naive", "cl-bai")},
            ).rows.assign(**{x: at})
            for at, level in values.items()
        ]
        rows = pd.concat(parts)
        more = [
            rows[rows["policy"] == "naive"].assign(policy=name) for name in ("bai-cl", "bai-cl++")
        ]
        return Played(FIGURES[name], pd.concat([rows, *more]), rows.iloc[:0])

    steady = claims_figures.JUDGES["fig1e"](
        figure("fig1e", "alpha", {0.0: 100.0, 1.0: 100.2, 2.0: 100.1})
    )
    assert [claim.verdict for claim in steady] == [HOLDS, FAILS, FAILS]
    growing = claims_figures.JUDGES["fig1e"](
        figure("fig1e", "alpha", {0.0: 100.0, 1.0: 150.0, 2.0: 300.0})
    )
    assert [claim.verdict for claim in growing] == [FAILS, HOLDS, HOLDS]
    dip = claims_figures.JUDGES["fig1e"](
        figure("fig1e", "alpha", {0.0: 100.0, 1.0: 350.0, 2.0: 300.0})
    )
    assert [claim.verdict for claim in dip] == [FAILS, FAILS, FAILS], (
        "every α counts, not the ends alone"
    )
    (falls,) = claims_figures.JUDGES["fig1d"](
        figure("fig1d", "eta", {0.05: 400.0, 0.1: 100.0, 0.2: 25.0})
    )
    assert falls.verdict == HOLDS
    assert "naive 400 → 25 (÷16, ∝ η^-2.00)" in falls.measured
    (rises,) = claims_figures.JUDGES["fig1d"](
        figure("fig1d", "eta", {0.05: 400.0, 0.1: 100.0, 0.2: 101.0})
    )
    assert rises.verdict == FAILS


def test_one_wrong_answer_refutes_delta() -> None:
    played = made_up("fig1a", STEADY)
    assert page._correctness({"fig1a": played}).verdict == UNTESTED
    played.rows.loc[played.rows.index[0], "outcome"] = "wrong"
    found = page._correctness({"fig1a": played})
    assert found.verdict == FAILS
    assert "1 wrong and 0 unfinished of 6 plays" in found.measured
