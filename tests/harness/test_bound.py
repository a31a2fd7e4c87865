"""The bound that a row carries: of the trial's instance, under what the learner was told, solved
once per shape.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from harness_players import Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness import bound
from clustered_bandit_gym.harness.bound import bound_of


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
def test_bound_does_not_depend_on_names(rewards: str) -> None:
    """The bound is solved for the instance in a standard order of its arms and clusters: the same
    up to the certified gap."""
    family = cbg.generators.RandomFamily(9, 3, 5, rewards=rewards)
    instance = family(np.random.default_rng(0))
    problem = cbg.Problem.of(instance, 1e-3)
    assert bound_of(instance, problem) == pytest.approx(
        cbg.theory.instance_lower_bound(instance, 1e-3), rel=0.01
    )


def test_bound_is_for_what_was_told() -> None:
    instance = cbg.generators.PaperSmall(30)(np.random.default_rng(0))
    values = [
        bound_of(instance, cbg.Problem.of(instance, 1e-3, **told))
        for told in ({}, {"eta": 0.1}, {"eta": None}, {"n_clusters": None, "eta": None})
    ]
    assert values == sorted(values), "knowing less can only cost more"
    lower = cbg.theory.instance_lower_bound(instance, 1e-3, 0.0, clusters_told=False)
    assert values[-1] == pytest.approx(lower, rel=0.01)
    overlapping = cbg.Instance([[1.0, 0.0]] * 2, [0, 1], allow_overlap=True)
    assert bound_of(overlapping, cbg.Problem.of(overlapping, 1e-3)) is None
    far = cbg.Problem.of(instance, 1e-3, eta=5.0, check=False)
    assert bound_of(instance, far) == values[0], (
        "an η that does not hold is taken as the instance's own"
    )


def test_bound_of_shuffled_instances_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def count(*args: object, **kwargs: object) -> float:
        solved.append(args)
        return 1.0

    bound._known.clear()
    monkeypatch.setattr(cbg.theory, "instance_lower_bound", count)
    flat = {"n_agents": 12, "n_clusters": 4, "n_arms": 9, "eta": 0.125}
    rows = [
        cbg.play(Empirical(1), "ClusteredBAI-PaperFlat-v0", trial=t, env_kwargs=flat)
        for t in range(4)
    ]
    assert [row["bound"] for row in rows] == [1.0] * 4
    assert len(solved) == 1
    bound._known.clear()


def test_the_bound_of_a_huge_instance_is_skipped_and_the_run_goes_on() -> None:
    means = np.random.default_rng(0).normal(size=(2, 10_001))
    huge = cbg.Instance(means, [0, 1])
    start = time.process_time()
    with pytest.warns(UserWarning, match=r"bound skipped: .* 20,002 means .* up to 20,000"):
        board = cbg.evaluate(Empirical(1), trials=1, instance=huge, progress=False)
    assert board.trials["bound"].isna().all()
    assert time.process_time() - start < 10
