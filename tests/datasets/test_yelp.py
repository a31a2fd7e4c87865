"""The Yelp reader, on small files in the true format; every number is computed by hand."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clustered_bandit_gym import datasets
from clustered_bandit_gym.datasets import yelp_open
from clustered_bandit_gym.generators import make_generator

NAME = "yelp_academic_dataset_business.json"


def line(name: str, state: str, stars: float, reviews: int = 10) -> str:
    return json.dumps(
        {
            "business_id": f"{name}{state}{stars}",
            "name": name,
            "address": "935 Race St",
            "city": "Somewhere",
            "state": state,
            "stars": stars,
            "review_count": reviews,
            "is_open": 1,
            "attributes": None,
            "categories": "Restaurants",
        },
        ensure_ascii=False,
    )


SMALL = [
    line("Zeta Café", "LA", 5.0),
    line("Zeta Café", "LA", 4.0, 30),
    line("Zeta Café", "TN", 3.5),
    line("Baker's Own", "LA", 3.0),
    line("Baker's Own", "TN", 4.5),
    line("Baker's Own", "TN", 4.5, 1),
    line("Baker's Own", "TN", 4.0, 4),
    line("Chain", "LA", 2.0),
    line("Chain", "TN", 2.5),
    line("Chain", "TN", 1.0),
    line("Only here", "LA", 5.0),
    line("", "LA", 5.0),
    line("", "TN", 5.0),
    line("Zeta Café", "PA", 1.0),
]


@pytest.fixture(autouse=True)
def two_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clusters are enough for small files."""
    monkeypatch.setattr(yelp_open, "STATES", ("LA", "TN"))


@pytest.fixture
def business(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    return path


def test_every_number_of_the_small_file(business: Path) -> None:
    instance = datasets.yelp(business, n_agents=5, seed=2)
    assert instance.arm_names == ("Baker's Own", "Chain", "Zeta Café")
    assert instance.cluster_names == ("LA", "TN")
    np.testing.assert_allclose(
        instance.means, [[3, 2, 4.5], [13 / 3, 1.75, 3.5]], rtol=0, atol=1e-15
    )
    assert instance.best_arms.tolist() == [2, 0]
    # LA: 4.5 − 3; TN: 13/3 − 3.5 = 5/6, the smaller. Assumption 2: |4.5 − 3.5| = 1, |13/3 − 3| = 4/3.
    assert instance.eta == pytest.approx(5 / 6, abs=1e-15)
    assert instance.eta1 == pytest.approx(1.0, abs=1e-15)
    assert instance.rewards.to_dict() == {"kind": "gaussian", "sigma": 1.0}
    assert sorted(np.bincount(instance.clusters).tolist()) == [2, 3]


def test_arms_as_good_as_a_best_arm_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stars = {  # name: (LA, TN, MO)
        "a": (5.0, 5.0, 2.0),  # best in two states: cannot stay
        "b": (5.0, 3.0, 3.0),  # first of those that are best in LA alone: stays
        "c": (5.0, 2.0, 4.0),  # best in LA too: goes
        "d": (1.0, 5.0, 4.0),  # best in TN alone: stays
        "e": (2.0, 2.0, 4.5),  # best in MO: stays
        "f": (
            4.5,
            4.5,
            4.0,
        ),  # equals the best mean of MO, but in LA and TN, where it is not the best: stays
    }
    path = tmp_path / "business.json"  # a renamed file
    path.write_text(
        "\n".join(
            line(n, s, v)
            for n, row in stars.items()
            for s, v in zip(("LA", "TN", "MO"), row, strict=True)
        )
    )
    monkeypatch.setattr(yelp_open, "STATES", ("LA", "TN", "MO"))
    instance = datasets.yelp(path)
    assert instance.arm_names == ("b", "d", "e", "f")
    np.testing.assert_array_equal(instance.means, [[5, 1, 2, 4.5], [3, 5, 2, 4.5], [3, 4, 4.5, 4]])
    assert (instance.eta, instance.eta1) == (0.5, 1.0)


def test_no_unique_best_arm(tmp_path: Path) -> None:
    path = tmp_path / NAME
    rows = [("x", "LA", 5), ("x", "TN", 5), ("y", "LA", 4), ("y", "TN", 5)]
    path.write_text("\n".join(line(*row) for row in rows))
    with pytest.raises(
        ValueError, match=r"no unique best arm: every best business of LA \(x\) is also best"
    ):
        datasets.yelp(path)


def test_folder_and_zip(business: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = datasets.yelp(business)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "yelp_dataset.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/a_review.json", b'{"review_id": "x"}\n' * 1000)
        archive.write(business, f"inside/{NAME}")
    for path in (tmp_path, "shelf", "shelf/yelp_dataset.zip"):
        assert datasets.yelp(tmp_path / path) == expected, path
    monkeypatch.setenv("CLUSTERED_BANDIT_DATA", str(shelf))
    assert make_generator("yelp", n_agents=100)(np.random.default_rng(0)) == expected


@pytest.mark.parametrize(
    "broken",
    [
        '{"name": "x", "state": "LA", "stars": 4.0',
        '{"name": "x", "state": "LA", "review_count": 3}',
        '{"name": "x", "state": "LA", "stars": 7, "review_count": 3}',
        '{"name": 5, "state": "LA", "stars": 4, "review_count": 3}',
        '{"name": "x", "state": null, "stars": 4, "review_count": 3}',
        "[1, 2]",
        "business_id,name,state,stars",
    ],
)
def test_a_broken_line_is_named(business: Path, broken: str) -> None:
    business.write_text("\n".join([*SMALL[:6], broken, *SMALL[6:]]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"business\.json, line 7: expected one JSON object"):
        datasets.yelp(business)


def test_errors_say_what_to_do(
    business: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLUSTERED_BANDIT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"www\.yelp\.com/dataset.*CLUSTERED_BANDIT_DATA"):
        datasets.yelp()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=f"holds no {NAME}"):
        datasets.yelp(tmp_path / "empty")
    business.write_text("\n".join(SMALL[:2]), encoding="utf-8")
    with pytest.raises(ValueError, match="no business name is present in all of LA, TN"):
        datasets.yelp(business)
    business.write_text("\n".join([*SMALL[:2], line("Lonely", "TN", 3.0)]), encoding="utf-8")
    with pytest.raises(ValueError, match="no business name is present in all of LA, TN"):
        datasets.yelp(business)
    zipfile.ZipFile(tmp_path / "other.zip", "w").close()
    with pytest.raises(FileNotFoundError, match=r"other\.zip holds no"):
        datasets.yelp(tmp_path / "other.zip")
