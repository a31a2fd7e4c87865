r"""A table of pulls for a paper, for ``\usepackage{booktabs,graphicx}``."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from clustered_bandit_gym.harness.output.escape import latex
from clustered_bandit_gym.harness.output.layout import Measure, measure_of, places, symbol
from clustered_bandit_gym.harness.output.style import styles_of
from clustered_bandit_gym.harness.output.tables import setting

#: A table that is too wide for its column is set smaller. "table*" takes both columns of a page.
_TABLE = r"""\begin{{{float}}}
  \centering
  \caption{{{kind} pulls{intervals}. {caption}.}}
  \label{{tab:pulls-{label}}}
  \small
  \vspace{{2mm}}
  \setlength{{\tabcolsep}}{{3pt}}
  \resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{%
  \begin{{tabular}}{{l{columns}}}
    \toprule
    policy & {heads} \\
    \midrule
    {rows} \\
    \bottomrule
  \end{{tabular}}}}
\end{{{float}}}"""


def pulls_table(
    summary: pd.DataFrame,
    varied: list[str],
    facts: list[str],
    *,
    ci: bool,
    bold_best: bool,
    labels: Mapping[str, str] | None,
) -> str:
    """One row per policy, by its display name, and one column per combination of settings.

    Medians where a tail is heavy; `ci` adds intervals, `bold_best` prints the fewest pulls of a
    column in bold, `labels` replaces display names. A mean with unfinished trials is a lower bound,
    and never the best.

    The caption has the `facts`. The label stands for everything but numbers and the last fact: how
    many trials there are.
    """
    measure = measure_of(summary)
    heads = places(summary, varied, equation).replace("", "pulls")
    finished = summary[measure.centre].where(summary["unfinished"] == 0)
    bold = bold_best & (finished == finished.groupby(heads).transform("min"))
    cells = [_cell(row, measure, ci) for row in summary.to_dict("records")]
    table = summary.assign(head=heads, cell=bold.map({True: r"\boldmath", False: ""}) + cells)
    table = table.pivot_table("cell", "policy", "head", "last", fill_value="--", sort=False)
    looks = styles_of(table.index, labels)
    rows = [" & ".join([latex(looks[name].label), *own]) for name, *own in table.itertuples()]
    return _TABLE.format(
        float="table*" if ci and table.shape[1] > 2 else "table",
        kind=measure.short.capitalize(),
        intervals=r", 95\% intervals" if ci else "",
        caption=", ".join(facts),
        label=f"{zlib.crc32(repr([facts[:-1], varied, list(table.index), ci, bold_best]).encode()):08x}",
        columns="r" * table.shape[1],
        heads=" & ".join(table.columns),
        rows=" \\\\\n    ".join(rows),
    )


def equation(name: str, value: Any) -> str:
    """A setting, by the symbol that a paper uses: $N=4$."""
    sign = {"δ": r"\delta", "η": r"\eta"}.get(symbol(name), symbol(name))
    if sign == name:
        return latex(f"{name}={setting(value)}")
    power = re.sub(r"e([+-]\d+)$", r"\\times10^{\1}", setting(value))
    return f"${sign}={power}$"


def _cell(row: dict[Any, Any], measure: Measure, ci: bool) -> str:
    r"""``$1.23_{\pm0.04}\times10^{5}$``, or a median with its interval, which is not symmetric around
    it: ``$1.23_{[1.20,1.31]}\times10^{5}$``."""
    centre, low, high = row[measure.centre], row[measure.low], row[measure.high]
    text, _, exponent = f"{centre:.2e}".partition("e")
    unit = 10 ** int(exponent)
    if row["unfinished"]:
        text = rf"\geq{text}"
    elif ci and high >= low:
        half = math.ceil(100 * (high - low) / 2 / unit) / 100  # never shorter than it is
        ends = rf"\pm{half:.2f}"
        if measure.centre == "pulls_median":
            ends = f"[{low / unit:.2f},{high / unit:.2f}]"
        text += f"_{{{ends}}}"
    return rf"${text}\times10^{{{int(exponent)}}}$"
