"""The paper's settings: every agent right in all trials, δ = 1e-10.

An error has probability 1e-10 a trial. A scheme that errs in a tenth of its plays on PaperSmall
passes with probability below 1%, on PaperRandom or PaperFlat (24 plays) below 8%.
"""

from __future__ import annotations

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import (
    InstanceGenerator,
    PaperFlat,
    PaperRandom,
    PaperSmall,
    RandomFamily,
)
from clustered_bandit_gym.policies import BAICl, BAIClPlusPlus, ClBAI, NaiveSE

DELTA = 1e-10
SCHEMES = [NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()]


def trials(
    policy: cbg.Policy, generator: InstanceGenerator, instance_seed: int, count: int, first: int = 0
) -> int:
    """How many of `count` plays on one instance end with every agent right."""
    instance = generator(np.random.default_rng(instance_seed))
    problem = cbg.Problem.of(instance, DELTA, **generator.declared)
    plays = (cbg.Federation(instance, problem, seed=first + trial) for trial in range(count))
    return sum(federation.stop(policy.solve(federation)).correct for federation in plays)


@pytest.mark.parametrize("policy", SCHEMES, ids=lambda p: p.name)
def test_paper_small(policy: cbg.Policy) -> None:
    assert trials(policy, PaperSmall(30), 0, 48) == 48


@pytest.mark.parametrize("policy", SCHEMES, ids=lambda p: p.name)
def test_paper_random_on_fixed_instances(policy: cbg.Policy) -> None:
    for seed in range(4):
        assert trials(policy, PaperRandom(25), seed, 6, first=1000 * seed) == 6


@pytest.mark.parametrize("policy", SCHEMES, ids=lambda p: p.name)
def test_paper_flat(policy: cbg.Policy) -> None:
    assert trials(policy, PaperFlat(25), 0, 24) == 24


@pytest.mark.parametrize("rewards", ["bernoulli", "categorical"])
@pytest.mark.parametrize("confidence", ["paper", "certified"])
def test_other_rewards_and_skewed_clusters(rewards: str, confidence: str) -> None:
    """Bounded rewards have σ ≤ 1/2, so sample sizes shrink; clusters may be empty."""
    for policy in (NaiveSE(), ClBAI(confidence), BAICl(confidence), BAIClPlusPlus(confidence)):
        for seed in range(3):
            generator = RandomFamily(15, 4, 8, rewards=rewards, sizes="power", alpha=2.0)
            assert trials(policy, generator, seed, 2) == 2


@pytest.mark.parametrize("policy", SCHEMES[1:], ids=lambda p: p.name)
def test_reported_clusters_are_right(policy: cbg.Policy) -> None:
    instance = PaperSmall(30)(np.random.default_rng(1))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, DELTA), seed=2)
    judgement = federation.stop(policy.solve(federation))
    assert (judgement.clustering_errors, judgement.arm_errors) == (0, 0)
