"""StructuredBAI: discovery by rejection, best arms resolved together, classification by sequential test."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym.federation import Federation
from clustered_bandit_gym.policies.structured_accept import accept
from clustered_bandit_gym.policies.structured_best_arms import BestArms
from clustered_bandit_gym.policies.structured_budget import Budgets
from clustered_bandit_gym.policies.structured_classify import classify
from clustered_bandit_gym.policies.structured_discovery import Discovery
from clustered_bandit_gym.policies.structured_representatives import Representatives
from clustered_bandit_gym.policy import Policy


class StructuredBAI(Policy):
    """Finds a representative of every cluster, resolves their best arms together, then assigns the other agents."""

    name = "structured-bai"
    guarantee = "delta-PC under Assumption 1; without eta under none but that clusters have different best arms"

    def solve(self, federation: Federation) -> np.ndarray:
        p = federation.problem
        budgets = Budgets.of(p)
        eta = None if p.eta is None or not np.isfinite(p.eta) else p.eta / p.sigma
        reps = Representatives(federation, budgets)
        best_arms = BestArms(reps, eta)
        discovery = Discovery(reps, eta, budgets.n_clusters)
        second = False
        while True:
            with federation.phase("discover"):
                complete = discovery.run() and p.n_clusters is not None
            with federation.phase("best arms"):
                best_arms.resolve()
            twin = reps.twin()
            if twin is not None:
                reps.drop(twin)
                discovery.forget(twin)
            elif complete or p.n_clusters is None or second:
                break
            else:
                # A representative whose leader was guessed wrong explains everybody. The leaders are certain now.
                second = True
                discovery.again()
        rest = np.setdiff1d(federation.agents, reps.agents)
        if complete:
            with federation.phase("classify"):
                found = reps.leader[classify(reps, reps.leader, eta, rest)]
        else:
            with federation.phase("accept"):
                found = accept(reps, best_arms, rest, eta)
        arms = np.empty(p.n_agents, dtype=np.int64)
        arms[reps.agents] = reps.leader
        arms[rest] = found
        federation.report_clusters(arms)
        return arms
