"""The application: its exit codes, how it reports errors, and the options of its commands, each
declared once."""

from __future__ import annotations

import inspect
import io
import os
import re
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from clustered_bandit_gym._types import Values
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.isolation import is_installed
from clustered_bandit_gym.game.seeds import root_seed
from clustered_bandit_gym.settings_text import parse_pairs

if TYPE_CHECKING:
    from clustered_bandit_gym.harness.output.tables import Document

#: Exit codes: an audit that fails; a mistake of the user's (as for any wrong option); a bug
#: (EX_SOFTWARE); Ctrl-C; SIGTERM.
FAILED = 1
MISTAKE = 2
BUG = 70
INTERRUPTED = 130
TERMINATED = 143
#: Not bugs: a request that cannot be met, a missing extra, a file that cannot be read or written.
EXPECTED = (UserError, BudgetExceeded, ImportError, OSError, MemoryError, sqlite3.Error)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Best-arm identification for clustered bandits: play policies, judge them, keep and show the results.",
)
GROUPS = {"": app}
for group, about in (
    ("study", "Policies on real agents: ask for pulls, tell rewards, read the result."),
    ("suite", "The frozen benchmark: run it, verify a submission, build the leaderboard."),
):
    GROUPS[group] = typer.Typer(no_args_is_help=True, help=about)
    app.add_typer(GROUPS[group], name=group)
#: Values of an option that may be repeated; None if it is not given.
Several = list[str] | None
#: What makes a verb.
Verb = Callable[..., None]


def say(text: str, **style: Any) -> None:
    """Write to stderr."""
    typer.secho(text, err=True, **style)


def is_quick() -> bool:
    """Whether CLUSTERED_BANDIT_QUICK is set, to try a command out."""
    return bool(os.environ.get("CLUSTERED_BANDIT_QUICK"))


def few(trials: int) -> int:
    """`trials`, or at most three to try a command out."""
    return min(trials, 3) if is_quick() else trials


def write(text: str, out: Path | None) -> None:
    """Write text to a file, or to the terminal."""
    if out is None:
        typer.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    say(f"Wrote {out}")


