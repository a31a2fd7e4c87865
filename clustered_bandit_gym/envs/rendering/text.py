"""A play as a table for the terminal."""

from __future__ import annotations

from clustered_bandit_gym.envs.rendering.view import View

AMBER, GREEN, RED = "1;33", "1;32", "1;31"


def table(view: View) -> str:
    """Estimates of each agent; the leader in amber, after the end in green or red.

    At most 24 agents and 12 arms are shown.
    """
    n, k = view.pulls.shape
    agents, arms = min(n, 24), min(k, 12)
    pulls = int(view.pulls_per_agent.sum())
    lines = [
        f"{pulls:,} pulls, communication {view.cost:,.0f} units   {view.verdict}",
        " agent │" + "".join(f"{f'arm {arm}':>8}" for arm in range(arms)) + " │     pulls",
    ]
    lines += [_row(view, agent, arms) for agent in range(agents)]
    if (n, k) != (agents, arms):
        lines.append(f"       … {n - agents:,} more agents, {k - arms:,} more arms")
    return "\n".join(lines) + "\n"


def _row(view: View, agent: int, arms: int) -> str:
    """One agent: eight columns for each arm, its pulls, and its verdict."""
    colour, verdict = AMBER, ""
    if view.right is not None and view.best is not None:
        colour = GREEN if view.right[agent] else RED
        verdict = "  ✓" if view.right[agent] else f"  ✗ best: arm {view.best[agent]}"
    cells = ""
    for arm in range(arms):
        cell = f"{view.means[agent, arm]:>8.2f}"[:8] if view.pulls[agent, arm] else f"{'·':>8}"
        cells += f"\x1b[{colour}m{cell}\x1b[0m" if arm == view.leaders[agent] else cell
    return f"{agent:>6} │{cells} │{int(view.pulls_per_agent[agent]):>10,}{verdict}"
