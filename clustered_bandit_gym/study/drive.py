"""The loop of a study, for agents that a Python function can reach."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym.errors import UserError
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
            given = result if isinstance(result, dict) else {"rewards": result}
            known = {"rewards", "sums", "counts", "pulls", "rows"}
            if not isinstance(result, Iterable) or set(given) - known:
                raise UserError(
                    f"pull returned {reprlib.repr(result)}; expected an array of rewards for each "
                    'row, {"sums": ...} or {"counts": ...}'
                )
            study.tell(order, **given)
        bar.update(study.status.pulls - bar.n)
    return study
