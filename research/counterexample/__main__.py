"""An instance on which BAI-Cl's printed error budgets, used with another engine, are wrong far more often than δ.

Two clusters, one of them a single agent. BAI-Cl draws agents until it knows M = 2 best arms, so it draws nearly all of
the large cluster, and each drawn agent runs two calls at the printed level γ: δ/γ agents are enough to use up δ. Four
arms nearly tie with the best one of the large cluster, which makes a call as likely to err as its level allows. One
error ends the first phase with a wrong arm in the set, and the single agent's best arm is never found.

With the paper's elimination a call errs with a probability of order γ², far below its level (see "The paper, read
closely"). An engine that spends its level has no such reserve. `confidence="certified"` holds with any engine.
"""

from __future__ import annotations

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.harness.audit.cells import ONE_APART
from clustered_bandit_gym.harness.output.board import Board
from clustered_bandit_gym.harness.run import evaluate

#: Where errors show fastest. Like the instance, chosen to make the point within few trials.
DELTA = 0.3
POLICIES = ("bai-cl:engine=mixture", "bai-cl:confidence=certified,engine=mixture", "bai-cl")


def counterexample(
    trials: int = 16, n_agents: int = 1600, seed: int = 0, n_jobs: int = 1, progress: bool = True
) -> Board:
    """Play BAI-Cl with the mixture engine, as printed and certified, and with the paper's own elimination."""
    instance = Instance(ONE_APART, [0] * (n_agents - 1) + [1])
    return evaluate(
        list(POLICIES),
        "ClusteredBAI-v0",
        instance=instance,
        delta=DELTA,
        trials=trials,
        seed=seed,
        n_jobs=n_jobs,
        bound=False,
        progress=progress,
    )
