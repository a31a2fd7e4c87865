"""From rows to scores: pure functions on a data frame with one row per trial."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.scoring.intervals import (
    mean_interval,
    median_interval,
    ratio_interval,
)
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.scoring.plausibility import implausible
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.harness.settings import decode

#: Outcomes of trials without an answer.
UNFINISHED = ("budget", "error", "crash", "timeout")
#: Above this share of the largest trial in the sum, the t interval of the mean is not to be
#: trusted: at n = 50 it covers 0.69 (lognormal, σ = 2), 0.68 (Pareto 1.5) or 0.25 (Pareto 1.1)
#: instead of 0.95.
HEAVY_SHARE = 0.1
#: With fewer than twenty trials an even share is close to a tenth: there the largest must also be
#: this many times that.
HEAVY_FACTOR = 2.0
_WHOLE = ("wrong_agents", "clustering_errors", "arm_errors")


def frame(rows: list[dict[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """The rows as a data frame; an exported table (nested values as JSON text) may be passed as
    well.

    Unfinished trials have no `correct`: it is missing, neither true nor false.
    """
    table = rows.copy(deep=False) if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    if "env_kwargs" in table:
        table["env_kwargs"] = table["env_kwargs"].map(decode)
    if "correct" in table:
        table["correct"] = table["correct"].astype("boolean")
    for column in _WHOLE:
        if column in table:
            table[column] = table[column].astype("Int64")
    if "bound" in table:
        table["bound"] = table["bound"].astype(float)
    return table


def cells_of(trials: pd.DataFrame) -> tuple[pd.Series, list[str]]:
    """The cell of each row (a series), and the names of the settings in which the cells differ,
    "env" among them if their ids do."""
    cells = pd.Series(
        [
            Cell(env, kwargs)
            for env, kwargs in zip(trials["env"], trials["env_kwargs"], strict=True)
        ],
        index=trials.index,
        dtype=object,
    )
    distinct = list(dict.fromkeys(cells))
    names = list(dict.fromkeys(key for cell in distinct for key in cell.plain_kwargs))
    # Compared as text: 1, 1.0 and True are different settings, and NaN is equal to itself.
    values = {
        name: {json.dumps(cell.plain_kwargs.get(name)) for cell in distinct} for name in names
    }
    varied = [name for name in names if len(values[name]) > 1]
    return cells, (["env"] if len({cell.env_id for cell in distinct}) > 1 else []) + varied


def swept_setting(summary: pd.DataFrame, varied: list[str], x: str | None = None) -> str | None:
    """The varied setting that lines in pictures run along: `x`, or else the one with most values
    (ties: n_agents).

    Returns None where no varied setting has numbers as values in all environments.
    """
    numeric = [
        name for name in varied if pd.api.types.is_numeric_dtype(summary[name].infer_objects())
    ]
    numeric = [
        name for name in numeric if summary[name].dtype != bool and summary[name].notna().all()
    ]
    if x is not None and x not in numeric:
        raise UserError(
            f"cannot plot against {x!r}: the varied numbers are {', '.join(numeric) or '(none)'}"
        )
    return x or max(
        numeric, key=lambda name: (summary[name].nunique(), name == "n_agents"), default=None
    )


def summarise(trials: pd.DataFrame, baseline: str = "naive") -> pd.DataFrame:
    """One row per environment and policy, in the order of the trials; the columns are explained in
    `Board`.
    """
    if trials.empty:
        return pd.DataFrame()
    cells, varied = cells_of(trials)
    result = []
    for cell, here in trials.groupby(cells, sort=False):
        assert isinstance(cell, Cell)
        place = {"env": cell.env_id} | {
            name: cell.plain_kwargs.get(name) for name in varied if name != "env"
        }
        groups = dict(list(here.groupby("policy", sort=False)))
        for policy, own in groups.items():
            result.append(place | {"policy": policy} | _score(own, groups.get(baseline)))
    return pd.DataFrame(result)


def _score(own: pd.DataFrame, reference: pd.DataFrame | None) -> dict[str, Any]:
    errors = int((own["outcome"] == "wrong").sum())
    unfinished = int(own["outcome"].isin(UNFINISHED).sum())
    retried = _retried(own)
    trials, delta = len(own), float(own["delta"].iloc[0])
    judged = verdict(errors, trials, delta, unfinished=unfinished + retried)
    doubt = _doubt(own, delta)
    if doubt and judged.word == "PASS":
        judged = replace(
            judged, word="INCONCLUSIVE", reason=f"{judged.reason}; but it {doubt}", hopeless=True
        )
    pulls = own["pulls"].to_numpy(dtype=float)
    mean, pulls_low, pulls_high = mean_interval(pulls)
    median, median_low, median_high = median_interval(pulls)
    largest = float(pulls.max() / pulls.sum()) if pulls.sum() > 0 else float("nan")
    ratio = paired_ratio(own, reference)
    return {
        "trials": trials,
        "errors": errors,
        "unfinished": unfinished,
        "crashed": int(own["outcome"].isin(("error", "crash", "timeout")).sum()),
        "retried": retried,
        "doubt": doubt,
        "error_low": judged.low,
        "error_high": judged.high,
        "verdict": judged.word,
        "verdict_reason": judged.reason,
        "verdict_hopeless": judged.hopeless,
        "more_for_pass": judged.more,
        "pulls_mean": mean,
        "pulls_low": pulls_low,
        "pulls_high": pulls_high,
        "pulls_median": median,
        "pulls_median_low": median_low,
        "pulls_median_high": median_high,
        "largest_share": largest,
        "heavy_tail": largest > max(HEAVY_SHARE, HEAVY_FACTOR / trials),
        "vs_naive": ratio[0],
        "vs_naive_low": ratio[1],
        "vs_naive_high": ratio[2],
        "vs_naive_mark": ratio[3],
        "vs_bound": _ratio_to_bound(own),
        "bound_median": float(own["bound"].median())
        if own["bound"].notna().any()
        else float("nan"),
        "cost_mean": float(own["cost"].mean()),
        **{
            name: float(own[name].mean())
            for name in ("bits_up", "bits_down", "reals_up", "reals_down", "rounds", "seconds")
        },
        "pulls_max_agent": float(own["pulls_max_agent"].mean()),
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
    if "reproduced" in own and (other := int((own["reproduced"] == False).sum())):  # noqa: E712 (missing is not False)
        return f"plays {counted(other, 'trial')} differently in a fresh process"
    return implausible(
        own["pulls"],
        own["bound"],
        own["outcome"] == "solved",
        own["suspicious_communication"],
        delta,
        own["policy_class"].iloc[0] if "policy_class" in own else None,
    )


def paired_ratio(
    own: pd.DataFrame, reference: pd.DataFrame | None
) -> tuple[float, float, float, str]:
    """Geometric mean over trials of own pulls / reference pulls, with a t interval of the logs.

    Returns:
        Ratio, its ends, and a mark: "≥" if own trials are unfinished (their pulls are a lower
        bound), "≤" if trials of the reference are, "" if neither. If both are, the ratio is
        unknown: NaN. Pairs in which a side made no pull at all have no ratio.
    """
    nothing = (float("nan"), float("nan"), float("nan"), "")
    if reference is None:
        return nothing
    keys = ["seed", "trial"]
    pairs = own[[*keys, "pulls", "outcome"]].merge(
        reference[[*keys, "pulls", "outcome"]], on=keys, suffixes=("", "_ref")
    )
    pairs = pairs[(pairs["pulls"] > 0) & (pairs["pulls_ref"] > 0)]
    if pairs.empty:
        return nothing
    cut, cut_ref = (
        bool(pairs[column].isin(UNFINISHED).any()) for column in ("outcome", "outcome_ref")
    )
    if cut and cut_ref:
        return nothing
    mark = "≥" if cut else "≤" if cut_ref else ""
    logs = np.log(pairs["pulls"].to_numpy(dtype=float)) - np.log(
        pairs["pulls_ref"].to_numpy(dtype=float)
    )
    return (*ratio_interval(logs), mark)


def _ratio_to_bound(own: pd.DataFrame) -> float:
    """Geometric mean over trials of pulls / lower bound of that trial's instance."""
    known = own[(own["bound"] > 0) & (own["pulls"] > 0)]
    if known.empty:
        return float("nan")
    return float(
        np.exp(
            np.mean(
                np.log(known["pulls"].to_numpy(dtype=float) / known["bound"].to_numpy(dtype=float))
            )
        )
    )


def _total(column: pd.Series) -> int | None:
    return int(column.sum()) if column.notna().any() else None
