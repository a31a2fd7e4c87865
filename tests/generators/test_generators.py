from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clustered_bandit_gym import Instance, Problem
from clustered_bandit_gym.generators import (
    GENERATORS,
    NearTie,
    PaperFlat,
    PaperRandom,
    PaperSmall,
    RandomFamily,
    Tiny,
    generator_class,
    make_generator,
)
from clustered_bandit_gym.harness.settings import plain, revive

ALARM = 1e-10
NAMES = {generator_class(name): name for name in GENERATORS}
#: Generators that need neither data nor means of the user's.
WITHOUT_DATA = sorted(
    name
    for name, target in GENERATORS.items()
    if name != "fixed-means" and not target.startswith("datasets.")
)


@st.composite
def generator(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(WITHOUT_DATA))
    settings: dict[str, Any] = {"n_agents": draw(st.integers(1, 30))}
    settings["sizes"] = draw(st.sampled_from(["equal", "uniform", "power"]))
    if settings["sizes"] == "power":
        settings["alpha"] = draw(st.floats(-3, 300))
    if name != "paper-small":
        settings["n_clusters"] = m = draw(st.integers(1, 6))
        settings["n_arms"] = draw(st.integers(2 * m if name == "near-tie" else m, 14))
        settings["eta"] = eta = draw(st.floats(1e-6, 0.5))
    if name == "near-tie":
        settings["gap"] = draw(st.floats(1e-9, 1)) * (eta - 1e-12) + 1e-12
    if name in ("random", "tiny"):
        settings["eta1"] = draw(st.floats(0, 0.9))
        settings["gap"] = draw(st.floats(1e-6, 0.9))
        settings["rewards"] = draw(st.sampled_from(["gaussian", "bernoulli", "categorical"]))
    return make_generator(name, **settings)


@settings(deadline=None, max_examples=120)
@given(generator(), st.integers(0, 2**32))
def test_assumptions_hold_as_stated(generate: Any, seed: int) -> None:
    name = NAMES[type(generate)]
    instance = generate(np.random.default_rng(seed))
    assert (instance.n_agents, instance.n_clusters, instance.n_arms) == (
        generate.n_agents,
        generate.n_clusters,
        generate.n_arms,
    )
    assert np.all(instance.is_best.sum(axis=1) == 1)
    # In the flat instances 1 − (1 − η) misses η in the last digit; everywhere else the statement holds to the digit.
    hair = 1e-15 if name == "paper-flat" else 0.0
    assert instance.eta >= getattr(generate, "eta", 0.3) - hair
    assert instance.eta1 >= generate.declared.get("eta1", 0.0) - hair
    if name in ("random", "tiny"):
        assert instance.eta1 >= generate.eta1
        assert instance.n_arms == 1 or instance.gaps.min() >= min(generate.gap, generate.eta)
    if name == "near-tie":
        assert instance.gaps.min(axis=1) == pytest.approx(generate.gap, rel=1e-9, abs=3e-16)
    problem = Problem.of(instance, 0.05, **generate.declared)
    assert problem.eta == generate.declared.get("eta", instance.eta)
    if name != "paper-flat":
        assert instance.means.min() >= 0
        assert instance.means.max() <= 1
    if generate.sizes == "equal":
        sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
        assert sizes.max() - sizes.min() <= 1
    assert generate(np.random.default_rng(seed)) == instance, (
        "the generator must depend on its rng alone"
    )


@settings(deadline=None)
@given(generator())
def test_settings_are_plain_and_make_it_again(generate: Any) -> None:
    written = plain(generate)
    again = make_generator(NAMES[type(generate)], **json.loads(json.dumps(written["settings"])))
    assert again == generate
    assert revive("generator", written) == generate
    assert hash(again) == hash(generate)
    json.dumps(generate.declared)


def test_paper_small_is_the_papers() -> None:
    instance = PaperSmall()(np.random.default_rng(0))
    assert instance.best_arms.tolist() == [3, 5, 6]
    assert instance.gaps.min(axis=1) == pytest.approx([0.14, 0.02, 0.01])
    assert (instance.eta, instance.eta1) == (pytest.approx(0.5), pytest.approx(0.47))
    assert PaperSmall().declared == {"eta": 0.3, "eta1": 0.3}
    assert np.bincount(instance.clusters).tolist() == [3, 3, 3]


def test_paper_random_has_the_papers_laws() -> None:
    generate = PaperRandom(eta=0.2, n_clusters=4, n_arms=9)
    drawn = [generate(np.random.default_rng(seed)) for seed in range(800)]
    best = np.concatenate([one.means.max(axis=1) for one in drawn])
    assert stats.kstest(best, stats.uniform(0.8, 0.2).cdf).pvalue > ALARM
    rivals, rest = [], []
    for one in drawn:
        for m in range(4):
            others = np.delete(one.best_arms, m)
            rivals.append(one.means[m, others])
            rest.append(np.delete(one.means[m], one.best_arms) / one.means[m].max())
    assert stats.kstest(np.concatenate(rivals), stats.uniform(0, 0.6).cdf).pvalue > ALARM
    assert stats.kstest(np.concatenate(rest), "uniform").pvalue > ALARM


