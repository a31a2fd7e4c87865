"""Through `env.step`, one pull at a time, a scheme's results have the law of the fast path.

Large δ, σ = 1/4, clusters far apart and runners-up at distances near ε_1 and ε_2 make plays of a few hundred pulls
whose course is random: which phase settles what, and when. Each quantity is compared by a two-sample Kolmogorov–Smirnov
test (conservative for discrete values) at level 1e-11, less than 1e-9 in all.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from elimination_rounds import watch
from scipy import stats

import clustered_bandit_gym as cbg
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.envs.stepwise import play_stepwise
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE

SLOW, FAST = 60, 300
LEVEL = 1e-11

MEANS = np.array([[6.0, 0.4, 5.72], [0.3, 6.0, 5.5]])
INSTANCE = cbg.Instance(MEANS, np.array([0, 1, 1]), cbg.Gaussian(0.25))
TOLD = {"eta": 5.0, "eta1": 1.0}
DELTA = 0.5


def measured(federation: cbg.Federation, rounds: list) -> dict[str, float]:
    """Pulls per phase, arms still active in each round (all agents), ledger totals."""
    values: dict[str, float] = defaultdict(float)
    for phase in ("cluster", "identify", "assign"):
        values[f"pulls {phase}"] = federation.pulls_by_phase.get(phase, 0)
    for one in rounds:
        values[f"arms in round {one.r}"] += int(one.arms.sum())
    for key, value in federation.ledger.summary().items():
        values[key] = value
    values["busiest agent"] = int(federation.pulls_per_agent.max())
    values["rounds"] = federation.rounds
    return values


@pytest.mark.parametrize(
    "policy", [NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()], ids=lambda p: p.name
)
def test_stepwise_play_has_the_same_law(policy: cbg.Policy) -> None:
    problem = cbg.Problem.of(INSTANCE, DELTA, **TOLD)
    fast, slow = [], []
    for seed in range(FAST):
        federation = cbg.Federation(INSTANCE, problem, seed=seed)
        with watch() as rounds:
            federation.stop(policy.solve(federation))
        fast.append(measured(federation, rounds))
    env = ClusteredBAIEnv(INSTANCE, delta=DELTA, told=TOLD)
    for seed in range(SLOW):
        with watch() as rounds:
            info = play_stepwise(policy, env, seed=10_000 + seed)
        assert info["pulls"] == env.federation.pulls
        assert info["correct"] == env.federation.judgement.correct
        slow.append(measured(env.federation, rounds))
    varying = 0
    for key in sorted(set(itertools.chain(*fast, *slow))):
        a, b = (np.array([row.get(key, 0.0) for row in rows]) for rows in (fast, slow))
        assert stats.ks_2samp(a, b).pvalue > LEVEL, key
        varying += len(set(a.tolist())) > 1
    assert varying >= 4  # the course of a play is random enough to compare


def test_the_comparison_bites() -> None:
    """A budget three times smaller shows in the very quantities compared above."""
    pulls = []
    for delta in (DELTA, DELTA / 3):
        problem = cbg.Problem.of(INSTANCE, delta, **TOLD)
        plays = [cbg.Federation(INSTANCE, problem, seed=seed) for seed in range(FAST)]
        for play in plays:
            NaiveSE().solve(play)
        pulls.append([play.pulls for play in plays])
    assert stats.ks_2samp(*pulls).pvalue < LEVEL
