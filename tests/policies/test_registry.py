"""Policies by name, and the baselines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustered_bandit_gym as cbg
from clustered_bandit_gym import policies
from clustered_bandit_gym.policies import POLICIES, RandomPolicy, UniformPolicy, make


@pytest.mark.parametrize("name", ["naive", "cl-bai", "bai-cl", "bai-cl++", "uniform", "random"])
def test_names(name: str) -> None:
    policy = make(name)
    assert policy.name == policy.label == name
    assert getattr(policies, POLICIES[name].partition(":")[2]) is type(policy)


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    policy = make("bai-cl++:confidence=certified,verify=agent")
    assert policy.settings["confidence"] == "certified"
    assert policy.settings["verify"] == "agent"
    assert policy.label == "bai-cl++:confidence=certified,verify=agent"
    assert make(policy.label).settings == policy.settings
    assert (
        str(tmp_path) not in sys.path
    )  # the current folder is searched for one's own modules only
    assert (
        make("uniform:7").settings
        == make("uniform:pulls_per_arm=7").settings
        == {"pulls_per_arm": 7}
    )


OWN = """
import numpy as np
import clustered_bandit_gym as cbg

class Mine(cbg.Policy):
    def __init__(self, c=1, flag=False, word=None, x=0.5):
        self.c, self.flag, self.word, self.x = c, flag, word, x
    def solve(self, federation):
        return np.zeros(federation.problem.n_agents, dtype=int)

class NoPolicy:
    pass
"""


def test_one_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_policies_for_a_test.py").write_text(OWN)
    (tmp_path / "broken_for_a_test.py").write_text("import no_such_module_anywhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    policy = make("own_policies_for_a_test:Mine:c=3,flag=true,word=none,x=1e-3")
    assert policy.settings == {"c": 3, "flag": True, "word": None, "x": 1e-3}
    assert make("own_policies_for_a_test:Mine").settings["c"] == 1
    assert (
        make("own_policies_for_a_test:Mine:runs/lr=3.zip,word=x").settings["c"] == "runs/lr=3.zip"
    )
    with pytest.raises(ValueError, match="has no attribute 'Other'"):
        make("own_policies_for_a_test:Other")
    with pytest.raises(ValueError, match="is not a class derived from"):
        make("own_policies_for_a_test:NoPolicy")
    with pytest.raises(ValueError, match="No module named 'no_such_module_anywhere'"):
        make("broken_for_a_test:Mine")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "bai-clx",
            r"unknown policy 'bai-clx' \(did you mean 'bai-cl' or 'bai-cl\+\+'\?\); known: naive",
        ),
        ("Structured_BAI", "did you mean 'structured-bai'"),
        ("niave:engine=lucb", "did you mean 'naive'"),
        ("xyz", "unknown policy 'xyz'; known: naive"),
        ("lucb", "'lucb' is an engine, not a policy: naive:engine=lucb"),
        ("bai-cl:engine=lucb,engine=mixture", "each key once; got 'engine=mixture'"),
        ("", "unknown policy"),
        ("bai-cl:confidance=certified", "argument 'confidance'; its settings: confidence"),
        ("bai-cl:confidence=sure", "must be one of 'paper', 'certified'"),
        ("no_such_module_anywhere:Mine", "No module named 'no_such_module_anywhere'"),
        ("random:1", "takes no arguments; its settings: none"),
    ],
)
def test_clear_errors(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(spec)


def test_importing_the_package_loads_no_policy() -> None:
    script = (
        "import sys, clustered_bandit_gym.policies as p; "
        "loaded = [m for m in sys.modules if m.endswith(('cl_bai', 'naive', 'bai_cl', 'scipy'))]; "
        "assert not loaded, loaded; p.NaiveSE; assert 'NaiveSE' in dir(p)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_such_attribute() -> None:
    with pytest.raises(AttributeError, match="NoSuchPolicy"):
        _ = policies.NoSuchPolicy  # type: ignore[attr-defined]


def test_uniform_pulls_what_it_says() -> None:
    instance = cbg.Instance(np.array([[1.0, 0.0, 0.5]]), np.zeros(5, dtype=int), cbg.Gaussian(0.01))
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    assert federation.stop(UniformPolicy(4).solve(federation)).correct
    assert federation.pulls_per_agent.tolist() == [12] * 5
    assert federation.ledger.bits("up") == 10
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match="whole number"):
            UniformPolicy(wrong)  # type: ignore[arg-type]


def test_uniform_breaks_ties_at_random() -> None:
    """4000 agents with two equal arms; each share is within 6 standard deviations of a half (false alarm 2e-9)."""
    instance = cbg.Instance(
        np.array([[1.0, 0.0, 1.0]]), np.zeros(4000, dtype=int), cbg.Gaussian(0.0), allow_ties=True
    )
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    arms = UniformPolicy(1).solve(federation)
    assert abs(int((arms == 0).sum()) - 2000) < 6 * np.sqrt(1000)
    assert not (arms == 1).any()


def test_random_pulls_nothing() -> None:
    instance = cbg.Instance(np.eye(4), np.arange(4000) % 4)
    federation = cbg.Federation(instance, cbg.Problem.of(instance, 0.1), seed=0)
    counts = np.bincount(RandomPolicy().solve(federation), minlength=4)
    assert federation.pulls == 0
    assert np.abs(counts - 1000).max() < 6.5 * np.sqrt(750)  # false alarm 4e-10
    assert {UniformPolicy.guarantee, RandomPolicy.guarantee} == {"none"}


def test_a_typing_error_in_one_s_own_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mistyped_for_a_test.py").write_text("x = 1\nclass Bad(:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"mistyped_for_a_test\.py, line 2"):
        make("mistyped_for_a_test:Bad")


class Weighted(cbg.Policy):
    """A policy with an array among its settings."""

    def __init__(self, weights: Any = (1.0, 2.0)) -> None:
        self.weights = np.asarray(weights)

    def solve(self, federation: Any) -> Any:
        return np.zeros(federation.problem.n_agents, dtype=np.int64)


def test_labels_of_policies_with_arrays() -> None:
    assert Weighted().label == "Weighted"
    assert Weighted((1.0, 3.0)).label == "Weighted:weights=[1. 3.]"
    assert Weighted((1.0, 2.0, 3.0)).label == "Weighted:weights=[1. 2. 3.]"
