"""How far it is from `compare` to the first reward: own stack frames, and own files entered.

``python -m benchmarks walk`` prints both. The command runs twice, and the second run is traced, so
that calls made while modules are imported do not count.
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from typer.testing import CliRunner

import clustered_bandit_gym as cbg
from clustered_bandit_gym.cli import app
from clustered_bandit_gym.game import rewards

ROOT = Path(cbg.__file__).parents[1]
OWN = tuple(
    f"{ROOT / name}{os.sep}" for name in ("clustered_bandit_gym", "policies", "envs_registry")
)
COMMAND = ["compare", "--policies", "bai-cl", "--trials", "1", "--quiet"]


def _place(frame: FrameType) -> str | None:
    """The file of an own function, relative to the repository; None for other code."""
    code = frame.f_code
    if not code.co_filename.startswith(OWN) or not code.co_flags & inspect.CO_OPTIMIZED:
        return None
    return str(Path(code.co_filename).relative_to(ROOT))


def walk() -> tuple[list[str], list[str]]:
    """Own frames at the first draw of rewards, outermost first; own files entered before it."""
    files: list[str] = []
    frames: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        place = _place(frame)
        if frames or event != "call" or place is None:
            return
        if frame.f_code.co_filename == rewards.__file__ and "rng" in frame.f_code.co_varnames:
            here: FrameType | None = frame
            while here is not None:
                if own := _place(here):
                    frames.insert(0, f"{own}: {here.f_code.co_qualname}")
                here = here.f_back
        elif place not in files:
            files.append(place)

    CliRunner().invoke(app, COMMAND)
    sys.setprofile(profile)
    try:
        CliRunner().invoke(app, COMMAND)
    finally:
        sys.setprofile(None)
    return frames, files


def main() -> None:
    """Print the walk."""
    frames, files = walk()
    print("frames:", *frames, sep="\n  ")
    print("\nfiles:", *files, sep="\n  ")
    print(f"\n{len(frames)} own frames at the first draw, {len(files)} own files entered before it")


if __name__ == "__main__":
    main()
