"""Sequential tests of one arm at an agent against what representatives reported: an average, or bounds on a mean."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.policies.frugal.trial import SLACK, Trial, pulls_needed
from clustered_bandit_gym.policies.sequential.cells import make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales

#: In place of a grid of ρ where none is needed.
UNUSED = Scales(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
#: Answers of a test.
BELOW, ABOVE, UNSURE = 0, 1, 2
#: Batches: the first one, as a part of the pulls expected; the part of the missing pulls; the least batch, and its
#: growth from look to look, when few agents are left. Agents do not send between batches, so these cost time only: half
#: and twice change pulls by 1% at most.
FIRST, PART, LEAST, GROW = 0.45, 0.7, 0.02, 1.2
#: The same against bounds on means: the agent's mean is likely to be far inside, and the variance small.
FIRST_BOUNDED, LEAST_BOUNDED = 0.06, 0.04
#: An agent gives a guess up when the opposite is likelier by this many nats: a right guess is given up once in e^5 =
#: 150 times. 2.5 and 10 change pulls by less than 1%.
GIVE_UP = 5.0
#: Tests end after this many times the pulls expected: a mean between the two that a test is about is never shown on
#: either side. With 5 lists take 10% ± 5 more pulls, 20 changes nothing beyond noise.
PATIENCE = 10.0


def against_averages(
    block: Block,
    arms: Ints,
    low: Floats,
    gap: Floats,
    level: Floats | float,
    trial: Trial,
    up: np.ndarray | None = None,
) -> Ints:
    """(n,) `ABOVE` where the mean of `arms` is shown above `low`, `BELOW`, or `UNSURE`.

    Without `up` (a node): `BELOW` where the mean is shown below `low + gap`. With it (a guess): where `up` is False all
    signs are reversed, the mean is shown below `−low`; and `BELOW` means that the agent gave up, since a mean of `low`
    is far likelier than one of `low + gap`.
    """
    sigma = trial.problem.sigma
    tests = trial.sides(gap, level)
    answer = np.full(len(block), UNSURE)
    rows: Ints = np.arange(answer.size)
    sign: Floats = np.ones(rows.size) if up is None else np.where(up, 1.0, -1.0)
    # From here on in units of σ.
    low, gap = low / sigma, gap / sigma
    plan = np.maximum(1.0, 2 * (tests.level + SLACK) / gap**2)
    n: Floats = np.zeros(rows.size)
    mean, least = n, LEAST
    times = np.ceil(FIRST * plan)
    while rows.size:
        drawn = block.pull(rows, arms, times.astype(np.int64)) / sigma
        n = n + times
        mean = mean + (sign * drawn - mean) * (times / n)
        above, lost = mean - low, np.zeros(rows.size, dtype=bool)
        if up is None:
            # The nearer end has no chance where the farther one has none.
            lost = above < 0.5 * gap
            ahead = np.where(lost, gap - above, above)
            shown = tests.reaches(n, ahead)
            answer[rows[shown]] = np.where(lost, BELOW, ABOVE)[shown]
            done = shown
        else:
            ahead = above
            shown = tests.reaches(n, ahead)
            lost = gap * n * (above - 0.5 * gap) <= -GIVE_UP
            answer[rows[lost]] = BELOW
            answer[rows[shown]] = ABOVE
            done = shown | lost
        go_on = np.flatnonzero(~done & (n <= PATIENCE * plan))
        rows, arms = rows[go_on], arms[go_on]
        sign, low, gap, plan, n, mean, ahead = (
            values[go_on] for values in (sign, low, gap, plan, n, mean, ahead)
        )
        tests = tests.part(go_on)
        times = np.ceil(
            np.clip(PART * (tests.need(ahead) - n), least * plan, 0.5 * np.maximum(plan, n))
        )
        least = min(GROW * least, 0.5)
    return answer


def against_bounds(
    block: Block, arms: Ints, low: Floats, gap: Floats, level: float, trial: Trial
) -> Ints:
    """(n,) `ABOVE` where the mean of `arms` is shown above `low`, `BELOW` where below `low + gap`: bounds on means.

    Evidence for one of the two grows without end, so each agent gets an answer.
    """
    n, sigma = len(block), trial.problem.sigma
    cells = make_cells(trial.problem, block.values, UNUSED, (n, 1))
    answer, todo = np.full(n, UNSURE), np.arange(n)
    column = np.zeros(n, dtype=np.int64)
    times = np.ceil(
        FIRST_BOUNDED * np.maximum(1.0, 0.5 * (level + SLACK) * (sigma / gap) ** 2)
    ).astype(np.int64)
    while todo.size:
        cells.pull(block, todo, column[todo], times[todo], arms[todo])
        mean, variance = (
            cells.mean[todo, 0],
            np.maximum(cells.variance()[todo, 0], 1e-12 * sigma**2),
        )
        pulls, above = cells.n[todo, 0], mean - low[todo]
        lower = above < 0.5 * gap[todo]
        ahead = np.where(lower, gap[todo] - above, above)
        shown = 0.55 * pulls * ahead**2 >= level * variance
        at = todo[shown]
        if at.size:
            up = ~lower[shown]
            evidence = cells.side(at, column[at], low[at] + np.where(up, 0.0, gap[at]), up)
            shown[shown] = evidence >= level
        answer[todo[shown]] = np.where(lower, BELOW, ABOVE)[shown]
        go_on = ~shown
        todo, pulls = todo[go_on], pulls[go_on]
        need = pulls_needed(ahead[go_on] / np.sqrt(variance[go_on]), np.inf, level) - pulls
        times[todo] = np.ceil(np.clip(PART * need, LEAST_BOUNDED * pulls, 0.5 * pulls))
    return answer
