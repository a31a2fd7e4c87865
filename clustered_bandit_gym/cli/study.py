"""Policies on real agents: study new, ask, tell, status, report, plan."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustered_bandit_gym.cli.app import app, command
from clustered_bandit_gym.cli.options import Seed, Traceback
from clustered_bandit_gym.errors import UserError

if TYPE_CHECKING:
    from clustered_bandit_gym.study import Study

group = typer.Typer(
    no_args_is_help=True,
    help="Policies on real agents: ask for pulls, tell rewards, read the result.",
)
app.add_typer(group, name="study")

File = Annotated[Path, typer.Argument(metavar="STUDY", help="File of the study.")]
Agents = Annotated[int, typer.Option("--n-agents", "-n", help="N.")]
Clusters = Annotated[
    int | None, typer.Option("--n-clusters", "-m", help="M.", show_default="not told")
]
Delta = Annotated[float, typer.Option("--delta", "-d", help="δ.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Good enough: ε below best.")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


@command("new", group)
def new(
    file: File,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Name, or module:Class.")],
    n_agents: Agents,
    n_arms: Annotated[int, typer.Option("--n-arms", "-k", help="K.")],
    n_clusters: Clusters = None,
    delta: Delta = 0.05,
    eta: Annotated[float | None, typer.Option("--eta", show_default="not told")] = None,
    eta1: Annotated[float | None, typer.Option("--eta1", show_default="not told")] = None,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="σ.", show_default="half the support's width, or 1"),
    ] = None,
    support: Annotated[
        tuple[float, float] | None,
        typer.Option("--support", help="Smallest and largest reward.", show_default="not told"),
    ] = None,
    values: Annotated[
        list[float] | None,
        typer.Option("--values", help="The values of rewards, e.g. 0 1.", show_default="not told"),
    ] = None,
    epsilon: Epsilon = 0,
    max_pulls_per_agent: Annotated[
        int | None, typer.Option("--max-pulls-per-agent", show_default="no limit")
    ] = None,
    seed: Seed = 0,
    traceback: Traceback = False,
) -> None:
    """Begin a study.

    Example: clustered-bai study new s.db -p structured-bai -n 40 -k 4 -m 3 --values 0 1 --eta 0.02
    """
    from clustered_bandit_gym.game.problem import Problem
    from clustered_bandit_gym.study import Study

    if file.exists():
        raise UserError(f"{file} exists; continue it with ask and tell, or take another name")
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
    Study(policy, problem, file, seed, values=values).close()
    typer.echo(f"{file}: next, clustered-bai study ask {file} -o order.csv", err=True)


@command("ask", group)
def ask(
    file: File,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv or .json file.", show_default="the terminal"),
    ] = None,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Print the pulls to make now: order, row, agent, arm, times. Exit code 3 if there are none."""
    from clustered_bandit_gym.study import Study

    order = Study.open(file).ask()
    if order is None:
        typer.echo("the study is done: see study status", err=True)
        raise typer.Exit(3)
    text = order.table.to_csv(index=False)
    if as_json or (out is not None and out.suffix == ".json"):
        columns = order.table.drop(columns="order").to_dict("list")
        text = json.dumps({"order": order.id, "phase": order.phase, **columns}) + "\n"
    _write(text, out)


@command("tell", group)
def tell(
    file: File,
    rewards: Annotated[
        Path, typer.Argument(metavar="REWARDS", help="A .csv or .json file; - for stdin.")
    ],
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            help="Name of this tell; the same name again is a repetition.",
            show_default="no name",
        ),
    ] = None,
    traceback: Traceback = False,
) -> None:
    """Record rewards of an order.

    CSV: columns order and row (or agent and arm), and reward (one line per pull), or sum (and
    pulls), or count:VALUE for every value. JSON: order, rows, and rewards, sums or counts.
    """
    from clustered_bandit_gym.study import Study

    study = Study.open(file)
    text = sys.stdin.read() if str(rewards) == "-" else rewards.read_text(encoding="utf-8-sig")
    told = _from_json(text) if text.lstrip().startswith("{") else _from_csv(text, study)
    if key is not None:
        told["key"] = key
    taken = study.tell(told.pop("order"), **told)
    note = "" if taken else "this tell was taken before; "
    typer.echo(f"{note}{study.status}", err=True)


