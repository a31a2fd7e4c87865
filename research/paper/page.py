"""The page of claims: the paper's claims, what was measured, and whether they hold."""

from __future__ import annotations

import pandas as pd

from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.harness.scoring.summary import UNFINISHED
from clustered_bandit_gym.harness.scoring.verdict import confidence_sequence
from clustered_bandit_gym.reproduce.figures import DELTA, INSTANCE_SEEDS, OURS
from research.markdown import table
from research.paper.claim import (
    FAILS,
    HOLDS,
    OPEN,
    SIGNS,
    UNTESTED,
    Claim,
    name_of,
)
from research.paper.disagreements import disagreements
from research.paper.figures import JUDGES
from research.paper.play import Played
from research.paper.points import points
from research.paper.theory import coupon_table, theorem_table

_OUR_SIZES = "The paper does not print the values of N; these are ours."
#: Which settings of a figure are our choice, and what its points are.
NOTES = {
    "fig1a": _OUR_SIZES,
    "fig1b": (
        f"{len(INSTANCE_SEEDS)} fixed instances; points are medians over the instances of an "
        "instance's mean, bars their quartiles. The paper averages over runs and does not say "
        "whether the instance is drawn anew."
    ),
    "fig1e": "M = 20 is the commented-out passage's, M = 100 the text's.",
    "fig1f": (
        "N = 102 is ours: the nearest to the “100 users” of the introduction with clusters of "
        "equal size."
    ),
    "figA-a": _OUR_SIZES,
}


def claims_of(played: dict[str, Played]) -> list[Claim]:
    """All claims about the figures that were played."""
    found = [claim for name, one in played.items() for claim in JUDGES[name](one)]
    return [*found, _correctness(played)]


def _correctness(played: dict[str, Played]) -> Claim:
    rows = pd.concat([pd.concat([one.rows, one.readings]) for one in played.values()])
    # Figures share trials: data set 2's communication is that of the same plays.
    rows = rows.assign(cell=rows["env"] + rows["env_kwargs"].map(str)).drop_duplicates(
        ["cell", "policy", "trial"]
    )
    told_wrongly = rows["env_kwargs"].map(lambda kwargs: kwargs.get("check") is False)
    rows = rows[~told_wrongly & (rows["policy"] != OURS)]
    wrong, unfinished = (
        int((rows["outcome"] == "wrong").sum()),
        int(rows["outcome"].isin(UNFINISHED).sum()),
    )
    high = confidence_sequence(wrong, len(rows))[1]
    return Claim(
        "all",
        f"Every scheme is δ-PC (δ = {DELTA:g})",
        f"{wrong} wrong and {unfinished} unfinished of {len(rows):,} plays: an error rate below "
        f"{high:.1g} over all of "
        f"them. No simulation can confirm {DELTA:g}; it could only have refuted it",
        FAILS if wrong else UNTESTED,
    )


# --- showing ---------------------------------------------------------------------------------------------------------


def render_terminal(claims: list[Claim]) -> None:
    """Each claim with its verdict, and below it what was measured."""
    for claim in claims:
        print(f"{claim.figure}: {claim.text}: {claim.verdict}\n    {claim.measured}")


def render_markdown(played: dict[str, Played], claims: list[Claim], command: str, seed: int) -> str:
    """The page `claims.md`."""
    some = next(iter(played.values()))
    counts = {
        word: sum(claim.verdict == word for claim in claims)
        for word in (HOLDS, FAILS, UNTESTED, OPEN)
    }
    undecided = f", {counts[OPEN]} would need more trials" if counts[OPEN] else ""
    parts = [
        "# The paper's claims, measured",
        f"Made by `{command}` (root seed {seed}, δ = {DELTA:g}, {some.rows['version'].iloc[0]}). "
        f"Of {len(claims)} claims {counts[HOLDS]} hold, {counts[FAILS]} do not, {counts[UNTESTED]} "
        "cannot be tested "
        f"here{undecided}.",
        "Brackets are 95% intervals; where a claim makes several comparisons they are widened so "
        "that all of them hold "
        "together with 95% (Bonferroni). Ratios of pulls are geometric means over pairs: all "
        "schemes play the same "
        "instances in the same trials. A claim about all settings of a figure holds if it holds in "
        "each of them beyond "
        "its interval; it does not hold if one of them contradicts it beyond its interval (or "
        "leaves no room for a "
        "change worth the name); else it is undecided. "
        f"On data set 2 the pairs are the {len(INSTANCE_SEEDS)} fixed instances.",
        *(f"**{name}: {one.figure.source}.**" for name, one in played.items() if one.figure.source),
        "## Claims",
        table(
            ["verdict", "figure", "claim", "measured"],
            [[c.verdict, c.figure, c.text, c.measured] for c in claims],
        ),
        "## Figures",
    ]
    for name, one in played.items():
        parts += [
            f"### {name}: {one.figure.title}",
            f"![{name}]({name}.png)",
            *([NOTES[name]] if name in NOTES else []),
            _figure_table(one),
        ]
    parts += ["## Where the paper can be read in two ways", disagreements(played)]
    for text in (theorem_table(played), coupon_table(played)):
        if text:
            parts.append(text)
    return "\n\n".join(parts) + "\n"


def _figure_table(one: Played) -> str:
    figure, rows = one.figure, one.rows
    header = [SIGNS[key] for key in ([figure.panel] if figure.panel else []) + [figure.x]]
    policies = (*figure.policies, OURS)
    header += [name_of(policy) for policy in policies]
    header += ["lower bound"] if figure.measure == "pulls" else []
    lines = []
    panels = list(dict.fromkeys(rows[figure.panel])) if figure.panel else [None]
    for panel in panels:
        part = rows if panel is None else rows[rows[figure.panel] == panel]
        columns = {policy: points(part[part["policy"] == policy], figure) for policy in policies}
        for i, x in enumerate(columns["naive"]["x"]):
            line = [*([f"{panel:g}"] if panel is not None else []), f"{x:g}"]
            for own in columns.values():
                here = own.iloc[i]
                line.append(
                    f"{number(here['centre'])} ({number(here['low'])} to {number(here['high'])})"
                )
            if figure.measure == "pulls":
                bound = part[(part[figure.x] == x) & (part["policy"] == "naive")]["bound"].dropna()
                line.append(number(float(bound.median())) if len(bound) else "none")
            lines.append(line)
    return table(header, lines)
