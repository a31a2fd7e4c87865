"""Policies on real agents: study new, ask, tell, status, report, plan."""

from __future__ import annotations

import codecs
import io
import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import typer

from clustered_bandit_gym._types import Interval, Values
from clustered_bandit_gym.cli.app import Several, command, say, write
from clustered_bandit_gym.errors import ImpossibleReward, UserError
from clustered_bandit_gym.game.checks import check_choice
from clustered_bandit_gym.harness.scoring.numbers import counted

if TYPE_CHECKING:
    import pandas as pd

    from clustered_bandit_gym.study import Order, Study


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
    support: Interval | None = None,
    values: list[float] | None = None,
    epsilon: float = 0,
    max_pulls_per_agent: int | None = None,
    seed: int = 0,
) -> None:
    """Begin a study.

    Example: clustered-bai study new s.db -p structured-bai -n 40 -k 4 -m 3 --values 0 1 --eta 0.02
    """
    from clustered_bandit_gym.game.problem import Problem
    from clustered_bandit_gym.harness.settings import PACKAGE, path_of
    from clustered_bandit_gym.study import Study

    if study.exists():
        raise UserError(f"{study} exists; continue it with ask and tell, or take another name")
    if sigma is None:
        sigma = float(np.ptp(support or values or (-1, 1)) / 2) or 1.0
    problem = Problem(
        n_agents, n_arms, n_clusters, delta, eta, eta1, sigma, support, epsilon, max_pulls_per_agent
    )
    begun = Study(policy, problem, study, seed, values=values)
    words = ["clustered-bai", "study", "ask", str(study), "-o", "order.csv"]
    if not path_of(type(begun.policy)).startswith(PACKAGE):
        words += ["--policy", policy]
    say(f"{study}: next, {shlex.join(words)}")


@command("study ask")
def ask(
    study: Path,
    *,
    policy: str | None = None,
    max_pulls_per_agent: int | None = None,
    out: Path | None = None,
    json_: bool = False,
) -> None:
    """Print the pulls to make now: order, row, agent, arm, times. Exit code 3 if there are none.

    A larger --max-pulls-per-agent raises the limit of the study.
    """
    if out is not None:
        check_choice("the suffix of --out", out.suffix, (".csv", ".json"))
    order = _open(study, policy, max_pulls_per_agent).ask()
    if order is None:
        say("the study is done: see study status")
        raise typer.Exit(3)
    text = order.table.to_csv(index=False)
    if json_ or (out is not None and out.suffix == ".json"):
        columns = order.table.to_dict("list") | {"order": order.id, "phase": order.phase}
        text = json.dumps(columns) + "\n"
    write(text, out)
    if out is not None:
        say(f"order {order.id}: {counted(order.pulls, 'pull')} in {counted(len(order), 'row')}")


@command("study tell")
def tell(
    study: Path, rewards_file: Path, *, policy: str | None = None, key: str | None = None
) -> None:
    """Record rewards of an order.

    CSV: columns order, row, and reward (one line per pull) or sum (one line per row, of as many as
    `pulls` or `times` says, by default all that are missing). JSON: order, rows, and rewards, sums
    or counts.
    """
    opened = _open(study, policy)
    read = sys.stdin.buffer.read if str(rewards_file) == "-" else rewards_file.read_bytes
    text = read().removeprefix(codecs.BOM_UTF8)
    told = _from_json(text) if text.lstrip().startswith(b"{") else _from_csv(text)
    lines = told.pop("lines", None)
    if lines is not None:
        _check_cells(lines, opened.orders(), told["order"])
    try:
        taken = opened.tell(told.pop("order"), **{"key": key, **told})
    except ImpossibleReward as error:
        place = "" if lines is None else f"line {lines.index[error.position] + 2}: "
        raise UserError(f"{place}{error}") from None
    say(f"{'' if taken else 'nothing new: this tell was taken before; '}{opened.status}")


@command("study status")
def status(study: Path, *, policy: str | None = None, json_: bool = False) -> None:
    """Print how far a study is, and the arms once it is done."""
    from clustered_bandit_gym.study.report import agent_table

    opened = _open(study, policy)
    now = opened.status
    if json_:
        keys = ("done", "phase", "orders", "missing", "pulls", "pulls_max_agent", "pulls_per_agent")
        facts = {key: getattr(now, key) for key in keys}
        facts |= {"arms": opened.arms, "clusters": opened.clusters, **opened.ledger.summary()}
        typer.echo(json.dumps(facts, default=np.ndarray.tolist))
        return
    typer.echo(now)
    if now.done:
        typer.echo(agent_table(opened).to_csv(index=False, float_format="%.6g"), nl=False)


@command("study report")
def report(study: Path, *, policy: str | None = None, out: Path | None = None) -> None:
    """Write one HTML page: what is known, what was named, where the pulls went.

    By default beside the study, under its name.
    """
    from clustered_bandit_gym.study import report as page

    write(page(_open(study, policy)), out or study.with_suffix(".html"))


