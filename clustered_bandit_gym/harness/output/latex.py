r"""A table of pulls for a paper, for ``\usepackage{booktabs}``."""

from __future__ import annotations

import math
import re
from typing import Any

import pandas as pd

from clustered_bandit_gym.harness.output.escape import latex
from clustered_bandit_gym.harness.output.layout import Measure, measure_of
from clustered_bandit_gym.harness.output.style import style_of
from clustered_bandit_gym.harness.output.tables import setting


def pulls_table(
    summary: pd.DataFrame, varied: list[str], title: str, *, ci: bool, bold_best: bool
) -> str:
    """One row per policy, by its display name, and one column per combination of the varied
    settings.

    Medians where a tail is heavy; `ci` adds intervals, `bold_best` prints the fewest pulls of a
    column in bold. A mean with unfinished trials is a lower bound, and never the best.
    """
    measure = measure_of(summary)
    heads = []
    for row in summary.to_dict("records"):
        heads.append(", ".join(_head(name, row[name]) for name in varied) or "pulls")
    columns: dict[str, dict[str, str]] = {}
    for head, part in summary.groupby(pd.Index(heads), sort=False):
        fewest = part.loc[part["unfinished"] == 0, measure.centre].min()
        cells = columns.setdefault(str(head), {})
        for row in part.to_dict("records"):
            bold = bold_best and row[measure.centre] == fewest and not row["unfinished"]
            cells[row["policy"]] = (r"\boldmath" if bold else "") + _cell(row, measure, ci)
    rows = []
    for policy in summary["policy"].unique():
        shown = [cells.get(policy, "--") for cells in columns.values()]
        rows.append(" & ".join([latex(style_of(policy).label), *shown]))
    kind = measure.words.partition(";")[0].capitalize()
    caption = latex(f"{kind} pulls{', 95% intervals' if ci else ''}. {title.replace('  ', ', ')}.")
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"    \toprule",
        rf"    policy & {' & '.join(columns)} \\",
        r"    \midrule",
        *(rf"    {row} \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _head(name: str, value: Any) -> str:
    """A setting, by the symbol that a paper uses: $N=4$."""
    symbols = {
        "delta": r"\delta",
        "eta": r"\eta",
        "n_agents": "N",
        "n_arms": "K",
        "n_clusters": "M",
    }
    if name not in symbols:
        return latex(f"{name}={setting(value)}")
    power = re.sub(r"e([+-]\d+)$", r"\\times10^{\1}", setting(value))
    return f"${symbols[name]}={power}$"


def _cell(row: dict[Any, Any], measure: Measure, ci: bool) -> str:
    r"""``$(1.23\pm0.04)\times10^{5}$``, or a median with its interval, which is not symmetric around
    it: ``$1.23\,[1.20, 1.31]\times10^{5}$``."""
    centre, low, high = row[measure.centre], row[measure.low], row[measure.high]
    text, _, exponent = f"{centre:.2e}".partition("e")
    power = int(exponent)
    if row["unfinished"]:
        text = rf"\geq{text}"
    elif ci and high >= low:
        if measure.centre == "pulls_median":
            text += rf"\,[{low / 10**power:.2f}, {high / 10**power:.2f}]"
        else:
            half = math.ceil(100 * (high - low) / 2 / 10**power) / 100  # never shorter than it is
            text = rf"({text}\pm{half:.2f})"
    return rf"${text}\times10^{{{power}}}$"
