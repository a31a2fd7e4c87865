"""What a reader must know to read a board right: the notes below its tables."""

from __future__ import annotations

import pandas as pd

from clustered_bandit_gym.game.isolation import COPIES
from clustered_bandit_gym.harness.outcome import without_place
from clustered_bandit_gym.harness.output.escape import plain
from clustered_bandit_gym.harness.output.layout import places
from clustered_bandit_gym.harness.scoring.summary import FAILED, UNFINISHED, cells_of
from clustered_bandit_gym.harness.settings import PACKAGE


def notes_of(
    summary: pd.DataFrame, varied: list[str], trials: pd.DataFrame, missing: int
) -> list[str]:
    """The notes of a board of these trials; `missing` more were asked for and not played."""
    summary = summary.assign(where=places(summary, varied))
    notes = []
    if missing:
        notes.append(f"Interrupted: {missing:,} trials were not played.")
    if "no_key" in trials:
        for row in trials.dropna(subset="no_key").drop_duplicates("policy").to_dict("records"):
            notes.append(f"{row['policy']}: kept trials are not reused, because {row['no_key']}.")
    unchecked = []
    if not trials["strict"].all():
        unchecked.append(
            "not strict (what programs write elsewhere than into their messages is not seen)"
        )
    if trials["bound"].isna().all():
        unchecked.append(
            "pulls against the lower bound (--no-bound, or it is too large to compute)"
        )
    if "reproduced" not in trials:
        unchecked.append("trials replayed in a fresh process (--replays N does)")
    if not trials["policy_class"].str.startswith(PACKAGE).all():
        unchecked.append("whether agents of a block see each other (check_policy and audit do)")
    if unchecked:
        notes.append(f"Not checked: {'; '.join(unchecked)}.")
    for doubt, rows in summary[summary["doubt"] != ""].groupby("doubt", sort=False):
        notes.append(f"{_names(rows)} cannot PASS: it {doubt!s}.")
    again = summary[summary["retried"] > 0]
    if len(again):
        notes.append(
            f"Right answers of {again['retried'].sum():,} trials that raised at their first "
            f"attempt ({_names(again)}) count as unfinished in the verdict. To start over, "
            "use another --out."
        )
    deltas = ", ".join(f"{delta:g}" for delta in trials["delta"].unique())
    notes.append(
        "error rate: from the lower 95% bound on P(stopped and wrong) to the upper one on P(wrong "
        "or unfinished), valid at any number of trials. PASS: the upper bound is ≤ δ. FAIL: the "
        f"lower bound is > δ. δ = {deltas}."
    )
    still = summary[(summary["verdict"] == "INCONCLUSIVE") & (summary["doubt"] == "")]
    for reason, rows in still.groupby("verdict_reason", sort=False):
        notes.append(f"INCONCLUSIVE ({_names(rows)}): {reason!s}.")
    if not all({"instance", "instance_seed"} & kwargs.keys() for kwargs in trials["env_kwargs"]):
        notes.append(
            "Each trial draws its own instance: a verdict is an average over the generator, not a "
            "statement on every instance."
        )
    heavy = summary[summary["heavy_tail"]]
    order = "median with an interval from its order statistics"
    centre = order if len(heavy) else "mean with Student's t interval"
    notes += [
        f"pulls: {centre}. vs naive, vs bound, where shown: geometric means over "
        "trials of the ratio within a trial; the bound is a lower bound on the expected pulls of "
        "every policy that is δ-PC by Assumption 1, on the trial's instance.",
        "cost: c_b for a bit and c_r for a real number (by default 1 and 32); up: from the agents, "
        "down: to them.",
    ]
    most = trials.groupby([cells_of(trials), "policy"])["pulls"].transform("max")
    ended = ~trials["outcome"].isin(UNFINISHED) & (trials["pulls"] > 0)
    same = (ended & (trials["pulls"] == most)).groupby(trials["policy"], sort=False).mean()
    same = same[same > 0.1]
    if summary["trials"].min() >= 20 and len(same):
        shares = ", ".join(f"{name} {share:.0%}" for name, share in same.items())
        notes.append(
            f"Trials that took exactly the most pulls of any ({shares}): a fixed budget, or a limit "
            "that answers for a player that did not stop by itself."
        )
    kinds = trials["outcome"].value_counts()
    if parts := [f"{kinds[name]} {text}" for name, text in UNFINISHED.items() if name in kinds]:
        notes.append(
            f"Unfinished trials ({', '.join(parts)}) are in the means with what they had used: “≥”."
        )
    # Wrong answers whose programs changed variables in vain are explained like failures.
    failed = trials[trials["outcome"].isin(FAILED) | trials["message"].str.contains(COPIES)]
    for row in failed.drop_duplicates("policy").to_dict("records"):
        message = row["message"]
        if message.startswith("NotApplicable"):
            message = without_place(message)
        notes.append(f"{row['policy']}, trial {row['trial']}: {message}")
    if len(heavy):
        notes.append(
            f"Heavy tail ({_names(heavy)}): one trial holds up to "
            f"{100 * heavy['largest_share'].max():.0f}% of all pulls, so the interval of the mean "
            "is too short. Read the median: its interval is valid for any distribution."
        )
    quiet = summary[summary["suspicious_communication"] > 0]
    if len(quiet):
        notes.append(
            f"Too quiet ({_names(quiet)}): all answers are right, yet the bits sent up hold "
            "less than half of what they say."
        )
    return [plain(note) for note in notes]


def _names(rows: pd.DataFrame) -> str:
    """The policies of these rows, with their settings where these vary: "naive, bai-cl at N = 9"."""
    found = rows.groupby("where", sort=False)["policy"].agg(", ".join)
    same = found.groupby(found, sort=False)
    texts = [f"{names} at {', '.join(own.index)}" for names, own in same]
    return "; ".join(texts).removesuffix(" at ")
