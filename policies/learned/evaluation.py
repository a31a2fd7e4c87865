"""How good is a learned player? Against uniform sampling at the same error rate, on instances nobody has trained on.

A player that errs more often needs fewer pulls, so bare pulls compare nothing. Uniform sampling traces a curve of error
against pulls, over all numbers of pulls per arm (`UniformPolicy`) or over the thresholds of a likelihood-ratio stop
(`UniformGLR`); the player's mean pulls are divided by those that the curve needs for the player's own error rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtrit

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.policies.learned.many import Played, play_many
from clustered_bandit_gym.policies.learned.player import LearnedPolicy
from clustered_bandit_gym.policies.learned.uniform_curves import (
    Curve,
    UniformCurves,
    pulls_at_error,
)

#: Root seed of the held-out trials: `clustered-bai compare --seed` with this number plays the same ones.
TEST_SEED = 2_000_003
#: Resamples of the trials for the intervals, and how many are made at once: a row for each of T trials takes memory.
RESAMPLES, _AT_ONCE = 1000, 50


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
    """A learned player on held-out instances, beside its yardsticks.

    `pulls_resampled` and `errors_resampled` (1 + RESAMPLES,) are mean pulls and error rate: measured, then of the
    resamples.
    """

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
    pulls_resampled: Floats = field(repr=False, compare=False)
    errors_resampled: Floats = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        about = asdict(self)
        del about["pulls_resampled"], about["errors_resampled"]
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
    model: str | LearnedPolicy,
    env: str | None = None,
    trials: int = 2000,
    seed: int = TEST_SEED,
    **env_kwargs: Any,
) -> Comparison:
    """Play the model on `trials` fresh instances and compare it with uniform sampling, with and without GLR stop.

    Args:
        model: a model file, or the policy itself.
        env, env_kwargs: the environment; by default the one the model was trained on.
        trials, seed: trial t is trial t of `evaluate(..., seed=seed)`: same instance, same rewards.
    """
    return compare_all([model], env, trials, seed, **env_kwargs)[0]


def compare_all(
    models: Sequence[str | LearnedPolicy],
    env: str | None = None,
    trials: int = 2000,
    seed: int = TEST_SEED,
    say: Callable[[Comparison], None] = lambda found: None,
    **env_kwargs: Any,
) -> list[Comparison]:
    """`compare_with_uniform` of each model, on the same instances: uniform sampling is played once for all.

    Args:
        say: told about every comparison as soon as it is made.
    """
    found: list[Comparison] = []
    baseline: tuple[tuple[str, dict[str, Any]], UniformCurves] | None = None
    for model in models:
        policy = model if isinstance(model, LearnedPolicy) else LearnedPolicy(model)
        name, settings = env, env_kwargs
        if name is None:
            name, settings = (
                str(policy.training["env"]),
                {**policy.training["env_kwargs"], **env_kwargs},
            )
        played = play_many(policy, name, trials, seed, **settings)
        if baseline is None or baseline[0] != (name, settings):
            baseline = (name, settings), UniformCurves(played.instances, seed)
        found.append(_compare(policy.path, name, seed, played, baseline[1]))
        say(found[-1])
    return found


def _compare(path: str, env: str, seed: int, played: Played, baseline: UniformCurves) -> Comparison:
    trials = played.wrong.size
    uniform, stopping = baseline.down_to(float(played.wrong.mean()))
    columns = [played.pulls[:, None], played.wrong[:, None], uniform.pulls, uniform.wrong]
    means = _resampled(np.hstack([*columns, stopping.pulls, stopping.wrong]), seed)
    pulls, errors = means[:, 0], means[:, 1]
    widths = np.cumsum(
        [2, *(part.shape[1] for part in (uniform.pulls, uniform.wrong, stopping.pulls))]
    )
    _, *parts = np.hsplit(means, widths)
    ratios = tuple(
        _ratio(name, Curve(*curve), pulls, errors, floor=0.5 / trials)
        for name, curve in (("uniform", parts[:2]), ("uniform with a GLR stop", parts[2:]))
    )
    low, high = np.quantile(pulls[1:], [0.025, 0.975])
    return Comparison(
        path,
        env,
        trials,
        seed,
        int(played.wrong.sum()),
        float(errors[0]),
        float(pulls[0]),
        float(low),
        float(high),
        float(np.median(played.pulls)),
        ratios,
        pulls,
        errors,
    )


def _resampled(values: Floats, seed: int) -> Floats:
    """(1 + RESAMPLES, S) means over trials of `values` (T, S): the sample's own, then those of resamples of the trials.

    With the same seed and T they are the same resamples: players on the same trials are compared in pairs.
    """
    trials = len(values)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    parts = [values.mean(axis=0)[None]]
    for _ in range(0, RESAMPLES, _AT_ONCE):
        weights = rng.multinomial(trials, np.full(trials, 1 / trials), _AT_ONCE)
        parts.append(weights @ values / trials)
    return np.concatenate(parts)


def over_seeds(comparisons: list[Comparison]) -> str:
    """Mean ratios over models trained with different seeds, with a 95% interval for the mean (Student's t)."""
    lines = [
        f"mean of {len(comparisons)} training seeds         ratio   95% interval       smallest to largest"
    ]
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


def _ratio(name: str, curve: Curve, pulls: Floats, errors: Floats, floor: float) -> Ratio:
    """From a curve and a player's pulls and error rates, with the sample in front of its resamples."""
    needed = pulls_at_error(curve.pulls, curve.wrong, errors, floor)
    ratios = pulls / needed
    low, high = np.quantile(ratios[1:], [0.025, 0.975])
    return Ratio(name, float(needed[0]), float(ratios[0]), float(low), float(high), ratios[1:])
