"""Planning a study: how many pulls each policy is likely to take, by simulation of a guess."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Interval, Rng
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, RewardModel

#: Policies that treat every agent alone, then policies that share between agents.
POLICIES = (
    "naive",
    "naive:engine=mixture",
    "cl-bai",
    "bai-cl",
    "bai-cl:confidence=certified,engine=mixture",
    "bai-cl++",
    "structured-bai",
    "frugal-bai",
)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a study is likely to take.

    Attributes:
        table: pandas, one row per policy: `policy`, `pulls` and `pulls_max_agent` (at the busiest
            agent), both medians, `wrong` (trials with a wrong arm), and `note` where it failed.
        policy: the one to take: fewest pulls in the median, never wrong; None if there is none.
        gain: median pulls of the best policy that treats agents alone, over those of the best one
            that shares between them: clustering pays if it is above 1. None if either is missing.
        told: what was simulated and told, in words.
    """

    table: pd.DataFrame
    policy: str | None
    gain: float | None
    told: str

    def __str__(self) -> str:
        shown = self.table.drop(columns="note")
        text = shown.to_string(index=False, na_rep="-", float_format="{:,.0f}".format)
        lines = [f"{self.told}. Medians of pulls:", text, ""]
        failed = self.table[self.table.note != ""]
        lines += list(failed.policy + ": " + failed.note)
        lines.append(f"Take {self.policy}." if self.policy else "No policy was right throughout.")
        if self.gain is not None:
            pays = "pays" if self.gain > 1 else "does not pay"
            more = f"{self.gain:.3g} times the pulls"
            lines.append(f"Clustering {pays}: the best policy that does not share takes {more}.")
        return "\n".join(lines)


def plan(
    n_agents: int,
    n_arms: int | None = None,
    n_clusters: int | None = None,
    *,
    gaps: Interval | None = None,
    means: ArrayLike | None = None,
    rewards: RewardModel | None = None,
    policies: Sequence[str] | None = None,
    trials: int = 3,
    **settings: Any,
) -> Plan:
    """Simulate a guess with every policy. Few trials suffice to choose one; they prove nothing.

    Args:
        n_agents: number of agents.
        n_arms, n_clusters, gaps: with a range of gaps; every trial draws other means.
        means: instead, (M, K) a guess of the means; agents are spread evenly over the clusters.
        rewards: a reward model, by default `Bernoulli()`.
        policies: names of policies; by default `POLICIES`.
        **settings: keywords of `evaluate` and of the environment, such as `seed`, `delta` (0.05),
            `epsilon`, `max_pulls` (10^10), or ``told={"eta": None}`` for what is not known.
    """
    from clustered_bandit_gym.harness.run import evaluate

    law = rewards or Bernoulli()
    whole(n_agents, "n_agents")
    if means is not None:
        if (n_arms, n_clusters, gaps) != (None, None, None):
            raise UserError("give means, or gaps with n_arms and n_clusters, not both")
        settings["instance"] = guessed = _spread(means, n_agents, law)
        if guessed.eta <= 0:
            _warn("clusters of these means")
        if (guessed.is_best.sum(axis=1) > 1).any():
            text = "two best arms of a cluster tie: no policy can tell them apart; tell epsilon"
            warnings.warn(text, stacklevel=2)
    elif gaps is None or n_arms is None or n_clusters is None:
        raise UserError("give means, or gaps with n_arms and n_clusters")
    elif not 0 < gaps[0] <= gaps[1]:
        raise UserError(f"gaps must be two numbers, 0 < least <= most, got {gaps}")
    else:
        if whole(n_clusters, "n_clusters") > whole(n_arms, "n_arms", 2):
            _warn("more clusters than arms")
        settings["generator"] = partial(
            guess, n_agents=n_agents, shape=(n_clusters, n_arms), gaps=gaps, rewards=law
        )
    settings = {"delta": 0.05, "max_pulls": 10**10} | settings
    rows = evaluate(policies or POLICIES, trials=trials, bound=False, **settings).trials
    rows["wrong"] = rows.outcome == "wrong"
    notes = rows.message.astype(str).str.partition(";")[0]
    rows["note"] = notes.mask(rows.outcome.isin(["solved", "wrong"]), "")
    table = rows.groupby("policy", sort=False, as_index=False).agg(
        pulls=("pulls", "median"),
        pulls_max_agent=("pulls_max_agent", "median"),
        wrong=("wrong", "sum"),
        note=("note", "max"),
    )
    table.loc[table.note != "", ["pulls", "pulls_max_agent", "wrong"]] = np.nan
    right = table[table.wrong == 0].set_index("policy").pulls.dropna()
    alone = right.index.str.startswith("naive")
    gain = float(right[alone].min() / right[~alone].min())  # NaN where one of them is missing
    best = str(right.idxmin()) if len(right) else None
    return Plan(table, best, gain if gain > 0 else None, _told(rows))


def guess(
    rng: Rng, n_agents: int, shape: tuple[int, int], gaps: Interval, rewards: RewardModel
) -> Instance:
    """Random means of `shape` (M, K) around 0.5 with gaps from a range.

    Every cluster has a best arm of its own as long as there are arms left.
    """
    drawn = rng.uniform(*gaps, shape)
    clusters = np.arange(shape[0])
    drawn[clusters, clusters % shape[1]] = 0
    return _spread(0.5 + drawn.max(axis=1, keepdims=True) / 2 - drawn, n_agents, rewards)


def _spread(means: ArrayLike, n_agents: int, rewards: RewardModel) -> Instance:
    """An instance with agents spread evenly over the rows of `means`; best arms may be shared."""
    clusters = np.arange(n_agents) % len(np.atleast_2d(means))
    return Instance(means, clusters, rewards, allow_ties=True, allow_overlap=True)


def _warn(what: str) -> None:
    said = "some of them share a best arm, so there is no eta to tell (Assumption 1)"
    warnings.warn(f"{what}: {said}", stacklevel=3)


def _told(rows: pd.DataFrame) -> str:
    """What the trials of a plan were, and what policies were told."""
    first = rows.iloc[0]
    words = [f"{first.n_agents} agents, {first.n_arms} arms; told M = {first.n_clusters}"]
    if rows.eta.notna().all():
        words.append(
            f"η = {' to '.join(f'{eta:.3g}' for eta in sorted({rows.eta.min(), rows.eta.max()}))}"
        )
    return ", ".join(words)