def test_paper_flat() -> None:
    instance = PaperFlat(eta=0.05)(np.random.default_rng(0))
    assert instance.means.shape == (20, 100)
    assert np.unique(instance.means).tolist() == [0.95, 1.0]
    assert instance.is_best.sum() == 20


@pytest.mark.parametrize("kind", [PaperRandom, PaperFlat, NearTie, RandomFamily, Tiny])
def test_an_index_tells_nothing(kind: Any) -> None:
    """The best arm of cluster 0 and the cluster of agent 0 are uniform (chi-square, false alarm 1e-10)."""
    generate = kind(n_agents=6, n_clusters=2, n_arms=4)
    drawn = [generate(np.random.default_rng(seed)) for seed in range(500)]
    assert (
        stats.chisquare(np.bincount([one.best_arms[0] for one in drawn], minlength=4)).pvalue
        > ALARM
    )
    assert (
        stats.chisquare(np.bincount([one.clusters[0] for one in drawn], minlength=2)).pvalue > ALARM
    )


def test_power_law_of_cluster_sizes() -> None:
    instance = PaperFlat(n_agents=100_000, n_clusters=5, n_arms=5, sizes="power", alpha=1.5)(
        np.random.default_rng(1)
    )
    weights = np.arange(1, 6) ** 1.5
    expected = 100_000 * weights / weights.sum()
    assert stats.chisquare(np.bincount(instance.clusters, minlength=5), expected).pvalue > ALARM
    flat = PaperFlat(n_agents=100_000, n_clusters=5, n_arms=5, sizes="uniform")(
        np.random.default_rng(1)
    )
    assert stats.chisquare(np.bincount(flat.clusters)).pvalue > ALARM


def test_clusters_may_stay_empty() -> None:
    instance = PaperFlat(n_agents=10, n_clusters=20, sizes="power", alpha=2)(
        np.random.default_rng(0)
    )
    assert np.unique(instance.clusters).size < 20
    assert np.unique(PaperSmall(n_agents=2)(np.random.default_rng(0)).clusters).size == 2


def test_near_tie_has_to_be_resolved() -> None:
    """The runner-up is far from the best in every other bandit, so no assumption excludes it."""
    instance = NearTie(gap=0.001)(np.random.default_rng(3))
    for m in range(3):
        runner_up = np.argsort(instance.means[m])[-2]
        others = np.delete(np.arange(3), m)
        assert np.all(instance.means[others].max(axis=1) - instance.means[others, runner_up] >= 0.3)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("papersmall", {}, "unknown generator 'papersmall'; known: paper-small"),
        (
            "paper-small",
            {"n_arms": 4},
            "argument 'n_arms'; .* generator, which has n_agents, sizes, alpha",
        ),
        ("paper-random", {"etta": 0.1}, "unexpected keyword argument 'etta'"),
        ("paper-random", {"eta": 0.51}, "eta must lie between 1e-12 and 0.5"),
        ("paper-random", {"eta": 0.0}, "eta must lie"),
        ("paper-random", {"n_agents": 0}, "n_agents must be a whole number"),
        ("paper-random", {"n_agents": 2.0}, "n_agents must be a whole number"),
        ("paper-random", {"n_clusters": 7, "n_arms": 6}, "7 clusters need"),
        ("paper-flat", {"eta": np.nan}, "eta must lie"),
        ("paper-flat", {"eta": 1e-20}, "eta must lie"),
        ("paper-flat", {"sizes": "big"}, "'equal', 'uniform', 'power'"),
        ("paper-flat", {"alpha": 1.0}, "0 without sizes='power'"),
        ("paper-flat", {"alpha": np.inf, "sizes": "power"}, "finite"),
        ("near-tie", {"n_arms": 5}, "3 clusters need n_arms >= 6, got 5"),
        ("near-tie", {"gap": 0.4}, "gap must lie"),
        ("near-tie", {"gap": 0.0}, "gap must lie"),
        ("random", {"rewards": "cauchy"}, "'gaussian', 'bernoulli', 'categorical'"),
        ("random", {"rewards": "bernoulli", "sigma": 2.0}, "not of bernoulli ones"),
        ("random", {"sigma": -1.0}, "sigma"),
        ("random", {"eta": 1.0}, "eta must lie"),
        ("tiny", {"eta1": -0.1}, "eta1 must lie"),
    ],
)
def test_bad_settings(name: str, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_generator(name, **settings)


def test_own_generators() -> None:
    def mine(rng: np.random.Generator) -> Instance:
        return PaperSmall(3)(rng)

    assert make_generator(mine) is mine
    with pytest.raises(ValueError, match="already made"):
        make_generator(mine, n_agents=4)
    with pytest.raises(ValueError, match="name or a callable"):
        make_generator(3)  # type: ignore[arg-type]