@command("study plan")
def plan(
    *,
    n_agents: int,
    n_arms: int | None = None,
    n_clusters: int | None = None,
    gaps: Interval | None = None,
    means: Path | None = None,
    delta: float = 0.05,
    rewards: Literal["bernoulli", "gaussian"] = "bernoulli",
    sigma: float | None = None,
    hide: Several = None,
    policies: Several = None,
    trials: int = 3,
    epsilon: float = 0,
    seed: int = 0,
) -> None:
    """Simulate a guess: pulls of each policy, at the busiest agent, and whether clustering pays.

    Example: clustered-bai study plan -n 40 -k 4 -m 3 --gaps 0.1 0.3
    """
    from clustered_bandit_gym.envs.game import HIDDEN
    from clustered_bandit_gym.game.rewards import Bernoulli, Gaussian
    from clustered_bandit_gym.game.tables import read_bandits
    from clustered_bandit_gym.study import plan as simulate

    if sigma is not None and (rewards == "bernoulli" or not sigma > 0):
        raise UserError(f"--sigma is a positive number, for --rewards gaussian; got {sigma}")
    for name in hide or ():
        check_choice("--hide", name, tuple(HIDDEN))
    made = simulate(
        n_agents,
        n_arms,
        n_clusters,
        gaps=gaps,
        means=None if means is None else read_bandits(means)["means"],
        rewards=Gaussian(sigma or 1.0) if rewards == "gaussian" else Bernoulli(),
        delta=delta,
        told=dict.fromkeys(hide or ()),
        policies=policies,
        trials=trials,
        seed=seed,
        epsilon=epsilon,
    )
    typer.echo(
        f"{made}\n{counted(trials, 'trial')} of each policy at δ = {delta:g}, {rewards} rewards."
    )


def _open(path: Path, policy: str | None, limit: int | None = None) -> Study:
    from clustered_bandit_gym.study import Study

    return Study.open(path, policy, limit)


def _from_json(text: bytes) -> Values:
    """The arguments of `Study.tell`."""
    try:
        told = json.loads(text)
    except ValueError as error:
        raise UserError(f"the rewards are not JSON: {error}") from None
    if "row" in told:  # as in orders
        told["rows"] = told.pop("row")
    known = {"order", "rows", "rewards", "sums", "pulls", "counts", "key"}
    if "order" not in told or set(told) - known:
        got = ", ".join(map(str, told))
        raise UserError(
            f"JSON rewards have order, rewards or sums or counts, rows, pulls, key; got {got}"
        )
    return told


def _from_csv(text: bytes) -> Values:
    """The arguments of `Study.tell`; lines of one row belong together."""
    import pandas as pd

    try:
        with warnings.catch_warnings(action="error"):
            table = pd.read_csv(io.BytesIO(text), index_col=False, skipinitialspace=True)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise UserError(
            "the rewards are not a CSV file with a header, as many cells in each line, and decimal "
            f"points: {error}; nothing was recorded"
        ) from None
    if not {"order", "row"}.issubset(table) or ("reward" in table) == ("sum" in table):
        raise UserError(
            "expected the columns order, row, and either reward or sum, separated by commas; got "
            f"{', '.join(map(str, table))}"
        )
    names = ["order", "row", "reward", "sum", "pulls", "times", "agent", "arm"]
    known = table.filter(names)
    numbers = known.apply(pd.to_numeric, errors="coerce")
    missing: Any = numbers.isna().stack()
    if missing.any():
        line, name = missing.idxmax()
        raise UserError(
            f"line {line + 2}: {name} must be a number, got {table.loc[line, name]}; nothing was "
            "recorded"
        )
    orders = numbers["order"].unique().tolist()
    if len(orders) != 1:
        raise UserError(f"expected lines of one order, got {orders or 'none'}; tell one at a time")
    numbers = numbers.sort_values("row", kind="stable")
    if (numbers["row"] % 1 == 0).all():  # also where a spreadsheet wrote 1.0
        numbers["row"] = numbers["row"].astype(int)
    told = {"order": orders[0], "lines": numbers.filter(["row", "agent", "arm"])}
    if "reward" in table:
        rewards = numbers.groupby("row")["reward"].agg(list)
        return told | {"rows": rewards.index.tolist(), "rewards": rewards.tolist()}
    # A file made from an older `ask` says how many pulls it is about: `times`.
    pulls = next((numbers[name].tolist() for name in ("pulls", "times") if name in known), None)
    return told | {"rows": numbers["row"].tolist(), "sums": numbers["sum"].tolist(), "pulls": pulls}


def _check_cells(lines: pd.DataFrame, orders: list[Order], number: int) -> None:
    """Refuse agents or arms that are not those of their rows, as after a join that lost them."""
    asked = next((order.asked for order in orders if order.id == number), None)
    for place, name in enumerate(("agent", "arm")):
        rows = lines["row"].to_numpy()
        if asked is None or name not in lines or not np.isin(rows, range(asked.shape[1])).all():
            continue
        wrong = lines[name] != asked[place, rows]
        if wrong.any():
            line, row = wrong.idxmax(), lines["row"][wrong].iloc[0]
            raise UserError(
                f"line {line + 2}: row {row} of order {number} is of {name} {asked[place, row]}, got "
                f"{lines[name][line]:g}; nothing was recorded"
            )
