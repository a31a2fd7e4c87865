"""Programs with which agents find out where they belong: tests of one arm against what representatives reported.

An agent gets an arm and a bound, pulls, and answers with a symbol. `side_evidence` is all that correctness rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.ledger import ArmIndex, Flag, Payload, Symbol
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.engines.track_and_stop import track_and_stop
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.spending import FRUGAL, Spending
from clustered_bandit_gym.policies.sequential.cells import Cells, GaussianCells, make_cells
from clustered_bandit_gym.policies.sequential.gaussian import pair
from clustered_bandit_gym.policies.sequential.scales import Scales

#: Where ρ does not come from a grid.
UNUSED = Scales(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
#: A reference has at least the pulls that agents take for granted, and at most so many times as many.
MOST_PULLS = 4
#: What references are worth must be this many times what is needed.
SATURATION = 1.5
#: Batches: the first, as a part of the pulls expected; of what is missing; the least.
FIRST, PART, LEAST = 0.45, 0.7, 0.02
#: The first batch against bounds on means: the agent's mean is likely to be far inside, and the variance small.
FIRST_BOUNDED = 0.06
#: Nats that mixing costs, roughly: for plans only.
SLACK = 2.5
#: Guesses that an agent confirms or gives up before it finds its arm alone.
TRIES = 8
#: An agent gives a guess up when the likelihood of the opposite is this many nats ahead.
GIVE_UP = 5.0
#: Tests end after so many times the pulls expected.
PATIENCE = 10.0
#: Answers of a test.
BELOW, ABOVE, UNSURE = 0, 1, 2
#: A search takes small batches until an arm is ahead of "as all others" by ln M and this many nats.
SEARCH_LEAD = 2.0
#: The number sent is η below the *highest* best mean, and rounded up; arms are told apart at low and this many η.
SEARCH_MIDDLE = 0.45
#: The first pulls of every arm and further batches of a search, in units of what tells a gap of η with one nat. Batches
#: grow by half after so many of them.
SEARCH_FIRST, SEARCH_BATCH, SEARCH_GROW = 0.06, 0.2, 40


@dataclass(frozen=True)
class Trial:
    """What agents know before the first message.

    Attributes:
        ratio: references are worth this many times the pulls that an agent is expected to make.
        bounded: references are bounds on means, else averages.
        gap: if given, references are worth what a difference of `gap` asks for, whatever the difference is.
        spending: how precise messages are.
    """

    problem: Problem
    budget: Budget
    ratio: float
    bounded: bool = False
    gap: float | None = None
    spending: Spending = FRUGAL

    def expected(self, level: float, gap: Floats) -> Floats:
        """Pulls that show a difference of `gap` at `level`, in units of σ², without the reference's noise."""
        return 2 * (level + 1.0) * (self.problem.sigma / gap) ** 2

    def reference_pulls(self, gap: Floats) -> Floats:
        """Pulls that a reference has at least, if agents are to show a difference of `gap`."""
        gap = gap if self.gap is None else np.full(np.shape(gap), self.gap)
        return (0.25 if self.bounded else 1.0) * self.ratio * self.expected(self.budget.classify(1), gap)

    def widest(self, pulls: int) -> float:
        """The largest difference with which a reference of `pulls` pulls may be used: it has at most `MOST_PULLS` times
        what agents take for granted."""
        return float(
            self.problem.sigma * np.sqrt(MOST_PULLS * self.reference_pulls(np.array(self.problem.sigma)) / pulls)
        )

    @property
    def concentration(self) -> float:
        """Pulls of a reference over the ρ of its mixture: the same whatever the difference."""
        return 2 * self.budget.classify(1) / (1 + self.ratio)

    def own_rho(self, gap: Floats) -> Floats:
        """ρ of the mixture for the agent's own pulls, tuned to a difference of `gap`."""
        level = self.budget.classify(1)
        pulls, own = self.reference_pulls(gap), self.expected(level, gap)
        return own * (pulls + own) / (2 * level * pulls)

    @property
    def reference_size(self) -> int:
        """Pulls of a reference where they are the same for all differences."""
        assert self.gap is not None
        return ceil(float(self.reference_pulls(np.array(self.gap))))

    def usable(self, gap: Floats) -> np.ndarray:
        """Whether a difference of `gap` can be shown with references that are worth that much: evidence saturates."""
        most = 0.5 * self.reference_pulls(gap) * (gap / self.problem.sigma) ** 2
        return (gap > 0) & (most >= SATURATION * (self.budget.classify(1) + 2.5))


