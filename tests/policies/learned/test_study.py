"""Training measured over seeds: the intervals, what is kept, and the page in the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("stable_baselines3")
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.policies.learned import study
from clustered_bandit_gym.policies.learned.files import TrainingFiles
from clustered_bandit_gym.policies.learned.page import render
from clustered_bandit_gym.policies.learned.training import TrainSettings, train

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"
SMALL: dict[str, Any] = {
    "steps": 64,
    "n_envs": 8,
    "n_steps": 8,
    "evaluations": 1,
    "validation_trials": 2,
}


def test_the_page_is_made_from_the_stored_results() -> None:
    studies = json.loads((RESULTS / "learned.json").read_text(encoding="utf-8"))
    assert (RESULTS / "learned.md").read_text(encoding="utf-8") == render(studies)
    # The stored means are those of the stored models.
    for one in studies.values():
        for played in one["played"]:
            assert len(played["models"]) == len(one["training_seeds"])
            assert played["ratio"]["mean"] == pytest.approx(
                np.mean([row["ratio"] for row in played["models"]])
            )


def test_interval_of_the_mean_over_seeds() -> None:
    """Without noise of the instances it is Student's interval, with one seed the quantiles of the resamples."""
    measured = np.array([0.4, 0.5, 0.45, 0.6])
    found = study.mean_over_seeds(np.repeat(measured[:, None], 11, axis=1))
    exact = stats.t.interval(0.95, 3, loc=measured.mean(), scale=stats.sem(measured))
    assert (found["low"], found["high"]) == pytest.approx(exact)
    one = study.mean_over_seeds(np.array([[0.5, *np.linspace(0.4, 0.6, 2001)]]))
    assert (one["low"], one["mean"], one["high"]) == pytest.approx((0.405, 0.5, 0.595))


def test_a_study_compares_models_with_their_start(tmp_path: Path) -> None:
    files = [tmp_path / f"small-{seed}.zip" for seed in (3, 4)]
    for seed, file in zip((3, 4), files, strict=True):
        settings = TrainSettings(seed=seed, learning_rate=1e-12, entropy=0.0, **SMALL)
        assert not TrainingFiles(file).is_finished(settings)
        train(settings, file, progress=False)
        assert TrainingFiles(file).is_finished(settings)
        assert not TrainingFiles(file).is_finished(TrainSettings(seed=seed, **SMALL))
    said: list[str] = []
    found = study.measure(files, [{"n_agents": 6, "trials": 2}], 8, 1, said.append)
    assert len(said) == 2 * (2 + len(study.STOPS))  # two models and the rule, at two sizes
    assert [played["trials"] for played in found["played"]] == [8, 2]
    # A learning rate of almost nothing: the models play as the rule does.
    for played in found["played"]:
        start = dict(played["rule"][study.STOPS.index(study.STOP_BELOW)])
        assert start.pop("stop") == study.STOP_BELOW
        assert played["models"] == [start, start]
        assert played["ratio"] == played["rule_ratio"]
        pulls = [row["pulls"] for row in played["rule"]]
        assert pulls == sorted(pulls)  # a lower threshold stops later
        assert pulls[0] < pulls[-1]
    assert all(seconds > 0 for seconds in found["processor_seconds"])
    page = tmp_path / "page.md"
    study.enter(page, "first", found)
    study.enter(page, "second", found)
    stored = json.loads(page.with_suffix(".json").read_text())
    assert list(stored) == ["first", "second"]
    assert page.read_text() == render(stored)
    assert "N = 6, M = 2, K = 3" in page.read_text()
    assert "--also n_agents=6,trials=2 --trials 8" in page.read_text()
    assert "--seeds 2 --steps 64 --n-envs 8" in page.read_text()
    other = tmp_path / "other.zip"
    train(TrainSettings(seed=3, **{**SMALL, "steps": 128}), other, progress=False)
    with pytest.raises(UserError, match="except for the training seed"):
        study.measure([files[0], other], [], 2, 1, said.append)
    with pytest.raises(UserError, match=r"must end in \.md"):
        study.enter(tmp_path / "page.txt", "first", found)
