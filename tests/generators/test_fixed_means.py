"""Your own bandits: tables, CSV files, generators of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym.generators import FixedMeans, make_generator
from clustered_bandit_gym.harness.settings import plain, revive

MEANS = [[0.9, 0.2, 0.1], [0.3, 0.8, 0.2]]
TABLE = "cluster,red,green,blue\nyoung,0.9,0.2,0.1\nold,0.3,0.8,0.2\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "means.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "arms", "clusters"),
    [
        (TABLE, ("red", "green", "blue"), ("young", "old")),
        ("0.9,0.2,0.1\n0.3,0.8,0.2\n", None, None),
        ("red,green,blue\n0.9,0.2,0.1\n0.3,0.8,0.2\n", ("red", "green", "blue"), None),
        ("young,0.9,0.2,0.1\n\nold,0.3,0.8,0.2\n", None, ("young", "old")),
        (
            "\ufeffgroup,red,green,blue\nyoung,.9,.2,.1\nold,.3,.8,.2\n",
            ("red", "green", "blue"),
            ("young", "old"),
        ),
    ],
)
def test_tables_of_means(tmp_path: Path, text: str, arms: Any, clusters: Any) -> None:
    instance = cbg.Instance.from_csv(write(tmp_path, text))
    assert instance.means.tolist() == MEANS
    assert instance.arm_names == arms
    assert instance.cluster_names == clusters
    assert instance.clusters.tolist() == [0, 1]


def test_raw_rewards_keep_their_law(tmp_path: Path) -> None:
    rows = [("a", "x", v) for v in (3, 4, 5, 5)] + [("a", "y", v) for v in (1, 2)]
    rows += [("b", "x", 1), ("b", "y", 5), ("b", "y", 4)]
    path = write(
        tmp_path, "arm,cluster,when,reward\n" + "".join(f"{arm},{c},t,{v}\n" for c, arm, v in rows)
    )
    instance = cbg.Instance.from_csv(path, clusters=[0, 1, 1])
    assert instance.means.tolist() == [[4.25, 1.5], [1.0, 4.5]]
    law = instance.rewards
    assert isinstance(law, cbg.Categorical)
    assert law.support.tolist() == [1, 2, 3, 4, 5]
    assert law.probabilities[0, 0].tolist() == [0, 0, 0.25, 0.25, 0.5]


def test_raw_rewards_of_zero_and_one_and_continuous_ones(tmp_path: Path) -> None:
    coins = "cluster,arm,reward\n0,0,1\n0,0,1\n0,1,0\n1,0,0\n1,1,1\n1,1,0\n"
    instance = cbg.Instance.from_csv(write(tmp_path, coins))
    assert isinstance(instance.rewards, cbg.Bernoulli)
    assert instance.means.tolist() == [[1.0, 0.0], [0.0, 0.5]]
    rng = np.random.default_rng(0)
    draws = {(c, k): rng.normal(c == k, 0.5, 200) for c in (0, 1) for k in (0, 1)}
    text = "cluster,arm,reward\n" + "".join(
        f"{c},{k},{v}\n" for (c, k), values in draws.items() for v in values
    )
    instance = cbg.Instance.from_csv(write(tmp_path, text))
    assert isinstance(instance.rewards, cbg.Gaussian)
    assert instance.rewards.sigma == pytest.approx(
        max(values.std(ddof=1) for values in draws.values())
    )
    assert instance.means[1, 0] == pytest.approx(draws[1, 0].mean())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read as a CSV file"),
        ("a,b\n", "no rows"),
        ("0.1,0.2\n0.3\n", "expected finite numbers, got '' in line 2"),
        ("0.1,0.2\n0.3,x\n", "expected finite numbers, got 'x' in line 2"),
        ("0.1,nan\n0.3,0.1\n", "finite numbers, got 'nan' in line 1"),
        ("0.1,0.2,x\n0.3,0.4,0.2\n", "line 1: expected means, or names of arms"),
        ("a;b\n0,1;0,2\n", "commas between cells, got 'a;b'"),
        ("0.1\t0.2\n", "commas between cells"),
        ("cluster,arm,reward\n", "no rows"),
        ("cluster,arm,reward\na,b,c\n", "expected finite numbers, got 'c' in line 2"),
        ("cluster,arm,reward\na,b,1\na,c,0\nd,b,0\n", "no reward of arm 'c' in 'd'"),
        ("cluster,arm,reward\na,b\n", "expected finite numbers"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cbg.Instance.from_csv(write(tmp_path, text))


@pytest.mark.parametrize("corner", ["", "cluster", "Cluster"])
def test_names_that_are_numbers(tmp_path: Path, corner: str) -> None:
    """Prices as arms, and clusters as pandas numbers them."""
    instance = cbg.Instance.from_csv(write(tmp_path, f"{corner},9.5,12\n0,0.8,0.2\n1,0.1,0.7\n"))
    assert instance.means.tolist() == [[0.8, 0.2], [0.1, 0.7]]
    assert (instance.arm_names, instance.cluster_names) == (("9.5", "12"), ("0", "1"))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        cbg.Instance.from_csv(tmp_path / "nowhere.csv")


def test_generator_spreads_any_number_of_agents() -> None:
    generator = FixedMeans(means=MEANS, n_agents=10, sizes=[3, 1])
    instance = generator(np.random.default_rng(0))
    # 10 agents at 3 : 1 are 7.5 and 2.5: remainders are equal, the first cluster gets the agent left over.
    assert np.bincount(instance.clusters).tolist() == [8, 2]
    assert instance.means.tolist() == MEANS
    assert revive("generator", plain(generator)) == generator
    assert FixedMeans(means=MEANS).n_agents == 2
    assert np.bincount(
        FixedMeans(means=MEANS, n_agents=7)(np.random.default_rng(0)).clusters
    ).tolist() == [4, 3]


@pytest.mark.parametrize(
    ("n", "shares", "sizes"), [(5, [1, 0], [5, 0]), (1, [1, 1, 1], [1, 0, 0]), (7, [2, 5], [2, 5])]
)
def test_split(n: int, shares: list[float], sizes: list[int]) -> None:
    generator = FixedMeans(means=np.eye(len(shares)), n_agents=n, sizes=shares)
    clusters = generator(np.random.default_rng(0)).clusters
    assert np.bincount(clusters, minlength=len(shares)).tolist() == sizes


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"means": [1, 2]}, "a table .clusters, arms."),
        ({"means": [[1, "x"]]}, "means must be finite numbers"),
        ({"means": MEANS, "sizes": [1]}, "sizes must be 2 numbers"),
        ({"means": MEANS, "sizes": [-1, 2]}, "numbers >= 0"),
        ({"means": MEANS, "sizes": [-1, -2]}, "numbers >= 0"),
        ({"means": MEANS, "sizes": [0, 0]}, "positive sum"),
        ({"means": MEANS, "sizes": "odd"}, "sizes must be one of"),
        ({"means": MEANS, "rewards": "odd"}, "rewards must be"),
        ({"means": MEANS, "rewards": "data"}, "means alone have no law"),
        (
            {"means": [[1, 0], [1, 0]]},
            "clusters 0 and 1 share the best arm 0; .* allow_overlap=True",
        ),
        ({"means": [[1, 0], [0, 1], [0, 1]]}, "clusters 1 and 2 share the best arm 1"),
        (
            {"means": [[1, 0], [0, 1], [0, 1]], "sizes": [1, 1, 1]},
            "clusters 1 and 2 share the best arm 1",
        ),
        (
            {"means": MEANS, "allow_overlap": "no"},
            "allow_overlap must be one of True, False; got 'no'",
        ),
        (
            {"means": [[1, 1, 0]]},
            "cluster 0 has several best arms, 0 and 1; .* --set allow_ties=true",
        ),
    ],
)
def test_bad_settings(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FixedMeans(**settings)


def test_means_are_required() -> None:
    with pytest.raises(ValueError, match=r"generator 'fixed-means': .*missing .* 'means'"):
        make_generator("fixed-means")


def test_shared_best_arms_and_ties_can_be_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, "cluster,red,green\nyoung,0.9,0.1\nold,0.8,0.2\nbaby,0.5,0.5\n")
    with pytest.raises(ValueError, match="cluster baby has several best arms, red and green"):
        gym.make("ClusteredBAI-v0", instance=str(path), allow_overlap=True)
    with pytest.raises(ValueError, match="clusters young and old share the best arm red"):
        gym.make("ClusteredBAI-v0", instance=str(path), allow_ties=True)
    env = gym.make(
        "ClusteredBAI-v0", instance=str(path), allow_overlap=True, allow_ties=True, n_agents=6
    )
    _, info = env.reset(seed=0)
    assert (info["n_agents"], info["eta"]) == (6, 0.0)  # 0: not told


def test_environment_takes_a_csv_file_and_sweeps_agents(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    env = gym.make("ClusteredBAI-v0", instance=str(path), n_agents=6, rewards="bernoulli")
    env.reset(seed=0)
    truth = env.unwrapped.truth  # type: ignore[attr-defined]
    assert truth.n_agents == 6
    assert truth.arm_names == ("red", "green", "blue")
    board = cbg.sweep(
        "naive", "ClusteredBAI-v0", instance=str(path), n_agents=(2, 4), trials=2, progress=False
    )
    assert sorted(board.trials["n_agents"].unique()) == [2, 4]
    path.write_text(TABLE.replace("0.9", "0.95"))
    env = gym.make("ClusteredBAI-v0", instance=str(path))
    env.reset(seed=0)
    assert env.unwrapped.truth.means[0, 0] == 0.95  # type: ignore[attr-defined]


MODULE = """
import numpy as np
import clustered_bandit_gym as cbg

def draw(rng, top=0.9):
    return cbg.Instance([[top, 0.1], [0.2, 0.8]], rng.permutation([0, 1, 1]))

class Maker:
    def __init__(self, top=0.9):
        self.top = top
    def __call__(self, rng):
        return draw(rng, self.top)

NUMBER = 3
"""


def test_generators_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_generators.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_own_generators:draw", "my_own_generators:Maker"):
        env = gym.make("ClusteredBAI-v0", generator=name, generator_kwargs={"top": 0.7})
        env.reset(seed=0)
        assert env.unwrapped.truth.means[0, 0] == 0.7  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="odd"):
            make_generator(name, odd=1)
    for spec, says in (
        ("my_own_generators:nothing", "has no attribute 'nothing'"),
        ("my_own_generators:NUMBER", "is not a callable object"),
        ("no_such_module_here:draw", "No module named 'no_such_module_here'"),
    ):
        with pytest.raises(ValueError, match=says):
            make_generator(spec)
