"""What a reader must know to read a board right: the notes below its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from clustered_bandit_gym.harness.output.escape import plain
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.harness.scoring.verdict import MANY_TRIALS

#: Up to this many are named one by one in a note.
_FEW = 6
_UNFINISHED = {
    "budget": "out of budget",
    "error": "raised",
    "crash": "ended their process",
    "timeout": "out of time",
}


def notes_of(summary: pd.DataFrame, trials: pd.DataFrame, missing: int = 0) -> list[str]:
    """The notes of a board with this summary of these trials, of which `missing` more were asked
    for.
    """
    notes: list[str] = []
    records: list[Any] = list(summary.itertuples())
    if missing:
        notes.append(f"Interrupted: {missing:,} trials were not played.")
    if "no_key" in trials:
        unknown = trials[trials["no_key"].notna()].drop_duplicates("policy")
        notes += [
            f"{row.policy}: kept trials are not reused, because {row.no_key}."
            for row in unknown.itertuples()
        ]
    if unchecked := _unchecked(trials):
        notes.append(f"Not checked: {unchecked}.")
    notes += [f"{row.policy} cannot PASS: it {row.doubt}." for row in records if row.doubt]
    again = summary[summary["retried"] > 0]
    if len(again):
        counts = ", ".join(f"{row.policy} {row.retried:,}" for row in again.itertuples())
        notes.append(
            f"Right answers of trials that raised at their first attempt ({counts}) count as "
            "unfinished in the verdict."
            " To start over, use another --out."
        )
    notes.append(
        "error rate: from the lower 95% bound on P(stopped and wrong) to the upper one on P(wrong "
        "or unfinished), valid"
        " at any number of trials. PASS: the upper bound is ≤ δ. FAIL: the lower bound is > δ. "
        f"{_deltas(trials)}"
    )
    notes += _open_verdicts(summary)
    if _draws_instances(trials):
        notes.append(
            "Each trial draws its own instance: a verdict is an average over the generator, not a "
            "statement on every"
            " instance."
        )
    notes.append(
        "pulls: mean with Student's t interval. vs naive, vs bound: geometric means over trials of "
        "the ratio within a"
        " trial; the bound is a lower bound on the expected pulls of every policy that is δ-PC by "
        "Assumption 1, on the"
        " trial's instance."
    )
    notes.append(
        "cost: c_b for a bit and c_r for a real number (by default 1 and 32); up: from the agents, "
        "down: to them."
    )
    if summary["unfinished"].any():
        kinds = trials["outcome"].value_counts()
        parts = [f"{kinds[name]} {text}" for name, text in _UNFINISHED.items() if name in kinds]
        notes.append(
            f"Unfinished trials ({', '.join(parts)}) are in the means with what they had used: “≥”."
        )
        failed = trials[trials["outcome"].isin(("error", "crash", "timeout"))].drop_duplicates(
            "policy"
        )
        notes += [f"{row.policy}, trial {row.trial}: {row.message}" for row in failed.itertuples()]
    heavy = summary[summary["heavy_tail"]]
    if len(heavy):
        names = ", ".join(dict.fromkeys(heavy["policy"]))
        notes.append(
            f"Heavy tail ({names}): one trial holds up to "
            f"{100 * heavy['largest_share'].max():.0f}% of all pulls, so"
            " the interval of the mean is too short. Read the median: its interval is valid for "
            "any distribution."
        )
    quiet = summary[summary["suspicious_communication"] > 0]
    if len(quiet):
        names = ", ".join(dict.fromkeys(quiet["policy"]))
        notes.append(
            f"Too quiet ({names}): all answers are right, yet the bits sent up hold less than half "
            "of what they say."
        )
    notes += [
        f"{row.policy}: {row.wrong_agents} wrong agents in all; {int(row.clustering_errors)} "
        "agents were clustered"
        f" wrongly, {int(row.arm_errors)} were clustered rightly and got a wrong arm."
        for row in records
        if row.wrong_agents > 0 and pd.notna(row.clustering_errors)
    ]
    return [plain(note) for note in notes]


def _unchecked(trials: pd.DataFrame) -> str:
    """What this board takes on trust."""
    parts = []
    if "strict" in trials and not trials["strict"].all():
        parts.append(
            "not strict (what programs write elsewhere than into their messages is not seen)"
        )
    if "reproduced" not in trials:
        parts.append("0 replays in a fresh process (--replays)")
    return "; ".join(parts)


def _deltas(trials: pd.DataFrame) -> str:
    """“δ = 0.05.”, or which environment has which δ."""
    if trials["delta"].nunique() == 1:
        return f"δ = {trials['delta'].iloc[0]:g}."
    by_env = trials.groupby("env", sort=False)["delta"].unique()
    if len(by_env) == 1 or by_env.map(len).max() > 1:
        return f"δ is {', '.join(f'{delta:g}' for delta in trials['delta'].unique())}, as the tables say."
    return "".join(f"δ = {deltas[0]:g} on {env}. " for env, deltas in by_env.items()).rstrip()


def _open_verdicts(summary: pd.DataFrame) -> list[str]:
    """What would change each INCONCLUSIVE verdict."""
    notes = []
    still = summary[summary["verdict"] == "INCONCLUSIVE"]
    still = still[still["doubt"] == ""]
    stuck = still[still["verdict_hopeless"]]
    if len(stuck):
        names = ", ".join(dict.fromkeys(stuck["policy"]))
        notes.append(
            f"Wrong or unfinished more often than δ ({names}): more trials cannot give a PASS. Let "
            "the policy finish"
            " (a larger budget, no exceptions)."
        )
    still = still[~still["verdict_hopeless"]]
    far = still[still["more_for_pass"] > MANY_TRIALS]
    for delta, here in far.groupby("delta", sort=False):
        notes.append(
            f"At δ = {delta:g} no simulation can give a PASS: it would take "
            f"{number(here['more_for_pass'].min())}"
            " trials without an error. The verdict can expose a policy that errs far too often, "
            "not confirm δ. These"
            f" trials show an error rate below {number(here['error_high'].max(), digits=2)}; for a "
            "verdict, play at a"
            " larger δ or run the audit."
        )
    near = still.drop(far.index)
    if len(near):
        needs = (
            near["more_for_pass"]
            .astype(int)
            .groupby(near["policy"], sort=False)
            .agg(["min", "max"])
        )
        if len(needs) <= _FEW:
            ends = zip(needs.index, needs["min"].tolist(), needs["max"].tolist(), strict=True)
            text = ", ".join(f"{name} {_between(low, high)}" for name, low, high in ends)
        else:
            text = _between(needs["min"].min(), needs["max"].max())
        notes.append(f"Further trials, all finished and right, that a PASS would need: {text}.")
    return notes


def _between(low: int, high: int) -> str:
    """“73”, or “73 to 80” where settings differ."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _draws_instances(trials: pd.DataFrame) -> bool:
    """Whether any environment of the board draws a fresh instance each trial."""
    return any(not kwargs.keys() & {"instance", "instance_seed"} for kwargs in trials["env_kwargs"])
