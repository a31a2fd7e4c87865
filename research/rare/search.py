"""The search for ways to err of an unknown policy.

1. Natural plays show how long a play is and how many pulls a draw has.
2. A *hot* pilot: the variance of the noise is raised until errors are common. What goes wrong there
  shows where a
   policy can be misled: which draws, how far ahead the rival was, one agent or the first of its
       cluster.
3. Ways to err start from there, and from a library that needs no pilot. Cross-entropy rounds at
   natural noise fit their strength and members; weights are tempered while they are too uneven to
   be used as they are.
4. Each way's share of the error sets its share of the plays; ways that contribute nothing are
  dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from research.rare.game import Game
from research.rare.mixture import Mixture, Record
from research.rare.pilot import (
    cold_pilot,
    resumed_ways,
    run_pilot,
    starting_ways,
)
from research.rare.ways import Moments, Way

#: Natural plays at the start; this share of them wrong needs no tilt at all.
NATURAL_PLAYS, COMMON = 24, 0.1
#: Plays may be this many times longer than the longest natural one.
LONGER = 50
#: A way whose share of the error is below e to the minus this is dropped.
NEGLIGIBLE = 9.0
#: Below this exponent tempered weights say little about what a way contributes.
COLD = 0.3
#: Plays of a way in a round until it is known what it contributes: this share of the round's plays,
#: within limits.
LEAST_SHARE, LEAST = 1 / 6, (3, 6)
#: A way without a single wrong play is made stronger this many times.
BOOSTS = 2
#: Probability of an untilted play in the mixture: the defensive part.
PLAIN = 0.05


@dataclass
class Found:
    """Result of one search: the mixture, the names of all ways tried, and the pilot's noise
    variance.
    """

    mixture: Mixture
    tried: list[str]
    heat: float


class Candidate(NamedTuple):
    """A way after a round: the log of its part of the error, the rounds it was fitted in (negative:
    made stronger so often), and the exponent of its tempered weights."""

    way: Way
    contribution: float
    age: int
    temper: float

    @property
    def settled(self) -> bool:
        return self.age >= 4 or (self.age >= 2 and self.temper > COLD)


def search(
    game: Game, key: int, rounds: int, plays: int, families: Sequence[dict[str, Any]] = ()
) -> Found:
    """One search; `key` numbers its streams. `rounds` cross-entropy rounds of `plays` plays each.

    `families`: ways to start from, as `Way.family` describes them; the hot pilot is left out then.
    """
    world = game.world
    natural = [game.play(key, 0, i, strict=True) for i in range(NATURAL_PLAYS)]
    wrong = sum(p.wrong for p in natural)
    limit = LONGER * max(p.source.pulls for p in natural) + 1
    game.max_pulls = limit if np.isinf(game.max_pulls) else max(game.max_pulls, limit)
    if wrong >= COMMON * NATURAL_PLAYS:
        return Found(Mixture(world, [], [], 1.0), [], 1.0)
    if families:
        pilot = cold_pilot(natural)
        ways = resumed_ways(world, pilot, families)
    else:
        pilot = run_pilot(game, key, natural, plays)
        ways = starting_ways(world, pilot, plays)
    tried = [way.name for way in ways]
    if not ways:
        return Found(Mixture(world, [], [], 1.0), [], pilot.heat)
    state = [Candidate(way, -np.inf, 0, 0.0) for way in ways]
    unknown = int(np.clip(plays * LEAST_SHARE, *LEAST))
    for r in range(rounds):
        contributions = np.array([c.contribution for c in state])
        # Equal shares at first: nothing is known of what the ways contribute.
        shares = _shares(contributions) if r > 1 else np.ones(len(state))
        least = np.where([c.settled for c in state], 2, unknown)
        mixture = Mixture(world, [c.way for c in state], shares, 0.0)
        samples = _sample(game, (key, 2, r), mixture, plays, least)
        state = _distinct(
            [n for f, c in enumerate(state) if (n := _next(c, f, samples)) is not None]
        )
        if not state:
            return Found(Mixture(world, [], [], 1.0), tried, pilot.heat)
        top = max(c.contribution for c in state)
        state = [c for c in state if c.contribution > top - NEGLIGIBLE or not c.settled]
    contributions = np.array([c.contribution for c in state])
    kept = (
        np.isfinite(contributions)
        if np.isfinite(contributions).any()
        else np.ones(len(state), dtype=np.bool_)
    )
    ways = [c.way for c, on in zip(state, kept, strict=True) if on]
    return Found(Mixture(world, ways, _shares(contributions[kept]), PLAIN), tried, pilot.heat)


def _next(c: Candidate, f: int, samples: list[Sample]) -> Candidate | None:
    """A candidate after a round in which it was number `f`; None if it is given up."""
    fit, contribution, temper = _refit(c.way, [s.moments[f] for s in samples if s.wrong], samples)
    own = [s.wrong for s in samples if s.way == f]
    if fit is not None:
        if fit.stop - fit.start == 1 and temper < COLD and all(own):
            # A tilt of one draw is best where about half of the plays are wrong; the fit gets there
            # too slowly, since none of a few plays is near the edge.
            fit = fit.stronger(0.85)
        # Part of the round before stays: a single round can miss a way.
        return Candidate(
            fit, float(np.logaddexp(contribution, c.contribution - 1.0)), max(c.age, 0) + 1, temper
        )
    if c.age <= -BOOSTS:
        return None
    # Too few wrong plays to fit it: once more, and stronger if there was none at all.
    return Candidate(c.way if any(own) else c.way.stronger(1.3), -np.inf, min(c.age, 0) - 1, 0.0)


def _shares(contributions: Floats) -> Floats:
    """Plays for each way, from the logs of the contributions."""
    top = contributions.max()
    if not np.isfinite(top):
        return np.ones(contributions.size)
    # A power below 1: contributions are estimates, and the price of too few plays is higher than
    # that of too many.
    weight = np.exp(0.7 * (contributions - top))
    return 0.8 * weight / weight.sum() + 0.2 / weight.size


def _distinct(new: list[Candidate]) -> list[Candidate]:
    """Without ways that have become the same as one that contributes more; in order of
    contribution.
    """
    kept: list[Candidate] = []
    for c in sorted(new, key=lambda c: -c.contribution):
        if not any(
            other.way.name == c.way.name
            and np.allclose(other.way.strength, c.way.strength, rtol=0, atol=0.1)
            for other in kept
        ):
            kept.append(c)
    return kept


# --- cross-entropy ---------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    """One play of a round: which way it was drawn from and, if it is wrong, ln dP/dQ and the
    moments for each way.
    """

    way: int
    wrong: bool
    log_weight: float = -np.inf
    moments: list[Moments] = field(default_factory=list)


def _sample(
    game: Game, key: tuple[int, ...], mixture: Mixture, plays: int, least: Ints
) -> list[Sample]:
    """About `plays` plays of the mixture, in fixed numbers for each way, and at least `least` (F,)
    of it.

    The mixture's shares are set to what was played.
    """
    counts = np.maximum(np.round(mixture.shares * plays), least).astype(np.int64)
    mixture.shares = (1 - mixture.plain) * counts / counts.sum()
    rng = game.rng(*key)
    samples = []
    for i, f in enumerate(np.repeat(np.arange(counts.size), counts)):
        _, tilts = mixture.pick(rng, int(f))
        play = game.play(*key, i, tilts=tilts)
        sample = Sample(int(f), play.wrong)
        if play.wrong:
            record = Record(game.world, play.source)
            log_ratio, parts = mixture.weigh(record)
            sample.log_weight = -log_ratio
            sample.moments = [
                record.moments(way, agents, np.exp(terms - log_ratio))
                for way, (agents, terms) in zip(mixture.ways, parts, strict=True)
            ]
        samples.append(sample)
    return samples


def _refit(
    way: Way, moments: list[Moments], samples: list[Sample]
) -> tuple[Way | None, float, float]:
    """The way fitted to the wrong plays it explains, the log of its part of the error, the exponent
    of tempering.
    """
    logs = np.array([s.log_weight for s in samples if s.wrong])
    parts = np.array([m.total for m in moments])
    mine = parts > 1e-3
    if mine.sum() < 2:
        return None, -np.inf, 0.0
    logs, parts = logs[mine], parts[mine]
    contribution = float(np.logaddexp.reduce(logs + np.log(parts))) - math.log(len(samples))
    weights, temper = _tempered(logs, parts)
    members = sum(w * m.members for w, m in zip(weights / parts, _only(moments, mine), strict=True))
    values = sum(w * m.values for w, m in zip(weights / parts, _only(moments, mine), strict=True))
    fit = way.fitted(np.asarray(values))
    return (None if fit is None else fit.with_members(np.asarray(members))), contribution, temper


def _only(moments: list[Moments], mask: np.ndarray) -> list[Moments]:
    return [m for m, on in zip(moments, mask, strict=True) if on]


def _tempered(logs: Floats, parts: Floats, share: float = 0.3) -> tuple[Floats, float]:
    """Weights parts·exp(t·logs), summing to 1, with the largest t ≤ 1 that leaves `share` of the
    plays effective; t.
    """

    def at(t: float) -> Floats:
        weights = parts * np.exp(t * (logs - logs.max()))
        return weights / weights.sum()

    target = min(max(5.0, share * logs.size), 0.9 / float((at(0.0) ** 2).sum()))
    if 1 / float((at(1.0) ** 2).sum()) >= target:
        return at(1.0), 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if 1 / float((at(middle) ** 2).sum()) >= target else (low, middle)
        )
    return at(low), low
