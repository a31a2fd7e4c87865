"""Players that need no training, and what uniform sampling needs for the error rate of another player."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies.learned.features import PLAY, TOP
from research.learned.uniform import UniformCurves, pulls_at_error

#: Seed of the held-out instances.
TEST_SEED = 20_261_117

#: Observations (E, ...) and masks (E, actions) -> actions (E,).
Chooser = Callable[[np.ndarray, np.ndarray], np.ndarray]


def chooser(model: Any) -> Chooser:
    """The deterministic policy of an SB3 model."""

    def choose(observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict(observations, deterministic=True)[0])

    return choose


def play(choose: Chooser, env: str, game: dict[str, Any], trials: int) -> dict[str, float]:
    """`trials` episodes of `choose` on instances that no training has seen."""
    envs = cbg.SB3VecEnv(env, "auto", n_envs=min(trials, 500), **game)
    envs.seed(TEST_SEED)
    obs = envs.reset()
    # All sub-environments play equally many episodes: the first ones to end are the short ones.
    rest = np.full(envs.num_envs, -(-trials // envs.num_envs))
    ended = []
    while rest.any():
        obs, _, dones, infos = envs.step(choose(obs, envs.action_masks()))
        for i in np.flatnonzero(dones & (rest > 0)).tolist():
            rest[i] -= 1
            ended.append(infos[i])
    return summary(ended, envs)


def summary(ended: list[dict[str, Any]], envs: Any) -> dict[str, float]:
    """Mean return, mean pulls and share of wrong episodes, from their last infos."""
    pulls = float(np.mean([one["pulls"] for one in ended]))
    wrong = float(np.mean([one["wrong_agents"] for one in ended]))
    game = envs.envs.game
    return {
        "return": -game.pull_cost * pulls - game.error_penalty * wrong,
        "pulls": pulls,
        "error_rate": float(np.mean([not one["correct"] for one in ended])),
    }


def stopping_rule(sizes: Sequence[int], n_agents: int) -> Chooser:
    """Pull the cell of largest value until 0.02 agents are expected to be wrong.

    Orders the largest of the numbers of pulls `sizes` that is below a twentieth of the pulls so far.
    """

    def choose(features: np.ndarray, masks: np.ndarray) -> np.ndarray:
        doubt = features[:, -PLAY]  # 1 + log(expected wrong agents) / 6
        pulls = n_agents * np.expm1(3 * features[:, 2 - PLAY])
        fits = np.array(sizes) <= pulls[:, None] / 20
        order = TOP * np.maximum(fits.sum(axis=1) - 1, 0)
        stop = (doubt < 1 + np.log(0.02) / 6) & masks[:, -1]
        return np.where(stop, masks.shape[1] - 1, order)

    return choose


def uniform(env: str, game: dict[str, Any], times: int, trials: int) -> dict[str, float]:
    """`times` pulls of each arm, then each agent's empirical best."""
    settings = {**game, "max_pulls": None, "pull_sizes": (times,)}
    envs = cbg.SB3VecEnv(env, n_envs=trials, **settings)
    envs.seed(TEST_SEED)
    envs.reset()
    for action in range(envs.envs.game.stop_action + 1):
        infos = envs.step(np.full(trials, action))[3]
    return summary(infos, envs)


def uniform_at_error(
    env: str, game: dict[str, Any], error_rate: float, trials: int
) -> dict[str, float]:
    """The first of 10, 12, 14, 17, ... pulls of each arm that errs no more often than `error_rate`."""
    times = 10
    while True:
        found = uniform(env, game, times, trials)
        if found["error_rate"] <= error_rate:
            return found
        times += times // 5


class Uniform:
    """Pulls that uniform sampling needs for an error rate, without a stop and with a likelihood-ratio stop.

    Args:
        env: name of the environment.
        instances: number of held-out instances.
    """

    def __init__(self, env: str, instances: int) -> None:
        settings = cbg.SB3VecEnv(env, n_envs=1).envs.game
        drawn = [
            settings.draw_instance(np.random.SeedSequence((TEST_SEED, t))) for t in range(instances)
        ]
        self._curves = UniformCurves(drawn, TEST_SEED)
        self._floor = 0.5 / instances

    def pulls_for(self, error_rate: float) -> tuple[float, float]:
        """Fixed numbers of pulls, and the best threshold of the stop."""
        goal = np.array([error_rate])
        found = []
        for curve in self._curves.down_to(error_rate):
            pulls, wrong = curve.pulls.mean(axis=0), curve.wrong.mean(axis=0)
            found.append(float(pulls_at_error(pulls[None], wrong[None], goal, self._floor)[0]))
        return found[0], found[1]
