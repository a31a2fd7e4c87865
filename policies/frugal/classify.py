"""Classification, the centre's side: three ways to put agents into clusters. What agents do is in `assign`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSet, Flag, Payload, Symbol
from clustered_bandit_gym.policies.frugal.assign import TRIES, alone, begin_tries, choose, confirm, node
from clustered_bandit_gym.policies.frugal.best_arms import Stuck
from clustered_bandit_gym.policies.frugal.messages import LIST_STEPS, bound_and_gap, lower_edge, upper_edge
from clustered_bandit_gym.policies.frugal.references import TreeReferences
from clustered_bandit_gym.policies.frugal.sides import ABOVE, BELOW
from clustered_bandit_gym.policies.frugal.sketch import Groups, Protocol, ask
from clustered_bandit_gym.policies.frugal.tree import Node
from clustered_bandit_gym.policies.frugal.trial import Trial

#: A guess that failed is this much further away than any other.
FAILED = 1e9


def by_tree(federation: Federation, protocol: Protocol, references: TreeReferences, trial: Trial, labels: Ints) -> None:
    """Lead the agents whose label is −1 down the tree and fill `labels` (N,) in; some may be left.

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
                p, np.full(agents.size, low), np.full(agents.size, high), trial.bounded, trial.spending
            )
            if sent is None or not references.serve(at, sent[1].values, trial):
                continue  # what agents would take for granted of the references is not true
            down = (Symbol(np.full(agents.size, at.place), among=protocol.arms.size), *sent)
            side = federation.local(agents, partial(node, arms=protocol.arms, trial=trial), down=down, n_arms=1)
            queue += [(at.left, agents[side == BELOW]), (at.right, agents[side == ABOVE])]


def by_guess(
    federation: Federation,
    protocol: Protocol,
    groups: Groups,
    best: Ints,
    references: tuple[Floats, Floats],
    trial: Trial,
    labels: Ints,
) -> None:
    """Let agents confirm what their sketches suggest; fill `labels` in, some may be left.

    For cluster x an agent first shows that its mean of x's best arm is above the references of all other clusters but
    a few; then, for each of these, that its mean of *their* best arm is below theirs.
    """
    p, m = federation.problem, best.size
    top, high = references
    plans = [_tests(x, top, high, trial) for x in range(m)]
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
        open_ = np.isfinite(far.min(axis=1, initial=np.inf)) if rest.size else np.zeros(0, dtype=bool)
        rest, far, step = rest[open_], far[open_], step[open_]
        if not rest.size:
            return
        guess = far.argmin(axis=1)
        tests = [(plans[x] or [])[s] for x, s in zip(guess.tolist(), step.tolist(), strict=True)]
        whose, up, low, above = (np.array(column) for column in zip(*tests, strict=True))
        # A test of "below" is one of "above" for negative numbers.
        sign = np.where(up, 1.0, -1.0)
        sent = bound_and_gap(p, sign * low, sign * above, False, trial.spending)
        if sent is None:
            return
        down = (ArmIndex(best[whose], among=p.n_arms), *sent[:2], Flag(up), *sent[2:])
        passed = federation.local(rest, partial(confirm, trial=trial), down=down, n_arms=1)
        step = np.where(passed, step + 1, 0)
        done = passed & (step == np.array([len(plans[x] or []) for x in guess.tolist()]))
        labels[rest[done]] = guess[done]
        far[np.flatnonzero(~passed), guess[~passed]] += FAILED
        rest, far, step = rest[~done], far[~done], step[~done]


def _tests(x: int, top: Floats, high: Floats, trial: Trial) -> list[tuple[int, bool, float, float]] | None:
    """Tests (whose best arm, above or below, reference, expected mean) that rule out every cluster but x; or None."""
    margin = top[x] - high[:, x]
    easy = trial.usable(margin) | (np.arange(top.size) == x)
    hard = np.flatnonzero(~easy)
    if not trial.usable(top[hard] - high[x, hard]).all():
        return None
    easy[x] = False
    first = [(x, True, float(high[easy, x].max()), float(top[x]))] if easy.any() else []
    return first + [(int(j), False, float(lower_edge(top[j])), float(high[x, j])) for j in hard]


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
    sent = bound_and_gap(p, low, low + p.eta, False, replace(trial.spending, bound_steps=LIST_STEPS))
    if sent is None:
        raise Stuck("eta is too small for a list")
    down: tuple[Payload, ...] = (_list(best, p.n_arms), sent[0], *sent[2:])
    arms[rest] = federation.local(rest, partial(choose, trial=trial), down=down, n_arms=best.size)
    return arms


def rest_alone(federation: Federation, arms: Ints, best: Ints, trial: Trial) -> None:
    """Agents without an arm (−1) find it alone, among those that can be best; fills `arms` in."""
    rest = np.flatnonzero(arms < 0)
    if rest.size:
        down = _list(best, federation.problem.n_arms)
        arms[rest] = federation.local(rest, partial(alone, trial=trial), down=down, n_arms=best.size)


def _list(best: Ints, n_arms: int) -> ArmSet:
    members = np.zeros(n_arms, dtype=bool)
    members[best] = True
    return ArmSet(members, at_most=best.size)
