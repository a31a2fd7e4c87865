"""Policies on real agents: study new, ask, tell, status, report, plan."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clustered_bandit_gym.cli.app import app, command
from clustered_bandit_gym.cli.options import Seed, Traceback
from clustered_bandit_gym.errors import UserError

group = typer.Typer(
    no_args_is_help=True,
    help="Policies on real agents: ask for pulls, tell rewards, read the result.",
)
app.add_typer(group, name="study")

#: Exit code of `ask` when the study is done: a shell loop ends with it.
DONE = 3

File = Annotated[Path, typer.Argument(metavar="STUDY", help="File of the study.")]
Agents = Annotated[int, typer.Option("--n-agents", "-n", help="N.")]
Clusters = Annotated[
    int | None, typer.Option("--n-clusters", "-m", help="M.", show_default="not told")
]
Delta = Annotated[float, typer.Option("--delta", "-d", help="δ.")]
Values = Annotated[
    list[float] | None,
    typer.Option("--values", help="The values of rewards, e.g. 0 1.", show_default="not told"),
]
Support = Annotated[
    tuple[float, float] | None,
    typer.Option("--support", help="Smallest and largest reward.", show_default="not told"),
]
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
    support: Support = None,
    values: Values = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Good enough: ε below best.")] = 0,
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
    ends = support or ((min(values), max(values)) if values else None)
    width = ends[1] - ends[0] if ends else 0
    problem = Problem(
        n_agents,
        n_arms,
        n_clusters,
        delta,
        eta,
        eta1,
        (width / 2 or 1.0) if sigma is None else sigma,
        ends if width else None,
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
        raise typer.Exit(DONE)
    table = order.table
    if as_json or (out is not None and out.suffix == ".json"):
        columns = {name: table[name].tolist() for name in table.columns[1:]}
        text = json.dumps({"order": order.id, "phase": order.phase, **columns}) + "\n"
    else:
        text = table.to_csv(index=False)
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
    if text.lstrip().startswith("{"):
        number, told = _from_json(text)
    else:
        number, told = _from_csv(text, study)
    taken = study.tell(number, **told, **({} if key is None else {"key": key}))
    note = "" if taken else "this tell was taken before; "
    typer.echo(f"{note}{study.status}", err=True)


@command("status", group)
def status(file: File, as_json: Json = False, traceback: Traceback = False) -> None:
    """Print how far a study is, and the arms once it is done."""
    from clustered_bandit_gym.study import Study

    study = Study.open(file)
    now, arms, clusters = study.status, study.arms, study.clusters
    if as_json:
        facts = {
            "done": now.done,
            "phase": now.phase,
            "orders": now.orders,
            "missing": now.missing,
            "pulls": now.pulls,
            "pulls_max_agent": now.pulls_max_agent,
            "pulls_per_agent": now.pulls_per_agent.tolist(),
            "arms": None if arms is None else arms.tolist(),
            "clusters": None if clusters is None else clusters.tolist(),
            **study.ledger.summary(),
        }
        typer.echo(json.dumps(facts))
        return
    typer.echo(str(now))
    if arms is not None:
        typer.echo("agent,arm" + ("" if clusters is None else ",cluster"))
        for agent, arm in enumerate(arms):
            typer.echo(f"{agent},{arm}" + ("" if clusters is None else f",{clusters[agent]}"))


@command("report", group)
def report(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("study.html"),
    traceback: Traceback = False,
) -> None:
    """Write one HTML page: what is known, who is decided, where the pulls went."""
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
        typer.Option(
            "--means", help="Instead: CSV of means, a line per cluster.", show_default="give --gaps"
        ),
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
    epsilon: Annotated[float, typer.Option("--epsilon", help="Good enough: ε below best.")] = 0,
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


def _from_json(text: str) -> tuple[Any, dict[str, Any]]:
    """Number of the order and the arguments of `Study.tell`."""
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"the rewards are not JSON: {error}") from None
    known = ("order", "rows", "rewards", "sums", "pulls", "counts", "key")
    if "order" not in told or not set(told) <= set(known):
        raise UserError(f"JSON rewards have order and some of {', '.join(known[1:])}")
    return told.pop("order"), told


def _from_csv(text: str, study: Any) -> tuple[int, dict[str, Any]]:
    """Number of the order and the arguments of `Study.tell`; lines of one row belong together."""
    lines = list(csv.DictReader(io.StringIO(text)))
    names = list(lines[0]) if lines else []
    counted = sorted((n for n in names if n.startswith("count:")), key=lambda n: float(n[6:]))
    forms = [form for form in ("reward", "sum") if form in names] + counted[:1]
    if "order" not in names or len(forms) != 1:
        raise UserError(
            "expected lines with the columns order, row (or agent and arm), and one of reward, "
            f"sum, or count:VALUE for every value; got {', '.join(names) or 'no lines'}"
        )
    try:
        number = int(lines[0]["order"])
        if any(int(line["order"]) != number for line in lines):
            raise UserError("the lines belong to several orders; tell one order at a time")
        row_of = None if "row" in names else _rows(study, number)
        rows: dict[int, list[dict[str, str]]] = {}
        for line in lines:
            row = int(line["row"]) if row_of is None else row_of(line)
            rows.setdefault(row, []).append(line)
        told: dict[str, Any] = {"rows": list(rows)}
        if forms == ["reward"]:
            told["rewards"] = [[float(one["reward"]) for one in own] for own in rows.values()]
            return number, told
        if any(len(own) > 1 for own in rows.values()):
            raise UserError("a row is listed twice; sums and counts take one line per row")
        single = [own[0] for own in rows.values()]
        if counted:
            told["counts"] = [[int(one[name]) for name in counted] for one in single]
        else:
            told["sums"] = [float(one["sum"]) for one in single]
            if "pulls" in names:
                told["pulls"] = [int(one["pulls"]) for one in single]
    except (TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the rewards cannot be read: {error}") from None
    return number, told


def _rows(study: Any, number: int) -> Any:
    """Finds the row of an agent and an arm, where an order has at most one."""
    cells = list(zip(*study.order(number).asked[:2].tolist(), strict=True))
    if len(set(cells)) < len(cells):
        raise UserError("this order has several rows of one agent and arm; name the row")
    place = {cell: row for row, cell in enumerate(cells)}

    def find(line: dict[str, str]) -> int:
        cell = (int(line["agent"]), int(line["arm"]))
        if cell not in place:
            raise UserError(f"order {number} has no row for agent {cell[0]} and arm {cell[1]}")
        return place[cell]

    return find
