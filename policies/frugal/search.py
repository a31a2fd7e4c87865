"""Discovery where only best arms tell clusters apart: agents search for their best arm and name it."""

from __future__ import annotations

from math import ceil, log

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.game.block import Block
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import ArmIndex, ArmSet, Flag, Payload
from clustered_bandit_gym.policies.frugal.best_arms import Stuck

# Half and twice of FIRST, BATCH, NEAR and LEAD give the same pulls on flat means, the only family that needs a search,
# beyond noise (15%).
#: First pulls of every arm and later batches, in units of the pulls that tell a gap of η with one nat. Batches grow by
#: a factor from look to look, so that late agents take few steps.
FIRST, BATCH, FASTER = 0.1, 0.3, 1.05
#: Part of the pulls after which another arm would lead, or this one be ahead by enough, that a leader gets at once: a
#: little less, so that it is looked at in between.
PART = 0.9
#: Arms at most this many nats behind the leader are pulled with it.
NEAR = 1.5
#: No arm is believed before the others together have this many units of pulls: what it is compared with is then half η
#: off at four standard deviations (and at two where an error is harmless).
BASE, BASE_NAMED = 32.0, 8.0
#: An agent stops once an arm is ahead of all others by ln K and this many nats: e^-12 is the chance of a wrong one,
#: which among representatives costs an attempt.
LEAD = 12.0
#: The same for an arm that was named before: a wrong one costs nothing but the agent's search.
LEAD_NAMED = 3.0
#: A search that takes this many times the pulls expected ends with the arm that leads. Searches do not get there by
#: chance: 7.5 and 30 change nothing.
PATIENCE = 15.0
#: An attempt gives up where a search would take more pulls than this, so that a tiny η does not spend them on
#: guesswork.
MOST = 1e8


def look(block: Block, _: np.ndarray, named: np.ndarray) -> Payload:
    """The arm that seems to be the best: η above the average of all others. It is sent and remembered as "found".

    Args:
        named: (n, K) arms that others have found. They are likelier than the rest, so less evidence is needed for them.
    """
    p = block.problem
    assert p.eta is not None
    assert p.n_clusters is not None
    n, k, rows = len(block), p.n_arms, np.arange(len(block))
    unit = 2 * (p.sigma / p.eta) ** 2
    first, batch = max(1, ceil(FIRST * unit)), max(1, ceil(BATCH * unit))
    sums = block.pull_grid(first) * first
    pulls = np.full((n, k), float(first))
    count = named.sum(axis=1, keepdims=True)
    prior = np.where(
        named, np.log(np.maximum(1, k - count) / np.maximum(1, p.n_clusters - count)), 0.0
    )
    lead = log(k) + np.where(named, LEAD_NAMED, LEAD)
    base_pulls = unit * np.where(named, BASE_NAMED, BASE)
    answer, todo, looks = sums.argmax(axis=1), rows, 0
    most = PATIENCE * k * unit
    while todo.size:
        looks += 1
        s, c, i = sums[todo], pulls[todo], np.arange(todo.size)
        all_sum, all_pulls = s.sum(axis=1), c.sum(axis=1)
        top = (s - c * (all_sum / all_pulls)[:, None]).argmax(axis=1)
        base = (all_sum - s[i, top]) / np.maximum(all_pulls - c[i, top], 1)
        ratio = p.eta / p.sigma**2 * (s - c * (base[:, None] + p.eta / 2)) + prior[todo]
        top = ratio.argmax(axis=1)
        answer[todo] = top
        ahead = ratio[i, top] >= lead[todo, top]
        doubtful = ahead & (all_pulls - c[i, top] < base_pulls[todo, top])
        if doubtful.any():
            sums[todo[doubtful]] += block.part(todo[doubtful]).pull_grid(first) * first
            pulls[todo[doubtful]] += first
        done = (ahead & ~doubtful) | (all_pulls > most)
        near = (ratio >= (ratio[i, top] - NEAR)[:, None]) & ~(done | doubtful)[:, None]
        row, arm = np.nonzero(near)
        if row.size:
            step, best = np.full(near.shape, batch * FASTER**looks), ratio[i, top]
            alone = (
                PART
                * unit
                * np.minimum(best - np.partition(ratio, -2, axis=1)[:, -2], lead[todo, top] - best)
            )
            step[i, top] = np.maximum(step[i, top], alone)
            times = np.ceil(step[row, arm]).astype(np.int64)
            sums[todo[row], arm] += block.pull(todo[row], arm, times) * times
            pulls[todo[row], arm] += times
        todo = todo[~done]
    block.save("found", answer)
    block.save("searched", np.ones(n, dtype=bool))
    return ArmIndex(answer, among=k)


def search(federation: Federation) -> Ints:
    """(M,) agents, increasing ids, that named M different arms."""
    p = federation.problem
    assert p.n_clusters is not None
    assert p.eta is not None
    if p.n_arms < 2 or 2 * p.n_arms * (p.sigma / p.eta) ** 2 > MOST:
        raise Stuck("a search for the best arm would take too long")
    order = federation.rng.permutation(p.n_agents)
    finder: Ints = np.full(p.n_arms, -1)
    for drawn in range(0, p.n_agents, p.n_clusters):
        part = np.sort(order[drawn : drawn + p.n_clusters])
        # The flag says whether names follow: an agent does not know how many have searched before.
        named = Flag(drawn > 0), ArmSet(finder >= 0, at_most=p.n_clusters - 1 if drawn else 0)
        found = federation.local(part, look, down=named)
        new, where = np.unique(found, return_index=True)
        fresh = finder[new] < 0
        room = p.n_clusters - int((finder >= 0).sum())
        finder[new[fresh][:room]] = part[where[fresh][:room]]
        if room <= fresh.sum():
            return np.sort(finder[finder >= 0])
    raise Stuck("fewer best arms are named than there are clusters")
