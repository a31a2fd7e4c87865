"""The command line, `clustered-bai`: one module per verb or group of verbs."""

# Importing a module registers its commands, in the order in which `--help` lists them.
from clustered_bandit_gym.cli import (  # noqa: F401, I001
    boards,
    audit,
    bounds,
    verify,
    suite,
    study,
    reproduce,
    demo,
    learning,
)
from clustered_bandit_gym.cli.app import app, main

__all__ = ["app", "main"]
