"""A study as one HTML page: what is known, what was named, where the pulls went."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

import pandas as pd

from clustered_bandit_gym.harness.settings import label_of
from clustered_bandit_gym.study.study import Study


def report(study: Study) -> str:
    """The page as text; it needs no other file."""
    status = study.status
    problem = study.problem
    good = f"within {problem.epsilon:g} of their best" if problem.epsilon else "right"
    if status.failure:
        verdict = "The policy stopped before it had named the arms; a larger limit lets it go on."
    elif not status.done:
        verdict = (
            "No arm is final before the policy names all of them, at the end. Below are the averages "
            "so far."
        )
    elif getattr(study.policy, "guarantee", "none").startswith("none"):
        verdict = "Every agent has its arm. The policy states no guarantee that they are right."
    else:
        verdict = (
            f"Every agent has its arm. With probability at least {1 - problem.delta:g} all of them "
            f"are {good}, if what was told of the problem is true, an agent's rewards of an arm are "
            "independent draws from one law, and, where the policy shares between agents, those of a "
            "cluster have the same laws."
        )
    values = None if study.values is None else study.values.tolist()
    told = [
        f"{name} = {f'{value:,}' if isinstance(value, int | float) else value}"
        for name, value in {**problem.to_dict(), "values": values}.items()
        if value
    ]
    log = [(order.phase, order.id, order.tells, order.done.sum()) for order in study.orders()]
    orders = pd.DataFrame(log, columns=["phase", "order", "tells", "pulls"])
    phases = orders.groupby("phase", sort=False)["pulls"].sum().reset_index()
    arms = pd.DataFrame({"pulls": status.pulls_per_arm.sum(axis=0)}).reset_index(names="arm")
    agents = agent_table(study).sort_values("pulls", ascending=False, kind="stable")
    text = files("clustered_bandit_gym.study").joinpath("report.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        policy=escape(label_of(study.policy)),
        problem=escape(", ".join(told)),
        status=escape(str(status)),
        verdict=verdict,
        agents=_html(agents.head(1000)),
        orders=_html(orders.tail(1000)),
        pulls=_html(phases) + _html(arms),
        **{name: f"{count:,.0f}" for name, count in study.ledger.summary().items()},
    )


def agent_table(study: Study) -> pd.DataFrame:
    """One line per agent: its arm and cluster once they are known, pulls, and averages."""
    status = study.status
    facts = {"arm": study.arms, "cluster": study.clusters, "pulls": status.pulls_per_agent}
    means = pd.DataFrame(status.means).add_prefix("mean of arm ")
    table = pd.DataFrame(facts).dropna(axis="columns")  # what is not known is None
    return table.join(means).reset_index(names="agent")


def _html(table: pd.DataFrame) -> str:
    return table.to_html(
        index=False,
        border=0,
        na_rep="–",
        float_format="{:,.3f}".format,
        formatters={"pulls": "{:,}".format},
    )
