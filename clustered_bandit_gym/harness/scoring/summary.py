"""From rows to scores: pure functions on a data frame with one row per trial."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.scoring.intervals import (
    mean_interval,
    median_interval,
    ratio_interval,
)
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.scoring.plausibility import implausible
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.harness.settings import Cell, decode

#: Outcomes of trials without an answer, and their words in the notes of a board.
UNFINISHED = {
    "budget": "out of budget",
    "error": "raised",
    "crash": "ended their process",
    "timeout": "out of time",
}
#: Those that are the policy's failure: boards show their first message, and they are played again
#: when their run is repeated.
FAILED = tuple(name for name in UNFINISHED if name != "budget")
#: Names of an estimate and of the ends of its interval.
_ENDS = ("", "_low", "_high")


def frame(rows: list[dict[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """The rows as a data frame; an exported table (nested values as JSON text) may be passed as
    well.

    Unfinished trials have no `correct`: it is missing, neither true nor false.
    """
    table = rows.copy(deep=False) if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    if "env_kwargs" in table:
        table["env_kwargs"] = table["env_kwargs"].map(decode)
    types = {
        "correct": "boolean",
        "wrong_agents": "Int64",
        "clustering_errors": "Int64",
        "arm_errors": "Int64",
        "bound": "float64",
    }
    return table.astype({name: kind for name, kind in types.items() if name in table})


def cells_of(trials: pd.DataFrame) -> tuple[pd.Series, list[str]]:
    """The cell of each row (a series), and the names of the settings in which the cells differ,
    "env" among them if their ids do."""
    pairs = zip(trials["env"], trials["env_kwargs"], strict=True)
    cells = pd.Series([Cell(*pair) for pair in pairs], index=trials.index, dtype=object)
    distinct = list(dict.fromkeys(cells))
    names = list(dict.fromkeys(key for cell in distinct for key in cell.plain_kwargs))
    varied = ["env"] if len({cell.env_id for cell in distinct}) > 1 else []
    for name in names:
        # Compared as text: 1, 1.0 and True are different settings, and NaN is equal to itself.
        texts = {json.dumps(cell.plain_kwargs.get(name)) for cell in distinct}
        if len(texts) > 1:
            varied.append(name)
    return cells, varied


def swept_setting(summary: pd.DataFrame, varied: list[str], x: str | None = None) -> str | None:
    """The varied setting that lines in pictures run along: `x`, or else the one with most values
    (ties: n_agents).

    Returns None where no varied setting has numbers as values in all environments.
    """
    numeric = []
    for name in varied:
        values = summary[name].infer_objects()
        is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
        if is_number and values.notna().all():
            numeric.append(name)
    if x is not None and x not in numeric:
        known = ", ".join(numeric) or "(none)"
        raise UserError(f"cannot plot against {x!r}: the varied numbers are {known}")
    if x is not None or not numeric:
        return x
    return max(numeric, key=lambda name: (summary[name].nunique(), name == "n_agents"))


def summarise(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per environment and policy, in the order of the trials; the columns are explained
    in `Board`."""
    if trials.empty:
        return pd.DataFrame()
    cells, varied = cells_of(trials)
    result = []
    for cell, here in trials.groupby(cells, sort=False):
        assert isinstance(cell, Cell)
        place: dict[str, Any] = {"env": cell.env_id}
        for name in varied:
            if name != "env":
                place[name] = cell.plain_kwargs.get(name)
        groups = dict(list(here.groupby("policy", sort=False)))
        for policy, own in groups.items():
            result.append(place | {"policy": policy} | _score(own, groups.get("naive")))
    return pd.DataFrame(result)


