"""Acceptance: for agents whose cluster may be none of those known."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.policies.sequential.cells import leader_pulls, leaders
from clustered_bandit_gym.policies.structured.best_arms import BestArms
from clustered_bandit_gym.policies.structured.evidence import AcceptanceTests
from clustered_bandit_gym.policies.structured.representatives import Record, Representatives
from clustered_bandit_gym.policies.structured.tuning import TUNING

#: Agents are handled in blocks of about this many (agent, arm) cells: tables of 2 MB, which fit in
#: a cache.
CELLS = 2**18
UNKNOWN = AcceptanceTests.UNKNOWN
#: Share by which the pulls of an arm are raised at a time; twice that for the arm that all others
#: are compared with.
STEP = 0.15


def accept(reps: Representatives, best_arms: BestArms, rest: Ints, eta: float | None) -> Ints:
    """(n,) the best arm of each agent of `rest`.

    An agent at which the best arm of x is shown to be less than η worse than every arm that may be
    best is of cluster x: in any other cluster that arm is at least η worse than the best
    (Assumption 1). An agent at which every known best arm is beaten is of a new cluster; one such
    agent becomes a representative, and the others are compared with it in turn. An agent left with
    one arm that is not beaten is done in any case.
    """
    found = np.full(rest.size, UNKNOWN)
    size = max(1, CELLS // reps.n.shape[1])
    for start in range(0, rest.size, size):
        part = slice(start, start + size)
        block = _Block(reps, rest[part], eta)
        answers = block.tests.found
        while True:
            block.run()
            waiting = np.flatnonzero(answers == UNKNOWN)
            if not waiting.size:
                break
            reps.add(int(block.agents[waiting[0]]))
            best_arms.resolve()
            answers[waiting[0]] = reps.settled[-1]
            if not reps.resolved.all():
                # An arm that is only good enough says nothing by Assumption 1: all go on alone.
                eta = block.eta = None
        found[part] = answers
    return found


class _Block(Record):
    """Agents side by side, each with its own arms: n, mean are (rows, K)."""

    def __init__(self, reps: Representatives, agents: Ints, eta: float | None) -> None:
        super().__init__(reps.federation, reps.budgets, agents)
        self.reps, self.eta = reps, eta
        self.tests = AcceptanceTests(self, eta)

    def run(self) -> None:
        """Continue until each agent has an arm, or all known best arms are beaten at it."""
        known = np.zeros(self.n.shape[1], dtype=bool)
        known[self.reps.leader] = True
        rows = np.flatnonzero(self.tests.found == UNKNOWN)
        self.pull_where(np.where(self.n[rows] == 0, TUNING.start, 0.0), rows)
        while rows.size:
            done, needed, centre = self._judge(rows, known)
            rows, needed, centre = rows[~done], needed[~done], centre[~done]
            n, at = self.n[rows], (np.arange(rows.size), centre)
            times = np.where(needed, STEP * n + 1, 0)
            # The arm that all others are compared with may be the wrong one: step by step.
            goal = leader_pulls(np.where(needed, n + times, 0))
            times[at] = np.clip(goal - n[at], 0, 2 * STEP * n[at])
            self.pull_where(times, rows)

    def _judge(self, rows: Ints, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, Ints]:
        """(rows,) agents that are done for now, (rows, K) arms that the others still have to pull,
        and (rows,) the arm that these are compared with, which is not among them."""
        tests, index = self.tests, np.arange(rows.size)
        leader, needed = tests.eliminate(rows)
        needed[index, leader] = False
        if self.eta is None:
            return tests.found[rows] != UNKNOWN, needed, leader
        hopeful = tests.live[rows] & known
        guess = leaders(self.mean[rows], hopeful)
        within = tests.accept(rows, guess, known)
        # While the leader is not a known best arm, either may be wrong, so the leader is pulled
        # along.
        needed &= ~within
        needed[index, leader] = True
        needed[index, guess] = False
        return (tests.found[rows] != UNKNOWN) | ~hopeful[index, guess], needed, guess
