"""The application, its exit codes and how it reports errors."""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
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

#: Exit codes: an audit that fails; a mistake of the user's (as for any wrong option); a bug
#: (EX_SOFTWARE); Ctrl-C.
FAILED, MISTAKE, BUG, INTERRUPTED = 1, 2, 70, 130


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

    A mistake of the user's, or a file that cannot be read or written, ends in one line and exit
    code 2; a bug in a traceback.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
                sys.stdout.flush()  # a full disk shows here, not when the interpreter ends
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except KeyboardInterrupt:
                say("interrupted")
                raise typer.Exit(INTERRUPTED) from None
            except Exception as error:
                text = explained(error)
                code = BUG if text is None else MISTAKE
                if text is None or "--traceback" in sys.argv:
                    say(traceback.format_exc())
                text = text or (
                    f"this is a bug in clustered-bandit-gym {__version__}. Please report it "
                    "with the command and the lines above."
                )
                say(f"clustered-bai {name}: {text}", fg="red")
                raise typer.Exit(code) from None

        return group.command(name, cls=SpreadCommand)(guarded)

    return register


def explained(error: Exception) -> str | None:
    """One line about an error that is not a bug: what is wrong and what to do; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ImportError):  # a missing extra; its message says what to install
        return f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return (
            f"this does not fit in memory{detail}; if there are thousands of arms, --no-bound "
            "leaves out the lower bound"
        )
    if isinstance(error, UnicodeEncodeError):
        return (
            f"the output cannot show {error.object[error.start : error.end]!r} in its encoding, "
            f"{error.encoding}; set PYTHONUTF8=1"
        )
    # SQLite's errors about files that cannot be written have no type of their own.
    if isinstance(error, OSError) or type(error).__module__ == "sqlite3":
        return str(error)
    return None


def say(text: str, **style: Any) -> None:
    """Write to stderr; if that cannot be written either, the exit code must do."""
    with contextlib.suppress(OSError, ValueError):
        typer.secho(text, err=True, **style)


def few(trials: int, at_most: int = 3) -> int:
    """The trials to play: those asked for, or a handful where CLUSTERED_BANDIT_QUICK is set, to try
    a command out.
    """
    if not os.environ.get("CLUSTERED_BANDIT_QUICK") or trials <= at_most:
        return trials
    say(f"CLUSTERED_BANDIT_QUICK is set: {at_most} trials instead of {trials:,}")
    return at_most


def tell_reused(reused: int, trials: int, out: Path | None, quiet: bool) -> None:
    """Say on stderr how many trials of the result come from an earlier run."""
    if reused and not quiet:
        say(f"{reused:,} of {trials:,} trials were played before and kept in {out}.")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        typer.echo(f"clustered-bandit-gym {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        # An ASCII locale shows "?" for a letter it lacks instead of failing after hours of play.
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="replace")
    try:
        app()
    finally:
        _end_threads()
        _drop_unwritable_output()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"note: {message}")


def _drop_unwritable_output() -> None:
    """Text that a full disk refused stays buffered, and fails again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_threads() -> None:
    """Exit without the threads that a policy has left running: Python would wait for them, perhaps
    for ever.
    """
    own = threading.current_thread()
    left = [one for one in threading.enumerate() if one is not own and not one.daemon]
    if left:
        names = ", ".join(sorted({one.name for one in left})[:3])
        say(f"note: ended {len(left)} threads that a policy has left running ({names})")
        code = getattr(sys.exc_info()[1], "code", BUG)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def console() -> Any:
    """The terminal, or 120 columns where there is none."""
    from rich.console import Console

    screen = Console()
    return screen if screen.is_terminal else Console(width=120)
