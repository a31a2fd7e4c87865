"""Best arms of the representatives: tests of two arms at growing effort, and facts that travel.

Correctness rests on the calls of `shows` and `shows_worse` alone. What is pulled when is a plan.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.payloads import ArmSubset, Flag, Payload, Symbol
from clustered_bandit_gym.policies.frugal.memory import Stuck, recall, top_up
from clustered_bandit_gym.policies.frugal.settings import Levels
from clustered_bandit_gym.policies.sequential.cells import Cells

# --- at the representatives -----------------------------------------------------------------------


def race(
    block: Block, cells: Cells, live: np.ndarray, wanted: np.ndarray, effort: Floats, levels: Levels
) -> np.ndarray:
    """Decide every test that seems to take at most `effort` (R,) pulls of each of its two arms.

    An arm leaves `live` (R, K), which is changed, when the leader is shown better.
    Returns (R, K) the arms of `wanted` that are shown close: less than η worse than every live arm.
    """
    rows = np.arange(len(block))
    close = np.zeros_like(live)
    while True:
        leader = np.where(live, cells.mean, -np.inf).argmax(axis=1)
        live &= ~cells.shows_worse(rows, leader, 0.0, levels.beaten, live)
        row, arm, left = _closeness(cells, live, wanted & ~close, leader, levels)
        done = ~left.any(axis=1)
        close[row[done], arm[done]] = True
        goal = _plan(cells, live, wanted & ~close, (row, arm, left), leader, effort, levels)
        if not goal.any():
            return close
        top_up(block, cells, goal)


def _closeness(
    cells: Cells, live: np.ndarray, wanted: np.ndarray, leader: Ints, levels: Levels
) -> tuple[Ints, Ints, np.ndarray]:
    """Arms of `wanted` that are close to the leader: (P,) rows and arms.

    With each, (P, K) the other live arms that it is not yet shown close to.
    """
    eta, level = levels.eta, levels.close
    top = np.take_along_axis(cells.mean, leader[:, None], axis=1)
    row, arm = np.nonzero(wanted & (cells.mean + eta > top))
    # The leader is the hardest to be close to, for most arms: it is tried first.
    near = cells.shows(row, leader[row], row, arm, eta, level) | (arm == leader[row])
    row, arm = row[near], arm[near]
    left = live[row]
    left[np.arange(row.size), arm] = False
    left &= ~cells.shows_worse(row, arm, eta, level, left)
    return row, arm, left


def _plan(
    cells: Cells,
    live: np.ndarray,
    wanted: np.ndarray,
    nearly: tuple[Ints, Ints, np.ndarray],
    leader: Ints,
    effort: Floats,
    levels: Levels,
) -> Floats:
    """(R, K) pulls that cells should have next; 0 for arms whose tests take more than `effort`."""
    n, mean, variance = cells.n, cells.mean, cells.variance()
    rows = np.arange(leader.size)
    rival = live.copy()
    rival[rows, leader] = False
    top = mean[rows, leader][:, None]
    both = variance + variance[rows, leader][:, None]
    noise = np.sqrt(variance / n + (variance / n)[rows, leader][:, None])
    # An arm takes part in two tests, worse than the leader and close to it; the easier one counts.
    worse = np.where(rival, top - mean, -np.inf)
    ahead = np.where(wanted, mean + levels.eta - top, -np.inf)
    gap = np.maximum(worse, ahead)
    level = np.where(worse >= ahead, levels.beaten, levels.close) + cells.slack
    # With a standard deviation of luck, the test may be over after so many pulls of both arms.
    hope = 2 * level * both / np.maximum(gap + noise, 1e-140) ** 2
    active = (rival | wanted) & (gap + noise > 0) & (hope <= effort[:, None])
    # What is close to the leader waits for other live arms.
    row, arm, left = nearly
    waits = active[row, arm]
    np.logical_or.at(active, row[waits], left[waits])
    active[rows, leader] = False
    goal = np.where(active, n + np.clip(hope - n, levels.settings.look * n, n), 0.0)
    # The leader is compared with all others: √Σn² makes the sum of all pulls least.
    n_leader = n[rows, leader]
    goal_leader = np.minimum(np.sqrt((goal**2).sum(axis=1)), 2 * n_leader + 8)
    goal[n > 1.5 * n_leader[:, None] + 8] = 0.0  # these wait for the leader
    goal[rows, leader] = goal_leader
    return goal


def effort_of(code: Ints, levels: Levels) -> Floats:
    """Pulls of an arm that a representative may make for a test, for an effort's code."""
    return 64.0 * levels.settings.effort ** code.astype(np.float64)


