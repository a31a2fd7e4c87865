"""Options that the commands of this folder share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from clustered_bandit_gym.errors import UserError


def parser(about: str, trials: int, out: str | None = None) -> argparse.ArgumentParser:
    """Options --trials, --seed, --jobs, --quiet, and --out."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument("--trials", type=int, default=trials, help="trials of each setting")
    made.add_argument("--seed", type=int, default=0, help="root seed")
    made.add_argument("--jobs", type=int, default=1, help="processes; -1 for one per core")
    made.add_argument("--quiet", action="store_true", help="no progress bar")
    made.add_argument("--out", type=Path, default=out, help="folder for results; a run resumes")
    return made


def shows_progress(options: argparse.Namespace) -> bool:
    """Whether a progress bar is wanted and can be seen."""
    return not options.quiet and sys.stderr.isatty()


def run(main: Callable[[], int | None]) -> None:
    """Run a command; an invalid argument ends in one line and exit code 2."""
    try:
        sys.exit(main())
    except UserError as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(2)
