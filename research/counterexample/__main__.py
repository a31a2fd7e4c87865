"""An instance on which BAI-Cl's printed error budgets, used with another engine, are wrong far more
often than δ.

Two clusters, one of them a single agent. BAI-Cl draws agents until it knows M = 2 best arms, so it
draws nearly all of the large cluster, and each drawn agent runs two calls at the printed level γ:
δ/γ agents are enough to use up δ. Four arms nearly tie with the best one of the large cluster,
which makes a call as likely to err as its level allows. One error ends the first phase with a wrong
arm in the set, and the single agent's best arm is never found.

With the paper's elimination a call errs with a probability of order γ², far below its level (see
"The paper, read closely"). An engine that spends its level has no such reserve.
`confidence="certified"` holds with any engine.

The defaults take about three minutes of processor time.
"""

from __future__ import annotations

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.audit.games import ONE_APART
from research.options import parser, run, shows_progress

#: Where errors show fastest. Like the instance, chosen to make the point within few trials.
DELTA = 0.3
POLICIES = ("bai-cl:engine=mixture", "bai-cl:confidence=certified,engine=mixture", "bai-cl")


def counterexample(
    trials: int = 16, n_agents: int = 1600, seed: int = 0, n_jobs: int = 1, progress: bool = True
) -> cbg.Board:
    """Play BAI-Cl with the mixture engine, as printed and certified, and with the paper's own
    elimination.
    """
    instance = cbg.Instance(ONE_APART, [0] * (n_agents - 1) + [1])
    return cbg.evaluate(
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


def main(words: list[str] | None = None) -> int:
    """Exit code 1 if a policy fails, which is the expected outcome."""
    options = parser(__doc__.split("\n", 1)[0], trials=16)
    options.add_argument("--n-agents", type=int, default=1600, help="one has a cluster of its own")
    given = options.parse_args(words)
    board = counterexample(
        given.trials, given.n_agents, given.seed, given.jobs, shows_progress(given)
    )
    print(board)
    return int((board.summary["verdict"] == "FAIL").any())


if __name__ == "__main__":
    run(main)
