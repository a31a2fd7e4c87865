"""Discovery: one agent of every cluster, guessed from coarse codes. Nothing here is trusted.

A few agents pull the same few arms and send, for each, where its average lies among their own averages, in two or three
bits. The centre groups the codes and takes the middle agent of each group. Wrong groups cost pulls, or an attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, log

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import Flag, Payload, Symbol
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.sequential.cells import bounded

#: Arms of a sketch at most. With 6 random means take 24% more communication, with 24 ratings take 31% more pulls.
ARMS = 12
#: With at most this many clusters, agents are led through a tree and few of them send sketches, which may be finer.
FEW_CLUSTERS = 8
#: Symbols for each arm, and their width in units of the spread of an agent's own averages: two or three bits that cover
#: about two standard deviations on either side.
COARSE, COARSE_WIDTH = 4, 0.9
FINE, FINE_WIDTH = 8, 0.5
#: Pulls of each arm in the first sketch: few clusters, many clusters, bounded rewards; four times more in each stage.
#: For few clusters, twice as many cost 19% more pulls on the small family, half costs 8% more communication. For many,
#: half and twice are the same beyond noise. For bounded rewards, 256 saves 39% of the pulls on coins, but costs 33%
#: more communication on MovieLens-like ratings, which are harder to tell apart.
PULLS_FEW, PULLS_MANY, PULLS_BOUNDED = 48, 192, 512
#: Stages that a message can name, in three bits.
STAGES = 8
#: The last stage that is asked for (64 times the first pulls); an earlier one where more pulls are of no use.
LAST_STAGE = 3
#: Groups are accepted when the closest two are this many standard deviations apart: half way between them about 2% of a
#: group's agents cross. 3 changes nothing; 5.7 for few clusters costs 22% ± 12 more pulls on the small family.
APART_FEW, APART_MANY = 4.3, 4.0
#: With many clusters a first sketch has no more pulls than this number over η², in units of σ: averages off by a tenth
#: of η.
PLENTY = 96.0
#: Sketches end where pulls of an arm reach this number over η², in units of σ: averages off by a quarter of η.
ENOUGH = 16.0
#: Agents of a pilot: enough for a vote whether sketches show anything but noise.
PILOT = 12
#: A squared spread below this many times that of noise alone shows nothing. From 1.2 to 2.1 only flat means change, by
#: 3%.
NOISE = 1.6


Check = Callable[[Ints, int], bool]


@dataclass(frozen=True)
class Protocol:
    """What a sketch is: known to everybody before the play."""

    problem: Problem
    bounded: bool
    attempt: int

    @classmethod
    def of(cls, federation: Federation, attempt: int) -> Protocol:
        problem = federation.problem
        return cls(problem, bounded(problem, federation.reward_values), attempt)

    @property
    def few(self) -> bool:
        return (self.problem.n_clusters or 0) <= FEW_CLUSTERS

    @property
    def arms(self) -> Ints:
        """(d,) the arms of a sketch, spread evenly; another attempt takes others."""
        k = self.problem.n_arms
        d = min(k, ARMS)
        return np.sort(((np.arange(d) * k) // d + self.attempt) % k)

    @property
    def alphabet(self) -> tuple[int, float]:
        return (FINE, FINE_WIDTH) if self.few else (COARSE, COARSE_WIDTH)

    @property
    def last_stage(self) -> int:
        """The stage whose pulls tell a difference of η; later ones would show nothing more."""
        eta = self.problem.eta or self.problem.sigma
        enough = [
            self.pulls(stage) * (eta / self.problem.sigma) ** 2 >= ENOUGH for stage in range(STAGES)
        ]
        return enough.index(True) if any(enough) else STAGES - 1

    def pulls(self, stage: int) -> int:
        eta = self.problem.eta or self.problem.sigma
        many = min(PULLS_MANY, max(PULLS_FEW, ceil(PLENTY * (self.problem.sigma / eta) ** 2)))
        first = PULLS_BOUNDED if self.bounded else PULLS_FEW if self.few else many
        return first * 4 ** (stage + self.attempt)

    def decode(self, codes: Ints) -> Floats:
        size, width = self.alphabet
        return ((codes - (size - 1) / 2) * width).astype(np.float64)


def sketch(block: Block, stage: np.ndarray, protocol: Protocol) -> tuple[Payload, ...]:
    """Pull the protocol's arms as often as the stage says; send a symbol for each, and whether they differ at all."""
    arms, rows = protocol.arms, np.arange(len(block))
    goal = np.array([protocol.pulls(s) for s in range(STAGES)])[stage]
    mean = block.pull(rows[:, None], arms[None, :], goal[:, None])
    block.save("sketch", mean)
    block.save("sketch pulls", goal)
    size, width = protocol.alphabet
    spread = mean.std(axis=1, keepdims=True)
    place = (mean - mean.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-300) / width
    codes = np.clip(np.floor(place) + size // 2, 0, size - 1).astype(np.int64)
    scale = protocol.problem.sigma * (0.5 if protocol.bounded else 1.0)
    return Symbol(codes, among=size), Flag(spread[:, 0] ** 2 < NOISE * scale**2 / goal)


@dataclass(frozen=True)
class Groups:
    """The groups that discovery guessed.

    Attributes:
        reps: (M,) an agent of each group, increasing ids.
        centroid: (M, d) the groups' mean codes.
        codes: (N, d) codes received, nan where there is none.
        stage: the last stage of sketches.
    """

    reps: Ints
    centroid: Floats
    codes: Floats
    stage: int


def ask(
    federation: Federation, protocol: Protocol, agents: Ints, stage: int
) -> tuple[Floats, np.ndarray]:
    """Decoded sketches (n, d) of `agents`, and which of them see nothing but noise."""
    down = Symbol(np.full(agents.size, stage), among=STAGES)
    codes, noisy = federation.local(
        agents, partial(sketch, protocol=protocol), down=down, n_arms=protocol.arms.size
    )
    return protocol.decode(codes), noisy


def discover(
    federation: Federation, protocol: Protocol, check: Check | None = None
) -> Groups | None:
    """Groups of agents that look alike, one for each of M clusters; None where sketches do not show them.

    `check` says whether the representatives seem to be of different clusters. If not, more agents send sketches, or all
    of them send finer ones.
    """
    n, m = protocol.problem.n_agents, protocol.problem.n_clusters
    assert m is not None
    order = federation.rng.permutation(n)
    drawn = min(n, ceil(m * (log(m) + 3)) + (2 if protocol.few else 0))
    codes: Floats = np.full((n, protocol.arms.size), np.nan)
    stage, failures, last = 0, 0, min(LAST_STAGE, protocol.last_stage)
    if drawn > 2 * PILOT:
        # A few agents first: where they see only noise, the others need not send sketches.
        pilot = np.sort(order[:PILOT])
        while True:
            codes[pilot], noisy = ask(federation, protocol, pilot, stage)
            if noisy.mean() <= 0.5:
                break
            pilot = pilot[: PILOT // 4]
            stage += 1
            if stage > min(1, protocol.last_stage):
                return None
        fresh = np.setdiff1d(order[:drawn], pilot)
    else:
        fresh = np.sort(order[:drawn])
    while True:
        codes[fresh], noisy = ask(federation, protocol, fresh, stage)
        asked = np.flatnonzero(~np.isnan(codes[:, 0]))
        quality = 0.0
        if noisy.mean() <= 0.5 and asked.size >= m:
            labels, quality = group(codes[asked], m)
        if quality >= (APART_FEW if protocol.few else APART_MANY):
            groups = _groups(codes, asked, labels, stage)
            if check is None or check(groups.reps, stage):
                return groups
            last = LAST_STAGE
        failures += 1
        if failures % 2 and drawn < n and noisy.mean() <= 0.5:
            # A cluster may be missing.
            fresh = np.sort(order[drawn : drawn + max(m, 8)])
            drawn += fresh.size
        elif stage < last and not (noisy.mean() > 0.5 and stage >= 1):
            stage, fresh = stage + 1, asked
        else:
            return None


def _groups(codes: Floats, asked: Ints, labels: Ints, stage: int) -> Groups:
    """The middle agent of each group; `labels` of the agents `asked`."""
    m = int(labels.max()) + 1
    centroid = np.array([codes[asked][labels == g].mean(axis=0) for g in range(m)])
    away = ((codes[asked] - centroid[labels]) ** 2).sum(axis=1)
    reps = np.array([asked[labels == g][away[labels == g].argmin()] for g in range(m)])
    by_id = np.argsort(reps)
    return Groups(reps[by_id], centroid[by_id], codes.copy(), stage)


def group(points: Floats, n_groups: int) -> tuple[Ints, float]:
    """(n,) labels of points (n, d) in `n_groups` groups, and how many standard deviations the closest two are apart."""
    if points.shape[0] == 1 or n_groups == 1:
        return np.zeros(points.shape[0], dtype=np.int64), np.inf
    labels: Ints = fcluster(linkage(points, "ward"), n_groups, "maxclust").astype(np.int64) - 1
    if labels.max() + 1 < n_groups:
        return labels, 0.0
    for _ in range(5):
        centre = np.array([points[labels == g].mean(axis=0) for g in range(n_groups)])
        nearest = ((points[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        if np.unique(nearest).size < n_groups or np.array_equal(nearest, labels):
            break
        labels = nearest
    centre = np.array([points[labels == g].mean(axis=0) for g in range(n_groups)])
    size = np.bincount(labels)
    n, d = points.shape
    within = max(((points - centre[labels]) ** 2).sum() / max(1, n - n_groups) / d, 1e-12)
    apart = ((centre[:, None] - centre) ** 2).sum(axis=2) / within - d * (
        1 / size[:, None] + 1 / size
    )
    np.fill_diagonal(apart, np.inf)
    return labels, float(np.sqrt(max(apart.min(), 0.0)))
