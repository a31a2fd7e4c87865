"""Planning a study: how many pulls each policy is likely to take, by simulation of a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian, RewardModel
from clustered_bandit_gym.harness.run import evaluate

if TYPE_CHECKING:
    import pandas as pd

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
        table: pandas, one row per policy: `policy`, `pulls` (median), `pulls_low` and `pulls_high`
            (smallest and largest of the trials), `pulls_per_agent`, `pulls_max_agent` (at the
            busiest agent, median), `wrong` (trials with a wrong arm), and `note` where it failed.
        policy: the one to take: fewest pulls in the median, never wrong; None if there is none.
        gain: median pulls of the best policy that treats agents alone, over those of the best one
            that shares between them: clustering pays if it is above 1. None if either is missing.
    """

    table: pd.DataFrame
    policy: str | None
    gain: float | None

    def __str__(self) -> str:
        shown = self.table.drop(columns="note")
        lines = [shown.to_string(index=False, na_rep="-", float_format="{:,.0f}".format), ""]
        failed = self.table[self.table.note != ""]
        lines += [f"{row.policy}: {row.note}" for row in failed.itertuples()]
        if self.policy is None:
            return "\n".join([*lines, "No policy finished without a wrong arm."])
        best = self.table.set_index("policy").loc[self.policy]
        lines.append(
            f"Take {self.policy}: about {best.pulls:,.0f} pulls, {best.pulls_per_agent:,.0f} per "
            f"agent, {best.pulls_max_agent:,.0f} at the busiest agent."
        )
        if self.gain is not None and self.gain > 1:
            lines.append(f"Clustering pays: without it {self.gain:.2g} times the pulls.")
        elif self.gain is not None:
            lines.append(f"Clustering does not pay: with it {1 / self.gain:.2g} times the pulls.")
        return "\n".join(lines)


def plan(
    n_agents: int,
    n_arms: int | None = None,
    n_clusters: int | None = None,
    *,
    gaps: tuple[float, float] | None = None,
    means: ArrayLike | None = None,
    rewards: RewardModel | str = "bernoulli",
    delta: float = 0.05,
    told: dict[str, Any] | None = None,
    policies: Sequence[str] | None = None,
    trials: int = 3,
    seed: int = 0,
    max_pulls: int = 10**10,
    **settings: Any,
) -> Plan:
    """Simulate a guess with every policy. Few trials suffice to choose one; they prove nothing.

    Args:
        n_agents: number of agents.
        n_arms, n_clusters, gaps: with a range of gaps; every trial draws other means.
        means: instead, (M, K) a guess of the means; agents are spread evenly over the clusters.
        rewards: "bernoulli", "gaussian" (σ = 1), or a reward model.
        told: what the study will tell instead of the truth, e.g. ``{"eta": None}``.
        policies: names of policies; by default `POLICIES`.
        max_pulls: a trial beyond it counts as not finished.
        **settings: more keywords of the environment, such as `epsilon`.
    """
    laws: dict[Any, RewardModel] = {"bernoulli": Bernoulli(), "gaussian": Gaussian()}
    law = rewards if isinstance(rewards, RewardModel) else laws.get(rewards)
    if law is None:
        raise UserError(f"rewards must be bernoulli, gaussian or a reward model, got {rewards!r}")
    if means is not None:
        settings["instance"] = _spread(np.asarray(means, dtype=np.float64), n_agents, law)
    elif gaps is None or n_arms is None or n_clusters is None:
        raise UserError("give means, or gaps with n_arms and n_clusters")
    elif not 0 < gaps[0] <= gaps[1]:
        raise UserError(f"gaps must be two numbers, 0 < least <= most, got {gaps}")
    else:
        settings["generator"] = partial(
            guess, n_agents=n_agents, shape=(n_clusters, n_arms), gaps=gaps, rewards=law
        )
    board = evaluate(
        list(policies or POLICIES),
        trials=trials,
        seed=seed,
        progress=False,
        bound=False,
        delta=delta,
        told=told,
        max_pulls=max_pulls,
        **settings,
    )
    return _summary(board.trials, n_agents)


def guess(
    rng: np.random.Generator,
    n_agents: int,
    shape: tuple[int, int],
    gaps: tuple[float, float],
    rewards: RewardModel,
) -> Instance:
    """Random means of `shape` (M, K) around 0.5 with gaps from a range.

    Every cluster has a best arm of its own as long as there are arms left.
    """
    drawn = rng.uniform(*gaps, shape)
    clusters = np.arange(shape[0])
    drawn[clusters, clusters % shape[1]] = 0
    means = 0.5 + drawn.max(axis=1, keepdims=True) / 2 - drawn
    return _spread(means, n_agents, rewards)


def _spread(means: Floats, n_agents: int, rewards: RewardModel) -> Instance:
    """An instance with agents spread evenly over the rows of `means`; best arms may be shared."""
    clusters = np.arange(n_agents) % len(means)
    return Instance(means, clusters, rewards, allow_ties=True, allow_overlap=True)


def _summary(trials: pd.DataFrame, n_agents: int) -> Plan:
    answered = trials.outcome.isin(["solved", "wrong"])
    reason = trials.message.astype(str).str.partition(";")[0].mask(answered, "")
    rows = trials.assign(wrong=trials.outcome == "wrong", note=reason)
    table = rows.groupby("policy", sort=False, as_index=False).agg(
        pulls=("pulls", "median"),
        pulls_low=("pulls", "min"),
        pulls_high=("pulls", "max"),
        pulls_max_agent=("pulls_max_agent", "median"),
        wrong=("wrong", "sum"),
        note=("note", "max"),
    )
    table.insert(4, "pulls_per_agent", table.pulls / n_agents)
    figures = [name for name in table.columns.astype(str) if name.startswith("pulls")]
    table[figures] = table[figures].astype(float).mask(table.note != "")
    right = table[table.wrong == 0].set_index("policy").pulls.dropna()
    alone = right.index.str.startswith("naive")
    gain = None
    if alone.any() and not alone.all():
        gain = float(right[alone].min() / right[~alone].min())
    return Plan(table, None if right.empty else str(right.idxmin()), gain)
