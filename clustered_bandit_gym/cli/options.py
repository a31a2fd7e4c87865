"""What the commands of `clustered-bai` share: options, several values behind one flag, KEY=VALUE
settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import root_seed
from clustered_bandit_gym.settings_text import parse_pairs

DEFAULT_ENV = "ClusteredBAI-PaperSmall-v0"
#: The paper's schemes, in its order.
FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]


class SpreadCommand(TyperCommand):
    """Lets an option that may be repeated take several values at once: ``--policies naive cl-bai
    --n-agents 10 30``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread = {
            name
            for option in self.params
            if getattr(option, "multiple", False)
            for name in option.opts
        }
        result: list[str] = []
        flag = None
        for position, word in enumerate(args):
            if word == "--":
                result += args[position:]
                break
            if word.startswith("-") and not _is_number(word):
                flag = word if word in spread else None
                result.append(word)
            elif flag is not None and result[-1] != flag:
                result += [flag, word]
            else:
                result.append(word)
        return super().parse_args(ctx, result)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _whole(text: str) -> int:
    if not str(text).isdecimal():
        raise typer.BadParameter(f"a whole number >= 0, or 'secret', got {text!r}")
    return int(text)


def _option(*names: str, help: str, default: str | None = None, **others: Any) -> Any:
    """An option; `default` is what `--help` shows for one that is None unless given."""
    return typer.Option(*names, help=help, show_default=default or True, **others)


_ENVS_OWN = "the environment's"
_BUDGET = "Budget of a trial; a trial that needs more is unfinished."
_POLICIES = "Names, or module:Class of your own, with settings: bai-cl:confidence=certified."
_SEED = "Root seed; 'secret' draws 128 random bits and prints them when the run is over."
_OUT = "Folder that keeps every finished trial; the same command resumes from it."
_COLUMNS = """One table of these columns of the summary, e.g. policy,verdict,pulls_mean,cost_mean.
Swept settings are added in front; name them to place them elsewhere."""

Envs = Annotated[
    list[str] | None,
    typer.Argument(metavar="ENV...", help="Environments.", show_default=DEFAULT_ENV),
]
OneEnv = Annotated[
    str | None, typer.Argument(metavar="ENV", help="An environment.", show_default=DEFAULT_ENV)
]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that `compare --out` has filled.")
]
Policies = Annotated[
    list[str] | None, _option("--policies", "-p", help=_POLICIES, default=" ".join(FOUR))
]
Agents = Annotated[
    list[int] | None,
    _option("--n-agents", "-n", help="N; several values are swept.", default=_ENVS_OWN),
]
Delta = Annotated[
    list[float] | None,
    _option("--delta", "-d", help="δ; several values are swept.", default=_ENVS_OWN),
]
Eta = Annotated[
    list[float] | None,
    _option("--eta", help="η of the generator; several values are swept.", default=_ENVS_OWN),
]
OneAgents = Annotated[int | None, _option("--n-agents", "-n", help="N.", default=_ENVS_OWN)]
OneDelta = Annotated[float | None, _option("--delta", "-d", help="δ.", default=_ENVS_OWN)]
OneEta = Annotated[float | None, _option("--eta", help="η of the generator.", default=_ENVS_OWN)]
MaxPulls = Annotated[int | None, _option("--max-pulls", help=_BUDGET, default=_ENVS_OWN)]
Set = Annotated[
    list[str] | None,
    _option(
        "--set",
        help="Any other keyword of the environment, KEY=VALUE; JSON for lists and dicts.",
        default="none",
    ),
]
Seed = Annotated[int, _option("--seed", "-s", help="Root seed.", min=0)]
OpenSeed = Annotated[
    int,
    _option(
        "--seed",
        "-s",
        help=_SEED,
        metavar="INTEGER|secret",
        parser=lambda text: root_seed(text if text == "secret" else _whole(text)),
    ),
]
Replays = Annotated[
    int,
    _option("--replays", help="Trials of each policy to play once more in a fresh process.", min=0),
]
Strict = Annotated[
    bool,
    _option(
        "--strict/--no-strict",
        help="Enforce that a policy learns nothing from agents but what they send.",
    ),
]
MaxSeconds = Annotated[
    float | None,
    _option(
        "--max-seconds",
        help="Time limit of a trial; a trial that takes longer is unfinished.",
        default="no limit",
    ),
]
Jobs = Annotated[
    int,
    _option("--jobs", "-j", help="Processes; -1 for one per core, -2 for one fewer, and so on."),
]
Out = Annotated[Path | None, _option("--out", "-o", help=_OUT, default="nothing is kept")]
Backend = Annotated[
    str | None, _option("--backend", help="processes or dask.", default="processes")
]
Address = Annotated[
    str | None, _option("--address", help="Of a running Dask scheduler.", default="a local one")
]
Format = Annotated[str, _option("--format", "-f", help="text, markdown, latex, csv or json.")]
Columns = Annotated[str | None, _option("--columns", help=_COLUMNS, default="two tables")]
X = Annotated[
    str | None,
    _option(
        "--x",
        metavar="SETTING",
        help="Swept setting along the axis of pictures, e.g. n_agents.",
        default="the one with most values",
    ),
]
Plot = Annotated[
    Path | None,
    _option(
        "--plot",
        help="Write a picture here (.png, .pdf, .svg).",
        default="no picture",
    ),
]
Export = Annotated[
    Path | None,
    _option("--export", help="Write all trials here (.csv or .parquet).", default="no file"),
]
Quiet = Annotated[bool, _option("--quiet", "-q", help="No progress bar, fewer notes.")]
Traceback = Annotated[
    bool, _option("--traceback", help="Show tracebacks: of a mistake, and of policies that raise.")
]


def check_format(output: str) -> None:
    """Refuse an unknown --format before anything is played."""
    if output not in ("text", "markdown", "latex", "csv", "json"):
        raise UserError(f"--format is text, markdown, latex, csv or json, not {output!r}")


def grid_of(
    n_agents: list[int] | None,
    delta: list[float] | None,
    eta: list[float] | None,
    max_pulls: int | None,
    pairs: list[str] | None,
) -> dict[str, Any]:
    """Keywords of the environment; several values of one as a list, which a sweep varies."""
    grid: dict[str, Any] = {}
    for key, values in (("n_agents", n_agents), ("delta", delta), ("eta", eta)):
        if values:
            grid[key] = values[0] if len(values) == 1 else list(dict.fromkeys(values))
    if max_pulls is not None:
        grid["max_pulls"] = max_pulls
    extra = pairs_of(pairs)
    if twice := sorted(set(grid) & set(extra)):
        raise UserError(
            f"{', '.join(twice)} is given twice: by its own option and by --set; give it once"
        )
    return grid | extra


def default_env(settings: dict[str, Any]) -> str:
    """The environment of a command that names none and has these keywords."""
    if "instance" in settings or "generator" in settings:
        return "ClusteredBAI-v0"
    return DEFAULT_ENV


def pairs_of(pairs: list[str] | None) -> dict[str, Any]:
    """The keywords given with --set."""
    return parse_pairs(pairs, "--set") if pairs else {}
