"""Policies on real agents: study new, ask, tell, status, report, plan."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from clustered_bandit_gym.cli.app import command, say, write
from clustered_bandit_gym.errors import UserError

if TYPE_CHECKING:
    from clustered_bandit_gym.study import Study


@command("study new")
def new(
    study: Path,
    *,
    policy: str,
    n_agents: int,
    n_arms: int,
    n_clusters: int | None = None,
    delta: float = 0.05,
    eta: float | None = None,
    eta1: float | None = None,
    sigma: float | None = None,
    support: tuple[float, float] | None = None,
    values: list[float] | None = None,
    epsilon: float = 0,
    max_pulls_per_agent: int | None = None,
    seed: int = 0,
) -> None:
    """Begin a study.

    Example: clustered-bai study new s.db -p structured-bai -n 40 -k 4 -m 3 --values 0 1 --eta 0.02
    """
    from clustered_bandit_gym.game.problem import Problem
    from clustered_bandit_gym.study import Study

    if study.exists():
        raise UserError(f"{study} exists; continue it with ask and tell, or take another name")
    if sigma is None:
        ends = support or values
        sigma = (max(ends) - min(ends)) / 2 if ends else 1.0
    problem = Problem(
        n_agents,
        n_arms,
        n_clusters,
        delta,
        eta,
        eta1,
        sigma,
        support,
        epsilon=epsilon,
        max_pulls_per_agent=max_pulls_per_agent,
    )
    Study(policy, problem, study, seed, values=values).close()
    say(f"{study}: next, clustered-bai study ask {shlex.quote(str(study))} -o order.csv")


@command("study ask")
def ask(study: Path, *, out: Path | None = None, json_: bool = False) -> None:
    """Print the pulls to make now: order, row, agent, arm, times. Exit code 3 if there are none."""
    from clustered_bandit_gym.study import Study

    order = Study.open(study).ask()
    if order is None:
        say("the study is done: see study status")
        raise typer.Exit(3)
    text = order.table.to_csv(index=False)
    if json_ or (out is not None and out.suffix == ".json"):
        columns = order.table.drop(columns="order").to_dict("list")
        text = json.dumps({"order": order.id, "phase": order.phase, **columns}) + "\n"
    write(text, out)
    if out is not None:
        say(f"order {order.id}: {order.times.sum():,} pulls in {order.times.size:,} rows")


@command("study tell")
def tell(study: Path, rewards_file: Path, *, key: str | None = None) -> None:
    """Record rewards of an order.

    CSV: columns order and row (or agent and arm), and reward (one line per pull) or sum (one line
    per row, of as many as `pulls` or `times` says, by default all that are missing). JSON: order,
    rows, and rewards, sums or counts.
    """
    from clustered_bandit_gym.study import Study

    opened = Study.open(study)
    if str(rewards_file) == "-":
        text = sys.stdin.read()
    else:
        try:
            text = rewards_file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(f"{rewards_file} is not UTF-8 text: {error}") from None
    told = _from_json(text) if text.lstrip().startswith("{") else _from_csv(text, opened)
    taken = opened.tell(told.pop("order"), **{"key": key, **told})
    note = "" if taken else "this tell was taken before; "
    say(f"{note}{opened.status}")


@command("study status")
def status(study: Path, *, json_: bool = False) -> None:
    """Print how far a study is, and the arms once it is done."""
    from clustered_bandit_gym.study import Study
    from clustered_bandit_gym.study.report import agent_table

    opened = Study.open(study)
    now, arms = opened.status, opened.arms
    if json_:
        names = ("done", "phase", "orders", "missing", "pulls", "pulls_max_agent")
        facts = {name: getattr(now, name) for name in (*names, "pulls_per_agent")}
        facts |= {"arms": arms, "clusters": opened.clusters, **opened.ledger.summary()}
        typer.echo(json.dumps({key: np.asarray(value).tolist() for key, value in facts.items()}))
        return
    typer.echo(str(now))
    if arms is not None:
        typer.echo(agent_table(opened).to_csv(index=False), nl=False)


@command("study report")
def report(study: Path, *, out: Path = Path("study.html")) -> None:
    """Write one HTML page: what is known, what was named, where the pulls went."""
    from clustered_bandit_gym.study import Study
    from clustered_bandit_gym.study import report as page

    write(page(Study.open(study)), out)


@command("study plan")
def plan(
    *,
    n_agents: int,
    n_arms: int | None = None,
    n_clusters: int | None = None,
    gaps: tuple[float, float] | None = None,
    means: Path | None = None,
    delta: float = 0.05,
    rewards: str = "bernoulli",
    sigma: float = 1.0,
    hide: list[str] | None = None,
    policies: list[str] | None = None,
    trials: int = 3,
    epsilon: float = 0,
    seed: int = 0,
) -> None:
    """Simulate a guess: pulls of each policy, at the busiest agent, and whether clustering pays.

    Example: clustered-bai study plan -n 40 -k 4 -m 3 --gaps 0.1 0.3
    """
    from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian
    from clustered_bandit_gym.game.tables import read_bandits
    from clustered_bandit_gym.study import plan as simulate

    laws = {"bernoulli": Bernoulli(), "gaussian": Gaussian(sigma)}
    if rewards not in laws:
        raise UserError(f"--rewards must be bernoulli or gaussian, got {rewards}")
    made = simulate(
        n_agents,
        n_arms,
        n_clusters,
        gaps=gaps,
        means=None if means is None else read_bandits(means).means,
        rewards=laws[rewards],
        delta=delta,
        told=dict.fromkeys(hide or ()),
        policies=policies,
        trials=trials,
        seed=seed,
        epsilon=epsilon,
    )
    typer.echo(str(made))


def _from_json(text: str) -> dict[str, Any]:
    """The arguments of `Study.tell`."""
    known = {"order", "rows", "rewards", "sums", "pulls", "counts", "key"}
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UserError(f"the rewards are not JSON: {error}") from None
    if "order" not in told or not known.issuperset(told):
        raise UserError("JSON rewards have order, rewards or sums or counts, rows, pulls, key")
    return told


def _from_csv(text: str, study: Study) -> dict[str, Any]:
    """The arguments of `Study.tell`; lines of one row belong together."""
    import pandas as pd

    try:
        table = pd.read_csv(io.StringIO(text))
    except ValueError as error:
        raise UserError(f"the rewards cannot be read: {error}") from None
    placed = "row" in table or {"agent", "arm"}.issubset(table)
    if "order" not in table or not placed or ("reward" in table) == ("sum" in table):
        raise UserError(
            "expected the columns order, row (or agent and arm), and either reward or sum; got "
            f"{', '.join(map(str, table))}"
        )
    if table.empty:
        raise UserError("the file has a heading and no rewards; nothing was recorded")
    if table["order"].nunique(dropna=False) != 1:
        raise UserError("expected lines of one order; tell one order at a time")
    order = table["order"].tolist()[0]
    if "row" not in table:
        agents, arms, _ = study.order(order).asked
        rows = pd.DataFrame({"agent": agents, "arm": arms}).reset_index(names="row")
        table = table.merge(rows, how="left", on=["agent", "arm"])
        if rows.duplicated(["agent", "arm"]).any() or table["row"].isna().any():
            raise UserError("agent and arm do not name one row of the order each; give the row")
    told: dict[str, Any] = {"order": order, "rows": table["row"].unique().tolist()}
    if "reward" in table:
        return told | {"rewards": table.groupby("row", sort=False)["reward"].agg(list).tolist()}
    if table["row"].duplicated().any():
        raise UserError("a row is listed twice; sums take one line per row")
    # A file made from an older `ask` says how many pulls it is about: `times`.
    pulls = next((table[name].tolist() for name in ("pulls", "times") if name in table), None)
    return told | {"sums": table["sum"].tolist(), "pulls": pulls}
