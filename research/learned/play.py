"""Many episodes of a player on held-out instances, and what uniform sampling needs for the same error rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.features import PLAY_FEATURES, TOP
from research.learned.uniform import UniformCurves, pulls_at_error

#: Seed of the held-out instances.
TEST_SEED = 20_261_117
#: The rule that needs no learning stops at this number of expected wrong agents.
STOP_BELOW = 0.02

#: Features (E, SIZE) and masks (E, TOP + 1) -> actions (E,).
Chooser = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Outcome(NamedTuple):
    """Means over episodes."""

    returns: float
    pulls: float
    error_rate: float


def play(choose: Chooser, env: str, game: dict[str, Any], trials: int) -> Outcome:
    """`trials` episodes of `choose` on instances that no training has seen."""
    envs = cbg.SB3VecEnv(env, "auto", n_envs=min(trials, 500), **game)
    envs.seed(TEST_SEED)
    obs = envs.reset()
    # Each sub-environment plays the same number of episodes: the first ones to end are the short ones.
    rest = np.full(envs.num_envs, -(-trials // envs.num_envs))
    rows = []
    while rest.any():
        obs, _, dones, infos = envs.step(choose(obs, envs.action_masks()))
        for i in np.flatnonzero(dones & (rest > 0)).tolist():
            rest[i] -= 1
            info = infos[i]
            rows.append((info["episode"]["r"], info["pulls"], not info["correct"]))
    return Outcome(*np.mean(rows, axis=0).tolist())


def of_model(model: Any) -> Chooser:
    """The deterministic policy of an SB3 model."""
    return lambda features, masks: model.predict(features, deterministic=True)[0]


def stopping_rule(features: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Pull the cell of largest value until few agents are expected to be wrong: what learning has to improve on."""
    doubt = features[:, -len(PLAY_FEATURES)]  # 1 + log(expected wrong agents) / 6
    stop = (doubt < 1 + np.log(STOP_BELOW) / 6) & masks[:, -1]
    return np.where(stop, TOP, 0)


def uniform_ten(env: str, game: dict[str, Any], trials: int) -> Outcome:
    """Ten pulls of each arm, then each agent's empirical best."""
    envs = cbg.SB3VecEnv(env, n_envs=trials, **{**game, "max_pulls": None})
    envs.seed(TEST_SEED)
    envs.reset()
    stop = envs.envs.game.actions.stop
    for action in [*list(range(stop)) * 10, stop]:
        infos = envs.step(np.full(trials, action))[3]
    rows = [(one["episode"]["r"], one["pulls"], not one["correct"]) for one in infos]
    return Outcome(*np.mean(rows, axis=0).tolist())


class Uniform:
    """Pulls that uniform sampling needs for an error rate, without a stop and with a likelihood-ratio stop.

    Args:
        env: name of the environment.
        instances: number of held-out instances.
    """

    def __init__(self, env: str, instances: int) -> None:
        game = cbg.SB3VecEnv(env, n_envs=1).envs.game
        drawn = [
            game.draw_instance(np.random.SeedSequence((TEST_SEED, t))) for t in range(instances)
        ]
        self._curves = UniformCurves(drawn, TEST_SEED)
        self._floor = 0.5 / instances

    def pulls_for(self, error_rate: float) -> tuple[float, float]:
        """Fixed numbers of pulls, and the best threshold of the stop."""
        goal = np.array([error_rate])
        plain, stopping = (
            pulls_at_error(
                curve.pulls.mean(axis=0)[None], curve.wrong.mean(axis=0)[None], goal, self._floor
            )
            for curve in self._curves.down_to(error_rate)
        )
        return float(plain[0]), float(stopping[0])
