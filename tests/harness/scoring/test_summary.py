"""Scores against SciPy and hand calculation; unfinished trials never vanish."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness_rows import rows
from scipy import stats

from clustered_bandit_gym.harness.scoring.summary import (
    frame,
    paired_ratio,
    summarise,
    varied_settings,
)
from clustered_bandit_gym.harness.scoring.verdict import verdict


def only(table: pd.DataFrame) -> Any:
    (row,) = table.to_dict("records")
    return row


def test_ratio_is_paired_geometric_and_matches_scipy() -> None:
    rng = np.random.default_rng(2)
    reference = rng.lognormal(10, 2, size=25)
    own = reference * rng.lognormal(-1, 0.3, size=25)
    table = frame(rows("naive", list(reference)) + rows("mine", list(own)))
    ratio, low, high = paired_ratio(table[table.policy == "mine"], table[table.policy == "naive"])
    expected = stats.ttest_rel(np.log(own), np.log(reference)).confidence_interval(0.95)
    assert ratio == pytest.approx(stats.gmean(own / reference))
    assert (low, high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    summary = summarise(table).set_index("policy")
    assert summary.loc["mine", "vs_naive"] == pytest.approx(ratio)
    assert summary.loc["naive", "vs_naive"] == 1
    assert summary.loc["mine", "vs_bound"] == pytest.approx(stats.gmean(own / 0.5))


def test_pairing_goes_by_trial_not_by_place() -> None:
    naive, mine = rows("naive", [10, 1000]), rows("mine", [1, 100])[::-1]
    own = only(summarise(frame(naive + mine)).query("policy == 'mine'"))
    assert own["vs_naive"] == pytest.approx(0.1)
    assert own["vs_naive_low"] == pytest.approx(own["vs_naive_high"])


def test_unfinished_trials_are_counted_marked_and_in_the_mean() -> None:
    outcomes = ["solved", "budget", "error", "wrong"]
    own = only(summarise(frame(rows("mine", [10, 20, 0, 30], outcomes))))
    assert (own["trials"], own["errors"], own["unfinished"]) == (4, 1, 2)
    assert own["pulls_mean"] == 15
    assert own["pulls_median"] == 15
    assert np.isnan(own["vs_naive"])


def test_ratios_with_unfinished_trials() -> None:
    def ratio(own: str, reference: str) -> float:
        table = frame(
            rows("naive", [10, 20], ["solved", reference]) + rows("mine", [1, 2], ["solved", own])
        )
        return float(only(summarise(table).query("policy == 'mine'"))["vs_naive"])

    assert ratio("solved", "solved") == pytest.approx(0.1)
    assert ratio("budget", "wrong") == pytest.approx(0.1)  # boards mark it with "≥"
    assert np.isnan(ratio("solved", "error"))


def test_verdict_counts_errors_of_stopped_trials() -> None:
    own = only(summarise(frame(rows("mine", [1.0] * 60))))
    expected = verdict(0, 60, 0.1)
    assert (own["verdict"], own["error_low"], own["error_high"]) == (
        "PASS",
        expected.low,
        expected.high,
    )
    own = only(summarise(frame(rows("mine", [1.0] * 60, "wrong"))))
    assert own["verdict"] == "FAIL"


def test_no_pass_from_trials_without_an_answer_and_no_fail_from_few_answers() -> None:
    never = only(summarise(frame(rows("mine", [1.0] * 200, "budget"))))
    assert (never["verdict"], never["error_low"], never["error_high"]) == ("INCONCLUSIVE", 0, 1)
    # Three errors in three answers, among 200 trials at δ = 0.1: P(stopped and wrong) may well be
    # below δ.
    few = only(summarise(frame(rows("mine", [1.0] * 200, ["wrong"] * 3 + ["budget"] * 197))))
    assert few["verdict"] == "INCONCLUSIVE"
    assert few["error_low"] == verdict(3, 200, 0.1).low
    assert few["error_high"] == 1
    many = only(summarise(frame(rows("mine", [1.0] * 200, ["wrong"] * 100 + ["budget"] * 100))))
    assert many["verdict"] == "FAIL"


def test_only_attempts_that_were_killed_from_outside_are_forgiven() -> None:
    again = {"attempts": 2}
    raised = only(summarise(frame(rows("mine", [1.0] * 100, **again))))
    assert (raised["retried"], raised["verdict"]) == (100, "INCONCLUSIVE")
    killed = only(summarise(frame(rows("mine", [1.0] * 100, **again, killed=1))))
    assert (killed["retried"], killed["verdict"]) == (0, "PASS")


def test_columns_of_the_contract() -> None:
    summary = summarise(frame(rows("naive", [1.0, 2.0])))
    contract = (
        "policy trials errors unfinished error_low error_high verdict pulls_mean pulls_low "
        "pulls_high pulls_median "
        "vs_naive vs_bound pulls_max_agent cost_mean bits_up bits_down reals_up reals_down rounds seconds"
    )
    assert set(contract.split()) <= set(summary.columns)
    assert summary["pulls_max_agent"].iloc[0] == 7
    assert list(summary[["cost_mean", "bits_up", "reals_down", "rounds"]].iloc[0]) == [5, 1, 4, 5]


def test_rows_are_grouped_by_environment_and_settings_that_differ_are_named() -> None:
    table = frame(
        rows("p", [1.0], env_kwargs={"n_agents": 3, "delta": 0.1})
        + rows("p", [2.0], env_kwargs={"n_agents": 4, "delta": 0.1})
        + rows("p", [3.0], env_kwargs={"n_agents": 4, "delta": 0.1}, env="F")
        + rows("p", [4.0], env_kwargs={"delta": 0.1, "n_agents": 3})
    )
    assert varied_settings(table) == ["env", "n_agents"]
    summary = summarise(table)
    assert list(summary["pulls_mean"]) == [2.5, 2, 3]
    assert list(summary["env"]) == ["E", "E", "F"]
    assert list(summary["n_agents"]) == [3, 4, 4]


def test_correct_is_missing_where_there_was_no_answer() -> None:
    table = frame(rows("p", [1.0, 1.0, 1.0], ["solved", "wrong", "budget"]))
    assert table["correct"].isna().tolist() == [False, False, True]
    assert table["correct"].mean() == 0.5
