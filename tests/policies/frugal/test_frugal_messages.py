"""What FrugalBAI sends: messages are billed and told from one another. Guesses work where best means are close."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.game.ledger import Payload, Symbol
from clustered_bandit_gym.game.payloads import bits_for
from clustered_bandit_gym.generators import NearTie, PaperFlat, RandomFamily
from clustered_bandit_gym.policies import FrugalBAI
from clustered_bandit_gym.policies.frugal import assign
from clustered_bandit_gym.policies.frugal import policy as policy_module
from clustered_bandit_gym.policies.frugal.budget import Budget
from clustered_bandit_gym.policies.frugal.classify import rest_alone
from clustered_bandit_gym.policies.frugal.references import best_references, plan_tree_of_ratings
from clustered_bandit_gym.policies.frugal.sketch import Groups, Protocol, ask
from clustered_bandit_gym.policies.frugal.trial import Trial


def tight(n_agents: int, seed: int = 0) -> cbg.Instance:
    """9 clusters, 24 arms: at every cluster the best arms of all others are exactly η = 1 worse than its own."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-1, 1, (9, 24))
    best = rng.permutation(24)[:9]
    means[:, best] = 1.0
    means[np.arange(9), best] = 2.0
    return cbg.Instance(means, np.arange(n_agents) % 9)


@pytest.mark.parametrize("seed", range(3))
def test_guesses_work_where_best_means_differ_by_eta(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt gets past its references, given one representative of each cluster. For two of them not to be
    shown distinct, two differences must each be five standard deviations off: below 1e-12 for all pairs."""

    def true_groups(federation: cbg.Federation, protocol: Protocol, check: Any = None) -> Groups:
        codes, _ = ask(federation, protocol, federation.agents, stage=0)
        centroid = np.array([codes[instance.clusters == x].mean(axis=0) for x in range(9)])
        return Groups(np.arange(9), centroid, codes, stage=0)

    instance = tight(90, seed)
    monkeypatch.setattr(policy_module, "discover", true_groups)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 1e-10, eta=1.0), seed=seed)
    federation.stop(FrugalBAI().solve(federation))
    assert federation.judgement is not None
    assert federation.judgement.correct
    assert federation.pulls < 3e5, "three attempts take a million"
    assert federation.ledger.cost < 1e4, "the last resort takes ten times as much"


@pytest.mark.parametrize("delta", [0.3, 1e-10])
def test_true_representatives_are_shown_distinct_where_best_means_differ_by_eta(
    delta: float,
) -> None:
    """20 sets of references with the true best arms: none is stuck, and every difference is of use."""
    instance = tight(9)
    problem = cbg.Problem(27, 24, 9, delta, eta=1.0)
    trial = Trial(problem, Budget.of(problem, 0), 2.2, gap=1.2)
    for seed in range(20):
        federation = cbg.Federation(instance, cbg.Problem.of(instance, delta, eta=1.0), seed=seed)
        found = best_references(federation, federation.agents, instance.best_arms, trial)
        ahead = found.top - found.high
        for x in np.flatnonzero(found.second):
            assert trial.wide.usable(np.delete(ahead[:, x], x)).mean() > 0.5


@pytest.mark.parametrize("twins", [False, True])
def test_representatives_that_look_alike_are_not_accepted(twins: bool) -> None:
    """Coins of which one in fifty differs. Agents of one cluster: a difference that is accepted is six standard
    deviations off, after rounding, on one of 6 arms; below 2e-8 for all pairs. Those of others differ by far more."""
    means = np.full((3, 6), 0.02)
    means[np.arange(3), np.arange(3)] = 0.98
    instance = cbg.Instance(means, [0, 0, 1, 2], rewards=cbg.Bernoulli())
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=2)
    protocol = Protocol.of(federation, 0)
    ask(federation, protocol, federation.agents, stage=0)
    reps = np.array([0, 1, 3] if twins else [0, 2, 3])
    assert (plan_tree_of_ratings(federation, reps, protocol, stage=0) is None) == twins


class Listener(cbg.Federation):
    """Keeps what is sent down before a program runs."""

    heard: list[tuple[Any, int, tuple[Payload, ...]]]

    def local(self, agents: Any, program: Any, down: Any = (), **options: Any) -> Any:
        sent = (down,) if isinstance(down, Payload) else tuple(down)
        self.heard.append((getattr(program, "func", program), np.size(agents), sent))
        return super().local(agents, program, down, **options)


CASES = {
    "tree": NearTie(n_agents=30, n_clusters=3, n_arms=6, gap=0.3, eta=0.4),
    "tree of ratings": RandomFamily(
        n_agents=16, n_clusters=3, n_arms=6, rewards="bernoulli", eta=0.4, gap=0.2
    ),
    "guesses": NearTie(n_agents=40, n_clusters=9, n_arms=20, eta=0.5, gap=0.3),
    "list": PaperFlat(n_agents=60, n_clusters=10, n_arms=40, eta=0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_agents_that_rewards_have_chosen_are_told_so(name: str) -> None:
    """No program runs at some of the agents without a message that costs a bit."""
    instance = CASES[name](np.random.default_rng(3))
    federation = Listener(instance, cbg.Problem.of(instance, 1e-6, **CASES[name].declared), seed=3)
    federation.heard = []
    federation.stop(FrugalBAI().solve(federation))
    expected = {"guesses": assign.confirm, "list": assign.choose}.get(name, assign.node)
    assert expected in [program for program, _, _ in federation.heard]
    for program, size, sent in federation.heard:
        if program is assign.begin_tries:
            continue  # what agents do when they send their sketch
        bits = sum(int(np.max(payload.bits)) + payload.reals for payload in sent)
        assert bits >= 1 or size in (0, instance.n_agents), program
        if program in (assign.node, assign.confirm):
            assert isinstance(sent[0], Symbol)
            assert sent[0].values.max() < sent[0].among - 1, (
                "the last code says that the agent is on its own"
            )


def test_an_agent_on_its_own_is_told_so() -> None:
    instance = tight(18)
    problem = cbg.Problem.of(instance, 1e-6, eta=1.0)
    federation = cbg.Federation(instance, problem, seed=1)
    trial = Trial(problem, Budget.of(problem, 0), 2.2, gap=1.2)
    arms = np.where(np.arange(18) < 15, 0, -1)
    rest_alone(federation, arms, instance.best_arms, trial, codes=12)
    np.testing.assert_array_equal(arms[15:], instance.best_arms[[6, 7, 8]])
    lists = sum(comb(24, size) for size in range(10))
    assert federation.ledger.bits("down") == 3 * (4 + bits_for(lists))