@command("status", group)
def status(file: File, as_json: Json = False, traceback: Traceback = False) -> None:
    """Print how far a study is, and the arms once it is done."""
    from clustered_bandit_gym.study import Study
    from clustered_bandit_gym.study.report import agent_table

    study = Study.open(file)
    now, arms, clusters = study.status, study.arms, study.clusters
    if as_json:
        names = ("done", "phase", "orders", "missing", "pulls", "pulls_max_agent")
        facts = {name: getattr(now, name) for name in names}
        facts["pulls_per_agent"] = now.pulls_per_agent.tolist()
        facts["arms"] = None if arms is None else arms.tolist()
        facts["clusters"] = None if clusters is None else clusters.tolist()
        typer.echo(json.dumps(facts | study.ledger.summary()))
        return
    typer.echo(str(now))
    if arms is not None:
        columns = ["agent", "arm"] if clusters is None else ["agent", "arm", "cluster"]
        typer.echo(agent_table(study)[columns].to_csv(index=False), nl=False)


@command("report", group)
def report(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("study.html"),
    traceback: Traceback = False,
) -> None:
    """Write one HTML page: what is known, what was named, where the pulls went."""
    from clustered_bandit_gym.study import Study
    from clustered_bandit_gym.study import report as page

    _write(page(Study.open(file)), out)


@command("plan", group)
def plan(
    n_agents: Agents,
    n_arms: Annotated[
        int | None,
        typer.Option("--n-arms", "-k", help="K, with --gaps.", show_default="that of --means"),
    ] = None,
    n_clusters: Annotated[
        int | None, typer.Option("--n-clusters", "-m", help="M.", show_default="that of --means")
    ] = None,
    gaps: Annotated[
        tuple[float, float] | None,
        typer.Option("--gaps", help="Least and largest gap.", show_default="give --means"),
    ] = None,
    means: Annotated[
        Path | None,
        typer.Option("--means", help="CSV, a line per cluster.", show_default="give --gaps"),
    ] = None,
    delta: Delta = 0.05,
    rewards: Annotated[str, typer.Option("--rewards", help="bernoulli or gaussian.")] = "bernoulli",
    sigma: Annotated[float, typer.Option("--sigma", help="σ of gaussian rewards.")] = 1.0,
    hide: Annotated[
        list[str] | None,
        typer.Option(
            "--hide",
            help="What is not told: n_clusters, eta, eta1, support.",
            show_default="nothing",
        ),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policies", "-p", help="Names of policies.", show_default="a choice"),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", "-t", min=1)] = 3,
    epsilon: Epsilon = 0,
    seed: Seed = 0,
    traceback: Traceback = False,
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


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}", err=True)


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
    names = list(table.columns)
    counted = [name for name in names if name.startswith("count:")]
    forms = [name for name in ("reward", "sum") if name in names] + counted[:1]
    if "order" not in names or len(forms) != 1 or table.empty:
        raise UserError(
            "expected lines with the columns order, row (or agent and arm), and one of reward, "
            f"sum, or count:VALUE for every value; got {', '.join(names)} and {len(table)} lines"
        )
    if table["order"].nunique(dropna=False) > 1:
        raise UserError("the lines belong to several orders; tell one order at a time")
    order = table["order"].tolist()[0]
    if "row" not in names:
        table = _with_rows(table, study.order(order).asked[:2].tolist())
    if forms == ["reward"]:
        rewards = table.groupby("row", sort=False)["reward"].agg(list)
        return {"order": order, "rows": rewards.index.tolist(), "rewards": rewards.tolist()}
    if table["row"].duplicated().any():
        raise UserError("a row is listed twice; sums and counts take one line per row")
    told = {"order": order, "rows": table["row"].tolist()}
    if forms == ["sum"]:
        pulls = {"pulls": table["pulls"].tolist()} if "pulls" in names else {}
        return told | {"sums": table["sum"].tolist()} | pulls
    try:
        counted.sort(key=lambda name: float(name.removeprefix("count:")))
    except ValueError:
        raise UserError(f"expected count:VALUE, got {', '.join(counted)}") from None
    return told | {"counts": table[counted].to_numpy()}


def _with_rows(table: Any, asked: list[list[int]]) -> Any:
    """The table with the row of each agent and arm, where an order has at most one."""
    import pandas as pd

    cells = pd.DataFrame({"agent": asked[0], "arm": asked[1]})
    if cells.duplicated().any():
        raise UserError("this order has several rows of one agent and arm; name the row")
    if not {"agent", "arm"} <= set(table.columns):
        raise UserError("expected a column row, or columns agent and arm")
    cells["row"] = cells.index
    table = table.merge(cells, on=["agent", "arm"], how="left")
    if table["row"].isna().any():
        lost = table.loc[table["row"].isna(), ["agent", "arm"]].iloc[0]
        raise UserError(f"this order has no row for agent {lost.agent} and arm {lost.arm}")
    return table