def side_evidence(trial: Trial, cells: Cells, rows: Ints, columns: Ints, bound: Floats, gap: Floats, up: Any) -> Floats:
    """(n,) evidence that the mean of cell (row, column) is above (`up`) or below a reference, in nats.

    `bound` is the reference's average of at least `trial.reference_pulls(gap)` pulls, rounded to the agent's
    disadvantage, or a bound on its mean. ρ is fixed by the message, before the agent's pulls.
    """
    if trial.bounded:
        return cells.side(rows, columns, bound, up)
    ahead = np.where(up, 1.0, -1.0) * (cells.mean[rows, columns] - bound) / trial.problem.sigma
    n, worth, own_rho = cells.n[rows, columns], trial.reference_pulls(gap), trial.own_rho(gap)
    evidence = pair(ahead, worth, n, worth / trial.concentration, own_rho)
    if trial.gap is not None:
        return evidence
    # The number of pulls that is taken for granted follows from the distance, hence from the reference itself. That is
    # allowed where evidence falls with the reference's mean at its average: docs/frugal-bai.md.
    share = trial.concentration / (1 + trial.concentration)
    steep = n**2 * ahead / (n + own_rho) >= np.sqrt(2 / np.pi * MOST_PULLS * worth * share)
    return np.where(steep, evidence, -np.inf)


def node(
    block: Block, place: np.ndarray, low: Floats, gap: Floats, *_: np.ndarray, arms: Ints, trial: Trial
) -> Payload:
    """A node of a tree: is the agent's mean of an arm above those of the lower clusters, or below the upper ones'?

    Args:
        place: (n,) which of `arms`.
        low, gap: (n,) the lower clusters' references end at `low`, the upper ones' begin at `low + gap`.
    """
    level = trial.budget.node(trial.bounded)
    answer = _test(block, arms[place], low, gap, np.full(len(block), level), trial)
    return Symbol(answer, among=2 if trial.bounded else 3)


def begin_tries(block: Block) -> None:
    """No tries so far. Not a message: what an agent does when it sends its sketch."""
    block.save("tries", np.zeros(len(block), dtype=np.int64))


def confirm(
    block: Block, arm: np.ndarray, low: Floats, gap: Floats, up: np.ndarray, *_: np.ndarray, trial: Trial
) -> Payload:
    """Whether the agent's mean of `arm` is shown above `low` (`up`), or below `−low`: references end there."""
    number = block.load("tries") + 1
    block.save("tries", number)
    level = np.array([trial.budget.guess(int(t)) for t in number])
    return Flag(_test(block, arm, low, gap, level, trial, up) == ABOVE)


