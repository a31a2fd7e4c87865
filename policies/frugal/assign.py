"""Programs with which agents find out where they belong: tests of one arm against what representatives reported.

An agent gets an arm and a bound, pulls, and answers with a symbol. `side_evidence` is all that correctness rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.ledger import ArmIndex, Flag, Payload, Symbol
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.policies.engines.track_and_stop import track_and_stop
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.sequential.boundaries import tuned_rho
from clustered_bandit_gym.policies.sequential.cells import Cells, make_cells
from clustered_bandit_gym.policies.sequential.scales import Scales

#: A reference that is first looked at after n pulls has a mixture with ρ = n/4. It is worth n/(1 + 1/4) pulls then and
#: more later, and costs ½ ln(1 + 16) nats at most, up to 4n pulls.
REFERENCE_RHO, MORE = 1 / 4, 4
REFERENCE_PRICE = 0.5 * np.log1p(MORE / REFERENCE_RHO)
#: Where ρ does not come from a grid.
UNUSED = Scales(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
#: What references are worth must be this many times what is needed.
SATURATION = 1.5
#: Batches: the first, as a part of the pulls expected; of what is missing; the least.
FIRST, PART, LEAST = 0.4, 0.6, 0.04
#: Guesses that an agent confirms or gives up before it finds its arm alone.
TRIES = 8
#: An agent gives a guess up when the likelihood of the opposite is this many nats ahead.
GIVE_UP = 5.0
#: Tests end after so many times the pulls expected.
PATIENCE = 10.0
#: Answers of a test.
BELOW, ABOVE, UNSURE = 0, 1, 2
#: A search stops once an arm is ahead of "as all others" by ln M and this many nats.
SEARCH_LEAD = 1.5
#: First batch of a search, in units of what tells a gap of η with one nat.
SEARCH_FIRST = 0.2


@dataclass(frozen=True)
class Trial:
    """What agents know before the first message.

    Attributes:
        ratio: references are worth this many times the pulls that an agent is expected to make.
        bounded: references are bounds on means, else averages.
        gap: if given, references are worth what a difference of `gap` asks for, whatever the difference is.
    """

    problem: Problem
    budget: Budget
    ratio: float
    bounded: bool = False
    gap: float | None = None

    def expected(self, level: float, gap: Floats) -> Floats:
        """Pulls that show a difference of `gap` at `level`, in units of σ², without the reference's noise."""
        return 2 * (level + 1.0) * (self.problem.sigma / gap) ** 2

    def reference_pulls(self, gap: Floats) -> Floats:
        """Pulls of a reference with which agents are to show a difference of `gap`."""
        if self.bounded:
            return 0.25 * self.ratio * self.expected(self.budget.classify(1), gap)
        return self.worth(gap) * (1 + REFERENCE_RHO)

    def worth(self, gap: Floats) -> Floats:
        """Pulls that a reference is worth at least, if agents are to show a difference of `gap`."""
        if self.bounded:
            return np.full(np.shape(gap), np.inf)
        gap = gap if self.gap is None else np.full(np.shape(gap), self.gap)
        return self.ratio * self.expected(self.budget.classify(1), gap)

    @property
    def reference_size(self) -> int:
        """Pulls of a reference where they are the same for all differences."""
        assert self.gap is not None
        return ceil(float(self.reference_pulls(np.array(self.gap))))

    def usable(self, gap: Floats) -> np.ndarray:
        """Whether a difference of `gap` can be shown with references that are worth that much: evidence saturates."""
        most = 0.5 * self.worth(gap) * (gap / self.problem.sigma) ** 2
        return (gap > 0) & (most >= SATURATION * (self.budget.classify(1) + 2.5))


def side_evidence(trial: Trial, cells: Cells, rows: Ints, bound: Floats, gap: Floats, up: np.ndarray) -> Floats:
    """(n,) evidence that the mean of the only cell of each row is above (`up`) or below a reference, in nats.

    `bound` is the reference's average, rounded to the agent's disadvantage, or a bound on its mean. The reference is
    worth at least `trial.worth(gap)` pulls. ρ is fixed by the message, before the agent's pulls.
    """
    first = np.zeros(rows.size, dtype=np.int64)
    if trial.bounded:
        return cells.side(rows, first, bound, up)
    level = trial.budget.classify(1)
    rho = tuned_rho(trial.expected(level, gap), np.exp(-level))
    return cells.side(rows, first, bound, up, worth=trial.worth(gap), rho=rho) - REFERENCE_PRICE


def node(
    block: Block, place: np.ndarray, low: Floats, gap: Floats, *_: np.ndarray, arms: Ints, trial: Trial
) -> Payload:
    """A node of a tree: is the agent's mean of an arm above those of the lower clusters, or below the upper ones'?

    Args:
        place: (n,) which of `arms`.
        low, gap: (n,) the lower clusters' references end at `low`, the upper ones' begin at `low + gap`.
    """
    level = trial.budget.classify(1, tests=max(1, trial.budget.n_clusters - 1))
    answer = _test(block, arms[place], low, gap, np.full(len(block), level), trial)
    return Symbol(answer, among=2 if trial.bounded else 3)


