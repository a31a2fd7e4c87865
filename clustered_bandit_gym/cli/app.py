"""The application, its exit codes and how it reports errors."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.cli.options import SpreadCommand, declared
from clustered_bandit_gym.errors import UserError

if TYPE_CHECKING:
    from clustered_bandit_gym.harness.output.tables import Document

#: Exit codes: an audit that fails; a mistake of the user's (as for any wrong option); a bug
#: (EX_SOFTWARE); Ctrl-C.
FAILED, MISTAKE, BUG, INTERRUPTED = 1, 2, 70, 130
#: Not bugs: a request that cannot be met, a missing extra, a file that cannot be read or written.
EXPECTED = (UserError, ImportError, OSError, sqlite3.Error)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Best-arm identification for clustered bandits: play policies, judge them, keep and show the results.",
    rich_markup_mode="rich",
)
study = typer.Typer(
    no_args_is_help=True,
    help="Policies on real agents: ask for pulls, tell rewards, read the result.",
)
suite = typer.Typer(
    no_args_is_help=True,
    help="The frozen benchmark: run it, verify a submission, build the leaderboard.",
)
app.add_typer(study, name="study")
app.add_typer(suite, name="suite")
GROUPS = {"": app, "study": study, "suite": suite}


def command(verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a verb such as "compare" or "study new".

    An expected error ends in one line and exit code 2; a bug in a traceback.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(**given: Any) -> None:
            try:
                function(**given)
                sys.stdout.flush()  # a full disk shows here, not when the interpreter ends
            except (typer.Exit, typer.Abort):
                raise
            except KeyboardInterrupt:
                say("interrupted")
                raise typer.Exit(INTERRUPTED) from None
            except MemoryError as error:
                hint = "--no-bound leaves out the lower bound"
                say(f"clustered-bai {verb}: this does not fit in memory ({error}); {hint}")
                raise typer.Exit(MISTAKE) from None
            except EXPECTED as error:
                say(f"clustered-bai {verb}: {error}", fg="red")
                raise typer.Exit(MISTAKE) from None
            except Exception:
                say(traceback.format_exc())
                say(f"this is a bug in clustered-bandit-gym {__version__}; please report it")
                raise typer.Exit(BUG) from None

        vars(guarded)["__signature__"] = declared(function)
        group, _, name = verb.rpartition(" ")
        return GROUPS[group].command(name, cls=SpreadCommand)(guarded)

    return register


def say(text: str, **style: Any) -> None:
    """Write to stderr; if that cannot be written either, the exit code must do."""
    with contextlib.suppress(OSError, ValueError):
        typer.secho(text, err=True, **style)


def bar(quiet: bool) -> bool:
    """Whether to show a progress bar."""
    return not quiet and sys.stderr.isatty()


def few(trials: int) -> int:
    """The trials to play: those asked for, or three where CLUSTERED_BANDIT_QUICK is set, to try a
    command out.
    """
    if not os.environ.get("CLUSTERED_BANDIT_QUICK") or trials <= 3:
        return trials
    say(f"CLUSTERED_BANDIT_QUICK is set: 3 trials instead of {trials:,}")
    return 3


def tell_reused(reused: int, trials: int, out: Path | None, quiet: bool) -> None:
    """Say on stderr how many trials of the result come from an earlier run."""
    if reused and not quiet:
        say(f"{reused:,} of {trials:,} trials were played before and kept in {out}.")


def write(text: str, out: Path | None) -> None:
    """Write text to a file, or to the terminal."""
    if out is None:
        typer.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    say(f"Wrote {out}")


def show_document(shown: Document, format_: str) -> None:
    """Print a board or an audit's report."""
    if format_ == "text":
        typer.echo(shown.to_text(shutil.get_terminal_size((120, 24)).columns))
    else:
        typer.echo(getattr(shown, f"to_{format_}")().rstrip("\n"))


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
