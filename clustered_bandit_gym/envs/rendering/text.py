"""A play as a table for the terminal."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym.envs.rendering.view import View

#: Agents and arms that a table shows; of more, the first ones.
MOST_AGENTS, MOST_ARMS = 24, 12

_BARS = " ▁▂▃▄▅▆▇█"
_BOLD, _FAINT, _AMBER, _GREEN, _RED, _PLAIN = (
    f"\x1b[{code}m" for code in ("1", "2", "1;33", "1;32", "1;31", "0")
)


def table(view: View) -> str:
    """Estimates, with a bar for the share of pulls; the leader in amber, at the end the verdict in green or red."""
    n, k = view.pulls.shape
    agents, arms = min(n, MOST_AGENTS), min(k, MOST_ARMS)
    leaders, shares = view.leaders, view.shares
    lines = [
        f"{_BOLD}{int(view.pulls_per_agent.sum()):,} pulls{_PLAIN}, communication {view.cost:,.0f} units"
    ]
    if view.over:
        good = view.right is not None and bool(view.right.all())
        lines[0] += f"   {_GREEN if good else _RED}{view.verdict}{_PLAIN}"
    lines.append(
        _FAINT
        + " agent │"
        + "".join(f"{'arm ' + str(arm):>8}" for arm in range(arms))
        + " │     pulls"
        + _PLAIN
    )
    for agent in range(agents):
        cells = [
            _cell(view, agent, arm, int(leaders[agent]), float(shares[agent, arm]))
            for arm in range(arms)
        ]
        line = f"{agent:>6} │{''.join(cells)} │{int(view.pulls_per_agent[agent]):>10,}"
        if view.arms is not None and view.right is not None and view.best is not None:
            line += (
                f"  {_GREEN}✓{_PLAIN}"
                if view.right[agent]
                else f"  {_RED}✗ best: arm {view.best[agent]}{_PLAIN}"
            )
        if leaders[agent] >= arms:
            line += f"  {_AMBER}leader: arm {leaders[agent]}{_PLAIN}"
        lines.append(line)
    hidden = [f"{n - agents:,} more agents"] * (n > agents) + [f"{k - arms:,} more arms"] * (
        k > arms
    )
    if hidden:
        lines.append(f"{_FAINT}       … {', '.join(hidden)}{_PLAIN}")
    return "\n".join(lines) + "\n"


def _cell(view: View, agent: int, arm: int, leader: int, share: float) -> str:
    """Eight columns: the estimate and the bar."""
    if view.pulls[agent, arm] == 0:
        text = f"{'·':>7} "
    else:
        text = f"{view.means[agent, arm]:>7.2f}"[:7] + _BARS[int(np.ceil(8 * share))]
    if arm != leader:
        return text
    colour = _AMBER if view.right is None else _GREEN if view.right[agent] else _RED
    return f"{colour}{text}{_PLAIN}"
