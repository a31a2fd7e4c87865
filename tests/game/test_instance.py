from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clustered_bandit_gym import Bernoulli, Categorical, Gaussian, Instance, Problem
from clustered_bandit_gym.generators import RandomFamily

GOOD = [[0.9, 0.1, 0.2], [0.0, 0.8, 0.3]]


@st.composite
def anything(draw: st.DrawFn) -> Instance:
    """Instances of any shape, ties and overlaps included (means on a coarse grid make them common)."""
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    cells = draw(st.sampled_from([st.integers(-3, 3).map(float), st.floats(-5, 5, width=32)]))
    means = draw(arrays(np.float64, shape, elements=cells))
    clusters = draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=12))
    return Instance(means, clusters, allow_ties=True, allow_overlap=True)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(anything())
def test_separations_by_brute_force(instance: Instance) -> None:
    means = instance.means.tolist()
    eta = eta1 = np.inf
    for a, row in enumerate(means):
        for k, mean in enumerate(row):
            if mean < max(row):
                continue
            for b, other in enumerate(means):
                if b != a:
                    eta = min(eta, max(other) - other[k])
                    eta1 = min(eta1, abs(row[k] - other[k]))
    assert instance.eta == eta
    assert instance.eta1 == eta1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(anything())
def test_best_arms_and_gaps_by_brute_force(instance: Instance) -> None:
    for m, row in enumerate(instance.means.tolist()):
        best = row.index(max(row))
        assert instance.best_arms[m] == best
        assert instance.is_best[m].tolist() == [mean == max(row) for mean in row]
        for k, mean in enumerate(row):
            rest = [max(row) - other for j, other in enumerate(row) if j != best]
            assert instance.gaps[m, k] == (
                (min(rest) if rest else np.inf) if k == best else max(row) - mean
            )
    assert instance.agent_best_arms.tolist() == [instance.best_arms[m] for m in instance.clusters]
    assert (instance.n_agents, (instance.n_clusters, instance.n_arms)) == (
        len(instance.clusters),
        instance.means.shape,
    )


@settings(deadline=None, max_examples=40)
@given(anything(), st.sampled_from(["gaussian", "bernoulli", "categorical"]), st.integers(0, 2**32))
def test_round_trip_through_a_file(odd: Instance, rewards: str, seed: int) -> None:
    for instance in (odd, RandomFamily(rewards=rewards)(np.random.default_rng(seed))):
        with TemporaryDirectory() as folder:
            instance.save(Path(folder) / "truth.npz")
            back = Instance.load(Path(folder) / "truth.npz")
        assert back == instance
        assert (back.allow_ties, back.allow_overlap) == (
            instance.allow_ties,
            instance.allow_overlap,
        )
        assert back.rewards.sigma == instance.rewards.sigma
        assert pickle.loads(pickle.dumps(instance)) == instance


def test_names_and_sigma_survive_a_file(tmp_path: Path) -> None:
    names = {"arm_names": ["tea", "café", "水"], "cluster_names": ["young", "old"]}
    instance = Instance(GOOD, [0, 1, 1], Gaussian(0.3), **names)
    instance.save(tmp_path / "truth.npz")
    back = Instance.load(tmp_path / "truth.npz")
    assert back == instance
    assert back.arm_names == ("tea", "café", "水")
    assert back.rewards.sigma == 0.3
    assert back != Instance(GOOD, [0, 1, 1], Gaussian(0.4), **names)
    assert back != Instance(GOOD, [0, 1, 0], Gaussian(0.3), **names)
    assert back != Instance(GOOD, [0, 1, 1], Gaussian(0.3))
    assert back != "something else"


