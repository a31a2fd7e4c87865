"""Discovery: one agent of each cluster, guessed from sketches or from arms that agents name.

Correctness rests on `shown_distinct` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil, exp, log
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import (
    ArmIndex,
    ArmSet,
    ArmSubset,
    Flag,
    Payload,
    Quantised,
    Reals,
    Symbol,
)
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, Stuck, recall, top_up
from clustered_bandit_gym.policies.sequential.boundaries import pair_evidence
from clustered_bandit_gym.policies.sequential.scales import Scales


# Sketches: coarse codes of a few averages.
def sketch(block: Block, stage: Ints, levels: Levels) -> Answer:
    """Where the average of each arm lies among the agent's averages; whether that is all noise."""
    cells = recall(block, levels, "sketch", levels.sketch.size)
    top_up(block, cells, levels.sketch_pulls[stage[0]], levels.sketch)
    block.save("sketch", cells.memory)
    spread = cells.mean.std(axis=1)
    variance = (cells.variance() / cells.n).mean(axis=1)
    # Finer codes where clusters are few, so that bits are few anyway. Width in units of the spread.
    size, width = (8, 0.5) if levels.m <= SETTINGS.few else (4, 0.9)
    mean = cells.mean - cells.mean.mean(axis=1, keepdims=True)
    place = np.floor(mean / (width * np.maximum(spread, 1e-300))[:, None]) + size // 2
    symbols = np.clip(place, 0, size - 1).astype(int)
    # All noise, if averages vary hardly more than noise would make them.
    return Symbol(symbols, among=size), Flag(spread**2 < 1.6 * variance)


def guesses(federation: FederationView, levels: Levels) -> Iterator[tuple[Ints, float]]:
    """Yields guesses: (M,) agents that seem to be of different clusters, and the pulls of a sketch.

    Each guess comes from more agents, in case a cluster was missed, or from more pulls. There are
    no more when sketches that could tell a difference of η do not tell groups apart.
    """
    m = levels.m
    n = levels.problem.n_agents
    drawn = levels.drawn
    order = federation.rng.permutation(n)
    codes = np.zeros((n, levels.sketch.size))
    program = partial(sketch, levels=levels)

    def ask(agents: Ints, stage: int) -> bool:
        """Get the codes of `agents`; False if most of them see only noise."""
        down = Symbol(np.full(agents.size, stage), among=SETTINGS.codes)
        codes[agents], noisy = federation.local(agents, program, down=down, n_arms=codes.shape[1])
        return bool(noisy.mean() <= 0.5)

    for stage, pulls in enumerate(levels.sketch_pulls):
        # After the first stage a few agents see whether a sketch is worth sending.
        if stage == 0 or ask(order[:m], stage):
            for start, stop in ((0, drawn), (drawn, min(n, drawn + max(m, 8)))):
                if start == stop or not ask(order[start:stop], stage):
                    break
                drawn = stop
                middle, distance = group(codes[order[:drawn]], m)
                if distance >= 4.2:  # standard deviations
                    yield order[middle], pulls
        if pulls >= 16 * levels.noise**2:
            return


def group(points: Floats, n_groups: int) -> tuple[Ints, float]:
    """(n_groups,) the middle row of each group of points (n, d).

    And the distance of the closest two groups in standard deviations. No row and 0 if there are
    fewer groups.
    """
    n, d = points.shape
    labels = fcluster(linkage(points, "ward"), n_groups, "maxclust")
    if labels.max() < n_groups:
        return np.arange(0), 0.0
    member = labels == np.arange(1, n_groups + 1)[:, None]
    centre = np.array([points[own].mean(axis=0) for own in member])
    away = ((points - centre[labels - 1]) ** 2).sum(axis=1)
    middle = np.where(member, away, np.inf).argmin(axis=1)
    # Rounding alone has a variance of 1/12: a smaller scatter is not believed.
    variance = max(away.sum() / max(1, n - n_groups) / d, 1 / 12)
    # Centres of n/M points are noisy: that part is taken off.
    apart = pdist(centre, "sqeuclidean").min() / variance - 2 * d * n_groups / n
    return middle, float(np.sqrt(max(apart, 0.0)))


# Representatives are shown to be of different clusters.
class RoughMeans(NamedTuple):
    """What the centre knows of d arms at M representatives, for plans."""

    mean: Floats  # (M, d)
    error: Floats  # (d,) standard deviation of the difference of two means, roughly


def rough_means(block: Block, members: Bools, code: Ints, levels: Levels) -> Answer:
    """Averages of those arms of a sketch that `members` (n, d) names, after 8·2^code pulls.

    Both are the same for all agents. Averages are rounded to 127 steps above the least one.
    """
    sigma = levels.problem.sigma
    cells = recall(block, levels, levels.name)
    chosen = levels.sketch[members[0]]
    goal = np.zeros_like(cells.n)
    goal[:, chosen] = 8 * 2.0 ** code[0]
    top_up(block, cells, goal)
    block.save(levels.name, cells.memory)
    mean = cells.mean[:, chosen]
    low = mean.min(axis=1, keepdims=True)
    widest = mean.max(axis=1, keepdims=True) - low
    step = Quantised(widest / 127, steps(sigma), "up", clip=True)
    place = np.round((mean - low) / step.values)
    symbols = Symbol(np.clip(place, 0, 127).astype(int), among=128)
    variance = cells.variance()[:, chosen].mean(axis=1) / sigma**2
    rough = Quantised(variance, np.geomspace(1 / 128, 1, 8), "nearest", clip=True)
    return symbols, Reals(low), step, rough


