"""Keys of stored rows: equal for equal games, different as soon as anything that makes a row
differs.
"""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness_players import TINY, Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness import identity
from clustered_bandit_gym.harness.identity import env_key, policy_key, user_modules, versions
from clustered_bandit_gym.harness.settings import (
    instance_digest,
    label_of,
    plain,
    rebuild_policy,
    settings_of,
)
from clustered_bandit_gym.policies import BAICl, NaiveSE

POLICY = """
import numpy as np
import clustered_bandit_gym as cbg
from {helper} import FACTOR

class Mine(cbg.Policy):
    def __init__(self, n=1):
        self.n = n

    def solve(self, federation):
        return np.full(federation.problem.n_agents, {answer})
"""


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a user's module and its helper and (re)loads both."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # two edits within a second would look the same

    def write(answer: str = "0", factor: str = "1") -> Any:
        (tmp_path / "helper_of_mine.py").write_text(
            f"FACTOR = {factor}\n\ndef double(x):\n    return 2 * x\n"
        )
        text = POLICY.format(answer=answer, helper="helper_of_mine")
        (tmp_path / "mine_of_mine.py").write_text(text.replace("FACTOR\n", "FACTOR, double\n"))
        importlib.invalidate_caches()
        for name in ("helper_of_mine", "mine_of_mine"):
            sys.modules.pop(name, None)
        return importlib.import_module("mine_of_mine").Mine

    yield write
    for name in ("helper_of_mine", "mine_of_mine"):
        sys.modules.pop(name, None)


def test_editing_the_policy_or_what_it_imports_changes_its_spec(user_module: Any) -> None:
    first = policy_key(user_module()())
    assert policy_key(user_module()()) == first
    assert policy_key(user_module(answer="1")()) != first
    assert policy_key(user_module(factor="2")()) != first


def test_settings_change_the_spec_and_defaults_do_not() -> None:
    assert policy_key(Empirical(5)) == policy_key(Empirical(n=5)) != policy_key(Empirical(6))
    assert policy_key(BAICl()) != policy_key(BAICl(confidence="certified"))
    assert policy_key(NaiveSE()) != policy_key(BAICl())


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState, np.random.PCG64, random.Random]
)
def test_a_random_generator_is_known_by_its_state(make: Any) -> None:
    keys = [policy_key(Empirical(make(seed))) for seed in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1]


def test_a_file_named_by_a_setting_is_part_of_the_spec(tmp_path: Path) -> None:
    class Model(cbg.Policy):
        def __init__(self, path: str) -> None:
            self.path = path

        def solve(self, federation: cbg.Federation) -> np.ndarray:
            raise NotImplementedError

    file = tmp_path / "model.zip"
    file.write_bytes(b"one")
    first = policy_key(Model(str(file)))
    file.write_bytes(b"two")
    assert policy_key(Model(str(file))) != first
    env = env_key(TINY, {"instance": str(file)})
    file.write_bytes(b"three")
    assert env_key(TINY, {"instance": str(file)}) != env


SCRIPT = """
import functools
import numpy as np
import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.identity import policy_key

{above}
LIMIT = {limit}

def helper(x):
    return x + {shift}

@functools.cache
def cached(x):
    return x + {more}

class Mine(cbg.Policy):
    def solve(self, federation):
        return np.full(cached(helper(LIMIT)), {answer})

print(policy_key(Mine()))
print("{below}")
"""


def test_a_policy_in_a_script_has_the_hash_of_its_own_code(tmp_path: Path) -> None:
    """Unrelated edits of the script (more trials, another plot) must not throw rows away; edits of
    what it uses do.
    """

    def spec(**edits: str) -> str:
        values = {
            "above": "",
            "limit": "3",
            "shift": "1",
            "more": "1",
            "answer": "0",
            "below": "",
        } | edits
        text = textwrap.dedent(SCRIPT.format(**values))
        return exec_main(text)

    def exec_main(text: str) -> str:
        # The same module name and globals as a script has, without the price of a new process each
        # time.
        scope: dict[str, Any] = {"__name__": "__main__"}
        printed: list[str] = []
        scope["print"] = lambda value: printed.append(str(value))
        exec(compile(text, "script.py", "exec"), scope)
        return printed[0]

    first = spec()
    assert spec(below="trials = 500") == first
    assert spec(above="UNRELATED = 7") == first
    for edit in ({"limit": "4"}, {"shift": "2"}, {"more": "2"}, {"answer": "1"}):
        assert spec(**edit) != first, edit


USERS = """
import enum, functools, re
import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.identity import policy_key
from clustered_bandit_gym.policies import BAICl

class Kind(enum.Enum):
    ONE = "one kind"

WORDS = {"some", "words", "in", "a set"}

@functools.cache
def known(word):
    return word in {"some", "words", "more"} and re.match("a b", word)

class Mine(cbg.Policy):
    def __init__(self):
        self.names = frozenset(WORDS)
        self.call = functools.partial(known, "a word")

    def solve(self, federation):
        return [Kind.ONE, WORDS, lambda: known("x")]

print(policy_key(BAICl()), policy_key(Mine()))
"""