def _score(own: pd.DataFrame, reference: pd.DataFrame | None) -> dict[str, Any]:
    outcome = own["outcome"]
    trials = len(own)
    errors = int((outcome == "wrong").sum())
    unfinished = int(outcome.isin(UNFINISHED).sum())
    retried = _retried(own)
    delta = float(own["delta"].iloc[0])
    judged = verdict(errors, trials, delta, unfinished=unfinished + retried)
    doubt = _doubt(own, delta)
    if doubt and judged.word == "PASS":
        reason = f"{judged.reason}; but it {doubt}"
        judged = replace(judged, word="INCONCLUSIVE", reason=reason)
    pulls = own["pulls"].to_numpy(dtype=float)
    largest = float(pulls.max() / pulls.sum()) if pulls.sum() > 0 else np.nan
    mean = mean_interval(pulls)
    median = median_interval(pulls)
    ratio = paired_ratio(own, reference)
    means = ("bits_up", "bits_down", "reals_up", "reals_down", "rounds", "seconds")
    return {
        "trials": trials,
        "errors": errors,
        "unfinished": unfinished,
        "crashed": int(outcome.isin(FAILED).sum()),
        "retried": retried,
        "doubt": doubt,
        "error_low": judged.low,
        "error_high": judged.high,
        "verdict": judged.word,
        "verdict_reason": judged.reason,
        **dict(zip(("pulls_mean", "pulls_low", "pulls_high"), mean, strict=True)),
        **{f"pulls_median{end}": one for end, one in zip(_ENDS, median, strict=True)},
        "largest_share": largest,
        # With a larger share the t interval of the mean is not to be trusted: at n = 50 it covers
        # 0.69 (lognormal, σ = 2) or 0.25 (Pareto 1.1) instead of 0.95. With fewer than twenty
        # trials an even share is close to a tenth.
        "heavy_tail": largest > max(0.1, 2 / trials),
        **{f"vs_naive{end}": one for end, one in zip((*_ENDS, "_mark"), ratio, strict=True)},
        "vs_bound": _ratio_to_bound(own),
        "bound_median": float(own["bound"].median()),
        "cost_mean": float(own["cost"].mean()),
        **{name: float(own[name].mean()) for name in (*means, "pulls_max_agent")},
        "wrong_agents": int(own["wrong_agents"].sum()),
        "clustering_errors": _total(own["clustering_errors"]),
        "arm_errors": _total(own["arm_errors"]),
        "suspicious_communication": int(own["suspicious_communication"].sum()),
        "delta": delta,
    }


def _retried(own: pd.DataFrame) -> int:
    """Right answers of trials whose first attempt raised. The verdict takes them for unfinished: a
    policy that raises when it expects to be wrong would otherwise be played again until it is
    right."""
    if "attempts" not in own:
        return 0
    # Attempts that a signal from outside ended are not the policy's.
    killed = own["killed"].fillna(0) if "killed" in own else 0
    return int(((own["outcome"] == "solved") & (own["attempts"] - killed > 1)).sum())


def _doubt(own: pd.DataFrame, delta: float) -> str:
    """What prevents a PASS besides wrong and unfinished trials, in words; "" for nothing."""
    other = int(own["reproduced"].eq(False).sum()) if "reproduced" in own else 0
    if other:
        return f"plays {counted(other, 'trial')} differently in a fresh process"
    policy = own["policy_class"].iloc[0] if "policy_class" in own else None
    return implausible(own, delta, policy)


class Ratio(NamedTuple):
    """A ratio of pulls with its interval; NaN where it is unknown.

    `mark` is "≥" if own trials are unfinished, whose pulls are a lower bound, and "≤" if trials of
    the reference are.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    mark: str = ""


def paired_ratio(own: pd.DataFrame, reference: pd.DataFrame | None) -> Ratio:
    """Geometric mean over trials of own pulls / reference pulls, with a t interval of the logs.

    Pairs in which a side made no pull at all have no ratio. If both sides have unfinished trials,
    the ratio is unknown.
    """
    if reference is None:
        return Ratio()
    columns = ["seed", "trial", "pulls", "outcome"]
    pairs = own[columns].merge(reference[columns], on=["seed", "trial"], suffixes=("", "_ref"))
    pairs = pairs[(pairs["pulls"] > 0) & (pairs["pulls_ref"] > 0)]
    cut = pairs["outcome"].isin(UNFINISHED).any()
    cut_ref = pairs["outcome_ref"].isin(UNFINISHED).any()
    if pairs.empty or (cut and cut_ref):
        return Ratio()
    logs = np.log(pairs["pulls"].to_numpy(float)) - np.log(pairs["pulls_ref"].to_numpy(float))
    return Ratio(*ratio_interval(logs), "≥" if cut else "≤" if cut_ref else "")


def _ratio_to_bound(own: pd.DataFrame) -> float:
    """Geometric mean over trials of pulls / lower bound of that trial's instance."""
    known = own[(own["bound"] > 0) & (own["pulls"] > 0)]
    if known.empty:
        return np.nan
    ratios = known["pulls"].to_numpy(dtype=float) / known["bound"].to_numpy(dtype=float)
    return float(np.exp(np.mean(np.log(ratios))))


def _total(column: pd.Series) -> int | None:
    return int(column.sum()) if column.notna().any() else None
