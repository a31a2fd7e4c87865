"""Calls of the command line within the process of the tests."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from clustered_bandit_gym import cli

runner = CliRunner()


def call(*arguments: Any, code: int | None = 0) -> str:
    """The output; the exit code must be `code`, unless that is None."""
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert code in (None, result.exit_code), (result.exit_code, result.output, result.exception)
    return str(result.output)


def error(*arguments: Any) -> str:
    """The message of a mistake: exit code 2, one line, no traceback."""
    result = runner.invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.output
    return str(result.output)


def csv(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))
