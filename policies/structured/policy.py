"""StructuredBAI: discovery by rejection, best arms resolved together, sequential tests."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Ints
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.federation import FederationView
from clustered_bandit_gym.policies.structured.accept import accept
from clustered_bandit_gym.policies.structured.best_arms import resolve
from clustered_bandit_gym.policies.structured.classify import classify
from clustered_bandit_gym.policies.structured.clusters import solve_clusters
from clustered_bandit_gym.policies.structured.discovery import Discovery
from clustered_bandit_gym.policies.structured.representatives import Representatives
from clustered_bandit_gym.policy import Policy, check_choice


class StructuredBAI(Policy):
    """Finds representatives of all clusters, their best arms, then assigns the other agents.

    1. "discover": agents that look like no representative so far become candidates. Nothing is
       trusted here: a candidate starts again from zero pulls, and a wrong guess costs pulls, not
       correctness.
    2. "best arms": the representatives' best arms. An arm leaves the candidates of x when it is
       beaten at x, or when it is shown to be less than η worse than the best at a representative y
       of another cluster: by Assumption 1 it is then not the best of x. Small gaps between an arm
       and the best often need not be resolved.
    3. "classify": once M representatives with M different best arms are known, every other agent
       pulls what tells the likeliest cluster from its rivals fastest until all clusters but one are
       ruled out.
    4. "accept", in place of 3 when M is not told or fewer than M clusters turn up: an agent belongs
       to x if the best arm of x is shown to be less than η worse than every other arm there; else
       it finds a new cluster.

    Uses M, η and the support of rewards where they are told, and never η1. Without η nothing
    structural is used, and agents of clusters that may be unknown find their arms alone. Without M
    step 4 takes the place of step 3. An η that is too large voids the guarantee, and errors do
    happen then; one that is too small costs pulls.

    Error. All tests are e-processes (Ville), in units of σ, and outside four events every answer is
    right: an error about a representative's best arm (0.4δ over all of them), two of one cluster
    declared distinct (0.02δ), an agent's own cluster ruled out in step 3 (0.43δ), an error in
    acceptance (0.15δ). docs/structured-bai.md has the proof, `structured.budget` the level of every
    test.

    Args:
        share: the part of δ that it may use; the rest is left to a caller that has other ways to
            err.
        assume: "best-arms" is Assumption 1; with "clusters", agents of a cluster share a bandit,
            clusters may share a best arm, and M must be told (`structured.clusters`).

    Where the support of rewards is told and they take finitely many values, tests bet and so adapt
    to the variance (`sequential.cells`). All levels are the same.

    Communication: the centre orders pulls and gets averages (`federation.pull`): an arm and a
    number of pulls down, one real up, for each batch; where tests bet, it gets counts of the values
    (`federation.pull_counts`). That is more than the paper's schemes send, for far fewer pulls.
    """

    name = "structured-bai"
    guarantee = (
        "delta-PC under Assumption 1, with any of M, eta not told; eta1 is not used. With "
        "assume=clusters: delta-PC if M is told; clusters may share a best arm"
    )

    def __init__(self, share: float = 1.0, assume: str = "best-arms") -> None:
        if not 0 < share <= 1:
            raise UserError(f"share must lie in (0, 1], got {share}")
        self.share = share
        self.assume = check_choice("assume", assume, ("best-arms", "clusters"))

    def solve(self, federation: FederationView) -> np.ndarray:
        reps = Representatives(federation, self.share)
        solve = solve_clusters if self.assume == "clusters" else _solve_best_arms
        arms, labels = solve(reps)
        federation.report_clusters(labels)
        return arms


def _solve_best_arms(reps: Representatives) -> tuple[Ints, Ints]:
    """(N,) arms and (N,) cluster labels under Assumption 1; `reps` is empty at first."""
    federation = reps.federation
    complete = _find_best_arms(reps)
    # Where some best arms are not known, only good enough ones, Assumption 1 is no help.
    known = reps.resolved.all()
    if complete and (known or reps.all_distinct):
        with federation.phase("classify"):
            labels = classify(reps, reps.leader if known else None)
        return reps.settled[labels], labels
    rest = np.setdiff1d(federation.agents, reps.agents)
    with federation.phase("accept"):
        found = accept(reps, rest)
    # Promoted agents are representatives by now; their own arm is among those found as well.
    arms = np.empty_like(federation.agents)
    arms[reps.agents] = reps.settled
    arms[rest] = found
    return arms, arms


def _find_best_arms(reps: Representatives) -> bool:
    """Steps 1 and 2; whether M is told and there are M representatives."""
    federation = reps.federation
    m = federation.problem.n_clusters
    discovery = Discovery(reps)
    second = False
    while True:
        with federation.phase("discover"):
            complete = discovery.run() and m is not None
        with federation.phase("best arms"):
            resolve(reps, until_twins=True)
        if reps.twins.size:
            discovery.drop(reps.twins[0])
        elif complete or m is None or second:
            return complete
        else:
            # A wrong leader can seem to explain every agent. The leaders are certain now.
            second = True
            discovery.again()
