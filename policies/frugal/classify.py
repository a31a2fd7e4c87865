"""Classification, the centre's side: three ways to put agents into clusters. What agents do is in `assign`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSet, Payload, Symbol
from clustered_bandit_gym.policies.frugal.assign import (
    ON_ITS_OWN,
    OVER,
    OVER_WIDE,
    TRIES,
    UNDER,
    alone,
    begin_tries,
    choose,
    confirm,
    node,
)
from clustered_bandit_gym.policies.frugal.best_arms import Stuck
from clustered_bandit_gym.policies.frugal.messages import (
    LIST_STEPS,
    bound_and_gap,
    lower_edge,
    upper_edge,
)
from clustered_bandit_gym.policies.frugal.references import BestReferences, TreeReferences
from clustered_bandit_gym.policies.frugal.sides import ABOVE, BELOW
from clustered_bandit_gym.policies.frugal.sketch import Groups, Protocol, ask
from clustered_bandit_gym.policies.frugal.tree import Node
from clustered_bandit_gym.policies.frugal.trial import Trial

#: Added to the distance of a guess that failed: more than any distance between codes.
FAILED = 1e9


def by_tree(
    federation: Federation,
    protocol: Protocol,
    references: TreeReferences,
    trial: Trial,
    labels: Ints,
) -> None:
    """Lead the agents whose label is −1 down the tree and fill in `labels` (N,); some may stay −1.

    At a node an agent gets an arm, the highest reference of the lower clusters and the distance to the lowest one of
    the upper clusters, and answers on which side it is.
    """
    p = federation.problem
    queue: list[tuple[Node | int, Ints]] = [(references.tree, np.flatnonzero(labels < 0))]
    while queue:
        at, agents = queue.pop()
        if isinstance(at, int):
            labels[agents] = at
        elif agents.size:
            low, high = references.between(at, trial)
            sent = bound_and_gap(
                p,
                np.full(agents.size, low),
                np.full(agents.size, high),
                trial.bounded,
                trial.spending,
            )
            assert sent is not None, "references were accepted without it"
            # One more code: the agent is on its own.
            down = (Symbol(np.full(agents.size, at.place), among=protocol.arms.size + 1), *sent)
            side = federation.local(
                agents, partial(node, arms=protocol.arms, trial=trial), down=down, n_arms=1
            )
            queue += [(at.left, agents[side == BELOW]), (at.right, agents[side == ABOVE])]


def by_guess(
    federation: Federation,
    protocol: Protocol,
    groups: Groups,
    best: Ints,
    references: BestReferences,
    trial: Trial,
    labels: Ints,
) -> None:
    """Let agents confirm the guesses of their sketches and fill in `labels`; some may stay −1.

    For cluster x an agent first shows that its mean of x's best arm is above the references of all other clusters but
    a few; then, for each of these, that its mean of *their* best arm is below theirs.
    """
    p, m = federation.problem, best.size
    plans = [_tests(x, references, trial) for x in range(m)]
    rest = np.flatnonzero(labels < 0)
    codes = groups.codes.copy()
    new = rest[np.isnan(codes[rest, 0])]
    if new.size:
        codes[new], _ = ask(federation, protocol, new, groups.stage)
    far: Floats = ((codes[rest][:, None] - groups.centroid) ** 2).sum(axis=2)
    far[:, [x for x in range(m) if plans[x] is None]] = np.inf
    federation.local(rest, begin_tries, n_arms=1)
    step = np.zeros(rest.size, dtype=np.int64)
    for _ in range(TRIES):
        open_ = (
            np.isfinite(far.min(axis=1, initial=np.inf)) if rest.size else np.zeros(0, dtype=bool)
        )
        rest, far, step = rest[open_], far[open_], step[open_]
        if not rest.size:
            return
        guess = far.argmin(axis=1)
        tests = [(plans[x] or [])[s] for x, s in zip(guess.tolist(), step.tolist(), strict=True)]
        kind, whose, low, above = (np.array(column) for column in zip(*tests, strict=True))
        sent = bound_and_gap(p, low, above, False, trial.spending)
        assert sent is not None, "plans have no test that cannot be sent"
        down = (Symbol(kind, among=ON_ITS_OWN + 1), ArmIndex(best[whose], among=p.n_arms), *sent)
        passed = federation.local(rest, partial(confirm, trial=trial), down=down, n_arms=1)
        step = np.where(passed, step + 1, 0)
        done = passed & (step == np.array([len(plans[x] or []) for x in guess.tolist()]))
        labels[rest[done]] = guess[done]
        far[np.flatnonzero(~passed), guess[~passed]] += FAILED
        rest, far, step = rest[~done], far[~done], step[~done]


def _tests(
    x: int, references: BestReferences, trial: Trial
) -> list[tuple[int, int, float, float]] | None:
    """Tests (kind, whose best arm, reference, expected mean) that rule out every cluster but x; None if there are none.

    A test of "below" is one of "above" for negative numbers.
    """
    top, high, second = references.top, references.high, bool(references.second[x])
    easy = (trial.wide if second else trial).usable(top[x] - high[:, x]) | (
        np.arange(top.size) == x
    )
    hard = np.flatnonzero(~easy)
    if not trial.wide.usable(top[hard] - high[x, hard]).all():
        return None
    easy[x] = False
    tests = [(UNDER, int(j), -float(lower_edge(top[j])), -float(high[x, j])) for j in hard]
    if easy.any():
        tests.insert(
            0, (OVER_WIDE if second else OVER, x, float(high[easy, x].max()), float(top[x]))
        )
    for _, _, low, above in tests:
        if (
            bound_and_gap(trial.problem, np.array([low]), np.array([above]), False, trial.spending)
            is None
        ):
            return None
    return tests


def by_list(federation: Federation, reps: Ints, best: Ints, top: Floats, trial: Trial) -> Ints:
    """(N,) best arms: every agent gets the list of them and finds its own, by Assumption 1.

    An agent of another cluster than x has, on the best arm of x, a mean that is at least η below its own best mean.
    """
    p = federation.problem
    assert p.eta is not None
    arms = np.full(p.n_agents, -1)
    arms[reps] = best
    rest = np.flatnonzero(arms < 0)
    if not rest.size:
        return arms
    low = np.full(rest.size, upper_edge(top).max() - p.eta)
    sent = bound_and_gap(
        p, low, low + p.eta, False, replace(trial.spending, bound_steps=LIST_STEPS)
    )
    if sent is None:
        raise Stuck("eta is too small for a list")
    down: tuple[Payload, ...] = (_list(best, p.n_arms), sent[0], *sent[2:])
    arms[rest] = federation.local(rest, partial(choose, trial=trial), down=down, n_arms=best.size)
    return arms


def rest_alone(federation: Federation, arms: Ints, best: Ints, trial: Trial, codes: int) -> None:
    """Agents without an arm (−1) find it alone, among those that can be best; fills `arms` in.

    The messages that they would get otherwise begin with one of `codes` symbols; the next one tells them so.
    """
    rest = np.flatnonzero(arms < 0)
    if rest.size:
        down = (
            Symbol(np.full(rest.size, codes), among=codes + 1),
            _list(best, federation.problem.n_arms),
        )
        arms[rest] = federation.local(
            rest, partial(alone, trial=trial), down=down, n_arms=best.size
        )


def _list(best: Ints, n_arms: int) -> ArmSet:
    members = np.zeros(n_arms, dtype=bool)
    members[best] = True
    return ArmSet(members, at_most=best.size)