def explore(
    block: Block, _: np.ndarray, name: str, levels: Levels, few: int
) -> tuple[Payload, ...]:
    """A representative's first program: it races alone until no more than `few` arms are live.

    Sends these, beaten arms that may be close, and the effort reached.
    """
    s, p = levels.settings, block.problem
    cells = recall(block, name, levels, p.n_arms)
    top_up(block, cells, np.full(cells.n.shape, float(s.start)))
    live = np.ones(cells.n.shape, dtype=bool)
    code = np.zeros(len(block), dtype=np.int64)
    # Others can help where gaps are small; without them (few = 1) there is no end.
    help_from = 4 * (levels.beaten + cells.slack) * (p.sigma / levels.eta) ** 2
    more = np.ones(len(block), dtype=bool)
    while more.any():
        effort = effort_of(code, levels)
        race(block, cells, live, np.zeros_like(live), effort, levels)
        more = (live.sum(axis=1) > few) & (code < s.codes - 1)
        more &= (effort < help_from) | (few == 1)
        code += more
    block.save(name, cells.memory)
    block.save(name + " live", live)
    top = np.where(live, cells.mean, -np.inf).max(axis=1, keepdims=True)
    near = ~live & (cells.mean + levels.eta > top) & (few > 1)
    block.save(name + " wanted", live | near)
    return ArmSubset(live), ArmSubset(near, within=~live), Symbol(code, among=s.codes)


def exchange(
    block: Block, out: np.ndarray, dull: np.ndarray, code: int, name: str, levels: Levels
) -> tuple[Payload, ...]:
    """One exchange of facts, at the effort `code`.

    Down: arms that others have excluded, arms whose closeness helps nobody any more (n, K).
    Up: arms newly close, arms newly beaten.
    """
    cells = recall(block, name, levels, block.problem.n_arms)
    before = block.load(name + " live") & ~out
    wanted = block.load(name + " wanted") & ~dull
    live = before.copy()
    effort = effort_of(np.full(len(block), code), levels)
    close = race(block, cells, live, wanted, effort, levels)
    block.save(name, cells.memory)
    block.save(name + " live", live)
    block.save(name + " wanted", wanted & ~close)
    return ArmSubset(close, within=wanted), ArmSubset(before & ~live, within=before)


# --- at the centre --------------------------------------------------------------------------------


def listen(block: Block, news: np.ndarray) -> None:
    """Agents take note of a number: the effort of the first exchange, or which attempt it is."""


def best_arms(
    federation: Federation, reps: Ints, name: str, levels: Levels, together: bool
) -> Ints:
    """(M,) best arms of the representatives.

    Arm k leaves the live set of x when it is beaten at x, or when some y ≠ x shows it less than η
    worse than every live arm there. The second is used only if x and y are known to be of different
    clusters (`together`): then Assumption 1 says that k, if it were the best arm of x, would be at
    least η worse than the best arm of y.
    """
    settings = levels.settings
    few = max(settings.settle, federation.problem.n_arms // 32) if together else 1
    program = partial(explore, name=name, levels=levels, few=few)
    live, near, code = federation.local(reps, program, down=Flag(together))
    live = live.copy()
    if together:
        first = int(code.min())
        down = Symbol(np.full(reps.size, first), among=settings.codes)
        federation.local(reps, listen, down=down, n_arms=1)
        _exchange_facts(federation, reps, name, levels, live, live | near, first)
    best = live.argmax(axis=1)
    if np.unique(best).size < reps.size or np.any(live.sum(axis=1) > 1):
        raise Stuck("two representatives have the same best arm, or cannot find it")
    return np.asarray(best)


def _exchange_facts(
    federation: Federation,
    reps: Ints,
    name: str,
    levels: Levels,
    live: np.ndarray,
    wanted: np.ndarray,
    first: int,
) -> None:
    """Exchange facts until every representative has one arm in `live` (M, K), which is changed.

    `wanted` (M, K) are arms whose closeness could exclude them elsewhere.
    """
    close = np.zeros_like(live)
    for code in range(first, levels.settings.codes):
        told_live, told_wanted = live.copy(), wanted.copy()
        close |= live & (live.sum(axis=1) == 1)[:, None]
        live &= (close.sum(axis=0) - close) == 0
        if not live.any(axis=1).all():
            raise Stuck("a representative has no arm left")
        open_ = live & (live.sum(axis=1) > 1)[:, None]
        if not open_.any():
            return
        wanted &= ((open_.sum(axis=0) - open_) > 0) & ~close
        busy = np.flatnonzero(open_.any(axis=1) | wanted.any(axis=1))
        down = (
            ArmSubset((told_live & ~live)[busy], within=told_live[busy]),
            ArmSubset((told_wanted & ~wanted)[busy], within=told_wanted[busy]),
        )
        program = partial(exchange, code=code, name=name, levels=levels)
        shown, beaten = federation.local(reps[busy], program, down=down)
        close[busy] |= shown
        live[busy] &= ~beaten
        wanted[busy] &= ~shown
