"""Best arms of the representatives.

Correctness rests on the tests of `Cells`, which `race` calls, and on what `best_arms` concludes from
them: efforts and plans decide only how many pulls it takes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from clustered_bandit_gym._types import Bools, Floats, Ints
from clustered_bandit_gym.game.federation import Answer, Block, FederationView
from clustered_bandit_gym.game.payloads import ArmSubset, Flag, Symbol
from clustered_bandit_gym.policies.frugal.settings import SETTINGS, Levels, Stuck, recall, top_up
from clustered_bandit_gym.policies.sequential.cells import At, Cells, leader_pulls, leaders


def race(
    block: Block, cells: Cells, live: Bools, wanted: Bools, effort: Floats, levels: Levels
) -> None:
    """Decide every test that seems to take at most `effort` (R,) pulls of each of its two arms.

    Two sets (R, K) are changed. An arm leaves `live` when the leader is shown better, and `wanted`
    when it is shown close: less than η worse than every live arm.
    """
    rows = np.arange(len(block))
    while True:
        leader = leaders(cells.mean, live)
        top = (rows[:, None], leader[:, None])
        live &= ~cells.shows_worse(rows, leader, 0.0, levels.beaten, live)
        row, arm = np.nonzero(wanted)
        row, arm, left = cells.not_yet_close(row, arm, leader, live, levels.eta, levels.close)
        wanted[row, arm] = left.any(axis=1)
        hope = _pulls_of_tests(cells, live, wanted, top, levels)
        active = hope <= effort[:, None]
        # What is close to the leader waits for other live arms.
        waits = active[row, arm]
        np.logical_or.at(active, row[waits], left[waits])
        active[top] = False
        n = cells.n
        goal = np.where(active, n + np.clip(hope - n, SETTINGS.look * n, n), 0.0)
        most = leader_pulls(goal)
        goal[n > 1.5 * n[top] + 8] = 0.0  # these wait for the leader
        goal[top] = np.minimum(most[:, None], 2 * n[top] + 8)
        if not goal.any():
            return
        top_up(block, cells, goal)


def _pulls_of_tests(cells: Cells, live: Bools, wanted: Bools, top: At, levels: Levels) -> Floats:
    """(R, K) pulls of an arm and the leader that its test seems to take, huge if that has no end.

    `top`: the leaders' cells, (R, 1) each.
    """
    variance = cells.variance()
    error = variance / cells.n
    behind = cells.mean[top] - cells.mean
    # An arm takes part in two tests, worse than the leader and close to it; the easier one counts.
    worse = np.where(live, behind, -np.inf)
    worse[top] = -np.inf
    ahead = np.where(wanted, levels.eta - behind, -np.inf)
    level = np.where(worse >= ahead, levels.beaten, levels.close) + cells.slack
    # With a standard deviation of luck, the test may be over after so many pulls of both arms.
    gap = np.maximum(worse, ahead) + np.sqrt(error + error[top])
    return 2 * level * (variance + variance[top]) / np.maximum(gap, 1e-140) ** 2


def effort_of(code: Ints) -> Floats:
    """Pulls of an arm that a representative may make for a test: half as many again per code."""
    return 64.0 * np.power(1.5, code, dtype=float)


def explore(block: Block, together: Bools, _: Ints, levels: Levels) -> Answer:
    """A representative's first program: it races alone until few arms are live.

    If it works `together` (n,) with others, they can help where gaps are small. Otherwise it goes on
    until one arm is left. Sends live arms, beaten arms that may be close, and the effort reached.
    The last message to it is the number of the choice, which `levels` has as well.
    """
    codes = SETTINGS.codes
    help_from = np.inf
    few = 1
    if together[0]:
        help_from = 8 * levels.beaten * levels.noise**2
        few = max(8, block.problem.n_arms // 32)
    cells = recall(block, levels, levels.name)
    top_up(block, cells, 12)
    live = cells.n > 0
    code = np.zeros(len(block), dtype=int)
    more = code == 0
    while more.any():
        effort = effort_of(code)
        race(block, cells, live, np.zeros_like(live), effort, levels)
        more = (live.sum(axis=1) > few) & (code < codes - 1) & (effort < help_from)
        code += more
    top = np.where(live, cells.mean, -np.inf).max(axis=1, keepdims=True)
    near = ~live & (cells.mean + levels.eta > top) & together[0]
    block.save(levels.name, cells.memory)
    block.save(levels.name + " live", live)
    block.save(levels.name + " wanted", live | near)
    return ArmSubset(live), ArmSubset(near, within=~live), Symbol(code, among=codes)


def exchange(block: Block, out: Bools, dull: Bools, code: Ints, levels: Levels) -> Answer:
    """One exchange of facts at a representative, at the effort `code`.

    `out`, `dull` (n, K): arms that others have excluded, or whose closeness helps nobody any more.
    Sends arms newly close, arms newly beaten.
    """
    cells = recall(block, levels, levels.name)
    before = block.load(levels.name + " live") & ~out
    asked = block.load(levels.name + " wanted") & ~dull
    live = before.copy()
    wanted = asked.copy()
    race(block, cells, live, wanted, effort_of(code), levels)
    block.save(levels.name, cells.memory)
    block.save(levels.name + " live", live)
    block.save(levels.name + " wanted", wanted)
    return ArmSubset(asked & ~wanted, within=asked), ArmSubset(before & ~live, within=before)


def best_arms(federation: FederationView, reps: Ints, levels: Levels, together: bool) -> Ints:
    """(M,) best arms of the representatives.

    Arm k leaves the live set of x when it is beaten at x, or when some y ≠ x shows it less than η
    worse than every live arm there. The second needs x and y of different clusters (`together`):
    were k the best arm of x, it would be at least η worse than the best arm of y (Assumption 1).
    """
    codes = SETTINGS.codes
    down = Flag(together), Symbol(np.full(reps.size, levels.choice - 1), among=2 * codes)
    live, near, code = federation.local(reps, partial(explore, levels=levels), down=down)
    wanted = live | near
    close = np.zeros_like(live)
    for effort in range(code.min(), codes if together else 0):
        close |= live & (live.sum(axis=1, keepdims=True) == 1)
        told_live = live
        live = live & (close.sum(axis=0) <= close)  # close at no other one
        open_ = live & (live.sum(axis=1, keepdims=True) > 1)
        if not open_.any():
            break
        told_wanted = wanted
        wanted = wanted & (open_.sum(axis=0) > open_) & ~close  # open at another one
        busy = np.flatnonzero((open_ | wanted).any(axis=1))
        facts = (
            ArmSubset((told_live & ~live)[busy], within=told_live[busy]),
            ArmSubset((told_wanted & ~wanted)[busy], within=told_wanted[busy]),
            Symbol(np.full(busy.size, effort), among=codes),
        )
        program = partial(exchange, levels=levels)
        shown, beaten = federation.local(reps[busy], program, down=facts)
        close[busy] |= shown
        live[busy] &= ~beaten
        wanted[busy] &= ~shown
    best: Ints = live.argmax(axis=1)
    if np.any(live.sum(axis=1) != 1) or np.unique(best).size < reps.size:
        raise Stuck("two representatives have the same best arm, or one cannot find it")
    return best
