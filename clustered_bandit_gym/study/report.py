"""A study as one HTML page: what is known, who is decided, where the pulls went."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from clustered_bandit_gym.harness.settings import label_of
from clustered_bandit_gym.study.study import Status, Study

#: Agents in the table at most; the busiest are shown.
MOST_AGENTS = 1000
#: Bars of the busiest agents.
MOST_BARS = 10


def report(study: Study) -> str:
    """The page as text; it needs no other file."""
    status, problem = study.status, study.problem
    told = ", ".join(f"{key} = {value}" for key, value in problem.to_dict().items() if value)
    ledger = study.ledger.summary()
    decided = int(status.decided.sum())
    cards = (
        ("state", "done" if status.done else status.phase),
        ("pulls told", f"{status.pulls:,}"),
        ("pulls at the busiest agent", f"{status.pulls_max_agent:,}"),
        ("agents decided", f"{decided:,} of {problem.n_agents:,}"),
        ("orders complete", f"{status.orders:,}"),
        ("pulls waited for", f"{status.missing:,}"),
    )
    if status.done:
        verdict = (
            f"Every agent has its arm. With probability at least {1 - problem.delta:g} all of them "
            f"are right, if what was told of the problem is true."
        )
    else:
        verdict = (
            "Nothing is final yet: the policy names all arms at the end. Below are the averages so "
            "far; the highest of an agent is marked and may change."
        )
    head = ["agent", "arm" if status.done else "leader"]
    head += ["cluster", "pulls", *(f"arm {arm}" for arm in range(problem.n_arms))]
    busiest = np.argsort(-status.pulls_per_agent, kind="stable")
    shown = np.sort(busiest[:MOST_AGENTS])
    if shown.size < problem.n_agents:
        verdict += f" The table shows the {shown.size:,} busiest agents."
    named = [(f"agent {i}", int(status.pulls_per_agent[i])) for i in busiest[:MOST_BARS]]
    arms = enumerate(status.pulls_per_arm.sum(axis=0).tolist())
    bars = (
        _bars("By phase", study.pulls_by_phase.items())
        + _bars("By arm", ((f"arm {arm}", pulls) for arm, pulls in arms))
        + _bars("Busiest agents", named)
    )
    messages = (
        f"{ledger['bits_up']:,.0f} bits and {ledger['reals_up']:,.0f} reals from the agents, "
        f"{ledger['bits_down']:,.0f} bits and {ledger['reals_down']:,.0f} reals to them."
    )
    template = files("clustered_bandit_gym.study").joinpath("report.html")
    return Template(template.read_text(encoding="utf-8")).substitute(
        policy=escape(label_of(study.policy)),
        problem=escape(told),
        cards="".join(
            f'<div class="card"><b>{escape(text)}</b>{name}</div>' for name, text in cards
        ),
        verdict=verdict,
        head="".join(f"<th>{name}</th>" for name in head),
        agents="".join(_agent(study, status, int(agent)) for agent in shown),
        bars=bars,
        messages=messages,
    )


def _agent(study: Study, status: Status, agent: int) -> str:
    """One line of the table."""
    means = status.means[agent]
    arms, clusters = study.arms, study.clusters
    seen = not np.isnan(means).all()
    best = int(arms[agent]) if arms is not None else int(np.nanargmax(means)) if seen else None
    cells = [str(agent), "–" if best is None else str(best)]
    cells.append("–" if clusters is None else str(clusters[agent]))
    cells.append(f"{status.pulls_per_agent[agent]:,}")
    line = "".join(f"<td>{cell}</td>" for cell in cells)
    for arm, mean in enumerate(means):
        mark = ' class="best"' if arm == best else ""
        line += f"<td{mark}>{'–' if np.isnan(mean) else f'{mean:.3f}'}</td>"
    return f"<tr>{line}</tr>"


def _bars(title: str, pulls: Iterable[tuple[str, int]]) -> str:
    """A small bar chart."""
    rows = list(pulls)
    most = max((count for _, count in rows), default=0) or 1
    lines = "".join(
        f'<span>{escape(name)}</span><i style="width:{100 * count / most:.1f}%"></i>'
        f"<span>{count:,}</span>"
        for name, count in rows
    )
    return f'<p class="soft">{title}</p><div class="bars">{lines}</div>'
