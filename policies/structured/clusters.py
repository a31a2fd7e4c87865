"""`assume=clusters`: agents of one cluster share a bandit, and clusters may share a best arm.

Assumption 1 is not used. M representatives are shown pairwise different, so one is of every
cluster; everybody else is assigned by rejecting M − 1 of them; then the agents of a cluster find
its best arm together, each with an even share of the pulls.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.structured.accept import accept
from clustered_bandit_gym.policies.structured.best_arms import pulls_to_tell, resolve
from clustered_bandit_gym.policies.structured.classify import classify
from clustered_bandit_gym.policies.structured.discovery import Discovery
from clustered_bandit_gym.policies.structured.evidence import certify
from clustered_bandit_gym.policies.structured.representatives import Representatives, Teams
from clustered_bandit_gym.policies.structured.tuning import TUNING


def solve_clusters(reps: Representatives) -> tuple[Ints, Ints]:
    """(N,) arms and (N,) cluster labels; `reps` is empty at first."""
    federation = reps.federation
    if federation.problem.n_clusters is None:
        raise UserError(
            "structured-bai:assume=clusters requires n_clusters (M), but it is None: agents can be "
            "shown different, never equal. Tell M, or use naive or uniform-glr"
        )
    with federation.phase("discover"):
        complete = _find_different(Discovery(reps, every_arm=True))
    if not complete:
        # Clusters without agents, or too much alike: everybody finds an arm alone.
        reps.eta = None
        with federation.phase("accept"):
            arms = accept(reps, federation.agents)
        return arms, arms
    with federation.phase("classify"):
        labels = classify(reps, None)
    with federation.phase("best arms"):
        reps.eta = None  # nothing is concluded from what other clusters' best arms are
        reps.source = Teams(federation, labels)
        resolve(reps)
    return reps.settled[labels], labels


def _find_different(discovery: Discovery) -> bool:
    """Whether M representatives were found and shown pairwise different.

    A representative that is not told from an earlier one with the last effort of discovery is
    dropped, and the search goes on.
    """
    reps = discovery.reps
    while discovery.run():
        certify(reps)
        if reps.all_distinct:
            return True
        a, b = np.nonzero(np.triu(~reps.distinct, 1))
        n = reps.n / discovery.variance
        forecast = pulls_to_tell(reps, n, a, b)
        arm = forecast.argmin(axis=1)
        least = forecast.min(axis=1)
        tried = np.minimum(n[a], n[b]).min(axis=1) >= discovery.last
        alike = tried & (least > TUNING.urgent * discovery.last)
        if alike.any():
            discovery.drop(b[alike].max())
            continue
        # The arm of each pair that differs most, or all arms where none seems to differ.
        unclear = least > 1e18
        goal = least * discovery.variance[arm]
        pulls = np.zeros(n.shape)
        for row in (a, b):
            every = np.maximum(reps.n[row[unclear]] / 2, TUNING.start)
            np.maximum.at(pulls, row[unclear], every)
            own = reps.n[row, arm]
            batch = np.maximum(TUNING.part * (goal - own), TUNING.least * own + 1)
            batch = np.where(unclear, 0, np.minimum(batch, own / 2 + TUNING.start))
            np.maximum.at(pulls, (row, arm), batch)
        reps.pull_where(pulls)
    return False
