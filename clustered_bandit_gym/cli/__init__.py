"""The command line, `clustered-bai`: one module per group of verbs."""

# Importing a module registers its commands, in the order in which `--help` lists them.
from clustered_bandit_gym.cli import boards, judging, verify, rare, suite, experiments, learning  # noqa: F401, I001
from clustered_bandit_gym.cli import study  # noqa: F401
from clustered_bandit_gym.cli.app import app, main

__all__ = ["app", "main"]
