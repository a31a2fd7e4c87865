"""Error against pulls of uniform sampling, with and without a likelihood-ratio stop: what learned players are held to.

Uniform sampling is played once on the instances of a test, for all numbers of pulls and all thresholds at a time, and
shared by all players that are compared on these instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.policies.uniform_glr import statistic

#: Thresholds of the GLR stop. At 8 an agent with two arms errs with probability below e^-8.
THRESHOLDS = np.arange(0.25, 8.01, 0.25)
#: Uniform sampling is repeated on every instance: its part of the noise is halved at little cost.
REPEATS = 4
#: Pulls per arm: with how many to begin, and up to how many a curve may be drawn.
ROUNDS, MAX_ROUNDS = 64, 4096


@dataclass(frozen=True)
class Curve:
    """Error against pulls for S settings, trial by trial: pulls (T, S) and share of plays that went wrong (T, S)."""

    pulls: Floats
    wrong: Floats


class UniformCurves:
    """Curves of `UniformPolicy` and `UniformGLR` on T instances, drawn as long as a player's error rate asks for.

    Args:
        instances: of the trials.
        seed: root seed of the rewards. Trial t depends on nothing but `seed`, t and the length of the curves.
    """

    def __init__(self, instances: Sequence[Instance], seed: int) -> None:
        self._instances, self._seed = instances, seed
        self._drawn: dict[int, tuple[Curve, Curve]] = {}

    def down_to(self, error_rate: float) -> tuple[Curve, Curve]:
        """Curves long enough that uniform sampling comes down to half of `error_rate`: without stop, with GLR stop."""
        goal = max(error_rate, 0.5 / len(self._instances)) / 2
        rounds = ROUNDS
        while True:
            uniform, stopping = self._of(rounds)
            if uniform.wrong[:, -1].mean() <= goal or rounds >= MAX_ROUNDS:
                return uniform, stopping
            rounds *= 2

    def _of(self, rounds: int) -> tuple[Curve, Curve]:
        if rounds not in self._drawn:
            made = [
                uniform_plays(
                    one,
                    np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(2, t))),
                    rounds,
                )
                for t, one in enumerate(self._instances)
            ]
            wrong, glr_pulls, glr_wrong = (np.stack(parts) for parts in zip(*made, strict=True))
            cells = np.array([one.n_agents * one.n_arms for one in self._instances])
            self._drawn[rounds] = (
                Curve(cells[:, None] * np.arange(1, rounds + 1), wrong),
                Curve(glr_pulls, glr_wrong),
            )
        return self._drawn[rounds]


def uniform_plays(
    instance: Instance, rng: np.random.Generator, rounds: int
) -> tuple[Floats, Floats, Floats]:
    """Uniform sampling of one instance, `REPEATS` times: share of wrong plays after n = 1..rounds pulls of each arm
    (rounds,); mean pulls and share of wrong plays of the GLR stop, threshold by threshold (S,)."""
    rows = np.arange(instance.n_agents)[:, None]
    ones = np.ones((REPEATS * rounds, 1, 1), dtype=np.int64)
    clusters, arms = instance.clusters[rows][None], np.arange(instance.n_arms)[None, None, :]
    samples = instance.rewards.average(rng, instance.means, clusters, arms, ones)
    n = np.arange(1, rounds + 1)[:, None, None]
    averages = (
        samples.reshape(REPEATS, rounds, *samples.shape[1:]).cumsum(axis=1) / n
    )  # (R, n, N, K)
    # Ties at random, as the policies do: discrete rewards tie often.
    tied = averages == averages.max(axis=3, keepdims=True)
    any_ties = tied.sum() > tied[..., 0].size
    leader = ((tied * (1 - rng.random(tied.shape))) if any_ties else tied).argmax(axis=3)
    wrong = ~instance.is_best[instance.clusters, leader]  # (R, n, N)
    if instance.n_arms == 1:
        stops = np.zeros((REPEATS, THRESHOLDS.size, instance.n_agents), dtype=np.int64)
    else:
        highest = np.maximum.accumulate(
            statistic(averages / instance.rewards.sigma, n[..., 0]), axis=1
        )
        above = highest[:, :, None, :] > THRESHOLDS[:, None]  # (R, n, S, N)
        stops = np.where(above[:, -1], above.argmax(axis=1), rounds - 1)
    at_stop = np.take_along_axis(wrong, stops, axis=1)  # (R, S, N)
    pulls = instance.n_arms * (stops + 1).sum(axis=2)
    return wrong.any(axis=2).mean(axis=0), pulls.mean(axis=0), at_stop.any(axis=2).mean(axis=0)


def pulls_at_error(pulls: Floats, errors: Floats, goals: Floats, floor: float) -> Floats:
    """Pulls (B,) at which curves (B, S) reach the error rates `goals` (B,), interpolated between settings.

    Linear in pulls against log error, since error falls about exponentially; the first setting counts that comes down
    to the goal. Errors below `floor` (half an error in all trials) count as `floor`, and a curve that does not come
    down to its goal gives its last pulls: both favour the yardstick.
    """
    log_errors = np.log(np.maximum(np.minimum.accumulate(errors, axis=1), floor))
    wanted = np.log(np.maximum(goals, floor))
    rows = np.arange(len(wanted))
    reached = log_errors <= wanted[:, None]
    after = np.where(reached.any(axis=1), reached.argmax(axis=1), errors.shape[1] - 1)
    before = np.maximum(after - 1, 0)
    high, low = log_errors[rows, before], log_errors[rows, after]
    share = np.divide(high - wanted, high - low, out=np.ones_like(wanted), where=high > low).clip(
        0, 1
    )
    return pulls[rows, before] + share * (pulls[rows, after] - pulls[rows, before])
