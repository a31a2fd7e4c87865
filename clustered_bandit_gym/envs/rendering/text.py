"""A play as a table for the terminal."""

from __future__ import annotations

import math

from clustered_bandit_gym.envs.rendering.view import View

_COLOURS = {"bold": "1", "faint": "2", "amber": "1;33", "green": "1;32", "red": "1;31"}


def table(view: View) -> str:
    """Estimates, with a bar for the share of pulls; the leader in amber, then in green or red.

    At most 24 agents and 12 arms are shown.
    """
    n, k = view.pulls.shape
    agents, arms = min(n, 24), min(k, 12)
    pulls = f"{int(view.pulls_per_agent.sum()):,} pulls"
    head = f"{_in('bold', pulls)}, communication {view.cost:,.0f} units"
    if view.over:
        good = view.right is not None and bool(view.right.all())
        head += "   " + _in("green" if good else "red", view.verdict)
    titles = "".join(f"{f'arm {arm}':>8}" for arm in range(arms))
    lines = [head, _in("faint", f" agent │{titles} │     pulls")]
    lines += [_row(view, agent, arms) for agent in range(agents)]
    if (n, k) != (agents, arms):
        more = f"{n - agents:,} more agents, {k - arms:,} more arms"
        lines.append(_in("faint", f"       … {more}"))
    return "\n".join(lines) + "\n"


def _row(view: View, agent: int, arms: int) -> str:
    """One agent: eight columns for each arm, its pulls, and its verdict."""
    leader = int(view.leaders[agent])
    colour = "amber"
    verdict = ""
    if view.right is not None and view.best is not None:
        colour = "green" if view.right[agent] else "red"
        text = "✓" if view.right[agent] else f"✗ best: arm {view.best[agent]}"
        verdict = "  " + _in(colour, text)
    cells = [_cell(view, agent, arm) for arm in range(arms)]
    if 0 <= leader < arms:
        cells[leader] = _in(colour, cells[leader])
    elif leader >= arms:
        verdict += "  " + _in(colour, f"leader: arm {leader}")
    return f"{agent:>6} │{''.join(cells)} │{int(view.pulls_per_agent[agent]):>10,}{verdict}"


def _cell(view: View, agent: int, arm: int) -> str:
    """The estimate and the bar."""
    if view.pulls[agent, arm] == 0:
        return f"{'·':>7} "
    share = float(view.shares[agent, arm])
    return f"{view.means[agent, arm]:>7.2f}"[:7] + " ▁▂▃▄▅▆▇█"[math.ceil(8 * share)]


def _in(colour: str, text: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
