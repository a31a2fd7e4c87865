"""From rows to scores: pure functions on a data frame with one row per trial."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.scoring.intervals import (
    Estimate,
    mean_interval,
    median_interval,
    t_interval,
)
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.scoring.plausibility import implausible
from clustered_bandit_gym.harness.scoring.verdict import verdict

#: Outcomes of trials without an answer, and their words in the notes of a board.
UNFINISHED = {
    "budget": "out of budget",
    "error": "raised",
    "crash": "ended their process, counts lost",
    "timeout": "out of time, counts lost",
}
#: Those that are the policy's failure: boards show their first message, and they are played again
#: when their run is repeated.
FAILED = tuple(name for name in UNFINISHED if name != "budget")


def frame(rows: Sequence[Values] | pd.DataFrame) -> pd.DataFrame:
    """The rows as a data frame; in unfinished trials `correct` is missing."""
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    counts = dict.fromkeys(["wrong_agents", "clustering_errors", "arm_errors"], "Int64")
    return table.astype({"correct": "boolean", "bound": "float64"} | counts)


def cells_of(trials: pd.DataFrame) -> pd.Series:
    """The environment of each row, "env" among its settings, as JSON text: 1, 1.0 and True are
    different settings, and NaN is equal to itself."""
    pairs = zip(trials["env"], trials["env_kwargs"], strict=True)
    texts = [json.dumps({"env": env} | dict(sorted(own.items()))) for env, own in pairs]
    return pd.Series(texts, trials.index, dtype=object)


def varied_settings(trials: pd.DataFrame) -> list[str]:
    """The settings in which environments differ, "env" among them if their ids do."""
    settings = pd.DataFrame(map(json.loads, cells_of(trials).unique()), dtype=object)
    return [str(name) for name in settings if settings[name].map(json.dumps).nunique() > 1]


def swept_setting(summary: pd.DataFrame, varied: list[str], x: str | None = None) -> str | None:
    """The varied setting that lines in pictures run along: `x`, or else the one with most values
    (ties: n_agents). Returns None where no varied setting has numbers as values in all
    environments."""
    settings = summary[varied].infer_objects().dropna(axis=1).select_dtypes("number")
    if x is None:
        values: dict[Any, int] = settings.nunique().to_dict()
        return max(values, key=lambda name: (values[name], name == "n_agents"), default=None)
    if x not in settings:
        known = ", ".join(settings.columns) or "(none)"
        raise UserError(f"cannot plot against {x!r}: the varied numbers are {known}")
    return x


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per environment and policy, in the order of trials; `Board` explains the columns."""
    if trials.empty:
        return pd.DataFrame()
    varied = varied_settings(trials)
    result = []
    for cell, here in trials.groupby(cells_of(trials), sort=False):
        settings = json.loads(str(cell))
        place = {name: settings.get(name) for name in ["env", *varied]}
        groups = dict(list(here.groupby("policy", sort=False)))
        for policy, own in groups.items():
            result.append(place | {"policy": policy} | _score(own, groups.get("naive")))
    return pd.DataFrame(result)


def _score(own: pd.DataFrame, reference: pd.DataFrame | None) -> Values:
    outcome = own["outcome"]
    trials = len(own)
    errors = (outcome == "wrong").sum()
    unfinished = outcome.isin(UNFINISHED).sum()
    # A policy that raises when it expects to be wrong would otherwise be played again until it is
    # right. Attempts that a signal from outside ended are not the policy's.
    killed = own["killed"].fillna(0) if "killed" in own else 0
    retried = ((outcome == "solved") & (own["attempts"] - killed > 1)).sum()
    delta = float(own["delta"].iloc[0])
    judged = verdict(errors, trials, delta, unfinished=unfinished + retried)
    # Rows of older versions lack it: they count as not relying on Assumption 2.
    guarantee = str(own["guarantee"].iloc[0]) if "guarantee" in own else ""
    doubt = implausible(own, delta, guarantee)
    if "reproduced" in own and (other := own["reproduced"].eq(False).sum()):
        doubt = f"plays {counted(other, 'trial')} differently in a fresh process"
    if doubt and judged.word == "PASS":
        judged = judged._replace(word="INCONCLUSIVE", reason=f"{judged.reason}; but it {doubt}")
    pulls = own["pulls"].to_numpy(dtype=float)
    largest = pulls.max() / pulls.sum() if pulls.any() else np.nan
    ratio = paired_ratio(own, reference)
    of_mean = ("pulls_mean", "pulls_low", "pulls_high")
    of_median = ("pulls_median", "pulls_median_low", "pulls_median_high")
    averaged = [
        "pulls_max_agent",
        "bits_up",
        "bits_down",
        "reals_up",
        "reals_down",
        "rounds",
        "seconds",
    ]
    return {
        "trials": trials,
        "errors": errors,
        "unfinished": unfinished,
        "retried": retried,
        "doubt": doubt,
        "error_low": judged.low,
        "error_high": judged.high,
        "verdict": judged.word,
        "verdict_reason": judged.reason,
        **dict(
            zip(of_mean + of_median, mean_interval(pulls) + median_interval(pulls), strict=True)
        ),
        "largest_share": largest,
        # With a larger share the t interval of the mean is not to be trusted: at n = 50 it covers
        # 0.69 (lognormal, σ = 2) or 0.25 (Pareto 1.1) instead of 0.95. With fewer than twenty
        # trials an even share is close to a tenth.
        "heavy_tail": largest > max(0.1, 2 / trials),
        "vs_naive": ratio.value,
        "vs_naive_low": ratio.low,
        "vs_naive_high": ratio.high,
        "vs_bound": _geometric_mean(own["pulls"] / own["bound"]).value,
        "bound_median": own["bound"].median(),
        "cost_mean": own["cost"].mean(),
        **own[averaged].mean(),
        "busiest_median": own["pulls_max_agent"].median(),
        "suspicious_communication": own["suspicious_communication"].sum(),
        "delta": delta,
    }


def paired_ratio(own: pd.DataFrame, reference: pd.DataFrame | None) -> Estimate:
    """Geometric mean over trials of own pulls / reference pulls, with a t interval of the logs. NaN
    if there is no reference, or if trials of it are unfinished."""
    if reference is None or reference["outcome"].isin(UNFINISHED).any():
        return Estimate()
    pulls, others = (rows.set_index(["seed", "trial"])["pulls"] for rows in (own, reference))
    return _geometric_mean(pulls / others)


def _geometric_mean(ratios: pd.Series) -> Estimate:
    """Of the ratios that are known, positive and finite, with the t interval of the logs."""
    known = ratios[(ratios > 0) & (ratios < np.inf)]
    if known.empty:
        return Estimate()
    return Estimate(*np.exp(t_interval(np.log(known.astype(float)))))
