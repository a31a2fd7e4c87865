"""The verb `bounds`: what theory says of an environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustered_bandit_gym.cli.app import command, console
from clustered_bandit_gym.cli.options import (
    OneAgents,
    OneDelta,
    OneEnv,
    OneEta,
    Seed,
    Set,
    Traceback,
    default_env,
    pairs_of,
)
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.output.tables import Table
from clustered_bandit_gym.harness.scoring.numbers import number

#: Linear programs that the bound of the instance may take: about a minute at M = 20, K = 100.
PROGRAMS = 30


@command("bounds")
def bounds(
    env: OneEnv = None,
    n_agents: OneAgents = None,
    delta: OneDelta = None,
    eta: OneEta = None,
    set_: Set = None,
    seed: Seed = 0,
    traceback: Traceback = False,
) -> None:
    """Lower bounds on the pulls of any δ-PC policy on an instance of ENV (trial 0 of the seed)."""
    from clustered_bandit_gym.harness.output.tables import to_rich

    given = {"n_agents": n_agents, "delta": delta, "eta": eta}
    settings = {k: v for k, v in given.items() if v is not None} | pairs_of(set_)
    head, found = bounds_tables(env or default_env(settings), settings, seed)
    screen = console()
    screen.print(head, highlight=False)
    for table in found:
        screen.print(to_rich(table, screen.width))


def bounds_tables(
    env_id: str, env_kwargs: dict[str, Any], seed: int = 0
) -> tuple[str, list[Table]]:
    """A headline and tables of bounds for the instance that trial 0 of `seed` draws."""
    from clustered_bandit_gym import theory
    from clustered_bandit_gym.harness.settings import Cell

    unwrapped: Any = Cell(env_id, env_kwargs).make().unwrapped
    instance = unwrapped.draw_instance(trial_seeds(seed, 0).instance)
    problem = unwrapped.problem_of(instance)
    if instance.eta <= 0:
        raise UserError("this instance violates Assumption 1: no bound applies to it")
    eta = instance.eta if problem.eta is None else min(problem.eta, instance.eta)
    told = {name: _told(value) for name, value in problem.to_dict().items()}
    head = (
        f"{env_id}: N = {told['n_agents']}, M = {told['n_clusters']}, K = {told['n_arms']}, δ = "
        f"{told['delta']}, "
        f"η = {told['eta']} (true {instance.eta:.4g}), η1 = {told['eta1']} (true "
        f"{instance.eta1:.4g}), "
        f"σ = {told['sigma']}"
    )
    sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
    lower = theory.solve_lower_bound(
        instance,
        problem.delta,
        0.0 if problem.eta is None else eta,
        clusters_told=problem.n_clusters is not None,
        max_programs=PROGRAMS,
    )
    facts = [
        ["expected pulls of any δ-PC policy, at least", number(lower.value)],
        ["the alternatives give at most", f"{100 * lower.gap:.2g}% more"],
        ["smallest gap", number(float(instance.gaps.min()))],
        ["agents per cluster, smallest and largest", f"{sizes.min()} and {sizes.max()}"],
    ]
    return head, [Table("The instance (trial 0)", ["what", "value"], facts)]


def _told(value: float | list[float] | None) -> str:
    if isinstance(value, list):
        return f"[{value[0]:g}, {value[1]:g}]"
    return "not told" if value is None else f"{value:g}"
