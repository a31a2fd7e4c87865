"""The command line, `clustered-bai`: one module per verb or group of verbs."""

from importlib.util import find_spec

if find_spec("typer") is None:
    raise SystemExit(
        "typer is not installed; it comes with the extra 'cli': in a clone .venv/bin/pip install "
        "-c constraints.txt -e '.[cli]'"
    )

# Importing a module registers its commands, in the order in which `--help` lists them.
from clustered_bandit_gym.cli import (  # noqa: F401, I001
    boards,
    audit,
    suite,
    study,
    training,
)
from clustered_bandit_gym.cli.app import app, main

__all__ = ["app", "main"]