def steps(sigma: float) -> Floats:
    """Steps between an agent's rounded averages that can be sent."""
    return sigma * np.geomspace(1e-5, 1e4, 64)


def float32_error(real: Floats) -> Floats:
    """How far reals that arrived, as float32, may be from what was sent."""
    return np.abs(real) * 2.0**-23 + 2.0**-121


def rounding(low: Floats, step: Floats, sigma: float) -> Floats:
    """How far a mean that was sent may be from the average: half a step; `low` was a float32."""
    off = step / 2 + 2 * float32_error(low)
    # At the end of the grid the true step may be larger.
    return np.where(step >= steps(sigma)[-1], np.inf, off)


def shown_distinct(
    federation: FederationView, reps: Ints, pulls: float, levels: Levels
) -> RoughMeans | None:
    """Rough means of a sketch's arms once all representatives are shown distinct, or None.

    Two are distinct if their averages of one arm differ; None if two look alike. Only pulls made
    after the choice of representatives count.
    """
    m = reps.size
    d = levels.sketch.size
    sigma = levels.problem.sigma
    scales = Scales(4 * levels.distinct, exp(-levels.distinct))
    program = partial(rough_means, levels=levels)
    members = np.ones(d, dtype=bool)
    mean, off = np.zeros((2, m, d))
    n = np.zeros(d)
    a, b = np.triu_indices(m, 1)
    for code in range(ceil(log(max(pulls, 8) / 8, 2)), SETTINGS.codes):
        effort = Symbol(np.full(m, code), among=SETTINGS.codes)
        down = ArmSubset(np.tile(members, (m, 1))), effort
        place, low, step, variance = federation.local(reps, program, down=down, n_arms=d)
        mean[:, members] = low + step * place
        off[:, members] = rounding(low, step, sigma)
        n[members] = 8 * 2.0**code
        of_arms = np.maximum(np.abs(mean[a] - mean[b]) - off[a] - off[b], 0) / sigma
        arm = (of_arms * np.sqrt(n)).argmax(axis=1)
        apart = of_arms[np.arange(arm.size), arm]
        rho, log_weight = scales.at(n[arm])
        open_ = pair_evidence(apart, n[arm], n[arm], rho) + log_weight < levels.distinct
        noise = np.sqrt(2 * variance.mean() / n)
        if not open_.any():
            return RoughMeans(mean, sigma * noise)
        if np.any((apart < 2.5 * noise[arm])[open_]):  # they look alike
            return None
        members = np.isin(np.arange(d), arm[open_])
    return None


# Search: where sketches show nothing, agents name the arm that stands out.
def stand_out(block: Block, arms: Ints, lead: Floats | float, levels: Levels) -> Ints:
    """(n,) the one of `arms` that seems to be η above the average of the others.

    Its score has to reach `lead`, one number or (n, len(arms)).
    """
    eta = levels.eta
    k = arms.size
    unit = 2 * levels.noise**2  # pulls that tell η with one nat
    cells = recall(block, levels, columns=k)
    top_up(block, cells, unit * max(0.1, 16 / k), arms)
    rows = np.arange(len(block))
    batch = 0.3 * unit
    while True:
        n = cells.n
        total = n * cells.mean
        pulls = n.sum(axis=1, keepdims=True)
        others = (total.sum(axis=1, keepdims=True) - total) / (pulls - n)
        # Log-likelihood ratio of "η above the others" to "like the others".
        score = 2 * n / (unit * eta) * (cells.mean - others - eta / 2)
        top = score.argmax(axis=1)
        second, best = np.sort(score, axis=1)[:, -2:].T
        missing = (lead - score)[rows, top]
        go_on = (missing > 0) & (pulls[:, 0] <= 1.5 * SETTINGS.patience * unit * k)
        if not go_on.any():
            return arms[top]
        step = np.where(score >= best[:, None] - 1.5, batch, 0.0)
        step[rows, top] = np.maximum(batch, 0.9 * unit * np.minimum(best - second, missing))
        top_up(block, cells, n + step * go_on[:, None], arms)
        batch *= 1.05


def search(federation: FederationView, levels: Levels) -> Ints:
    """(M,) agents that named M different arms; M agents are asked at a time."""
    n = federation.problem.n_agents
    m = levels.m
    arms = federation.arms
    order = federation.rng.permutation(n)
    finder: dict[int, int] = {}  # of each arm that was named, the first agent that named it

    def name_best(block: Block, _: Bools, known: Bools) -> Payload:
        """The arm that seems to be the best; arms that others named need fewer nats."""
        lead = log(arms.size) + np.where(known, 3.0, 12.0)
        return ArmIndex(stand_out(block, arms, lead, levels), among=arms.size)

    for drawn in range(0, n, m):
        asked = np.sort(order[drawn : drawn + m])
        known = np.isin(arms, list(finder))
        # The flag says how the set is coded.
        down = Flag(drawn > 0), ArmSet(known, at_most=m - 1 if drawn else 0)
        for agent, arm in zip(asked, federation.local(asked, name_best, down=down), strict=True):
            finder.setdefault(arm, agent)
        if len(finder) >= m:
            return np.sort([finder[arm] for arm in sorted(finder)[:m]])
    raise Stuck("fewer best arms than clusters were named")
