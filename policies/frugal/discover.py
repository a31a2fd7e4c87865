"""Discovery: one agent of each cluster, guessed from sketches or from arms that agents name.

Nothing here matters for correctness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmIndex, ArmSet, Flag, Payload, Symbol
from clustered_bandit_gym.policies.frugal.memory import Stuck, empty_cells, recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels, drawn_at_first

# --- sketches: coarse codes of a few averages -----------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """What a sketch is; known to everybody before the play."""

    levels: Levels

    @property
    def arms(self) -> Ints:
        """(d,) the arms of a sketch, spread evenly."""
        k = self.levels.problem.n_arms
        d = min(k, self.levels.settings.sketch_arms)
        return (np.arange(d) * k) // d

    def pulls(self, stage: int) -> float:
        """Pulls of each arm.

        The first sketches take, in all, about the pulls that the representatives' K·M arms are
        going to take if arms differ by √(ση), and fewer for few clusters.
        """
        p, settings, m = self.levels.problem, self.levels.settings, self.levels.m
        hard = min(max(p.sigma / self.levels.eta, 0.25), settings.first * m)
        cells = self.arms.size * min(p.n_agents, drawn_at_first(m))
        first = max(4, ceil(hard * p.n_arms * m * self.levels.beaten / cells))
        return float(first * settings.growth**stage)

    @property
    def stages(self) -> int:
        """The last stage tells a difference of η."""
        enough = self.levels.settings.enough * (self.levels.problem.sigma / self.levels.eta) ** 2
        more = log(max(1.0, enough / self.pulls(0))) / log(self.levels.settings.growth)
        return min(ceil(more) + 1, self.levels.settings.codes)


def sketch(block: Block, stage: Ints, protocol: Protocol) -> tuple[Payload, ...]:
    """A symbol for each arm of the sketch: where its average lies among the agent's averages.

    And whether the averages differ by no more than noise.
    """
    levels = protocol.levels
    cells = recall(block, "sketch", levels, protocol.arms.size)
    top_up(block, cells, np.full(cells.n.shape, protocol.pulls(int(stage[0]))), protocol.arms)
    block.save("sketch", cells.memory)
    mean = cells.mean - cells.mean.mean(axis=1, keepdims=True)
    spread = cells.mean.std(axis=1)
    noise = np.sqrt(levels.settings.noise * (cells.variance() / cells.n).mean(axis=1))
    # Finer codes where clusters are few, so that bits are few anyway. Width in units of the spread.
    size, width = (8, 0.5) if levels.m <= levels.settings.few else (4, 0.9)
    place = np.floor(mean / (np.maximum(spread, 1e-300) * width)[:, None]) + size // 2
    return Symbol(np.clip(place, 0, size - 1).astype(np.int64), among=size), Flag(spread < noise)


def guesses(federation: Federation, protocol: Protocol) -> Iterator[tuple[Ints, float]]:
    """Yields guesses: (M,) agents that seem to be of different clusters, and the pulls of a sketch.

    Each guess comes from more agents, in case a cluster was missed, or from more pulls. There are
    no more when sketches that could tell a difference of η do not tell groups apart.
    """
    levels, n = protocol.levels, federation.problem.n_agents
    order = federation.rng.permutation(n)
    drawn = min(n, drawn_at_first(levels.m) + 2)
    codes = np.zeros((n, protocol.arms.size))
    program = partial(sketch, protocol=protocol)

    def ask(agents: Ints, stage: int) -> bool:
        """Get the codes of `agents`; False if most of them see only noise."""
        down = Symbol(np.full(agents.size, stage), among=levels.settings.codes)
        codes[agents], noisy = federation.local(agents, program, down=down, n_arms=codes.shape[1])
        return bool(noisy.mean() <= 0.5)

    for stage in range(protocol.stages):
        # After the first stage a few agents see whether a sketch is worth sending.
        if stage and not ask(order[: levels.m], stage):
            continue
        for start, stop in ((0, drawn), (drawn, min(n, drawn + max(levels.m, 8)))):
            if start == stop or not ask(order[start:stop], stage):
                break
            drawn = stop
            middle, quality = group(codes[order[:drawn]], levels.m)
            if quality >= levels.settings.apart:
                yield order[middle], protocol.pulls(stage)


def group(points: Floats, n_groups: int) -> tuple[Ints, float]:
    """The middle point of each of `n_groups` groups of points (n, d), and how far groups are apart.

    Returns (n_groups,) rows, and the distance of the closest two groups in standard deviations; 0
    if there are fewer groups.
    """
    n, d = points.shape
    labels = np.zeros(n, dtype=np.int64)
    if n >= n_groups:
        labels = fcluster(linkage(points, "ward"), n_groups, "maxclust").astype(np.int64) - 1
    size = np.bincount(labels)
    if size.size < n_groups:
        return np.zeros(n_groups, dtype=np.int64), 0.0
    centre = np.array([points[labels == g].mean(axis=0) for g in range(n_groups)])
    away = ((points - centre[labels]) ** 2).sum(axis=1)
    middle = np.array([np.where(labels == g, away, np.inf).argmin() for g in range(n_groups)])
    # Rounding alone has a variance of 1/12: a smaller scatter is not believed.
    within = max(away.sum() / max(1, n - n_groups) / d, 1 / 12)
    apart = ((centre[:, None] - centre) ** 2).sum(axis=2) / within
    apart -= d * (1 / size[:, None] + 1 / size)
    np.fill_diagonal(apart, np.inf)
    return middle, float(np.sqrt(max(apart.min(), 0.0)))


# --- search: where sketches show nothing, agents name the arm that stands out ---------------------


def stand_out(block: Block, arms: Ints, prior: Floats, lead: Floats, levels: Levels) -> Ints:
    """(n,) columns: the one of `arms` that seems to be η above the average of the others.

    The likeliest arm is pulled until its score, `prior` included, reaches `lead`; both are
    (n, len(arms)).
    """
    eta, k = levels.eta, arms.size
    unit = 2 * (levels.problem.sigma / eta) ** 2  # pulls that tell η with one nat
    limit = 1.5 * levels.settings.patience * unit * k
    cells = empty_cells(block, levels, k)
    top_up(block, cells, np.full(cells.n.shape, np.ceil(unit * max(0.1, 16 / k))), arms)
    answer = np.zeros(len(block), dtype=np.int64)
    todo = np.arange(len(block))
    batch = 0.3 * unit
    while todo.size:
        i = np.arange(todo.size)
        n, mean = cells.n[todo], cells.mean[todo]
        pulls = n.sum(axis=1, keepdims=True)
        others = ((n * mean).sum(axis=1, keepdims=True) - n * mean) / (pulls - n)
        # Log-likelihood ratio of "η above the others" to "like the others".
        score = 2 * n / (unit * eta) * (mean - others - eta / 2) + prior[todo]
        top = score.argmax(axis=1)
        answer[todo] = top
        best = score[i, top]
        missing = lead[todo, top] - best
        go_on = (missing > 0) & (pulls[:, 0] <= limit)
        step = np.where(score >= (best - 1.5)[:, None], batch, 0.0)
        ahead = best - np.partition(score, -2, axis=1)[:, -2]
        step[i, top] = np.maximum(batch, 0.9 * unit * np.minimum(ahead, missing))
        goal = np.zeros(cells.n.shape)
        todo = todo[go_on]
        goal[todo] = (n + step)[go_on]
        goal[goal == cells.n] = 0
        top_up(block, cells, goal, arms)
        batch *= 1.05
    return answer


def name_best(block: Block, _: np.ndarray, known: np.ndarray, levels: Levels) -> Payload:
    """The arm that seems to be the best. Arms that others named, `known` (n, K), are likelier."""
    s, k = levels.settings, block.problem.n_arms
    count = known.sum(axis=1, keepdims=True)
    odds = np.maximum(1, k - count) / np.maximum(1, levels.m - count)
    lead = log(k) + np.where(known, s.named, s.lead)
    prior = np.where(known, np.log(odds), 0.0)
    return ArmIndex(stand_out(block, np.arange(k), prior, lead, levels), among=k)


def search(federation: Federation, levels: Levels) -> Ints:
    """(M,) agents that named M different arms; M agents are asked at a time."""
    n, m, k = federation.problem.n_agents, levels.m, federation.problem.n_arms
    order = federation.rng.permutation(n)
    finder = np.full(k, -1)
    for drawn in range(0, n, m):
        asked = np.sort(order[drawn : drawn + m])
        down = Flag(drawn > 0), ArmSet(finder >= 0, at_most=m - 1 if drawn else 0)
        named = federation.local(asked, partial(name_best, levels=levels), down=down)
        for agent, arm in zip(asked, named, strict=True):
            if finder[arm] < 0 and (finder >= 0).sum() < m:
                finder[arm] = agent
        if (finder >= 0).sum() == m:
            return np.sort(finder[finder >= 0])
    raise Stuck("fewer best arms than clusters were named")