def choose(block: Block, members: np.ndarray, low: Floats, *_: np.ndarray, trial: Trial) -> Payload:
    """The agent's best arm out of a list, (n, K) booleans, the same for all agents; `low` is η below the best means.

    It pulls the arm that is likeliest to have a mean of low + η rather than low, until one is shown above `low`. After
    too many pulls it finds its best arm alone.
    """
    p, arms = trial.problem, np.flatnonzero(members[0])
    assert p.eta is not None
    n, k, eta = len(block), arms.size, p.eta
    level = trial.budget.classify(1, tests=max(1, k - 1))
    unit = 2 * (p.sigma / eta) ** 2  # pulls that tell a gap of η with one nat
    first, batch = max(1, ceil(SEARCH_FIRST * unit)), max(1, ceil(SEARCH_BATCH * unit))
    cells = GaussianCells(p.sigma, UNUSED, np.zeros((n, k, 2)))
    row, column = (index.ravel() for index in np.indices((n, k)))
    cells.pull(block, row, column, np.full(row.size, first), arms[column])
    answer, todo, worth = np.full(n, -1), np.arange(n), float(trial.reference_pulls(np.array(eta)))
    # An agent that took part in the search for representatives begins with what it found then.
    hint = np.where((arms == block.load("found")[:, None]) & block.load("searched")[:, None], log(k) + SEARCH_LEAD, 0.0)
    most, looks = PATIENCE * unit * (k + level), 0
    while todo.size:
        looks += 1
        ratio = eta / p.sigma**2 * cells.n[todo] * (cells.mean[todo] - (low[todo] + SEARCH_MIDDLE * eta)[:, None])
        ratio += hint[todo]
        top = ratio.argmax(axis=1)
        shown = _reaches(trial, cells, todo, top, low[todo], np.full(todo.size, eta), np.ones(todo.size, bool), level)
        answer[todo[shown]] = arms[top[shown]]
        go_on = ~shown & (cells.n[todo].sum(axis=1) <= most)
        todo, top, lead = todo[go_on], top[go_on], ratio.max(axis=1)[go_on]
        if todo.size:
            pulls = cells.n[todo, top]
            ahead = (cells.mean[todo, top] - low[todo]) / p.sigma
            need = _need(ahead, worth, level) - pulls
            step = batch * 1.5 ** (looks // SEARCH_GROW)
            times = np.where(lead < log(k) + SEARCH_LEAD, step, np.clip(PART * need, LEAST * unit * level, unit * 4))
            cells.pull(block, todo, top, np.ceil(times).astype(np.int64), arms[top])
    rows = np.flatnonzero(answer < 0)
    if rows.size:
        answer[rows] = _alone(block.part(rows), arms, trial)
    return ArmIndex(answer, among=arms)


def alone(block: Block, members: np.ndarray, trial: Trial) -> Payload:
    """The agent's best arm out of a list (n, K), the same for all agents, found without anybody's help."""
    arms = np.flatnonzero(members[0])
    return ArmIndex(_alone(block, arms, trial), among=arms)


def _alone(block: Block, arms: Ints, trial: Trial) -> Ints:
    active, _ = track_and_stop(block, arms, trial.budget.alone())
    return arms[active.argmax(axis=1)]


def _test(
    block: Block,
    arms: Ints,
    low: Floats,
    gap: Floats,
    level: Floats,
    trial: Trial,
    up: np.ndarray | None = None,
) -> Ints:
    """(n,) `ABOVE` where the mean of `arms` is shown above `low`, `BELOW`, or `UNSURE`.

    Without `up` (a node): `BELOW` where the mean is shown below `low + gap`. With it (a guess): where `up` is False all
    signs are reversed, the mean is shown below `−low`; and `BELOW` means that the agent gave up, since a mean of `low`
    is far likelier than one of `low + gap`.
    """
    n, sigma = len(block), trial.problem.sigma
    cells = make_cells(trial.problem, block.values if trial.bounded else None, UNUSED, (n, 1))
    answer, todo = np.full(n, UNSURE), np.arange(n)
    column = np.zeros(n, dtype=np.int64)
    spread = 0.25 if trial.bounded else 1.0
    worth = np.full(n, np.inf) if trial.bounded else trial.reference_pulls(gap)
    plan = np.maximum(1.0, spread * 2 * (level + SLACK) * (sigma / gap) ** 2)
    times = np.ceil((FIRST_BOUNDED if trial.bounded else FIRST) * plan).astype(np.int64)
    side = np.ones(n) if up is None else np.where(up, 1.0, -1.0)
    while todo.size:
        cells.pull(block, todo, column[todo], times[todo], arms[todo])
        bound, far, sign, goal = low[todo], gap[todo], side[todo], level[todo]
        mean, variance = cells.mean[todo, 0], np.maximum(cells.variance()[todo, 0], 1e-12 * sigma**2)
        shown = _reaches(trial, cells, todo, column[todo], sign * bound, far, sign > 0, goal)
        ahead = sign * mean - bound
        if up is None:
            lost = _reaches(trial, cells, todo, column[todo], bound + far, far, sign < 0, goal)
            ahead = np.maximum(ahead, bound + far - mean)
        else:
            lost = far * cells.n[todo, 0] * (ahead - far / 2) / variance <= -GIVE_UP
        answer[todo[lost]] = BELOW
        answer[todo[shown]] = ABOVE
        # Against bounds on means evidence grows without end; against averages it does not.
        tired = np.zeros(todo.size, dtype=bool) if trial.bounded else cells.n[todo, 0] > PATIENCE * plan[todo]
        go_on = ~shown & ~lost & ~tired
        todo = todo[go_on]
        need = _need(ahead[go_on] / np.sqrt(variance[go_on]), worth[todo], level[todo]) - cells.n[todo, 0]
        size = cells.n[todo, 0] if trial.bounded else np.maximum(plan[todo], cells.n[todo, 0])
        least = 2 * LEAST * size if trial.bounded else LEAST * plan[todo]
        times[todo] = np.ceil(np.clip(PART * need, least, 0.5 * size))
    return answer


def _reaches(
    trial: Trial, cells: Cells, rows: Ints, columns: Ints, bound: Floats, gap: Floats, up: np.ndarray, level: Any
) -> np.ndarray:
    """(n,) whether `side_evidence` reaches `level`. It is worked out only where it may."""
    n = cells.n[rows, columns]
    ahead = np.where(up, 1.0, -1.0) * (cells.mean[rows, columns] - bound)
    level = np.broadcast_to(level, rows.shape)
    if trial.bounded:
        hope = (ahead > 0) & (0.55 * n * ahead**2 >= level * cells.variance()[rows, columns])
    else:
        # Mixing costs something, so what does not even reach the level without it is not looked at.
        worth = trial.reference_pulls(gap)
        hope = (ahead > 0) & (0.5 * (ahead / trial.problem.sigma) ** 2 * n * worth >= level * (n + worth))
    shown = np.zeros(rows.size, dtype=bool)
    if hope.any():
        evidence = side_evidence(trial, cells, rows[hope], columns[hope], bound[hope], gap[hope], up[hope])
        shown[hope] = evidence >= level[hope]
    return shown


def _need(ahead: Floats, worth: Any, level: Any) -> Floats:
    """Pulls that a difference of `ahead`, in units of σ, is likely to take against a reference of `worth` pulls."""
    short = np.maximum(ahead, 1e-9) ** 2 / (2 * (level + SLACK)) - 1 / np.asarray(worth)
    return 1 / np.maximum(short, 1e-12)
