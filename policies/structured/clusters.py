"""`assume=clusters`: agents of one cluster share a bandit, and clusters may share a best arm.

Assumption 1 is not used. M representatives are shown pairwise different, so one is of every
cluster; everybody else is assigned by rejecting M − 1 of them; then the agents of a cluster find
its best arm together, each with an even share of the pulls.
"""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats, Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.structured.accept import accept
from clustered_bandit_gym.policies.structured.best_arms import BestArms
from clustered_bandit_gym.policies.structured.classify import classify
from clustered_bandit_gym.policies.structured.discovery import Discovery
from clustered_bandit_gym.policies.structured.evidence import CandidateTests
from clustered_bandit_gym.policies.structured.plan import UNKNOWN_BEST
from clustered_bandit_gym.policies.structured.representatives import Representatives, Teams
from clustered_bandit_gym.policies.structured.tuning import TUNING


def solve_clusters(reps: Representatives) -> tuple[Ints, Ints]:
    """(N,) arms and (N,) cluster labels; `reps` is empty at first."""
    federation = reps.federation
    n_clusters = federation.problem.n_clusters
    if n_clusters is None:
        raise UserError(
            "structured-bai:assume=clusters requires n_clusters (M), but it is None: agents can be "
            "shown "
            "different, never equal. Tell M, or use naive or uniform-glr"
        )
    best_arms = BestArms(reps, None)
    with federation.phase("discover"):
        discovery = Discovery(reps, None, n_clusters, every_arm=True)
        complete = _find_different(discovery, best_arms.tests)
    if not complete:
        # Clusters without agents, or too much alike: everybody finds an arm alone.
        with federation.phase("accept"):
            arms = accept(reps, best_arms, federation.agents, None)
        return arms, arms
    rest = np.setdiff1d(federation.agents, reps.agents)
    labels = np.empty(federation.problem.n_agents, dtype=np.int64)
    labels[reps.agents] = np.arange(n_clusters)
    with federation.phase("classify"):
        unknown = np.full(n_clusters, UNKNOWN_BEST)
        labels[rest] = classify(reps, unknown, None, rest)
    with federation.phase("best arms"):
        reps.source = Teams(federation, labels)
        best_arms.resolve()
    return reps.settled[labels], labels


def _find_different(discovery: Discovery, tests: CandidateTests) -> bool:
    """Whether M representatives were found and shown pairwise different.

    A representative that is not told from an earlier one with the last effort of discovery is
    dropped, and the search goes on.
    """
    reps = discovery.reps
    while discovery.run():
        tests.certify()
        if tests.all_distinct:
            return True
        a, b = np.nonzero(np.triu(~reps.distinct, 1))
        pulls, alike = _next_pulls(reps, a, b, tests.levels.distinct(a, b), discovery)
        if alike.any():
            row = int(b[alike].max())
            reps.drop(row)
            discovery.forget(row)
        else:
            reps.pull_where(pulls)
    return False


def _next_pulls(
    reps: Representatives, a: Ints, b: Ints, level: Floats, discovery: Discovery
) -> tuple[Floats, np.ndarray]:
    """(R, K) pulls that help to tell representatives a from b, and (pairs,) those that look alike."""
    n = np.maximum(reps.n / discovery.variance, 1e-9)
    apart = np.abs(reps.mean[a] - reps.mean[b]) - np.sqrt(1 / n[a] + 1 / n[b])
    need = 4 * (level + np.log(4 * n.shape[1]) + reps.cells.slack)[:, None]
    with np.errstate(divide="ignore"):
        forecast = np.where(apart > 0, need / np.maximum(apart, 1e-9) ** 2, np.inf)
    arm = forecast.argmin(axis=1)
    least = forecast.min(axis=1)
    tried = np.minimum(n[a], n[b]).min(axis=1) >= discovery.last
    alike = tried & (least > TUNING.urgent * discovery.last)
    pulls = np.zeros(reps.n.shape)
    unclear = np.flatnonzero(~np.isfinite(least))
    for row in (a, b):
        # Where no arm seems to differ all are pulled; else the one that differs most.
        pulls[row[unclear]] = np.maximum(reps.n[row[unclear]] / 2, TUNING.start)
    told = np.flatnonzero(np.isfinite(least))
    for row in (a[told], b[told]):
        own = reps.n[row, arm[told]]
        wanted = least[told] * discovery.variance[arm[told]] - own
        batch = np.clip(TUNING.part * wanted, TUNING.least * own + 1, own / 2 + TUNING.start)
        np.maximum.at(pulls, (row, arm[told]), batch)
    return pulls, alike
