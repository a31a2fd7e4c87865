from __future__ import annotations

import warnings

import pytest

from research.counterexample.__main__ import POLICIES, counterexample
from clustered_bandit_gym.harness.audit.cells import CELLS, ONE_APART
from clustered_bandit_gym.policies import BAICl


def test_counterexample_plays_printed_and_certified_budgets() -> None:
    """A small version of it; the full one takes minutes, and the documentation gives its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        board = counterexample(trials=2, n_agents=30, progress=False)
    assert board.summary["policy"].tolist() == list(POLICIES)
    assert set(board.trials["n_agents"]) == {30}
    assert (board.trials["outcome"] != "error").all()
    assert board.trials["eta"].iloc[0] == pytest.approx(0.4)


def test_the_audit_has_its_instance() -> None:
    (cell,) = (cell for cell in CELLS if cell.means == ONE_APART)
    assert cell.sizes == (1599, 1)
    assert cell.in_scope


def test_the_warning_names_the_command() -> None:
    with pytest.warns(UserWarning, match="clustered-bai counterexample"):
        BAICl(engine="mixture")
