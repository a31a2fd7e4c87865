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
    import pandas as pd

    from clustered_bandit_gym._types import Ints
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
    if values and support is None and min(values) < max(values):
        support = (min(values), max(values))
    if sigma is None:
        sigma = 1.0 if support is None else (support[1] - support[0]) / 2
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


@command("study tell")
def tell(study: Path, rewards_file: Path, *, key: str | None = None) -> None:
    """Record rewards of an order.

    CSV: columns order and row (or agent and arm), and reward (one line per pull), or sum (and
    pulls), or count:VALUE for every value. JSON: order, rows, and rewards, sums or counts.
    """
    from clustered_bandit_gym.study import Study

    opened = Study.open(study)
    if str(rewards_file) == "-":
        text = sys.stdin.read()
    else:
        text = rewards_file.read_text(encoding="utf-8-sig")
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
    now, arms, clusters = opened.status, opened.arms, opened.clusters
    if json_:
        names = ("done", "phase", "orders", "missing", "pulls", "pulls_max_agent")
        facts = {name: getattr(now, name) for name in (*names, "pulls_per_agent")}
        facts |= {"arms": arms, "clusters": clusters, **opened.ledger.summary()}
        typer.echo(json.dumps({key: np.asarray(value).tolist() for key, value in facts.items()}))
        return
    typer.echo(str(now))
    if arms is not None:
        columns = ["agent", "arm"] if clusters is None else ["agent", "arm", "cluster"]
        typer.echo(agent_table(opened)[columns].to_csv(index=False), nl=False)


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
    from clustered_bandit_gym.game.rewards import Gaussian
    from clustered_bandit_gym.game.tables import read_bandits
    from clustered_bandit_gym.study import plan as simulate

    made = simulate(
        n_agents,
        n_arms,
        n_clusters,
        gaps=gaps,
        means=None if means is None else read_bandits(means).means,
        rewards=Gaussian(sigma) if rewards == "gaussian" else rewards,
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
    known = ("order", "rows", "rewards", "sums", "pulls", "counts", "key")
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UserError(f"the rewards are not JSON: {error}") from None
    if "order" not in told or not set(told) <= set(known):
        raise UserError(f"JSON rewards have order and some of {', '.join(known[1:])}")
    return told


def _from_csv(text: str, study: Study) -> dict[str, Any]:
    """The arguments of `Study.tell`; lines of one row belong together."""
    import pandas as pd

    try:
        table = pd.read_csv(io.StringIO(text))
    except ValueError as error:
        raise UserError(f"the rewards cannot be read: {error}") from None
    columns = [str(name) for name in table.columns]
    counted = [name for name in columns if name.startswith("count:")]
    forms = [name for name in ("reward", "sum") if name in table] + counted[:1]
    placed = "row" in table or {"agent", "arm"} <= set(table)
    if "order" not in table or not placed or len(forms) != 1 or table.empty:
        raise UserError(
            "expected lines with the columns order, row (or agent and arm), and one of reward, "
            f"sum, or count:VALUE for every value; got {', '.join(columns)} and {len(table)} lines"
        )
    if table["order"].nunique(dropna=False) > 1:
        raise UserError("the lines belong to several orders; tell one order at a time")
    order = table["order"].tolist()[0]
    if "row" not in table:
        table = _with_rows(table, study.order(order).asked)
    told: dict[str, Any] = {"order": order, "rows": table["row"].unique().tolist()}
    if forms == ["reward"]:
        return told | {"rewards": table.groupby("row", sort=False)["reward"].agg(list).tolist()}
    if table["row"].duplicated().any():
        raise UserError("a row is listed twice; sums and counts take one line per row")
    if forms == ["sum"]:
        pulls = table["pulls"].tolist() if "pulls" in table else None
        return told | {"sums": table["sum"].tolist(), "pulls": pulls}
    try:
        counted.sort(key=lambda name: float(name.removeprefix("count:")))
    except ValueError:
        raise UserError(f"expected count:VALUE, got {', '.join(counted)}") from None
    return told | {"counts": table[counted].to_numpy()}


def _with_rows(table: pd.DataFrame, asked: Ints) -> pd.DataFrame:
    """The table with the row of each agent and arm, where an order has at most one."""
    import pandas as pd

    cells = pd.DataFrame({"agent": asked[0], "arm": asked[1]}).reset_index(names="row")
    if cells.duplicated(["agent", "arm"]).any():
        raise UserError("this order has several rows of one agent and arm; name the row")
    found = table.merge(cells, on=["agent", "arm"], how="left")
    if found["row"].isna().any():
        raise UserError("this order has no row for some of these agents and arms")
    return found