def show_document(shown: Document, format_: str, **how: Any) -> None:
    """Print a board or an audit's report; `how` goes to the function that writes the format."""
    text = str(shown) if format_ == "text" else getattr(shown, f"to_{format_}")(**how)
    typer.echo(text.rstrip("\n"))


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        typer.echo(f"clustered-bandit-gym {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point."""
    warnings.showwarning = lambda message, *_, **__: say(f"note: {message}")
    _check_memory()
    for stream in (sys.stdout, sys.stderr):
        # A terminal shows "?" for a letter that it lacks instead of failing after hours of play.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    finally:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):  # drop what a full disk refused: Python would try it again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_memory() -> None:
    """Refuse less address space than the libraries take: OpenBLAS would wait for it for ever."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < 10**9:
        say(f"clustered-bai needs 1 GB of address space, got {limit / 10**9:.1f} GB (ulimit -v)")
        raise SystemExit(MISTAKE)


DEFAULT_ENV = "ClusteredBAI-PaperSmall-v0"
#: The paper's schemes, in its order.
FOUR = ["naive", "cl-bai", "bai-cl", "bai-cl++"]
#: What `--help` says of a parameter: by verb and name where verbs differ, else by name.
HELP = {
    "address": "Of a running Dask scheduler, for --backend dask.",
    "algo": "Algorithm.",
    "authors": "Who made the policy.",
    "backend": "Where trials are played, by default in processes of this machine.",
    "bold_best": "With --format latex: the best of each column in bold.",
    "bound": "Compute the instances' lower bounds: a second or more each where M·K is large.",
    "ci": "With --format latex: intervals beside the means.",
    "data": "Your copy of MovieLens-1M or Yelp; without it stand-ins are played.",
    "delta": "Probability δ of an error, at most.",
    "env": "An environment; `clustered-bai list` shows all.",
    "envs": f"Environments, by default {DEFAULT_ENV}.",
    "epsilon": "Good enough: ε below the best arm.",
    "eta": "Separation η: how much worse another cluster's best arm is.",
    "eta1": "Separation η1 of best means; few policies use it.",
    "export": "Write all trials here, as CSV.",
    "figures": "fig1a, ..., by default all.",
    "folder": "Folder of kept trials.",
    "suite verify folder": "Folder of a submission.",
    "folders": "Submissions: all full or all quick.",
    "format_": "Format of the output.",
    "gaps": "Least and largest gap; or give --means.",
    "guarantee": "proved (needs --link), claimed or none; by default the policy's.",
    "hide": "What is not told: n_clusters, eta, eta1, support.",
    "highlight": "Mark the submission of this name.",
    "jobs": "Processes; -1 for one per core, -2 for one fewer, and so on.",
    "json_": "JSON instead of text.",
    "key": "A name for this tell: equal rewards under another name count again.",
    "label": 'Display name of a policy, "mine=Ours".',
    "link": "Paper, proof or repository.",
    "max_pulls": "Budget of a trial; one that needs more is unfinished.",
    "max_pulls_per_agent": "Limit of the pulls at each agent.",
    "max_seconds": "Time limit of a trial; a longer one is unfinished.",
    "means": "CSV, a line per cluster; or give --gaps.",
    "n_agents": "Agents N.",
    "n_arms": "Arms K.",
    "n_clusters": "Clusters M.",
    "name": "Name on the leaderboard, by default the policy's.",
    "out": "HTML file to write.",
    "compare out": "Folder that keeps finished trials; the same command resumes.",
    "audit out": "Folder that keeps finished trials; the same command resumes.",
    "reproduce out": "Folder of trials, pictures and tables; the same command resumes.",
    "train out": "File of the model to write.",
    "suite run out": "Folder of the submission; the same command resumes.",
    "study ask out": "File to write, .csv or .json.",
    "study report out": "HTML file to write.",
    "overwrite": "Replace --out if it exists.",
    "panel": "One panel: pulls, communication, busiest or tradeoff.",
    "pivot": "With --format latex: the setting with a column per value.",
    "plot": "Write a picture here (.png, .pdf, .svg).",
    "policy": "A name, or module:Class, with settings after a colon.",
    "policies": "Names, or module:Class, with settings after a colon.",
    "compare policies": f"Names, or module:Class, with settings; by default {' '.join(FOUR)}.",
    "audit quick": "A shorter suite of games, and 30/δ trials.",
    "suite run quick": "A short run: a stated subset of cells and trials.",
    "quiet": "No progress bar, fewer notes.",
    "replay": "Trials to play once more, chosen at random; 0 runs no policy.",
    "replays": "Trials of each policy to play once more in a fresh process.",
    "rewards": "Law of the rewards.",
    "rewards_file": "A .csv or .json file, - for stdin.",
    "search": "Search for a worse game for 90s, 10m or 1h of CPU time.",
    "secret_seed": "Play fresh instances of each family as well.",
    "seed": "Root seed.",
    "compare seed": "Root seed; 'secret' draws 128 bits, which are printed.",
    "audit seed": "Root seed; 'secret' draws 128 bits, which are printed.",
    "set_": "Any other keyword of the environment, KEY=VALUE; a JSON list is swept.",
    "train set_": "n_envs (64), n_steps (128), pull_cost (0.01), error_penalty (8), or a keyword of the "
    "environment.",
    "sigma": "Sub-Gaussian bound σ on the noise, by default half the width of the support, or 1.",
    "study plan sigma": "Standard deviation of gaussian rewards, by default 1.",
    "steps": "Environment steps in all.",
    "strict": "Enforce that a policy learns nothing from agents but what they send.",
    "study": "File of the study.",
    "style": "paper: one panel in small type, no title.",
    "support": "Smallest and largest reward, by default those of --values.",
    "traceback": "Show the tracebacks of policies that raise.",
    "trials": "Trials of each policy and setting.",
    "audit trials": "Most trials of each game, by default 60/δ.",
    "values": "The values of rewards, e.g. 0 1.",
    "width": "Of the picture, in inches: 3.25 for a column.",
    "x": "Swept setting along the axis of pictures, by default the one with most values.",
    "yes": "Replay without asking first.",
}
#: Letters of options.
LETTERS = {
    "delta": "-d",
    "format_": "-f",
    "jobs": "-j",
    "n_agents": "-n",
    "n_arms": "-k",
    "n_clusters": "-m",
    "out": "-o",
    "policies": "-p",
    "policy": "-p",
    "quiet": "-q",
    "seed": "-s",
    "trials": "-t",
}


class Command(TyperCommand):
    """Lets an option that may be repeated take several values at once (``--policies naive cl-bai
    --n-agents 10 30``). An expected error ends in one line and exit code 2; a bug in a traceback.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread = {
            flag
            for option in self.params
            if getattr(option, "multiple", False)
            for flag in option.opts
        }
        result: list[str] = []
        flag = None
        for word in args:
            if re.match(r"-[^\d.]", word):  # not a negative number
                flag = word if word in spread else None
            elif flag is not None and result[-1] != flag:
                result.append(flag)
            result.append(word)
        return super().parse_args(ctx, result)

    def invoke(self, ctx: Any) -> None:
        try:
            super().invoke(ctx)
            sys.stdout.flush()  # a full disk shows here, not when the interpreter ends
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except EXPECTED as error:
            text = str(error) or repr(error)
            if isinstance(error, MemoryError):
                text += "; --no-bound leaves out the lower bound"
            say(f"{ctx.command_path}: {text}", fg="red")
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            say(
                "interrupted; an --out folder keeps trials that had ended, and the same command resumes"
            )
            raise
        except SystemExit as error:
            if error.code == TERMINATED:
                say("ended by SIGTERM; --out keeps the trials that had ended")
            raise
        except Exception as error:
            say(traceback.format_exc())
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            if own := [file for file in files if not is_installed(file)]:
                say(f"raised by code of your own, {own[-1]}")
                raise typer.Exit(MISTAKE) from None
            say(f"this is a bug in clustered-bandit-gym {__version__}; please report it")
            raise typer.Exit(BUG) from None


def command(verb: str) -> Callable[[Verb], Verb]:
    """Register a function as a verb such as "compare" or "study new".

    Its parameters before ``*`` are arguments, the others options.
    """

    def register(function: Verb) -> Verb:
        parameters = []
        for name, one in inspect.signature(function, eval_str=True).parameters.items():
            text = HELP.get(f"{verb} {name}") or HELP[name]
            kind = typer.Argument(help=text)
            if one.kind is one.KEYWORD_ONLY:
                flag = "--" + name.strip("_").replace("_", "-")
                if one.default is True:
                    flag += "/--no" + flag[1:]
                kind = typer.Option(flag, *LETTERS.get(name, "").split(), help=text)
            parameters.append(one.replace(annotation=Annotated[one.annotation, kind]))
        vars(function)["__signature__"] = inspect.Signature(parameters)
        group, _, name = verb.rpartition(" ")
        # A paragraph is a line: terminals differ in width.
        about = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(function) or "")
        return GROUPS[group].command(name, cls=Command, help=about)(function)

    return register


def settings_of(given: Values, pairs: Several) -> Values:
    """Keywords of the environment: those `given` by options of their own, and those of --set."""
    found = {key: value for key, value in given.items() if value is not None}
    extra = parse_pairs(pairs, "--set") if pairs else {}
    if twice := sorted(found.keys() & extra):
        raise UserError(f"{twice[0]} is given twice: by its own option and by --set; give it once")
    return found | extra


def default_env(settings: Values) -> str:
    """The environment of a command that names none and has these keywords."""
    return "ClusteredBAI-v0" if settings.keys() & {"instance", "generator"} else DEFAULT_ENV


def seed_of(text: str) -> int:
    """The root seed that an option gives: a whole number, or "secret"."""
    return root_seed(int(text) if text.isdecimal() else text)