def test_the_hash_is_the_same_in_another_process(tmp_path: Path) -> None:
    """Whatever the order of sets, and the lines above the code."""
    keys = set()
    for seed in ("1", "2"):
        (tmp_path / "script.py").write_text("\n" * int(seed) + USERS)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, str(tmp_path / "script.py")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        keys.add(done.stdout)
    assert len(keys) == 1
    assert keys.pop().startswith(policy_key(BAICl()))


def test_versions_of_installed_libraries_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all, since import and distribution names may differ, as those of yaml and PyYAML do."""
    keys = []
    for number in ("1.0", "1.0", "2.0"):
        installed = [SimpleNamespace(name="PyYamlish", version=number)]
        monkeypatch.setattr(identity, "distributions", lambda found=installed: found)
        identity._installed_versions.cache_clear()
        keys.append(policy_key(Empirical(1)))
    identity._installed_versions.cache_clear()
    assert keys[0] == keys[1] != keys[2]


def test_files_behind_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it imports, in functions, too, and what that imports; nothing that is installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "near_of_mine.py").write_text(
        "def f():\n    import numpy, pkg_of_mine.space.inner\n"
    )
    (tmp_path / "pkg_of_mine" / "space").mkdir(parents=True)
    (tmp_path / "pkg_of_mine" / "__init__.py").write_text("")
    (tmp_path / "pkg_of_mine" / "space" / "inner.py").write_text("HERE = 2\n")
    importlib.invalidate_caches()
    found = list(identity.user_files(["near_of_mine"]))
    for name in [name for name in sys.modules if name.startswith("pkg_of_mine")]:
        del sys.modules[name]
    assert found == ["near_of_mine", "pkg_of_mine", "pkg_of_mine.space.inner"]


def test_environment_specs() -> None:
    assert env_key(TINY, {"a": 1, "b": 2}) == env_key(TINY, {"b": 2, "a": 1})
    assert (
        env_key(TINY, {"a": 1}) != env_key(TINY, {"a": 2}) != env_key("ClusteredBAI-v0", {"a": 2})
    )
    means = np.array([[1.0, 0.0], [0.0, 1.0]])
    one, two = cbg.Instance(means, [0, 1, 1]), cbg.Instance(means, [0, 0, 1])
    assert env_key(TINY, {"instance": one}) != env_key(TINY, {"instance": two})
    assert env_key(TINY, {"instance": one}) == env_key(
        TINY, {"instance": cbg.Instance(means, [0, 1, 1])}
    )
    other = cbg.Instance(means, [0, 1, 1], cbg.Gaussian(2.0))
    assert instance_digest(other) != instance_digest(one)


def test_generators_as_objects_have_specs_of_their_settings() -> None:
    small = cbg.generators.PaperSmall
    assert plain(small(n_agents=9)) == plain(small(n_agents=9)) != plain(small(n_agents=10))


def test_labels_and_settings_of_players_without_a_base_class() -> None:
    class Bare:
        __slots__ = ()

        def act(self, obs: Any, info: Any) -> Any: ...

    assert label_of(Bare()) == "Bare"
    assert settings_of(Bare()) == {}
    assert settings_of(Empirical(np.int64(4))) == {"n": 4}  # type: ignore[arg-type]


def test_rebuild() -> None:
    again = rebuild_policy("harness_players:Empirical", {"n": 7}, allow=["harness_players"])
    assert isinstance(again, Empirical)
    assert again.n == 7
    for path, settings in (
        ("harness_players:Nobody", {}),
        ("harness_players:Empirical", {"m": 1}),
    ):
        with pytest.raises(ValueError, match=r"pass policy=|has no attribute 'Nobody'"):
            rebuild_policy(path, settings, allow=["harness_players"])


def test_versions_name_package_and_numpy() -> None:
    assert cbg.__version__ in versions()
    assert np.__version__ in versions()


def test_a_module_without_its_file_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.ops names a file that does not exist; all of torch must not count as the user's."""
    module = ModuleType("numpy.operators")
    module.__file__ = "_operators.py"
    monkeypatch.setitem(sys.modules, "numpy.operators", module)
    assert "numpy.operators" not in user_modules()
    assert __name__ in user_modules()


def test_a_package_linked_into_site_packages_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, site = tmp_path / "linked_policy.py", tmp_path / "site-packages"
    source.write_text("value = 1\n", encoding="utf-8")
    site.mkdir()
    (site / "linked_policy.py").symlink_to(source)
    monkeypatch.syspath_prepend(str(site))
    importlib.import_module("linked_policy")
    assert "linked_policy" in user_modules()
    monkeypatch.delitem(sys.modules, "linked_policy")
