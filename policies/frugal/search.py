"""Discovery where arms other than the best ones tell nothing: agents look for their best arm, and name it."""

from __future__ import annotations

from math import ceil, log

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, Payload
from clustered_bandit_gym.policies.frugal.best_arms import Stuck

#: A batch, in units of what tells a gap of η with one nat.
BATCH = 0.35
#: An agent stops once an arm is ahead of all others by ln K and this many nats: a wrong one among representatives
#: costs an attempt.
LEAD = 12.0
#: Searches that take this many times as long as they should end with the arm that leads.
PATIENCE = 40.0
#: An attempt gives up where a search would take more pulls than this.
MOST = 1e8


def look(block: Block) -> Payload:
    """The arm that seems to be the best: η above the average of all others. It is sent and remembered as "found"."""
    p = block.problem
    assert p.eta is not None
    n, k, rows = len(block), p.n_arms, np.arange(len(block))
    batch = max(1, ceil(BATCH * 2 * (p.sigma / p.eta) ** 2))
    sums = block.pull_grid(batch) * batch
    pulls = np.full((n, k), float(batch))
    answer, todo = sums.argmax(axis=1), rows
    most = PATIENCE * k * batch
    while todo.size:
        s, c, i = sums[todo], pulls[todo], np.arange(todo.size)
        top = (s - c * (s.sum(axis=1) / c.sum(axis=1))[:, None]).argmax(axis=1)
        base = (s.sum(axis=1) - s[i, top]) / np.maximum(c.sum(axis=1) - c[i, top], 1)
        ratio = p.eta / p.sigma**2 * (s - c * (base[:, None] + p.eta / 2))
        top = ratio.argmax(axis=1)
        answer[todo] = top
        done = (ratio[i, top] >= log(k) + LEAD) | (c.sum(axis=1) > most)
        todo, top = todo[~done], top[~done]
        if todo.size:
            sums[todo, top] += block.pull(todo, top, batch) * batch
            pulls[todo, top] += batch
    block.save("found", answer)
    return ArmIndex(answer, among=k)


def search(federation: Federation) -> Ints:
    """(M,) agents, increasing ids, that named M different arms."""
    p = federation.problem
    assert p.n_clusters is not None
    assert p.eta is not None
    if p.n_arms < 2 or 2 * p.n_arms * (p.sigma / p.eta) ** 2 > MOST:
        raise Stuck("a search for the best arm would take too long")
    order = federation.rng.permutation(p.n_agents)
    named: dict[int, int] = {}
    drawn = 0
    while len(named) < p.n_clusters and drawn < p.n_agents:
        part = np.sort(order[drawn : drawn + (2 if drawn == 0 else 1) * p.n_clusters])
        drawn += part.size
        for agent, arm in zip(part.tolist(), federation.local(part, look).tolist(), strict=True):
            if len(named) < p.n_clusters:
                named.setdefault(arm, agent)
    if len(named) < p.n_clusters:
        raise Stuck("fewer best arms are named than there are clusters")
    return np.sort(np.array(list(named.values())))
