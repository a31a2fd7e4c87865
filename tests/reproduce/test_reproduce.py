"""The paper's figures by one call: resuming, real data, invalid requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from clustered_bandit_gym.harness.store import Store
from clustered_bandit_gym.reproduce import reproduce


def columns(folder: Path, name: str) -> pd.DataFrame:
    table = pd.read_csv(folder / f"{name}.csv").drop(columns="seconds")
    return table.sort_values(["policy", "env_kwargs", "trial"], ignore_index=True)


def test_an_interrupted_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"trials": 2, "n_jobs": 1, "progress": False, "quick": True}
    whole = reproduce(["fig1a"], out=tmp_path / "whole", **settings)
    # Two sizes, four schemes and StructuredBAI, two trials each.
    assert len(columns(tmp_path / "whole", "fig1a")) == len(whole["fig1a"].rows) == 2 * 5 * 2
    assert whole["fig1a"].rows["bound"].notna().all()
    assert (tmp_path / "whole" / "fig1a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    put, kept = Store.put, []

    def put_some(self: Store, *row: Any) -> None:
        if len(kept) == 10:
            raise KeyboardInterrupt
        kept.append(row)
        put(self, *row)

    monkeypatch.setattr(Store, "put", put_some)
    with (
        pytest.warns(UserWarning, match="interrupted"),
        pytest.raises(KeyboardInterrupt, match="6 trials of fig1a are left"),
    ):
        reproduce(["fig1a"], out=tmp_path / "again", **settings)
    kept.clear()
    monkeypatch.setattr(Store, "put", lambda self, *row: (kept.append(row), put(self, *row))[1])
    reproduce(["fig1a"], out=tmp_path / "again", **settings)
    assert len(kept) == 6 + 4
    pd.testing.assert_frame_equal(
        columns(tmp_path / "again", "fig1a"), columns(tmp_path / "whole", "fig1a")
    )


def test_real_data_take_the_place_of_the_stand_in(tmp_path: Path) -> None:
    """Six groups, six movies: group g loves movie g. Every movie has 30 ratings but one more of the
    first six.
    """
    ages = (18, 25, 35, 45, 50, 56)
    users, ratings = [], []
    for group, age in enumerate(ages):
        for j in range(31):
            user = group * 31 + j + 1
            users.append(f"{user}::F::{age}::1::12345\n")
            ratings += [
                f"{user}::{movie + 1}::{5 if movie == group else 1 + (j + movie) % 3}::9\n"
                for movie in range(6)
            ]
            ratings += [f"{user}::7::3::9\n"] if j < 30 else []
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "users.dat").write_text("".join(users))
    (folder / "ratings.dat").write_text("".join(ratings))
    (folder / "movies.dat").write_text(
        "".join(f"{movie}::Title {movie}::Drama\n" for movie in range(1, 8))
    )
    how: dict[str, Any] = {"data": str(tmp_path), "progress": False, "quick": True}
    out = reproduce(["fig1f"], 2, tmp_path / "out", n_jobs=1, **how)
    figure = out["fig1f"].figure
    assert (figure.env, figure.real) == ("ClusteredBAI-MovieLens-v0", True)
    assert "real data" in figure.source
    assert set(out["fig1f"].rows["n_arms"]) == {6}


def test_bad_requests_say_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown figure fig9; known: all, fig1a, .*figA-c"):
        reproduce(["fig1a", "fig9"], out=tmp_path / "x")
    with pytest.raises(ValueError, match="at least 2"):
        reproduce(["fig1a"], trials=1, out=tmp_path / "x")
    with pytest.raises(ValueError, match="does not exist; pass an existing path"):
        reproduce(["fig1f"], out=tmp_path / "x", data=str(tmp_path / "nowhere"))
    assert not (tmp_path / "x").exists()
