"""A study as one HTML page: what is known, what was named, where the pulls went."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

import numpy as np
import pandas as pd

from clustered_bandit_gym.harness.settings import label_of
from clustered_bandit_gym.study.study import Study

#: Agents in the table at most; the busiest are shown.
MOST_AGENTS = 1000


def report(study: Study) -> str:
    """The page as text; it needs no other file."""
    status, problem = study.status, study.problem
    told = ", ".join(f"{key} = {value}" for key, value in problem.to_dict().items() if value)
    if status.done and getattr(study.policy, "guarantee", "none").startswith("none"):
        verdict = "Every agent has its arm. The policy states no guarantee that they are right."
    elif status.done:
        verdict = (
            f"Every agent has its arm. With probability at least {1 - problem.delta:g} all of them "
            f"are right, if what was told of the problem is true."
        )
    else:
        verdict = (
            "Nothing is final yet: the policy names all arms at the end. Below are the averages so "
            "far; the leader of an agent may change."
        )
    busiest = np.argsort(-status.pulls_per_agent, kind="stable")
    if problem.n_agents > MOST_AGENTS:
        verdict += f" The table shows the {MOST_AGENTS:,} busiest agents."
    ledger = study.ledger.summary()
    messages = (
        f"{ledger['bits_up']:,.0f} bits and {ledger['reals_up']:,.0f} reals from the agents, "
        f"{ledger['bits_down']:,.0f} bits and {ledger['reals_down']:,.0f} reals to them."
    )
    arms = pd.Series(status.pulls_per_arm.sum(axis=0)).rename_axis("arm")
    agents = pd.Series(status.pulls_per_agent)[busiest[:10]].rename_axis("busiest agent")
    phases = pd.Series(study.pulls_by_phase, dtype="int64").rename_axis("phase")
    pulls = [_html(one.to_frame("pulls").reset_index()) for one in (phases, arms, agents)]
    template = files("clustered_bandit_gym.study").joinpath("report.html")
    return Template(template.read_text(encoding="utf-8")).substitute(
        policy=escape(label_of(study.policy)),
        problem=escape(told),
        status=escape(str(status)),
        verdict=verdict,
        agents=_html(agent_table(study).iloc[np.sort(busiest[:MOST_AGENTS])]),
        pulls="".join(pulls),
        messages=messages,
    )


def agent_table(study: Study) -> pd.DataFrame:
    """One line per agent: its arm (or the leader so far), cluster, pulls, and averages."""
    status, arms, clusters = study.status, study.arms, study.clusters
    table = pd.DataFrame({"agent": np.arange(study.problem.n_agents)})
    if arms is None:
        leader = np.nan_to_num(status.means, nan=-np.inf).argmax(axis=1)
        table["leader"] = pd.Series(leader, dtype="Int64").where(status.pulls_per_agent > 0)
    else:
        table["arm"] = arms
    if clusters is not None:
        table["cluster"] = clusters
    table["pulls"] = status.pulls_per_agent
    for arm in range(study.problem.n_arms):
        table[f"mean of arm {arm}"] = status.means[:, arm]
    return table


def _html(table: pd.DataFrame) -> str:
    # na_rep does not reach pandas' own integers.
    page = table.to_html(index=False, border=0, na_rep="–", float_format="{:.3f}".format)
    return page.replace("&lt;NA&gt;", "–")
