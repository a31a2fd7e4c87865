"""The loop of a study, for agents that a Python function can reach."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.study.study import Study


def drive(
    policy: Any,
    pull: Callable[[np.ndarray, np.ndarray, np.ndarray], Any],
    problem: Problem,
    path: str | Path | None = None,
    seed: int = 0,
    *,
    values: ArrayLike | None = None,
    progress: bool | None = None,
) -> Study:
    """Run a study to its end. The same call resumes an interrupted one.

    Args:
        policy, problem, path, seed, values: as for `Study`.
        pull: `pull(agents, arms, times)` makes the pulls and returns for each row an array of
            rewards, or ``{"sums": ...}`` or ``{"counts": ...}``. It may return fewer rewards than
            asked for; it is then called again for the rest, with a warning the first time.
        progress: show a progress bar; by default in a terminal.
    """
    from clustered_bandit_gym.harness.run import progress_bar

    study = Study(policy, problem, path, seed, values=values)
    hidden = None if progress is None else not progress  # None: unless in a terminal
    with progress_bar(unit=" pulls", unit_scale=True, disable=hidden) as bar:
        while (order := study.ask()) is not None:
            bar.update(study.status.pulls - bar.n)
            if order.tells:
                warnings.warn("pull returned fewer rewards than asked for", stacklevel=2)
            bar.set_description(f"order {order.id}, {order.phase}")
            result = pull(order.agents, order.arms, order.times)
            study.tell(order, **(result if isinstance(result, dict) else {"rewards": result}))
        bar.update(study.status.pulls - bar.n)
    return study
