"""The command line, `clustered-bai`."""

from clustered_bandit_gym.cli.verbs import app, main

__all__ = ["app", "main"]
