"""The application, its exit codes and how it reports errors."""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.cli.options import SpreadCommand
from clustered_bandit_gym.errors import UserError

#: Exit codes: an audit that fails; a mistake of the user's (as for any wrong option); a bug (EX_SOFTWARE); Ctrl-C.
FAILED, MISTAKE, BUG, INTERRUPTED = 1, 2, 70, 130
#: What counts as a mistake of the user's. An `ImportError` is a missing extra; its message says what to install.
MISTAKES = (
    UserError,
    ImportError,
    FileNotFoundError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
)


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Best-arm identification for clustered bandits: play policies, judge them, keep and show the results.",
    rich_markup_mode="rich",
)


def command(
    name: str, group: typer.Typer = app
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of the app, or of a group of it.

    A mistake of the user's ends in one line and exit code 2, a bug in a traceback.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except MISTAKES as error:
                if "--traceback" in sys.argv:
                    raise
                text = (
                    f"{type(error).__name__}: {error}"
                    if isinstance(error, ImportError)
                    else str(error)
                )
                typer.secho(f"clustered-bai {name}: {text}", err=True, fg="red")
                raise typer.Exit(MISTAKE) from None
            except MemoryError as error:
                if "--traceback" in sys.argv:
                    raise
                detail = f" ({error})" if str(error) else ""
                typer.secho(
                    f"clustered-bai {name}: this does not fit in memory{detail}", err=True, fg="red"
                )
                raise typer.Exit(MISTAKE) from None
            except KeyboardInterrupt:
                typer.secho("interrupted", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except Exception:
                typer.echo(traceback.format_exc(), err=True)
                typer.secho(
                    f"clustered-bai {name}: this is a bug in clustered-bandit-gym {__version__}. Please report it with "
                    "the command and the lines above.",
                    err=True,
                    fg="red",
                )
                raise typer.Exit(BUG) from None

        return group.command(name, cls=SpreadCommand)(guarded)

    return register


def few(trials: int, at_most: int = 3) -> int:
    """The trials to play: those asked for, or a handful where CLUSTERED_BANDIT_QUICK is set, to try a command out."""
    if not os.environ.get("CLUSTERED_BANDIT_QUICK") or trials <= at_most:
        return trials
    typer.echo(f"CLUSTERED_BANDIT_QUICK is set: {at_most} trials instead of {trials:,}", err=True)
    return at_most


def tell_reused(reused: int, trials: int, out: Path | None, quiet: bool) -> None:
    """Say on stderr how many trials of the result come from an earlier run."""
    if reused and not quiet:
        typer.echo(
            f"{reused:,} of {trials:,} trials were played before and kept in {out}.", err=True
        )


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        typer.echo(f"clustered-bandit-gym {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point."""
    warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)  # type: ignore[assignment]
    try:
        app()
    finally:
        _end_threads()


def _end_threads() -> None:
    """Exit without the threads that a policy has left running: Python would wait for them, perhaps for ever."""
    left = [
        one
        for one in threading.enumerate()
        if one is not threading.current_thread() and not one.daemon
    ]
    if left:
        names = ", ".join(sorted({one.name for one in left})[:3])
        print(
            f"note: ended {len(left)} threads that a policy has left running ({names})",
            file=sys.stderr,
        )
        ending = sys.exc_info()[1]
        code = getattr(ending, "code", BUG)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def console() -> Any:
    """The terminal, or 120 columns where there is none."""
    from rich.console import Console

    screen = Console()
    return screen if screen.is_terminal else Console(width=120)
