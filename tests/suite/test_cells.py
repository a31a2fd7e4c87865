"""The suites are frozen, and a right policy can solve every cell of v2."""

from __future__ import annotations

import numpy as np
import pytest
from leaderboard import reference_folders
from make_suite import suite_digest
from scipy.stats import binom

from clustered_bandit_gym.datasets.suite_v2 import Fresh, drawn
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.scoring.verdict import verdict
from clustered_bandit_gym.suite.cells import DIGESTS, TRACKS, cells_of, played_cells
from clustered_bandit_gym.suite.checker import verify
from clustered_bandit_gym.suite.files import load_submission
from clustered_bandit_gym.suite.leaderboard import known
from clustered_bandit_gym.suite.score import ALPHA
from clustered_bandit_gym.theory import bai_cl_most_agents

V2 = cells_of("v2")


@pytest.mark.parametrize("suite", ["v1", "v2"])
def test_a_suite_never_changes(suite: str) -> None:
    assert suite_digest(suite) == DIGESTS[suite]


def test_what_the_suite_covers() -> None:
    assert 38 <= len(V2) <= 46
    assert {cell.track for cell in V2.values()} == set(TRACKS)
    assert {cell.track for cell in played_cells("v2", quick=True)} == set(TRACKS)
    assert all(len(cell.instances) >= 5 and len(cell.bounds) >= 5 for cell in V2.values())
    sizes = {(cell.instances[0].n_agents, cell.instances[0].n_arms) for cell in V2.values()}
    assert {(5, 5), (5, 2), (10, 4), (100, 8), (5_000, 10), (10, 500)} <= sizes
    assert V2["good-enough"].kwargs["epsilon"] == 0.05
    assert all(
        one.means.min() >= 0.08 and one.means.max() <= 0.12 for one in V2["clicks"].instances
    )
    assert all(one.gaps.min() >= 0.3 for one in V2["easy-10"].instances)
    for name in ("shared-best", "differing", "flights-own"):
        assert all(one.eta <= 0 for one in V2[name].instances)
    law = {one.rewards.to_dict()["kind"] for cell in V2.values() for one in cell.instances}
    assert law >= {"gaussian", "bernoulli", "categorical"}


def test_trials_are_spread_over_the_instances() -> None:
    """Fewest of 200 trials on one of five instances: below 20 with probability 0.003."""
    cell = V2["coins"]
    bounds = cell.bounds_of(list(range(200)))
    counts = [(bounds == bound).sum() for bound in cell.bounds]
    assert min(counts) >= 20
    env = cell.setting().make().unwrapped
    for trial in range(10):
        instance = env.draw_instance(trial_seeds(cell.seed, trial).instance)
        place = cell.bounds.index(bounds[trial])
        assert instance == cell.instances[place]


def test_shipped_instances_are_those_of_their_families() -> None:
    for place, cell in enumerate(V2.values()):
        if cell.name in ("tiny-5", "clicks", "flights"):
            again = drawn(cell.family, [2026, place, 3])
            np.testing.assert_array_equal(again.means, cell.instances[3].means)


def test_fresh_instances_are_others() -> None:
    cell = V2["clicks"]
    fresh = cell.setting(secret=99).kwargs["generator"]
    assert isinstance(fresh, Fresh)
    drawn_now = fresh(np.random.default_rng(0))
    assert drawn_now == fresh(np.random.default_rng(0))
    assert all(not np.array_equal(drawn_now.means, one.means) for one in cell.instances)


def most_errors(delta: float, trials: int, alpha: float) -> int:
    """The most errors with which the trials give a PASS; -1 if none do."""
    found = -1
    while verdict(found + 1, trials, delta, alpha).word == "PASS":
        found += 1
    return found


@pytest.mark.parametrize("quick", [False, True])
def test_a_right_policy_can_pass_and_one_at_delta_cannot(quick: bool) -> None:
    """docs/suite.md states the power of the gate: a policy that errs at rate δ passes a cell with
    probability at most 4e-4, one at 1.5 δ with at most 3e-6."""
    cells = [cell for cell in played_cells("v2", quick) if cell.gated]
    alpha = ALPHA / len(cells)
    for delta, trials in {(cell.delta, cell.count(quick)) for cell in cells}:
        most = most_errors(delta, trials, alpha)
        assert most >= 0, (delta, trials)
        assert binom.cdf(most, trials, delta) <= 4e-4
        assert binom.cdf(most, trials, 1.5 * delta) <= 3e-6


def test_the_printed_schemes_are_proved_in_every_cell() -> None:
    """What the reference submissions of BAI-Cl and BAI-Cl++ say of themselves."""
    for cell in V2.values():
        for one in cell.instances:
            if one.eta > 0:
                assert one.n_agents <= bai_cl_most_agents(one.n_clusters, cell.delta), cell.name


@pytest.mark.parametrize("kind", ["full", "quick"])
def test_committed_submissions_hold(kind: str) -> None:
    """One of every policy that ships, by one version of the code. Format, digest, completeness and
    scores; `make submissions` replaces them."""
    folders = reference_folders(kind)
    ours = {one["folder"] for one in known() if not one.get("sources")}
    assert {folder.name for folder in folders} == ours
    assert len({load_submission(folder).metadata["versions"] for folder in folders}) == 1
    for folder in folders:
        assert verify(folder, replay=0).replayed == []
