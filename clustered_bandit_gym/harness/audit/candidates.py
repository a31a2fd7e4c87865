"""Small games by a few numbers, drawn at random or varied: the candidates of `search`.

All of them are inside the assumptions: what is told is true, or a lower bound where that is
allowed, or hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from clustered_bandit_gym.harness.audit.games import AuditGame

#: Values of δ at which errors can be seen.
DELTAS = (0.3, 0.2, 0.1, 0.05)


@dataclass(frozen=True)
class Knobs:
    """A small game by a few numbers.

    Cluster m has its best arm m at `offset`·m, the best arms of other clusters at least `eta`
    lower, and the remaining arms at least `gap` lower; `spread` is the step from one such arm to
    the next, relative to the first.

    Attributes:
        told: share of the true η and η1 that is told, at most 1.
        hidden: names that are not told.
    """

    sizes: tuple[int, ...]
    n_arms: int
    eta: float
    gap: float
    spread: float
    offset: float
    rewards: str
    sigma: float
    told: float
    hidden: tuple[str, ...]
    delta: float

    def game(self, name: str) -> AuditGame:
        """The game; raises `ValueError` where the numbers do not fit together."""
        n_clusters = len(self.sizes)
        means = np.empty((n_clusters, self.n_arms))
        for m in range(n_clusters):
            rivals = self.eta * (1 + self.spread * np.arange(n_clusters - 1))
            others = self.gap * (1 + self.spread * np.arange(self.n_arms - n_clusters))
            means[m] = self.offset * m - np.concatenate([rivals[:m], [0.0], rivals[m:], others])
        if self.rewards == "bernoulli":  # into the middle of [0, 1]; smaller if they do not fit
            width = float(means.max() - means.min())
            means = 0.5 + (means - means.min() - width / 2) * min(1.0, 0.9 / width)
        game = AuditGame(
            name,
            "found by a search",
            tuple(tuple(float(mean) for mean in row) for row in means),
            self.sizes,
            rewards="bernoulli" if self.rewards == "bernoulli" else "gaussian",
            sigma=self.sigma if self.rewards == "gaussian" else 1.0,
        )
        truth = game(np.random.default_rng(0))
        told: dict[str, Any] = dict.fromkeys(self.hidden)
        for key in ("eta", "eta1"):
            value = getattr(truth, key)
            if key not in self.hidden and self.told < 1 and 0 < value < math.inf:
                told[key] = self.told * value
        return replace(game, told=told)


def draw(rng: np.random.Generator) -> Knobs:
    """A random game."""
    n_clusters = int(rng.choice([1, 2, 2, 3, 4]))
    largest = int(rng.choice([1, 3, 10, 40]))
    sizes = rng.integers(
        0 if n_clusters > 1 and rng.random() < 0.3 else 1, largest + 1, size=n_clusters
    )
    sizes[0] = max(1, sizes[0])
    # Mostly everything is told; now and then M is not, or nothing.
    choices = [(), ("n_clusters",), ("n_clusters", "eta", "eta1")]
    hidden = choices[int(rng.choice(3, p=[0.8, 0.1, 0.1]))]
    return Knobs(
        sizes=tuple(int(size) for size in sizes),
        n_arms=n_clusters + int(rng.choice([0, 1, 1, 2, 4])) + (n_clusters == 1),
        eta=float(np.exp(rng.uniform(math.log(0.02), math.log(2)))),
        gap=float(np.exp(rng.uniform(math.log(0.002), math.log(1)))),
        spread=float(rng.choice([0.0, 0.05, 0.3, 1.0])),
        offset=float(rng.choice([0.0, 0.0, 0.1, 1.0]) * rng.uniform(-1, 1)),
        rewards=str(rng.choice(["gaussian", "gaussian", "bernoulli"])),
        sigma=float(rng.choice([0.3, 1.0, 1.0, 4.0])),
        told=float(rng.choice([1.0, 1.0, 0.5, 0.1])),
        hidden=hidden,
        delta=float(rng.choice(DELTAS)),
    )


def vary(knobs: Knobs, rng: np.random.Generator) -> Knobs:
    """A game like `knobs`, with one or two numbers changed."""
    fresh = draw(rng)
    names = [one.name for one in fields(Knobs) if one.name != "rewards"]
    for name in rng.choice(names, size=int(rng.integers(1, 3))):
        value = getattr(fresh, name)
        if name in ("eta", "gap", "sigma"):
            value = float(getattr(knobs, name) * np.exp(rng.normal(0, 0.7)))
        elif name == "sizes":
            factors = np.exp(rng.normal(0, 0.5, size=len(knobs.sizes)))
            sizes = [round(size * float(by)) for size, by in zip(knobs.sizes, factors, strict=True)]
            value = (max(1, sizes[0]), *sizes[1:])
        elif name == "n_arms":
            value = max(len(knobs.sizes), 2, knobs.n_arms + int(rng.choice([-1, 1, 2])))
        changed: dict[str, Any] = {str(name): value}
        knobs = replace(knobs, **changed)
    return knobs
