"""A study that the simulator feeds gives the row of `evaluate`: pulls, arms and ledger."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.pulls import Simulator
from clustered_bandit_gym.game.seeds import REWARDS, play_stream, trial_seeds
from clustered_bandit_gym.policies import POLICIES
from clustered_bandit_gym.policies.engines.registry import ENGINES

MEANS = [[0.9, 0.5, 0.3], [0.4, 0.85, 0.2], [0.1, 0.3, 0.8]]
#: Every policy with `solve`, and every engine; "collaborative" is for one cluster.
#: uniform-glr asks for a thousand orders on coins.
OTHERS = ("learned", "sb3", "collaborative", "uniform-glr")
POLICIES_WITH_SOLVE = [name for name in POLICIES if name not in OTHERS]
CASES = [
    *((name, "coins") for name in POLICIES_WITH_SOLVE),
    *((f"naive:engine={name}", "coins") for name in ENGINES),
    ("collaborative", "one cluster"),
    *(
        (name, "normal")
        for name in ("uniform-glr", "naive:engine=mixture", "bai-cl++", "frugal-bai")
    ),
]


def coins() -> cbg.Instance:
    return cbg.Instance(MEANS, np.arange(6) % 3, cbg.Bernoulli())


def simulator(instance: cbg.Instance, seed: int) -> Simulator:
    """What draws the rewards of trial 0 of `evaluate(..., seed=seed)`."""
    stream = play_stream(trial_seeds(seed, 0).play, REWARDS)
    return Simulator(instance, np.random.default_rng(stream))


def feed(study: cbg.Study, source: Simulator) -> None:
    """Answer every order as the simulator would, by counts or by sums."""
    while (order := study.ask()) is not None:
        cells = (array.reshape(order.shape) for array in (order.agents, order.arms, order.times))
        drawn = source.draw(*cells, order.kind)
        if order.kind == "counts":
            study.tell(order, counts=drawn.reshape(len(order), -1))
        else:
            study.tell(order, sums=drawn.ravel() * order.times)


@pytest.mark.parametrize(("policy", "law"), CASES)
def test_row_of_evaluate(policy: str, law: str, tmp_path: Path) -> None:
    instance = coins()
    if law == "normal":
        instance = cbg.Instance(MEANS, instance.clusters, cbg.Gaussian(0.5))
    if law == "one cluster":
        instance = cbg.Instance(MEANS[:1], np.zeros(6, dtype=int), cbg.Bernoulli())
    board = cbg.evaluate(
        [policy], "ClusteredBAI-v0", instance=instance, delta=0.1, trials=1, seed=4
    )
    row = board.trials.iloc[0]
    problem = gym.make("ClusteredBAI-v0", instance=instance, delta=0.1).unwrapped.problem_of(
        instance
    )
    study = cbg.Study(
        policy, problem, tmp_path / "study.db", seed=4, values=instance.rewards.values
    )
    feed(study, simulator(instance, 4))
    status = study.status
    assert status.done
    assert study.arms is not None
    assert (status.pulls, status.pulls_max_agent) == (row.pulls, row.pulls_max_agent)
    assert int((study.arms != instance.agent_best_arms).sum()) == row.wrong_agents
    for name, value in study.ledger.summary().items():
        assert row[name] == value
    # Read again from the file alone.
    again = cbg.Study.open(tmp_path / "study.db")
    assert again.ask() is None
    assert np.array_equal(again.arms, study.arms)


def test_players_that_step_are_refused() -> None:
    class Stepper(cbg.StepPolicy):
        def act(self, obs: dict[str, np.ndarray], info: dict[str, object]) -> object: ...

    with pytest.raises(ValueError, match="Stepper plays step by step"):
        cbg.Study(Stepper(), cbg.Problem(2, 2, 1, 0.1))
