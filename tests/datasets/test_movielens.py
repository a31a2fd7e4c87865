"""The MovieLens reader, on small files in the true format; every number is computed by hand or by pandas."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from clustered_bandit_gym import datasets
from clustered_bandit_gym.generators import make_generator

AGES = (18, 25, 35, 45, 50, 56)
TITLES = {
    1: "Toy Story (1995)",
    2: "Cité des enfants perdus, La (1995)",
    3: "Léon: The Professional (1994)",
    4: "Movie 4 (1999)",
    5: "Movie 5 (1999)",
    6: "Movie 6 (1999)",
    7: "Seldom Seen (1980)",
}


def small_ratings() -> dict[tuple[int, int], list[int]]:
    """(age, movie) -> ratings. Group g's best movie is g (1..6); movie 7 has a single rating in group 56."""
    table = {(age, movie): [3, 4] for age in AGES for movie in TITLES}
    for number, age in enumerate(AGES, start=1):
        table[age, number] = [5, 5, 4]  # 14/3
    table[18, 2] = [4, 4, 5]  # 13/3: one third below the best of group 18
    table[45, 3] = [5, 4, 4, 5]  # 9/2, one sixth below movie 3's own 14/3
    table[45, 4] = [5, 5, 5]
    table[56, 7] = [1]
    return table


def write(
    folder: Path, table: dict[tuple[int, int], list[int]], titles: dict[int, str] = TITLES
) -> Path:
    """users.dat, movies.dat and ratings.dat: the j-th rater of a group gives the j-th rating of every movie."""
    folder.mkdir(parents=True, exist_ok=True)
    users: dict[tuple[int, int], int] = {}
    lines = []
    for (age, movie), scores in table.items():
        for j, score in enumerate(scores):
            user = users.setdefault((age, j), len(users) + 1)
            lines.append(f"{user}::{movie}::{score}::97830{user:04d}\n")
    child = len(users) + 1  # under 18: must not count
    lines += [f"{child}::{movie}::1::978300000\n" for movie in titles]
    (folder / "users.dat").write_text(
        "".join(f"{user}::F::{age}::10::48067\n" for (age, _), user in users.items())
        + f"{child}::M::1::10::48067\n"
    )
    (folder / "movies.dat").write_bytes(
        "".join(f"{movie}::{title}::Drama|Children's\n" for movie, title in titles.items()).encode(
            "latin-1"
        )
    )
    (folder / "ratings.dat").write_text("".join(lines))
    return folder


@pytest.fixture
def ml(tmp_path: Path) -> Path:
    return write(tmp_path / "ml-1m", small_ratings())


