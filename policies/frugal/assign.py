"""Programs with which agents find their cluster: an agent gets an arm and a bound, pulls, and answers with a symbol."""

from __future__ import annotations

from math import ceil, log

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.ledger import ArmIndex, Flag, Payload, Symbol
from clustered_bandit_gym.policies.engines.track_and_stop import track_and_stop
from clustered_bandit_gym.policies.frugal.sides import (
    ABOVE,
    PATIENCE,
    against_averages,
    against_bounds,
)
from clustered_bandit_gym.policies.frugal.trial import Trial

#: What a message is about. Tests of a guess: the mean is above averages of a first stream; above those of a second one;
#: below the average of another cluster's own best arm. Or the agent is on its own.
OVER, OVER_WIDE, UNDER, ON_ITS_OWN = range(4)
#: Messages to an agent, each with one test of a guess, before it finds its arm alone. The right guess is usually among
#: the first. With random means 4 saves 5% of the communication and 16 adds 10%; pulls stay the same.
TRIES = 8
# The constants of the search for an arm of a list. For each of them, half and twice the value take at most 4% more
# pulls on flat means, the only family that needs lists (benchmarks/constants.py).
#: The search makes small batches until an arm leads "as all others" by ln M and this many nats.
SEARCH_LEAD = 2.0
#: The number sent is η below the *highest* best mean, and rounded up, so the middle between both means lies below η/2.
SEARCH_MIDDLE = 0.45
#: First pulls of every arm and later batches, in units of the pulls that tell a gap of η with one nat. Batches grow by
#: a factor from look to look, so that late agents take few steps.
SEARCH_FIRST, SEARCH_BATCH, SEARCH_FASTER = 0.06, 0.2, 1.03
#: Arms at most this many nats behind the leader are pulled with it.
SEARCH_NEAR = 0.3
#: Batches once an arm is believed: the part of the missing pulls to make, which leaves room for a correction, and the
#: least batch in units of the pulls that show a gap of η.
PART, LEAST = 0.7, 0.02


def node(
    block: Block,
    place: np.ndarray,
    low: Floats,
    gap: Floats,
    *_: np.ndarray,
    arms: Ints,
    trial: Trial,
) -> Payload:
    """A node of a tree: is the agent's mean of an arm above those of the lower clusters, or below the upper ones'?

    Args:
        place: (n,) which of `arms`.
        low, gap: (n,) the lower clusters' references end at `low`, the upper ones' begin at `low + gap`.
    """
    level = trial.budget.node(trial.bounded)
    test = against_bounds if trial.bounded else against_averages
    return Symbol(test(block, arms[place], low, gap, level, trial), among=2 if trial.bounded else 3)


def begin_tries(block: Block) -> None:
    """Set the number of tries to zero. No message: an agent does this when it sends its sketch."""
    block.save("tries", np.zeros(len(block), dtype=np.int64))


def confirm(
    block: Block,
    kind: np.ndarray,
    arm: np.ndarray,
    low: Floats,
    gap: Floats,
    *_: np.ndarray,
    trial: Trial,
) -> Payload:
    """Whether the agent's mean of `arm` is shown above `low`, where references end; below `−low` if `kind` is `UNDER`.

    `kind` (n,) also says how many pulls the references have at least.
    """
    number = block.load("tries") + 1
    block.save("tries", number)
    level = np.array([trial.budget.guess(t) for t in range(1, int(number.max(initial=1)) + 1)])[
        number - 1
    ]
    shown = np.zeros(len(block), dtype=bool)
    for worth, rows in (
        (trial, np.flatnonzero(kind == OVER)),
        (trial.wide, np.flatnonzero(kind != OVER)),
    ):
        if rows.size:
            up = kind[rows] != UNDER
            answer = against_averages(
                block.part(rows), arm[rows], low[rows], gap[rows], level[rows], worth, up
            )
            shown[rows] = answer == ABOVE
    return Flag(shown)


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
    tests = trial.sides(np.full(n, eta), level)
    # How much likelier a mean of low + η is than one of low, in nats, and pulls: by agent and arm.
    nats, middle = eta / p.sigma**2, low + SEARCH_MIDDLE * eta
    score = (
        nats * first * (block.pull(np.arange(n)[:, None], arms[None, :], first) - middle[:, None])
    )
    pulls: Floats = np.full((n, k), float(first))
    # An agent that took part in the search for representatives begins with what it found then.
    believed = log(k) + SEARCH_LEAD
    hint: Floats = np.zeros((n, k))
    hint[(arms == block.load("found")[:, None]) & block.load("searched")[:, None]] = believed
    score += hint
    answer = np.full(n, -1)
    rows: Ints = np.arange(n)
    spent: Floats = np.full(n, float(first * k))
    most, looks = PATIENCE * unit * (k + level), 0
    while rows.size:
        looks += 1
        at = score.argmax(axis=1)
        top = at + k * np.arange(rows.size)
        n_top, lead = pulls.take(top), score.take(top)
        ahead = ((lead - hint.take(top)) / (nats * n_top) + SEARCH_MIDDLE * eta) / p.sigma
        shown = tests.reaches(n_top, ahead)
        answer[rows[shown]] = arms[at[shown]]
        go_on = np.flatnonzero(~shown & (spent <= most))
        if go_on.size < rows.size:
            n_top, lead, ahead, middle, spent = (
                values[go_on] for values in (n_top, lead, ahead, middle, spent)
            )
            score, pulls, hint = score[go_on], pulls[go_on], hint[go_on]
            rows, tests = rows[go_on], tests.part(go_on)
        sure = np.clip(PART * (tests.need(ahead) - n_top), LEAST * unit * level, unit * 4)
        times = np.where(lead < believed, batch * SEARCH_FASTER**looks, sure)
        near = score >= np.where(lead < believed, lead - SEARCH_NEAR, lead)[:, None]
        at = np.flatnonzero(near)
        row, column = np.divmod(at, k)
        count = np.ceil(times)[row]
        drawn = block.pull(rows[row], arms[column], count.astype(np.int64))
        score.put(at, score.take(at) + nats * count * (drawn - middle[row]))
        pulls.put(at, pulls.take(at) + count)
        spent += near.sum(axis=1) * np.ceil(times)
    rows = np.flatnonzero(answer < 0)
    if rows.size:
        answer[rows] = _alone(block.part(rows), arms, trial)
    return ArmIndex(answer, among=arms)


def alone(block: Block, _: np.ndarray, members: np.ndarray, trial: Trial) -> Payload:
    """The agent's best arm out of a list (n, K), the same for all agents, identified alone."""
    arms = np.flatnonzero(members[0])
    return ArmIndex(_alone(block, arms, trial), among=arms)


def _alone(block: Block, arms: Ints, trial: Trial) -> Ints:
    active, _ = track_and_stop(block, arms, trial.budget.alone())
    return arms[active.argmax(axis=1)]
