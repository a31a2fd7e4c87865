"""How good is a learned player? Against uniform sampling at the same error rate, on instances nobody has trained on.

A player that errs more often needs fewer pulls, so bare pulls compare nothing. Uniform sampling traces a curve of error
against pulls, over all numbers of pulls per arm (`UniformPolicy`) or over the thresholds of a likelihood-ratio stop
(`UniformGLR`); the player's mean pulls are divided by those that the curve needs for the player's own error rate.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.special import stdtrit

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.envs.env import ClusteredBAIEnv
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.policies.learned.player import LearnedPolicy, features_of
from clustered_bandit_gym.policies.uniform_glr import statistic
from clustered_bandit_gym.policy import PULL, STOP

#: Root seed of the held-out trials: `clustered-bai compare --seed` with this number plays the same ones.
TEST_SEED = 2_000_003
#: Thresholds of the GLR stop. At 8 an agent with two arms errs with probability below e^-8.
THRESHOLDS = np.arange(0.25, 8.01, 0.25)
#: Uniform sampling is repeated on every instance: its part of the noise is halved at little cost.
REPEATS = 4
#: Pulls per arm up to which a curve may be drawn.
MAX_ROUNDS = 4096
RESAMPLES = 2000


@dataclass(frozen=True)
class Played:
    """T trials of one player: instances, pulls (T,) and, as 0 or 1, whether any agent's arm was wrong (T,)."""

    instances: list[Instance]
    pulls: Floats
    wrong: Floats
    returns: Floats


@dataclass(frozen=True)
class Curve:
    """Error against pulls for S settings, trial by trial: pulls (T, S) and share of plays that went wrong (T, S)."""

    pulls: Floats
    wrong: Floats


@dataclass(frozen=True)
class Ratio:
    """The player's pulls over those of a yardstick at the same error rate, with a paired 95% interval.

    `resampled` (RESAMPLES,) are the ratios that the interval is made from. Players compared with the same trials and
    seed have the same resamples, so differences between them are paired.
    """

    yardstick: str
    yardstick_pulls: float
    ratio: float
    low: float
    high: float
    resampled: Floats = field(repr=False, compare=False)


@dataclass(frozen=True)
class Comparison:
    """A learned player on held-out instances, beside its yardsticks."""

    model: str
    env: str
    trials: int
    seed: int
    errors: int
    error_rate: float
    pulls_mean: float
    pulls_low: float
    pulls_high: float
    pulls_median: float
    ratios: tuple[Ratio, ...]

    def to_dict(self) -> dict[str, Any]:
        about = asdict(self)
        for ratio in about["ratios"]:
            del ratio["resampled"]
        return about

    def __str__(self) -> str:
        lines = [
            f"{self.model} on {self.env}, {self.trials:,} held-out instances (seed {self.seed})",
            f"  wrong in {self.errors:,} trials: error rate {self.error_rate:.4f}",
            f"  pulls {self.pulls_mean:.1f} on average (95% interval {self.pulls_low:.1f} to {self.pulls_high:.1f}), "
            f"median {self.pulls_median:.0f}",
            "  at the same error rate         pulls   ratio   paired 95% interval",
        ]
        lines += [
            f"  {one.yardstick:<28} {one.yardstick_pulls:7.1f}   {one.ratio:.3f}   {one.low:.3f} to {one.high:.3f}"
            for one in self.ratios
        ]
        return "\n".join(lines)