def begin_tries(block: Block) -> None:
    """No tries so far. Not a message: what an agent does when it sends its sketch."""
    block.save("tries", np.zeros(len(block), dtype=np.int64))


def confirm(
    block: Block, arm: np.ndarray, low: Floats, gap: Floats, _: np.ndarray, up: np.ndarray, trial: Trial
) -> Payload:
    """Whether the agent's mean of `arm` is shown above `low` (`up`), or below `−low`: references end there."""
    number = block.load("tries") + 1
    block.save("tries", number)
    level = np.array([trial.budget.classify(int(t)) for t in number])
    return Flag(_test(block, arm, low, gap, level, trial, up) == ABOVE)


def choose(block: Block, members: np.ndarray, low: Floats, *_: np.ndarray, trial: Trial) -> Payload:
    """The agent's best arm out of a list, (n, K) booleans, the same for all agents; `low` is η below the best means.

    It searches for the arm whose mean is above `low`, confirms it with fresh pulls, and after too many tries finds its
    best arm alone.
    """
    arms = np.flatnonzero(members[0])
    gap = np.full(len(block), trial.problem.eta)
    answer = np.full(len(block), -1)
    for number in range(1, TRIES + 1):
        rows = np.flatnonzero(answer < 0)
        if not rows.size:
            break
        part = block.part(rows)
        place = _search(part, arms, low[rows])
        level = np.full(rows.size, trial.budget.classify(number))
        up = np.ones(rows.size, dtype=bool)
        passed = _test(part, arms[place], low[rows], gap[rows], level, trial, up) == ABOVE
        answer[rows[passed]] = arms[place[passed]]
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
    n = len(block)
    cells = make_cells(trial.problem, block.values if trial.bounded else None, UNUSED, (n, 1))
    answer, todo = np.full(n, UNSURE), np.arange(n)
    column = np.zeros(n, dtype=np.int64)
    spread = 0.25 if trial.bounded else 1.0
    plan = np.maximum(1.0, spread * trial.expected(1.0, gap) * (level + 2) / 2.0)
    times = np.ceil(FIRST * plan).astype(np.int64)
    while todo.size:
        cells.pull(block, todo, column[todo], times[todo], arms[todo])
        sign = np.ones(todo.size) if up is None else np.where(up[todo], 1.0, -1.0)
        above = side_evidence(trial, cells, todo, sign * low[todo], gap[todo], sign > 0)
        best = above.copy()
        if up is None:
            below = side_evidence(trial, cells, todo, low[todo] + gap[todo], gap[todo], sign < 0)
            lost = below >= level[todo]
            best = np.maximum(best, below)
        else:
            variance = np.maximum(cells.variance()[todo, 0], 1e-12)
            lead = sign * cells.mean[todo, 0] - low[todo] - gap[todo] / 2
            lost = gap[todo] * cells.n[todo, 0] * lead / variance <= -GIVE_UP
        shown = above >= level[todo]
        answer[todo[lost]] = BELOW
        answer[todo[shown]] = ABOVE
        # Against bounds on means evidence grows without end; against averages it does not.
        tired = np.zeros(todo.size, dtype=bool) if trial.bounded else cells.n[todo, 0] > PATIENCE * plan[todo]
        go_on = ~shown & ~lost & ~tired
        todo, best = todo[go_on], best[go_on]
        share = np.clip(PART * (1 - best / level[todo]), LEAST, 0.5)
        times[todo] = np.ceil(share * np.maximum(plan[todo], cells.n[todo, 0])).astype(np.int64)
    return answer


def _search(block: Block, arms: Ints, low: Floats) -> Ints:
    """(n,) a place in `arms`: which of them has a mean of low + η rather than low? Guesswork."""
    p = block.problem
    assert p.eta is not None
    n, k = len(block), arms.size
    batch = max(1, int(np.ceil(SEARCH_FIRST * 2 * (p.sigma / p.eta) ** 2)))
    rows = np.arange(n)
    sums = block.pull(rows[:, None], arms[None, :], batch) * batch
    pulls = np.full((n, k), float(batch))
    answer, todo = np.zeros(n, dtype=np.int64), rows
    most = 64 * k * (p.sigma / p.eta) ** 2
    while todo.size:
        ratio = p.eta / p.sigma**2 * (sums[todo] - pulls[todo] * (low[todo] + p.eta / 2)[:, None])
        top = ratio.argmax(axis=1)
        answer[todo] = top
        done = ratio[np.arange(todo.size), top] >= np.log(k) + SEARCH_LEAD
        done |= pulls[todo].sum(axis=1) > most
        todo, top = todo[~done], top[~done]
        if todo.size:
            sums[todo, top] += block.pull(todo, arms[top], batch) * batch
            pulls[todo, top] += batch
    return answer