def test_every_number_of_the_small_file(ml: Path) -> None:
    instance = datasets.movielens(ml, n_agents=13, min_ratings=2, seed=4)
    assert instance.arm_names == tuple(
        TITLES[movie] for movie in range(1, 7)
    )  # latin-1; movie 7 dropped
    assert instance.cluster_names == ("18-24", "25-34", "35-44", "45-49", "50-55", "56+")
    expected = np.full((6, 6), 7 / 4)  # (3 + 4)/2, halved
    np.fill_diagonal(expected, 14 / 6)
    expected[0, 1], expected[3, 2], expected[3, 3] = 13 / 6, 9 / 4, 5 / 2
    np.testing.assert_allclose(instance.means, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(instance.rewards.support, [0.5, 1, 1.5, 2, 2.5])
    np.testing.assert_allclose(instance.rewards.probabilities[0, 0], [0, 0, 0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(instance.rewards.probabilities[5, 0], [0, 0, 1 / 2, 1 / 2, 0])
    np.testing.assert_array_equal(instance.best_arms, np.arange(6))
    assert instance.eta == pytest.approx(1 / 6, abs=1e-15)
    assert instance.eta1 == pytest.approx(1 / 12, abs=1e-15)
    assert instance.rewards.sigma == 1.0
    assert sorted(np.bincount(instance.clusters).tolist()) == [2, 2, 2, 2, 2, 3]


def test_min_ratings_counts_each_group(ml: Path) -> None:
    instance = datasets.movielens(ml, n_agents=6, min_ratings=1)
    assert instance.n_arms == 7
    assert instance.means[5, 6] == 0.5
    assert instance.means[0, 6] == 1.75


def test_a_larger_random_file_agrees_with_pandas(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = {
        (age, movie): rng.choice(
            range(1, 6), size=rng.integers(12 if movie <= 6 else 8, 60), p=rng.dirichlet(np.ones(5))
        ).tolist()
        for age in AGES
        for movie in range(1, 41)
    }
    table |= {
        (age, movie): [5] * 20 for movie, age in enumerate(AGES, start=1)
    }  # a best movie for each group
    folder = write(tmp_path / "data", table, {movie: f"Movie {movie}" for movie in range(1, 41)})
    frame = pd.DataFrame(
        [(*key, score) for key, scores in table.items() for score in scores],
        columns=["a", "m", "r"],
    )
    counts = frame.pivot_table(index="m", columns="a", values="r", aggfunc="count")
    kept = counts[counts.min(axis=1) >= 12].index
    means = frame.pivot_table(index="a", columns="m", values="r", aggfunc="mean")[kept].to_numpy()
    assert 6 < len(kept) < 40
    instance = datasets.movielens(folder, n_agents=6, min_ratings=12)
    assert instance.arm_names == tuple(f"Movie {movie}" for movie in kept)
    np.testing.assert_allclose(instance.means, means / 2, rtol=1e-13)


def test_zip_folder_and_environment_variable_are_the_same_data(
    ml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = datasets.movielens(ml, min_ratings=2)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "ml-1m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/ml-1m/._ratings.dat", b"\x00junk")
        for name in ("README", "ratings.dat", "users.dat", "movies.dat"):
            archive.writestr(
                f"ml-1m/{name}", (ml / name).read_bytes() if name != "README" else b"hello"
            )
    assert datasets.movielens(shelf / "ml-1m.zip", min_ratings=2) == expected
    assert datasets.movielens(shelf, min_ratings=2) == expected
    assert datasets.movielens(tmp_path, min_ratings=2) == expected  # holds ml-1m/
    monkeypatch.setenv("CLUSTERED_BANDIT_DATA", str(shelf))
    assert datasets.movielens(min_ratings=2) == expected
    generator = make_generator("movielens", min_ratings=2)
    assert (generator.n_clusters, generator.n_arms) == (6, 6)  # type: ignore[attr-defined]
    assert generator(np.random.default_rng(0)) == expected


def test_the_environment_finds_the_data(ml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERED_BANDIT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="CLUSTERED_BANDIT_DATA"):
        gym.make("ClusteredBAI-MovieLens-v0")
    env = gym.make("ClusteredBAI-MovieLens-v0", data=str(ml), min_ratings=2, n_agents=12)
    _, info = env.reset(seed=1)
    assert (info["n_agents"], info["n_arms"], info["n_clusters"]) == (12, 6, 6)
    assert info["eta"] == pytest.approx(1 / 6)
    assert info["eta1"] == pytest.approx(1 / 12)
    monkeypatch.setenv("CLUSTERED_BANDIT_DATA", str(ml))
    _, again = gym.make("ClusteredBAI-MovieLens-v0", min_ratings=2, n_agents=12).reset(seed=1)
    assert str(again) == str(info)


def test_a_changed_file_is_read_again(ml: Path) -> None:
    assert datasets.movielens(ml, min_ratings=2).means[0, 5] == 1.75
    table = small_ratings()
    table[18, 6] = [2, 2, 2, 2]
    write(ml, table)
    os.utime(ml / "ratings.dat", ns=(1, 1))
    assert datasets.movielens(ml, min_ratings=2).means[0, 5] == 1.0


def test_carriage_returns_and_blank_lines_do_not_matter(ml: Path) -> None:
    expected = datasets.movielens(ml, min_ratings=2)
    text = (ml / "ratings.dat").read_bytes()
    (ml / "ratings.dat").write_bytes(text.replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert datasets.movielens(ml, min_ratings=2) == expected


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        (
            "ratings.dat",
            b"1::1::5",
            r"ratings\.dat, line 4: expected UserID::MovieID::Rating::Timestamp",
        ),
        ("ratings.dat", b"1::1::6::978300000", r"line 4: .*a rating of 1 to 5, found '1::1::6"),
        ("ratings.dat", b"1::one::5::978300000", r"ratings\.dat, line 4"),
        ("ratings.dat", b"999::1::5::978300000", r"line 4: expected .* with a user of users\.dat"),
        ("ratings.dat", b"1,1,5,978300000", r"ratings\.dat, line 4"),
        ("users.dat", b"99::F::19::10::48067", r"users\.dat, line 4: .*age code of 18, 25, 35"),
        ("users.dat", b"99::F::18::10", r"users\.dat, line 4"),
        ("movies.dat", b"99::No genre", r"movies\.dat, line 4: expected MovieID::Title::Genres"),
    ],
)
def test_a_broken_line_is_named(ml: Path, file: str, line: bytes, said: str) -> None:
    lines = (ml / file).read_bytes().split(b"\n")
    (ml / file).write_bytes(b"\n".join(lines[:3] + [line] + lines[3:]))
    with pytest.raises(ValueError, match=said):
        datasets.movielens(ml, min_ratings=2)


def test_missing_data_says_where_to_get_it(
    ml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLUSTERED_BANDIT_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"no path given.*grouplens\.org.*CLUSTERED_BANDIT_DATA"
    ) as told:
        datasets.movielens()
    assert "--set data=PATH" in str(told.value)
    assert "ClusteredBAI-MovieLensLike-v0" in str(told.value)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*grouplens"):
        datasets.movielens(tmp_path / "nowhere")
    (ml / "users.dat").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no users\.dat"):
        datasets.movielens(ml)
    with pytest.raises(FileNotFoundError, match="no path given"):
        make_generator("movielens")


def test_a_damaged_archive_is_an_error_not_a_short_data_set(ml: Path, tmp_path: Path) -> None:
    whole = tmp_path / "ml-1m.zip"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("ratings.dat", "users.dat", "movies.dat"):
            archive.write(ml / name, name)
    content = bytearray(whole.read_bytes())
    content[60:90] = bytes(30)  # inside the compressed ratings
    (tmp_path / "hurt.zip").write_bytes(bytes(content))
    with pytest.raises(ValueError, match="cannot be read"):
        datasets.movielens(tmp_path / "hurt.zip", min_ratings=2)
    (tmp_path / "short.zip").write_bytes(bytes(content[:200]))
    with pytest.raises(ValueError, match="cannot be read"):
        datasets.movielens(tmp_path / "short.zip", min_ratings=2)


def test_no_movie_left(ml: Path) -> None:
    with pytest.raises(ValueError, match=r"no movie left.*31 ratings in each.*the most is 2"):
        datasets.movielens(ml)
    with pytest.raises(ValueError, match="min_ratings must be a whole number >= 1"):
        datasets.movielens(ml, min_ratings=0)
    (ml / "ratings.dat").write_text("")
    with pytest.raises(ValueError, match=r"no movie left.*the most is 0"):
        datasets.movielens(ml, min_ratings=2)


def test_no_unique_best_arm(ml: Path) -> None:
    table = small_ratings()
    table[35, 5] = [5, 4, 5, 5, 4, 5]  # 28/6 = 14/3: equal means from different counts
    with pytest.raises(
        ValueError, match=r"cluster 35-44 has several best arms, Léon.* and Movie 5"
    ):
        datasets.movielens(write(ml, table), min_ratings=2)
    table[35, 5] = [5, 5]
    with pytest.raises(ValueError, match=r"clusters 35-44 and 50-55 share the best arm Movie 5"):
        datasets.movielens(write(ml, table), min_ratings=2)
