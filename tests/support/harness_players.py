"""Small players for the tests of the harness."""

from __future__ import annotations

from typing import Any

import numpy as np

import clustered_bandit_gym as cbg

TINY = "ClusteredBAI-Tiny-v0"
#: A game of a few thousand pulls, quick for every scheme.
QUICK: dict[str, Any] = {"env_id": "ClusteredBAI-PaperSmall-v0", "n_agents": 6, "progress": False}
#: A policy in a user's own module, which pulls as often as `times` says.
USER_MODULE = """
import clustered_bandit_gym as cbg
{imports}

class Mine(cbg.Policy):
    def solve(self, federation):
        {inside}
        federation.pull(0, 0, {times})
        return [0] * federation.problem.n_agents
"""


class Empirical(cbg.Policy):
    """Every agent pulls each arm `n` times and sends its empirical best."""

    name = "empirical"

    def __init__(self, n: int = 10) -> None:
        self.n = n

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        def look(block: cbg.Block) -> cbg.ArmIndex:
            return cbg.ArmIndex(block.pull_grid(self.n).argmax(axis=1), among=block.problem.n_arms)

        with federation.phase("look"):
            arms: np.ndarray = federation.local(federation.agents, look)
        return arms


def books_of(view: Any) -> cbg.Federation:
    """The federation behind a policy's view, by a private name: what no policy may do and some tests need."""
    books: cbg.Federation = view._play
    return books


def truth_of(view: Any) -> cbg.Instance:
    """The instance behind the view that a policy holds."""
    return books_of(view)._instance


class Telepath(cbg.Policy):
    """Right without a single message: it reads the truth where no policy may look."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        return np.array(truth_of(federation).agent_best_arms)


class Fails(cbg.Policy):
    """Pulls once, then raises in every trial whose own random number is below `share`."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        federation.pull(0, 0)
        if federation.rng.random() < self.share:
            raise ZeroDivisionError("no such luck")
        return np.array(truth_of(federation).agent_best_arms)


class Greedy(cbg.Policy):
    """Never gets enough."""

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        while True:
            federation.pull(federation.agents, 0, 1000)


class Stepper(cbg.StepPolicy):
    """The plain loop: each arm of each agent `n` times, then the empirical best."""

    def __init__(self, n: int = 2) -> None:
        self.n = n

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        short = np.argwhere(obs["pulls"] < self.n)
        if len(short):
            return cbg.PULL, tuple(short[0])
        return cbg.STOP, obs["means"].argmax(axis=1)


class Duck:
    """No base class: `act` is all it has. Stops at once with random arms from NumPy's global state."""

    def __init__(self, n_arms: int = 3) -> None:
        self.n_arms = n_arms

    def act(self, obs: dict[str, np.ndarray], info: dict[str, Any]) -> Any:
        return cbg.STOP, np.random.randint(self.n_arms, size=len(obs["means"]))  # noqa: NPY002


class Remembers(cbg.Policy):
    """Counts its own plays: copies of it must not."""

    def __init__(self) -> None:
        self.plays = 0

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        self.plays += 1
        federation.pull(0, 0, self.plays)
        return np.zeros(federation.problem.n_agents, dtype=int)