def test_files_that_are_no_instance(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not an archive")
    (tmp_path / "empty").write_bytes(b"")
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    with (tmp_path / "pickled.npz").open("wb") as file:
        np.savez(file, notes=np.array([{"a": 1}], dtype=object))
    for name in ("text", "empty", "other.npz", "array.npy", "pickled.npz"):
        with pytest.raises(ValueError, match="is not a saved Instance"):
            Instance.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Instance.load(tmp_path / "missing.npz")


def test_immutable() -> None:
    means, clusters = np.array(GOOD), np.array([0, 1])
    instance = Instance(means, clusters)
    means[:] = clusters[:] = 0
    assert instance == Instance(GOOD, [0, 1]), "an instance keeps a copy"
    for original in (instance, pickle.loads(pickle.dumps(instance))):
        for name in ("means", "clusters", "best_arms", "is_best", "agent_best_arms", "gaps"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(original, name)[0] = 0
        with pytest.raises(AttributeError, match="does not change"):
            original.means = means
    with pytest.raises(TypeError):
        hash(instance)


@pytest.mark.parametrize(
    ("means", "clusters", "message"),
    [
        ([[1, np.nan], [0, 1]], [0], "means must be finite"),
        ([[1, 0], [-np.inf, 1]], [0], "means must be finite"),
        ([1, 2, 3], [0], r"table \(clusters, arms\); got \[1, 2, 3\]"),
        (np.zeros((0, 3)), [0], "means must be finite"),
        ([[1, 2], [3]], [0], "means must be finite"),
        ([["a", "b"]], [0], "numbers"),
        (None, [0], "need the means"),
        (GOOD, [0, 2], "cluster 2 is out of range: clusters run from 0 to 1"),
        (GOOD, [0, -1], "cluster -1 is out of range"),
        (GOOD, [0.0, 1.0], "integers"),
        (GOOD, [], "must be a vector"),
        (GOOD, [[0, 1]], "must be a vector"),
        ([[1.0], [2.0]], [0, 1], "share the best arm"),
        (
            [[0.5, 0.5, 0.1], [0.1, 0.2, 0.3]],
            [0, 1],
            r"cluster 0 has several best arms, 0 and 1;.*allow_ties",
        ),
        ([[0.9, 0.1], [0.9, 0.1]], [0, 1], "Assumption 1 fails.*allow_overlap"),
    ],
)
def test_bad_instances(means: object, clusters: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Instance(means, clusters)


def test_bad_reward_models() -> None:
    with pytest.raises(TypeError, match=r"Gaussian\(\)"):
        Instance(GOOD, [0], "gaussian")
    with pytest.raises(ValueError, match="probabilities"):
        Instance([[1.5, 0.0], [0.0, 1.0]], [0], Bernoulli())
    laws = Categorical([0, 1], [[[0.1, 0.9], [0.8, 0.2]], [[0.9, 0.1], [0.3, 0.7]]])
    assert np.allclose(Instance(None, [0, 1], laws).means, [[0.9, 0.2], [0.1, 0.7]])
    with pytest.raises(ValueError, match="leave them out"):
        Instance([[0.9, 0.3], [0.1, 0.7]], [0, 1], laws)
    with pytest.raises(ValueError, match="arm_names must have 3"):
        Instance(GOOD, [0], arm_names=["one"])
    with pytest.raises(ValueError, match="cluster_names must have 2"):
        Instance(GOOD, [0], cluster_names=["one"])


def test_violations_can_be_built_on_request() -> None:
    tied = Instance([[0.5, 0.5, 0.1], [0.1, 0.2, 0.3]], [0, 1], allow_ties=True)
    assert tied.eta == pytest.approx(0.1), "the worse of the two tied arms counts"
    overlapping = Instance([[0.9, 0.1], [0.8, 0.1], [0.7, 0.3]], [0, 1, 2], allow_overlap=True)
    assert overlapping.eta == 0
    problem = Problem.of(overlapping, 0.1)
    assert problem.eta is None, "there is no separation to tell"


def test_problem_tells_the_truth_less_or_nothing() -> None:
    instance = Instance(GOOD, [0, 1, 1], Gaussian(0.5))
    assert Problem.of(instance, 0.1) == Problem(3, 3, 2, 0.1, instance.eta, instance.eta1, 0.5)
    told = Problem.of(instance, 0.1, n_clusters=None, eta=0.3, eta1=None, sigma=2.0)
    assert told == Problem(3, 3, None, 0.1, 0.3, None, 2.0)
    assert Problem.of(Instance(GOOD, [0], Gaussian(0.0)), 0.1).sigma == 1
    # 1 − 0.85 is a hair more than 0.15 and 1 − 0.9 a hair less than 0.1.
    for eta in (0.15, 0.1):
        assert (
            Problem.of(Instance([[1, 1 - eta], [1 - eta, 1]], [0, 1]), 0.1, eta=eta, eta1=eta).eta
            == eta
        )
    assert Problem.of(Instance([[1.0, 0.0]], [0, 0]), 0.1, eta=0.2).eta == 0.2, (
        "one cluster satisfies any η"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": np.nan}, "delta"),
        ({"eta": 0.9}, "told eta = 0.9, which does not hold: the instance has 0.8;.*check=False"),
        ({"eta1": 0.9}, "told eta1 = 0.9, which does not hold: the instance has 0.7"),
        ({"eta": 0.0}, "positive"),
        ({"eta": -0.1}, "positive"),
        ({"eta1": np.nan}, "positive"),
        ({"eta": "much"}, "truth"),
        ({"n_clusters": 3}, "told n_clusters = 3, .* the instance has 2"),
        ({"n_clusters": 0}, "whole number"),
        ({"n_clusters": 2.5}, "whole number"),
        ({"sigma": 0.5}, "told sigma = 0.5, .* the instance has 1.0"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": np.inf}, "sigma"),
        ({"support": (0, 1)}, r"told support = \(0, 1\), .* has \(-inf, inf\)"),
        ({"support": (1, 0)}, "low < high"),
        ({"support": 3.0}, "two finite numbers"),
        ({"support": "much"}, "truth"),
    ],
)
def test_bad_problems(settings: dict, message: str) -> None:
    instance = Instance(GOOD, [0, 1])
    with pytest.raises(ValueError, match=message):
        Problem.of(instance, **{"delta": 0.1, **settings})


def test_misspecified_problems_on_request() -> None:
    instance = Instance(GOOD, [0, 1])
    problem = Problem.of(instance, 0.1, eta=5.0, eta1=5.0, n_clusters=7, sigma=0.1, check=False)
    assert (problem.eta, problem.n_clusters) == (5.0, 7)
    with pytest.raises(ValueError, match="delta"):
        Problem.of(instance, 2.0, check=False)


def test_the_support_is_told_where_there_is_one() -> None:
    coin = Instance([[0.9, 0.1], [0.1, 0.8]], [0, 1], Bernoulli())
    assert Problem.of(coin, 0.1).support == (0.0, 1.0)
    assert Problem.of(coin, 0.1).to_dict()["support"] == [0.0, 1.0]
    assert Problem.of(coin, 0.1, support=None).support is None
    assert Problem.of(coin, 0.1, support=(-1, 2)).support == (-1.0, 2.0), (
        "a wider interval is true as well"
    )
    with pytest.raises(ValueError, match=r"does not hold: the instance has \(0.0, 1.0\)"):
        Problem.of(coin, 0.1, support=(0.0, 0.9))
    assert Problem.of(coin, 0.1, support=(0.0, 0.9), check=False).support == (0.0, 0.9)
    laws = np.array([[[0.1, 0.2, 0.7], [0.7, 0.2, 0.1]]])
    assert Problem.of(Instance(None, [0], Categorical([-1.0, 0.5, 4.0], laws)), 0.1).support == (
        -1.0,
        4.0,
    )
    point = Instance(None, [0], Categorical([0.3], np.ones((1, 1, 1))))
    assert Problem.of(point, 0.1).support is None, "a single value is no interval"
    assert Problem.of(point, 0.1, support=(0.0, 1.0)).support == (0.0, 1.0)
    assert Problem.of(Instance(GOOD, [0, 1]), 0.1).support is None
