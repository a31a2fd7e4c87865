"""The verb `bounds`: what theory says of an environment."""

from __future__ import annotations

from typing import Any

import typer

from clustered_bandit_gym.cli.app import command, default_env, settings_of


@command("bounds")
def bounds(
    env: str | None = None,
    *,
    n_agents: int | None = None,
    delta: float | None = None,
    eta: float | None = None,
    set_: list[str] | None = None,
    seed: int = 0,
) -> None:
    """Lower bound on the pulls of any δ-PC policy on an instance of ENV (trial 0 of the seed)."""
    from clustered_bandit_gym.game.seeds import trial_seeds
    from clustered_bandit_gym.harness.bound import bound_of
    from clustered_bandit_gym.harness.scoring.numbers import number
    from clustered_bandit_gym.harness.settings import Cell

    settings = settings_of({"n_agents": n_agents, "delta": delta, "eta": eta}, set_)
    env = env or default_env(settings)
    unwrapped: Any = Cell(env, settings).make().unwrapped
    instance = unwrapped.draw_instance(trial_seeds(seed, 0).instance)
    problem = unwrapped.problem_of(instance)
    bound = bound_of(instance, problem)
    facts = problem.to_dict().items()
    told = ", ".join(f"{key} = {value}" for key, value in facts if value is not None)
    gap = number(float(instance.gaps.min()))
    typer.echo(f"{env}: told {told}")
    typer.echo(f"the instance of trial 0 has η = {instance.eta:.4g}, smallest gap {gap}")
    least = "no bound is known" if bound is None else number(bound)
    typer.echo(f"expected pulls of any δ-PC policy, at least: {least}")
