"""Planning: which policy takes how many pulls on a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import call, error

import clustered_bandit_gym as cbg
from clustered_bandit_gym.study import plan
from clustered_bandit_gym.study.plan import guess

FEW = ("naive", "naive:engine=mixture", "structured-bai")


def test_a_plan_is_what_evaluate_finds() -> None:
    means = [[0.9, 0.2, 0.1], [0.1, 0.8, 0.2]]
    found = plan(20, means=means, policies=FEW, trials=3, seed=1)
    instance = cbg.Instance(means, np.arange(20) % 2, cbg.Bernoulli())
    rows = cbg.evaluate(list(FEW), instance=instance, delta=0.05, trials=3, seed=1).trials
    medians = rows.groupby("policy").pulls.median()
    table = found.table.set_index("policy")
    assert table.pulls.to_dict() == medians.to_dict()
    busiest = rows.groupby("policy").pulls_max_agent.median()
    assert table.pulls_max_agent.to_dict() == busiest.to_dict()
    assert found.policy == medians.idxmin()
    assert found.gain == pytest.approx(medians[list(FEW[:2])].min() / medians["structured-bai"])
    assert f"Take {found.policy}" in str(found)


def test_the_reward_law_counts() -> None:
    """Unit Gaussian rewards need more pulls than coins, whose σ is 1/2."""
    coins, normal = (
        plan(4, 3, 2, gaps=(0.5, 0.5), rewards=law, policies=["naive"], trials=1).table.pulls[0]
        for law in (None, cbg.Gaussian())
    )
    assert normal > 2 * coins


def test_clustering_pays_for_many_agents_alone() -> None:
    """Two clusters, four arms: sharing saves pulls with 200 agents and not with two."""
    gains = [plan(n, 4, 2, gaps=(0.2, 0.4), policies=FEW, trials=1).gain for n in (2, 200)]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0] < 1 < gains[1]


def test_policies_that_cannot_play_say_why() -> None:
    found = plan(
        4, 3, 2, gaps=(0.3, 0.3), policies=("naive", "cl-bai"), told={"eta": None}, trials=1
    )
    assert found.policy == "naive"
    assert found.gain is None
    assert "cl-bai requires eta" in str(found)


def test_more_clusters_than_arms_are_told() -> None:
    with pytest.warns(UserWarning, match="some of them share a best arm, so there is no eta"):
        found = plan(6, 2, 3, gaps=(0.3, 0.3), policies=("naive", "bai-cl"), trials=1)
    assert "bai-cl requires eta" in str(found)
    for means, text in (([[0.9, 0.1], [0.8, 0.1]], "share a best arm"), ([[0.5, 0.5]], "tie")):
        with pytest.warns(UserWarning, match=text):
            plan(4, means=means, policies=("uniform",), trials=1)


def test_guesses_have_the_gaps_that_were_asked_for() -> None:
    instance = guess(np.random.default_rng(0), 9, (3, 5), (0.1, 0.3), cbg.Gaussian())
    gaps = instance.means.max(axis=1, keepdims=True) - instance.means
    others = gaps[gaps > 0]
    assert others.size == 12
    assert others.min() >= 0.1 - 1e-12
    assert others.max() <= 0.3 + 1e-12
    assert instance.best_arms.tolist() == [0, 1, 2]
    crowded = guess(np.random.default_rng(0), 9, (3, 2), (0.1, 0.3), cbg.Bernoulli())
    assert crowded.best_arms.tolist() == [0, 1, 0]


def test_every_option_of_the_command_reaches_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("clustered_bandit_gym.study.plan", lambda *given, **more: seen.update(more))
    (tmp_path / "means.csv").write_text("1,0\n0,1\n")
    words = ("--means", tmp_path / "means.csv", "--delta", 0.2, "--rewards", "gaussian")
    words += ("--sigma", 3, "--hide", "eta", "-p", "naive", "-t", 7, "--epsilon", 0.1, "--seed", 4)
    call("study", "plan", "-n", 6, *words)
    assert seen.pop("means").tolist() == [[1, 0], [0, 1]]
    told = {"gaps": None, "delta": 0.2, "rewards": cbg.Gaussian(3), "told": {"eta": None}}
    assert seen == {**told, "policies": ["naive"], "trials": 7, "epsilon": 0.1, "seed": 4}


def test_the_command_and_its_mistakes(tmp_path: Path) -> None:
    said = call("study", "plan", "-n", 6, "-k", 3, "-m", 2, "--gaps", 0.3, 0.5, "-p", *FEW, "-t", 1)
    assert "Take " in said
    assert said.startswith("6 agents, 3 arms; told M = 2, η = 0.")
    assert "give means, or gaps" in error("study", "plan", "-n", 6)
    good = ("-n", 6, "-k", 3, "-m", 2, "--gaps", 0.3, 0.5)
    for wrong in ((*good, "-m", -3), (*good, "-k", 0), (*good, "-n", -6)):
        assert "must be a whole number >= " in error("study", "plan", *wrong)
    (tmp_path / "m.csv").write_text("0.9,0.2\n0.9,0.3\n")
    means = ("-n", 6, "--means", tmp_path / "m.csv")
    assert "give means, or gaps with n_arms and n_clusters, not both" in error(
        "study", "plan", *means, "-k", 2
    )
    for more in (("--sigma", 2), ("--sigma", 0, "--rewards", "gaussian")):
        assert "--sigma is a positive number" in error("study", "plan", *good, *more)
    assert "0 < least <= most" in error("study", "plan", "-n", 6, "-k", 3, "-m", 2, "--gaps", 2, 1)
    assert "'poisson' is not one of" in error("study", "plan", "-n", 6, "--rewards", "poisson")
