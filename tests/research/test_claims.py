"""The paper's figures by one call: numbers of claims by hand, verdicts that can go either way, resuming, real data."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clustered_bandit_gym import Federation, Instance, Problem
from research.paper import claim, page
from research.paper import figures as claims_figures
from research.paper import measure as claims_measure
from research.paper import theory as claims_theory
from research.paper.claim import FAILS, HOLDS, OPEN, UNTESTED
from clustered_bandit_gym.reproduce.figures import FIGURES, Played
from clustered_bandit_gym.reproduce.run import reproduce
from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.harness.store import Store
from clustered_bandit_gym.policies import BAICl


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
    return Played(FIGURES[figure](None), frame, frame.iloc[:0])


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_paired_ratio_by_hand() -> None:
    rows = made_up("fig1c", {"naive": [100.0, 200.0, 400.0], "bai-cl": [50.0, 50.0, 400.0]}).rows
    ratio = claims_measure.paired(rows, "bai-cl", "naive")
    # logs of 1/2, 1/4, 1: mean ln(1/2), standard deviation ln 2, t quantile with 2 degrees of freedom 4.302653
    assert ratio.value == pytest.approx(0.5)
    half = 4.302652729696142 * np.log(2) / np.sqrt(3)
    assert ratio.low == pytest.approx(0.5 * np.exp(-half))
    assert ratio.high == pytest.approx(0.5 * np.exp(half))
    assert ratio.sign == 0
    assert ratio.saving == f"50.0% ({100 * (1 - ratio.high):.1f} to {100 * (1 - ratio.low):.1f})"


def test_several_instances_count_once_each() -> None:
    one = made_up("fig1b", {"naive": [10.0, 30.0, 100.0, 300.0, 5.0, 5.0]}).rows
    one["instance_seed"] = [0, 0, 1, 1, 2, 2]
    assert claims_measure.units(one, "pulls").tolist() == [20.0, 200.0, 5.0]
    point = claims_measure.points(one, FIGURES["fig1b"](None)).iloc[0]
    assert (point["centre"], point["low"], point["high"]) == (
        20.0,
        12.5,
        110.0,
    )  # median and quartiles


def test_mean_and_interval_of_a_point() -> None:
    rows = made_up("fig1c", {"naive": [1.0, 2.0, 3.0, 4.0]}).rows
    point = claims_measure.points(rows, FIGURES["fig1c"](None)).iloc[0]
    half = (
        3.182446305284263 * np.sqrt(5 / 3) / 2
    )  # t quantile with 3 degrees of freedom, standard error
    assert (point["centre"], point["high"]) == (2.5, pytest.approx(2.5 + half))


def test_agents_asked_are_those_that_sent_something_in_the_first_phase() -> None:
    means = np.where(np.eye(3, 6, dtype=bool), 1.0, 0.2)
    seen = set()
    for seed, sizes in [
        (seed, sizes) for seed in range(4) for sizes in ((4, 4, 4), (1, 1, 1), (5, 5, 0))
    ]:
        instance = Instance(means, np.repeat(np.arange(3), sizes))
        federation = Federation(instance, Problem.of(instance, 0.05), seed, itemise=True)
        federation.stop(BAICl().solve(federation))
        asked = len(
            {
                message.agent
                for message in federation.ledger.messages()
                if message.phase == "identify"
            }
        )
        row = pd.DataFrame(
            [{"rounds": federation.rounds, "pulls_by_phase": federation.pulls_by_phase}]
        )
        assert claims_measure.drawn_agents(row).tolist() == [asked]
        seen.add(asked == sum(sizes))
    assert seen == {True, False}


def test_coupon_collector_by_enumeration() -> None:
    # Two agents of one cluster, one of another: 001, 010, 100 end after 3, 2, 2 agents.
    mean, variance = claims_theory._draws((2, 1))
    assert mean == pytest.approx(7 / 3)
    assert variance == pytest.approx(2 / 9, abs=0.03)  # simulated, fixed seed
    assert claims_theory._draws((3, 0)) == (3.0, 0.0)
    assert claims_theory._draws((1, 1, 1)) == (pytest.approx(3.0), 0.0)


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


def test_one_agent_per_cluster_is_shown_and_not_judged() -> None:
    pulls = STEADY | {"bai-cl": [10.0, 11.0, 9.0], "bai-cl++": [9.0, 9.1, 8.9]}
    worse = {"naive": [100.0, 101.0, 99.0]} | {
        name: [150.0, 151.0, 149.0] for name in ("cl-bai", "bai-cl", "bai-cl++")
    }
    good, alone = made_up("fig1a", pulls), made_up("fig1a", worse, n_agents=2)
    both = Played(good.figure, pd.concat([good.rows, alone.rows]), good.readings)
    found = claims_figures.JUDGES["fig1a"](both)[0]
    assert found.verdict == HOLDS
    assert "N = 2: Cl-BAI 1.5" in found.measured
    assert "not judged" in found.measured
    assert claims_figures.JUDGES["fig1a"](made_up("fig1a", worse))[0].verdict != HOLDS


def test_several_comparisons_widen_the_intervals() -> None:
    rows = made_up("fig1c", {"naive": [100.0, 200.0, 400.0], "bai-cl": [50.0, 50.0, 400.0]}).rows
    one, ten = (
        claims_measure.paired(rows, "bai-cl", "naive", comparisons=count) for count in (1, 10)
    )
    assert ten.value == one.value
    # Student's t with 2 degrees of freedom: 4.302653 at 97.5%, 14.089 at 99.75%.
    assert np.log(ten.high / ten.value) / np.log(one.high / one.value) == pytest.approx(
        14.0890 / 4.302653, rel=1e-4
    )


def test_communication_and_trade_off_either_way() -> None:
    cost = {
        "naive": [1.0, 1.1],
        "cl-bai": [10.0, 11.0],
        "bai-cl": [20.0, 22.0],
        "bai-cl++": [30.0, 33.0],
    }
    as_printed = made_up("figA-c", cost)
    as_printed.rows["pulls"] = 1 / as_printed.rows["cost"]
    assert [claim.verdict for claim in claims_figures.JUDGES["figA-c"](as_printed)] == [
        HOLDS,
        HOLDS,
    ]
    as_printed.rows["pulls"] = as_printed.rows["cost"]
    assert [claim.verdict for claim in claims_figures.JUDGES["figA-c"](as_printed)] == [
        HOLDS,
        FAILS,
    ]
    swapped = made_up("figA-c", cost | {"cl-bai": [900.0, 990.0]})
    assert claims_figures.JUDGES["figA-c"](swapped)[0].verdict == FAILS


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
        return Played(FIGURES[name](None), pd.concat([rows, *more]), rows.iloc[:0])

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


def test_a_claim_on_real_data_is_not_judged_on_a_stand_in() -> None:
    pulls = {
        "naive": [100.0, 100.0],
        "cl-bai": [150.0, 151.0],
        "bai-cl": [60.0, 61.0],
        "bai-cl++": [28.0, 28.0],
    }
    played = made_up("fig1f", pulls, n_agents=102)
    other = played.rows.assign(n_agents=120, pulls=played.rows["pulls"] ** 0.9)
    played = Played(played.figure, pd.concat([played.rows, other]), played.readings)
    assert not played.figure.real
    assert {claim.verdict for claim in claims_figures.JUDGES["fig1f"](played)} == {UNTESTED}
    real = Played(dataclasses.replace(played.figure, real=True), played.rows, played.readings)
    verdicts = [claim.verdict for claim in claims_figures.JUDGES["fig1f"](real)]
    assert verdicts == [
        HOLDS,
        FAILS,
        HOLDS,
        FAILS,
    ]  # 72% saved; Cl-BAI worse than naive; ordered; other counts


def test_one_wrong_answer_refutes_delta() -> None:
    played = made_up("fig1a", STEADY)
    assert page._correctness({"fig1a": played}).verdict == UNTESTED
    played.rows.loc[played.rows.index[0], "outcome"] = "wrong"
    found = page._correctness({"fig1a": played})
    assert found.verdict == FAILS
    assert "1 wrong and 0 unfinished of 6 plays" in found.measured


# --- the whole -------------------------------------------------------------------------------------------------------


def columns(folder: Path, name: str) -> pd.DataFrame:
    table = pd.read_csv(folder / f"{name}.csv").drop(columns="seconds")
    return table.sort_values(["policy", "env_kwargs", "trial"], ignore_index=True)


def test_interrupted_and_called_again_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLUSTERED_BANDIT_DATA", raising=False)
    settings: dict[str, Any] = {"trials": 2, "n_jobs": 1, "progress": False, "console": False}
    whole = reproduce(["fig1a", "figA-a"], out=tmp_path / "whole", **settings)
    # fig1a: 5 sizes, told 0.3 or the truth; figA-a: 5 sizes; 6 policies each, 2 trials.
    # Five sizes in two readings, six policies, two trials; and StructuredBAI in the first reading.
    assert len(columns(tmp_path / "whole", "fig1a")) == 5 * 2 * 6 * 2 + 5 * 2
    assert len(columns(tmp_path / "whole", "figA-a")) == 5 * 6 * 2 + 5 * 2
    for name in ("fig1a", "figA-a"):
        assert (tmp_path / "whole" / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert b"<svg" in (tmp_path / "whole" / f"{name}.svg").read_bytes()[:2000]
    text = whole.path.read_text(encoding="utf-8")
    assert "clustered-bai reproduce fig1a figA-a --trials 2" in text
    assert "figA-a: stand-in (ClusteredBAI-YelpLike-v0)" in text
    assert all(f"| {claim.figure} | {claim.text} |" in text for claim in whole.claims)
    assert "The means give η = 0.5 and η1 = 0.47" in text

    put, kept = Store.put, []

    def put_some(self: Store, *row: Any) -> None:
        if len(kept) == 70:
            raise KeyboardInterrupt
        kept.append(row)
        put(self, *row)

    monkeypatch.setattr(Store, "put", put_some)
    with (
        pytest.warns(UserWarning, match="interrupted"),
        pytest.raises(KeyboardInterrupt, match="50 trials of fig1a are left"),
    ):
        reproduce(["fig1a", "figA-a"], out=tmp_path / "again", **settings)
    kept.clear()
    monkeypatch.setattr(Store, "put", lambda self, *row: (kept.append(row), put(self, *row))[1])
    again = reproduce(["fig1a", "figA-a"], out=tmp_path / "again", **settings)
    assert len(kept) == 50 + 10 + 70
    assert again.path.read_text(encoding="utf-8") == text
    for name in ("fig1a", "figA-a"):
        pd.testing.assert_frame_equal(
            columns(tmp_path / "again", name), columns(tmp_path / "whole", name)
        )


def test_real_data_take_the_place_of_the_stand_in(tmp_path: Path) -> None:
    """Six groups, six movies: group g loves movie g. Every movie has 30 ratings but one more of the first six."""
    ages = (18, 25, 35, 45, 50, 56)
    users, ratings = [], []
    for group, age in enumerate(ages):
        for j in range(31):
            user = group * 31 + j + 1
            users.append(f"{user}::F::{age}::1::12345\n")
            ratings += [
                f"{user}::{movie + 1}::{5 if movie == group else 1 + (j + movie) % 3}::9\n"
                for movie in range(6)
            ]
            ratings += [f"{user}::7::3::9\n"] if j < 30 else []
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "users.dat").write_text("".join(users))
    (folder / "ratings.dat").write_text("".join(ratings))
    (folder / "movies.dat").write_text(
        "".join(f"{movie}::Title {movie}::Drama\n" for movie in range(1, 8))
    )
    out = reproduce(
        ["fig1f"], 2, tmp_path / "out", n_jobs=1, data=str(tmp_path), progress=False, console=False
    )
    figure = out.played["fig1f"].figure
    assert (figure.env, figure.real) == ("ClusteredBAI-MovieLens-v0", True)
    assert set(out.played["fig1f"].rows["n_arms"]) == {6}
    text = out.path.read_text(encoding="utf-8")
    assert "real data" in text
    assert (
        "At least 30 ratings in each group: K = 7. More than 30, which is what we took: K = 6."
        in text
    )
    assert all(claim.verdict != UNTESTED for claim in out.claims if claim.figure == "fig1f")


def test_bad_requests_say_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown figure fig9; known: all, fig1a, .*figA-c"):
        reproduce(["fig1a", "fig9"], out=tmp_path / "x")
    with pytest.raises(ValueError, match="at least 2"):
        reproduce(["fig1a"], trials=1, out=tmp_path / "x")
    with pytest.raises(ValueError, match="does not exist; pass an existing path"):
        reproduce(["fig1f"], out=tmp_path / "x", data=str(tmp_path / "nowhere"))
    assert not (tmp_path / "x").exists()