def compare_with_uniform(
    model: str | LearnedPolicy, env: str | None = None, trials: int = 2000, seed: int = TEST_SEED, **env_kwargs: Any
) -> Comparison:
    """Play the model on `trials` fresh instances and compare it with uniform sampling, with and without GLR stop.

    Args:
        model: a model file, or the policy itself.
        env, env_kwargs: the environment; by default the one the model was trained on.
        trials, seed: trial t is trial t of `evaluate(..., seed=seed)`: same instance, same rewards.
    """
    policy = model if isinstance(model, LearnedPolicy) else LearnedPolicy(model)
    if env is None:
        env = str(policy.training["env"])
        env_kwargs = {**policy.training["env_kwargs"], **env_kwargs}
    played = play_many(policy, env, trials, seed, **env_kwargs)
    uniform, stopping = curves(played, seed)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    # Every row of weights is one resample of the trials; the first is the sample itself.
    weights = np.vstack([np.ones(trials), rng.multinomial(trials, np.full(trials, 1 / trials), RESAMPLES)]) / trials
    pulls = weights @ played.pulls
    ratios = tuple(
        _ratio(name, curve, weights, pulls, weights @ played.wrong)
        for name, curve in (("uniform", uniform), ("uniform with a GLR stop", stopping))
    )
    low, high = np.quantile(pulls[1:], [0.025, 0.975])
    return Comparison(
        policy.path,
        env,
        trials,
        seed,
        int(played.wrong.sum()),
        float(played.wrong.mean()),
        float(played.pulls.mean()),
        float(low),
        float(high),
        float(np.median(played.pulls)),
        ratios,
    )


def over_seeds(comparisons: list[Comparison]) -> str:
    """Mean ratios over models trained with different seeds, with a 95% interval for the mean (Student's t)."""
    lines = [f"mean of {len(comparisons)} training seeds         ratio   95% interval       smallest to largest"]
    for number, one in enumerate(comparisons[0].ratios):
        ratios = np.array([comparison.ratios[number].ratio for comparison in comparisons])
        half = stdtrit(ratios.size - 1, 0.975) * ratios.std(ddof=1) / math.sqrt(ratios.size)
        mean = ratios.mean()
        lines.append(
            f"  {one.yardstick:<30} {mean:.3f}   {mean - half:.3f} to {mean + half:.3f}   "
            f"{ratios.min():.3f} to {ratios.max():.3f}"
        )
    errors = [comparison.error_rate for comparison in comparisons]
    lines.append(f"  error rates {min(errors):.4f} to {max(errors):.4f}")
    return "\n".join(lines)


def play_many(policy: LearnedPolicy, env: str, trials: int, seed: int, **env_kwargs: Any) -> Played:
    """Trials 0..`trials`−1 of `seed`, side by side: each through `env.step`, the network asked for all at once.

    The harness plays one trial at a time. With thousands of trials most of the time would go into calls of the network
    for a single play, so this loop steps all of them together; seeds and episodes are those of the harness.
    """
    made = gym.make(env, disable_env_checker=True, **env_kwargs).unwrapped
    if not isinstance(made, ClusteredBAIEnv):
        raise UserError(f"{env} is not an environment of this package; `clustered-bai list` shows them")
    games = []
    for t in range(trials):
        one = copy.copy(made)  # its settings; `reset` makes the rest anew
        seeds = trial_seeds(seed, t)
        obs, info = one.reset(options={"instance_seed": seeds.instance, "play_seed": seeds.play})
        games.append(_Game(one, obs, info))
    pending = games
    while pending:
        for told in {game.told for game in pending}:
            group = [game for game in pending if game.told == told]
            pulls, means = (np.stack([game.obs[key] for game in group]) for key in ("pulls", "means"))
            actions, arms = policy.decide(features_of(*told), pulls, means)
            for game, action, answer in zip(group, actions.tolist(), arms, strict=True):
                game.step(action, answer)
        pending = [game for game in pending if not game.over]
    return Played(
        [game.env.truth for game in games],
        np.array([game.info["pulls"] for game in games], dtype=np.float64),
        np.array([not game.info["correct"] for game in games], dtype=np.float64),
        np.array([game.total for game in games]),
    )


