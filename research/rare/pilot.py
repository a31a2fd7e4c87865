"""The pilot of a search: where a policy can be misled, and the ways to err that a search starts
from.

In a *hot* pilot the variance of the noise is raised until errors are common. What goes wrong there
shows which draws matter, how far ahead the rival was, and whether one agent or the first of its
cluster erred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats
from research.rare.game import Game, Played
from research.rare.source import WINDOWS
from research.rare.ways import Way, World, imposter, overtake, way_of

#: The pilot's heat is raised until this share of its plays is wrong.
HOT_ERRORS = (0.3, 0.7)
#: Wrong plays of the pilot that are enough: half of the plays of a round, within these limits; and
#: plays for each.
PILOT_ERRORS, PLAYS_PER_ERROR = (15, 50), 3
#: Ways in one search, at most, and single draws that the pilot may suggest: one for this many plays
#: of a round.
MOST_WAYS, MOST_DRAWS, PLAYS_PER_DRAW = 44, 8, 6
#: Plays of the pilot that settle whether the first agent of a cluster is special.
ENOUGH = 20
#: Policies with at most this many draws of an agent are searched draw by draw.
FEW_WINDOWS = 13
#: Plays of the pilot that the starting split of a way is worth.
CAUTION = 10
#: Draws before an agent may start to look like one of another cluster, for policies with more draws
#: than that.
LATER = (3, 5, 7, 9, 12)


@dataclass
class Pilot:
    """What the pilot plays showed.

    Attributes:
        heat: the noise variance they had.
        times: (WINDOWS,) mean pulls of an arm in one window of a natural play, where there are any.
        labels: window of the last pull of the best arm -> leads and shares of the wrong plays,
            first agents among them.
        used: windows that natural plays reach.
    """

    heat: float
    times: Floats
    used: int
    labels: dict[int, list[tuple[float, float, bool]]] = field(default_factory=dict)


def cold_pilot(natural: list[Played]) -> Pilot:
    """What plays without a tilt show: how many draws there are, and of how many pulls."""
    total = np.zeros(WINDOWS)
    cells = np.zeros(WINDOWS)
    for play in natural:
        times, _ = play.source.record(False)
        total += times.sum(axis=(0, 2))
        cells += (times > 0).sum(axis=(0, 2))
    used = int(np.flatnonzero(cells).max(initial=0)) + 1
    return Pilot(1.0, np.where(cells > 0, total / np.maximum(cells, 1), 0.0), used)


def run_pilot(game: Game, key: int, natural: list[Played], plays: int) -> Pilot:
    """Play the hot pilot; `natural` are plays without a tilt, `plays` those of a round of the
    search.
    """
    pilot = cold_pilot(natural)
    pilot.heat = _find_heat(game, key)
    found = 0
    enough = int(np.clip(plays // 2, *PILOT_ERRORS))
    for i in range(PLAYS_PER_ERROR * enough):
        play = game.play(key, 1, 1, i, heat=pilot.heat)
        if play.wrong and play.arms is not None:
            found += 1
            window, what = _culprit(game.world, play)
            pilot.labels.setdefault(window, []).append(what)
        if found >= enough:
            break
    return pilot


def _find_heat(game: Game, key: int, batch: int = 16) -> float:
    """A variance factor at which errors are common."""
    cold, hot, heat = 1.0, None, 4.0
    for step in range(30):
        wrong = _wrong_share(game, (key, 1, 0, step), heat, batch)
        if HOT_ERRORS[0] <= wrong <= HOT_ERRORS[1]:
            break
        if wrong < HOT_ERRORS[0]:
            cold = heat
            heat = 2 * heat if hot is None else math.sqrt(heat * hot)
        else:
            hot = heat
            heat = math.sqrt(cold * heat)
        if heat > 1e6 or (hot is not None and hot / cold < 1.1):
            break
    return heat


def _wrong_share(game: Game, key: tuple[int, ...], heat: float, batch: int) -> float:
    """Of `batch` hot plays, how many are wrong. Half of them settle it if they all end alike."""
    ends = [game.play(*key, i, heat=heat).wrong for i in range(batch // 2)]
    if 0 < sum(ends) < len(ends):
        ends += [game.play(*key, i, heat=heat).wrong for i in range(batch // 2, batch)]
    return sum(ends) / len(ends)


def _culprit(world: World, play: Played) -> tuple[int, tuple[float, float, bool]]:
    """Of the wrong agents, the one whose averages deviate most: its window, lead, share, and
    whether it came first.

    The window is the last one in which it pulled its best arm.
    """
    assert play.arms is not None
    instance = world.instance
    times, sums = play.source.record(False)
    agents = np.flatnonzero(~instance.is_best[instance.clusters, play.arms])
    best, answer = instance.agent_best_arms[agents], play.arms[agents]
    energy = np.where(times > 0, sums**2 / np.maximum(times, 1), 0.0)[agents].sum(axis=1)
    rows = np.arange(agents.size)
    a = int((energy[rows, best] + energy[rows, answer]).argmax())
    agent, b, k = agents[a], best[a], answer[a]
    pulled = np.flatnonzero(times[agent, :, b])
    window = int(pulled.max(initial=0))
    fall, rise = (
        float(sums[agent, window, arm] / times[agent, window, arm])
        if times[agent, window, arm] > 0
        else 0.0
        for arm in (b, k)
    )
    means = instance.means[instance.clusters[agent]]
    lead = rise - fall - float(means[b] - means[k])
    share = float(np.clip(-fall / (rise - fall), 0.0, 1.0)) if rise > fall else 0.5
    return window, (lead, share, bool(play.source.ranks[agent] == 0))


def starting_ways(world: World, pilot: Pilot, plays: int) -> list[Way]:
    """From the pilot, most frequent first, and from the library; `plays` of a round are divided
    among them.
    """
    ways: list[Way | None] = []
    gaps = world.instance.gaps[world.sizes > 0]
    nearest = float(gaps.min())
    rows = [row for rows in pilot.labels.values() for row in rows]
    everything = float(pilot.times.sum())
    leads = [lead for lead, _, _ in rows if lead > -nearest]
    typical = sorted(set(np.quantile(leads, [0.1, 0.5, 0.9]).tolist())) if leads else []
    # Drifts from the first draw on: policies that keep their samples.
    for lead in [*typical, 0.3 * nearest, nearest, 3 * nearest]:
        for first in _roles(world, rows):
            ways.append(
                overtake(world, lead, 0.5, (0, WINDOWS), first=first, gated=True, times=everything)
            )
    # Single draws: policies that begin each round with fresh samples. Where the pilot saw nothing,
    # the lead is guessed from the other draws: a test of n pulls resolves differences in proportion
    # to 1/√n.
    order = sorted(pilot.labels, key=lambda w: -len(pilot.labels[w]))
    likely = order[: int(np.clip(plays // PLAYS_PER_DRAW, 1, MOST_DRAWS))]
    resolved = [
        float(np.median([lead for lead, _, _ in pilot.labels[w]])) * math.sqrt(pilot.times[w])
        for w in order
        if pilot.times[w] > 0
    ]
    for window in [*likely, *(w for w in _spread(pilot.used) if w not in likely)]:
        here = pilot.labels.get(window, [])
        times = float(pilot.times[window]) or float(pilot.times.max())
        if here:
            lead = float(np.median([lead for lead, _, _ in here]))
        else:
            lead = float(np.median(resolved)) / math.sqrt(times) if resolved else nearest
        # Half of the way for each of the two arms, the cheapest split for equally many pulls,
        # unless the pilot has many plays that say otherwise.
        share = (sum(share for _, share, _ in here) + 0.5 * CAUTION) / (len(here) + CAUTION)
        for first in _roles(world, here):
            ways.append(
                overtake(
                    world, lead, share, (window, window + 1), first=first, gated=False, times=times
                )
            )
    # Agents mistaken for members of another cluster.
    for part in (0.5, 1.0):
        ways.append(imposter(world, part, (0, WINDOWS), first=False, gated=False, times=everything))
    # A policy with many draws may first learn the clusters and then place the agents: what was
    # drawn before the test does not count in it, and need not be tilted.
    for later in (w for w in LATER if pilot.used > FEW_WINDOWS):
        times = float(pilot.times[later:].sum())
        ways.append(imposter(world, 1.0, (later, WINDOWS), first=False, gated=False, times=times))
    for window in order[:3]:
        times = float(pilot.times[window]) or float(pilot.times.max())
        ways.append(
            imposter(world, 0.5, (window, window + 1), first=False, gated=False, times=times)
        )
    return [way for way in ways if way is not None][:MOST_WAYS]


def resumed_ways(world: World, pilot: Pilot, families: Sequence[dict[str, Any]]) -> list[Way]:
    """Ways that were found elsewhere, for instance at another δ."""
    ways = [way_of(world, f, float(pilot.times[f["start"] : f["stop"]].sum())) for f in families]
    return [way for way in ways if way is not None][:MOST_WAYS]


def _roles(world: World, rows: list[tuple[float, float, bool]]) -> tuple[bool, ...]:
    """Any agent; and the first of its cluster separately, unless many plays show that it errs no
    more than others.
    """
    if world.sizes.max() <= 1:
        return (False,)
    expected = len(rows) * (world.sizes > 0).sum() / world.sizes.sum()
    return (
        (False,)
        if len(rows) >= ENOUGH and sum(f for _, _, f in rows) <= 1.3 * expected
        else (False, True)
    )


def _spread(used: int) -> range:
    """Windows to look at without a hint of the pilot: all of them, if there are few."""
    return range(used) if used <= FEW_WINDOWS else range(0)
