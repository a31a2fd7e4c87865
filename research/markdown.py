"""Markdown tables of the result pages."""

from __future__ import annotations

from clustered_bandit_gym.harness.output.escape import markdown

#: Columns that hold text and are aligned to the left.
TEXT = {
    *("policy", "verdict", "reason", "env", "environment", "cell", "what"),
    *("figure", "claim", "measured", "scheme", "setting", "first phase", "second phase"),
}


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A pipe table."""
    cells = [[markdown(cell) for cell in row] for row in (heads, *rows)]
    cells.insert(1, ["---" if head in TEXT else "---:" for head in heads])
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