class _Game:
    """One episode under way."""

    def __init__(self, env: ClusteredBAIEnv, obs: dict[str, np.ndarray], info: dict[str, Any]) -> None:
        self.env, self.obs, self.info, self.over, self.total = env, obs, info, False, 0.0
        self.told = tuple(info[key] for key in ("n_agents", "n_arms", "n_clusters", "eta", "sigma"))

    def step(self, action: int, arms: np.ndarray) -> None:
        n, k = self.obs["pulls"].shape
        move = (STOP, arms) if action == n * k else (PULL, divmod(action, k))
        self.obs, reward, terminated, truncated, self.info = self.env.step(move)
        self.total += float(reward)
        self.over = terminated or truncated


def curves(played: Played, seed: int) -> tuple[Curve, Curve]:
    """Curves of `UniformPolicy` and `UniformGLR` on the instances of `played`, long enough to reach its error rate."""
    goal = max(played.wrong.mean(), 0.5 / played.wrong.size)
    rounds = 64
    while True:
        made = [
            _uniform_plays(instance, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, t))), rounds)
            for t, instance in enumerate(played.instances)
        ]
        uniform, glr_pulls, glr_wrong = (np.stack(parts) for parts in zip(*made, strict=True))
        if uniform.mean(axis=0)[-1] <= goal / 2 or rounds >= MAX_ROUNDS:
            break
        rounds *= 2
    cells = np.array([instance.n_agents * instance.n_arms for instance in played.instances])
    return Curve(cells[:, None] * np.arange(1, rounds + 1), uniform), Curve(glr_pulls, glr_wrong)


def _uniform_plays(instance: Instance, rng: np.random.Generator, rounds: int) -> tuple[Floats, Floats, Floats]:
    """Uniform sampling of one instance, `REPEATS` times: share of wrong plays after n = 1..rounds pulls of each arm
    (rounds,); mean pulls and share of wrong plays of the GLR stop, threshold by threshold (S,)."""
    rows = np.arange(instance.n_agents)[:, None]
    ones = np.ones((REPEATS * rounds, 1, 1), dtype=np.int64)
    clusters, arms = instance.clusters[rows][None], np.arange(instance.n_arms)[None, None, :]
    samples = instance.rewards.average(rng, instance.means, clusters, arms, ones)
    n = np.arange(1, rounds + 1)[:, None, None]
    averages = samples.reshape(REPEATS, rounds, *samples.shape[1:]).cumsum(axis=1) / n  # (R, n, N, K)
    # Ties at random, as the policies do: discrete rewards tie often.
    tied = averages == averages.max(axis=3, keepdims=True)
    any_ties = tied.sum() > tied[..., 0].size
    leader = ((tied * (1 - rng.random(tied.shape))) if any_ties else tied).argmax(axis=3)
    wrong = ~instance.is_best[instance.clusters, leader]  # (R, n, N)
    if instance.n_arms == 1:
        stops = np.zeros((REPEATS, THRESHOLDS.size, instance.n_agents), dtype=np.int64)
    else:
        highest = np.maximum.accumulate(statistic(averages, n[..., 0], instance.rewards.sigma), axis=1)
        above = highest[:, :, None, :] > THRESHOLDS[:, None]  # (R, n, S, N)
        stops = np.where(above[:, -1], above.argmax(axis=1), rounds - 1)
    at_stop = np.take_along_axis(wrong, stops, axis=1)  # (R, S, N)
    pulls = instance.n_arms * (stops + 1).sum(axis=2)
    return wrong.any(axis=2).mean(axis=0), pulls.mean(axis=0), at_stop.any(axis=2).mean(axis=0)


def _ratio(name: str, curve: Curve, weights: Floats, pulls: Floats, errors: Floats) -> Ratio:
    needed = pulls_at_error(weights @ curve.pulls, weights @ curve.wrong, errors, floor=0.5 / len(curve.wrong))
    ratios = pulls / needed
    low, high = np.quantile(ratios[1:], [0.025, 0.975])
    return Ratio(name, float(needed[0]), float(ratios[0]), float(low), float(high), ratios[1:])


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
    share = np.divide(high - wanted, high - low, out=np.ones_like(wanted), where=high > low).clip(0, 1)
    return pulls[rows, before] + share * (pulls[rows, after] - pulls[rows, before])
