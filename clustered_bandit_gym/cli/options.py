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
#: The default where --set brings an instance or a generator.
OPEN_ENV = "ClusteredBAI-v0"
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


#: What `--help` shows as the default of an option that is None unless given.
_ENVS_OWN, _NO_LIMIT = "the environment's", "no limit"

Envs = Annotated[
    list[str] | None,
    typer.Argument(metavar="ENV...", help="Environments.", show_default=DEFAULT_ENV),
]
OneEnv = Annotated[
    str | None, typer.Argument(metavar="ENV", help="An environment.", show_default=DEFAULT_ENV)
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policies",
        "-p",
        help="Names, or module:Class of your own, with settings: bai-cl:confidence=certified.",
        show_default=" ".join(FOUR),
    ),
]
Agents = Annotated[
    list[int] | None,
    typer.Option("--n-agents", "-n", help="N; several values are swept.", show_default=_ENVS_OWN),
]
Delta = Annotated[
    list[float] | None,
    typer.Option("--delta", "-d", help="δ; several values are swept.", show_default=_ENVS_OWN),
]
Eta = Annotated[
    list[float] | None,
    typer.Option(
        "--eta", help="η of the generator; several values are swept.", show_default=_ENVS_OWN
    ),
]
OneAgents = Annotated[
    int | None, typer.Option("--n-agents", "-n", help="N.", show_default=_ENVS_OWN)
]
OneDelta = Annotated[float | None, typer.Option("--delta", "-d", help="δ.", show_default=_ENVS_OWN)]
OneEta = Annotated[
    float | None, typer.Option("--eta", help="η of the generator.", show_default=_ENVS_OWN)
]
MaxPulls = Annotated[
    int | None,
    typer.Option(
        "--max-pulls",
        help="Budget of a trial; a trial that needs more is unfinished.",
        show_default=_ENVS_OWN,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other keyword of the environment, KEY=VALUE; JSON for lists and dicts.",
        show_default="none",
    ),
]
Seed = Annotated[int, typer.Option("--seed", "-s", help="Root seed.", min=0)]
OpenSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        "-s",
        help="Root seed; 'secret' draws 128 random bits and prints them when the run is over.",
        metavar="INTEGER|secret",
        parser=lambda text: root_seed(text if text == "secret" else _whole(text)),
    ),
]
Replays = Annotated[
    int,
    typer.Option(
        "--replays", help="Trials of each policy to play once more in a fresh process.", min=0
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict/--no-strict",
        help="Enforce that a policy learns nothing from agents but what they send.",
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        help="Time limit of a trial; a trial that takes longer is unfinished.",
        show_default=_NO_LIMIT,
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", "-j", help="Processes; -1 for one per core, -2 for one fewer, and so on."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Folder that keeps every finished trial; the same command resumes from it.",
        show_default="nothing is kept",
    ),
]
Backend = Annotated[
    str | None, typer.Option("--backend", help="processes or dask.", show_default="processes")
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="Of a running Dask scheduler.", show_default="a local one"),
]
Format = Annotated[str, typer.Option("--format", "-f", help="text, markdown, latex, csv or json.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="One table of these columns of the summary, e.g. policy,verdict,pulls_mean,cost_mean. Swept settings are "
        "added in front; name them to place them elsewhere.",
        show_default="two tables",
    ),
]
X = Annotated[
    str | None,
    typer.Option(
        "--x",
        metavar="SETTING",
        help="Swept setting along the axis of pictures, e.g. n_agents.",
        show_default="the one with most values",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Write a picture here (.png, .pdf, .svg).",
        show_default="no picture",
    ),
]
Panel = Annotated[
    str | None,
    typer.Option(
        "--panel",
        help="One panel: pulls, communication, busiest (agent) or tradeoff.",
        show_default="pulls and communication",
    ),
]
Style = Annotated[
    str | None,
    typer.Option(
        "--style", help="paper: one panel in small type, no title.", show_default="for a screen"
    ),
]
Width = Annotated[
    float | None,
    typer.Option(
        "--width", help="Of the picture, in inches: 3.25 for a column.", show_default="automatic"
    ),
]
Pivot = Annotated[
    str | None,
    typer.Option(
        "--pivot",
        metavar="SETTING",
        help="With --format latex: pulls in one table, a row per policy, a column per value.",
        show_default="two tables",
    ),
]
Ci = Annotated[bool, typer.Option("--ci", help="With --pivot: intervals after the means.")]
BoldBest = Annotated[
    bool, typer.Option("--bold-best", help="With --pivot: the best of each column in bold.")
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export", help="Write all trials here (.csv or .parquet).", show_default="no file"
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, fewer notes.")]
Traceback = Annotated[
    bool,
    typer.Option("--traceback", help="Show tracebacks: of a mistake, and of policies that raise."),
]

#: Formats of --format.
FORMATS = ("text", "markdown", "latex", "csv", "json")


def check_format(output: str) -> None:
    """Refuse an unknown --format before anything is played."""
    if output not in FORMATS:
        raise UserError(f"--format is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {output!r}")


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
    return OPEN_ENV if {"instance", "generator"} & set(settings) else DEFAULT_ENV


def pairs_of(pairs: list[str] | None) -> dict[str, Any]:
    """The keywords given with --set."""
    return parse_pairs(pairs or [], "--set")
