"""Code that reaches beyond itself: what a key can hold is part of it, what it cannot hold is played
afresh.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from harness_players import TINY, USER_MODULE, Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.identity import Unhashable, env_key, policy_key

Write = Callable[..., Any]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes files of a user's into the current folder, forgets their modules, and imports the
    first.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # two edits within a second would look the same

    def forget() -> None:
        for name in list(sys.modules):
            if name.partition(".")[0].endswith("_outside") and name != __name__:
                del sys.modules[name]
        importlib.invalidate_caches()

    def write(files: dict[str, str], load: str = "mine_outside") -> Any:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))
        forget()
        return importlib.import_module(load) if load else None

    yield write
    forget()


def mine(imports: str = "", inside: str = "pass", times: str = "T") -> dict[str, str]:
    return {"mine_outside.py": USER_MODULE.format(imports=imports, inside=inside, times=times)}


HELPER = {"h_outside.py": "import os\n\ndef t():\n    return int(os.environ['T'])\n"}


@pytest.mark.parametrize(
    ("files", "door"),
    [
        (mine("import os", times="int(os.environ['T'])"), "(os.)?environ"),
        (mine("import os", times="int(os.getenv('T'))"), "getenv"),
        (mine("from os import getenv", times="int(getenv('T'))"), "getenv"),
        (mine(inside="from os import environ", times="int(environ['T'])"), "(os.)?environ"),
        (mine("import sys", times="int(sys.argv[1])"), "argv"),
        (mine("from pathlib import Path", times="int((Path(__file__).parent / 't').read_text())"), "__file__"),
        (mine("import importlib", times="importlib.import_module('conf_' + 'outside').T"), "importlib"),
        (mine("from importlib import import_module as f", times="f('conf_outside').T"), "import_module"),
        (mine(inside="import importlib.resources as r", times="len(str(r.files('x')))"), "importlib"),
        (mine("from importlib.resources import files as f", times="len(str(f('x')))"), "files"),
        (mine(times="__import__('conf_outside').T"), "__import__"),
        (mine("T = 3", times="globals()['T']"), "globals"),
        (mine("T = 3", times="eval('T')"), "eval"),
        (mine("import h_outside", times="h_outside.t()") | HELPER, "(os.)?environ"),
    ],
)  # fmt: skip
def test_code_that_reaches_beyond_itself_has_no_key_and_the_reason_is_told(
    user: Write, files: dict[str, str], door: str
) -> None:
    with pytest.raises(
        Unhashable, match=rf"uses {door}, and a key cannot hold what the code finds there"
    ):
        policy_key(user(files).Mine())


def test_environment_variables_under_another_name_are_values(
    user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = user(mine("from os import environ as e", times="int(e['TIMES'])"))
    monkeypatch.setenv("TIMES", "3")
    first = policy_key(module.Mine())
    monkeypatch.setenv("TIMES", "5")
    assert policy_key(module.Mine()) != first


def test_an_environment_variable_is_played_afresh_with_a_note(
    user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = user(mine("import os", times="int(os.environ['TIMES'])"))
    for times in (3, 5):
        monkeypatch.setenv("TIMES", str(times))
        with pytest.warns(
            UserWarning, match=r"kept trials are not reused, because Mine\.solve uses environ"
        ):
            board = cbg.evaluate(
                module.Mine(), TINY, trials=1, progress=False, bound=False, out="out"
            )
        assert board.trials["pulls"].tolist() == [times]


def test_what_is_read_when_a_module_is_imported_is_a_value_like_any_other(
    user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants from the environment, and code for the command line beside the policy, cost nobody
    the reuse.
    """
    files = mine(
        "import os, sys\nT = int(os.environ['TIMES'])\ndef main():\n    print(sys.argv, __file__)"
    )
    keys = []
    for times in ("3", "5", "3"):
        monkeypatch.setenv("TIMES", times)
        keys.append(policy_key(user(files).Mine()))
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize(
    "files",
    [
        mine("import pkg_outside.conf", times="pkg_outside.conf.T"),
        mine("import pkg_outside.conf", times="getattr(pkg_outside.conf, 'T')"),
        mine(inside="from pkg_outside.conf import T"),
        mine(inside="import pkg_outside.conf as c", times="c.T"),
    ],
    ids=["nested", "getattr", "from inside", "import inside"],
)
def test_a_value_set_on_a_nested_module_at_run_time(user: Write, files: dict[str, str]) -> None:
    module = user({"pkg_outside/__init__.py": "", "pkg_outside/conf.py": "T = 3"} | files)
    first = policy_key(module.Mine())
    assert policy_key(module.Mine()) == first
    importlib.import_module("pkg_outside.conf").T = 5  # type: ignore[attr-defined]
    assert policy_key(module.Mine()) != first


def test_a_file_named_in_bytes(user: Write, tmp_path: Path) -> None:
    module = user(mine(times="int(open(b't.txt').read())") | {"t.txt": "3"})
    first = policy_key(module.Mine())
    (tmp_path / "t.txt").write_text("5")
    assert policy_key(module.Mine()) != first


HELD = USER_MODULE.replace("class Mine(cbg.Policy):", "class Mine(cbg.Policy, metaclass=Kind):")


@pytest.mark.parametrize(
    "files",
    [
        mine("import sys", times="sys.modules['conf_outside'].T"),
        mine("import operator, conf_outside as c\nget = operator.attrgetter('T')", times="get(c)"),
        mine("import conf_outside as c", times="c.answer"),
        {"mine_outside.py": HELD.format(
            imports="import conf_outside\nclass Kind(type(cbg.Policy)):\n    T = 1",
            inside="import conf_outside", times="conf_outside.T")},
    ],
    ids=["sys.modules", "attrgetter", "module __getattr__", "metaclass"],
)  # fmt: skip
def test_values_behind_names_that_code_does_not_show(user: Write, files: dict[str, str]) -> None:
    """Edits of the file and changes at run time give another key; nothing else does."""
    conf = "T = {}\ndef __getattr__(name):\n    if name == 'answer':\n        return T\n    raise AttributeError\n"

    def load(times: int) -> Any:
        user({"conf_outside.py": conf.format(times)} | files, load="conf_outside")
        return importlib.import_module("mine_outside").Mine

    first = policy_key(load(3)())
    assert policy_key(load(5)()) != first
    mine_class = load(3)
    assert policy_key(mine_class()) == first
    importlib.import_module("conf_outside").T = 5  # type: ignore[attr-defined]
    assert policy_key(mine_class()) != first


def test_an_attribute_of_a_metaclass(user: Write) -> None:
    text = HELD.format(
        imports="class Kind(type(cbg.Policy)):\n    T = 3", inside="pass", times="type(self).T"
    )
    module = user({"mine_outside.py": text})
    first = policy_key(module.Mine())
    module.Kind.T = 5
    assert policy_key(module.Mine()) != first


def test_a_relative_import_inside_a_function(user: Write) -> None:
    keys = []
    for times in (3, 5, 3):
        files = {
            "pkg_outside/__init__.py": "",
            "pkg_outside/conf.py": f"T = {times}",
            "pkg_outside/mine.py": USER_MODULE.format(
                imports="", inside="from . import conf", times="conf.T"
            ),
        }
        keys.append(policy_key(user(files, load="pkg_outside.mine").Mine()))
    assert keys[0] == keys[2] != keys[1]


def test_a_string_that_is_a_folder_s_name_by_chance(user: Write, tmp_path: Path) -> None:
    module = user(mine("WHERE = 'out'", inside="x = 'out', WHERE", times="3"))
    for kept in (2, 2):
        cbg.evaluate(module.Mine(), TINY, trials=2, progress=False, bound=False, out="out")
        assert len(cbg.Store("out")) == kept
    assert (tmp_path / "out").is_dir()


GENERATOR = """
import clustered_bandit_gym as cbg

def draw(rng):
    return cbg.generators.PaperSmall(n_agents={n})(rng)
"""


def test_a_generator_named_by_a_string_that_was_edited(user: Write) -> None:
    for n in (4, 6, 4):
        user({"g_outside.py": GENERATOR.format(n=n)}, load="")
        board = cbg.evaluate(
            Empirical(1),
            trials=1,
            progress=False,
            bound=False,
            out="out",
            generator="g_outside:draw",
        )
        assert board.trials["n_agents"].tolist() == [n]
    assert len(cbg.Store("out")) == 2


ENVIRONMENT = """
import gymnasium as gym
from clustered_bandit_gym.envs.env import ClusteredBAIEnv

def make(**kwargs):
    return ClusteredBAIEnv(generator="paper-small", n_agents={n}, **kwargs)

gym.register(id="Outside-v0", entry_point={entry})
"""


@pytest.mark.parametrize("entry", ["make", "'e_outside:make'"], ids=["object", "name"])
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_an_environment_whose_id_names_its_module_and_that_was_edited(
    user: Write, entry: str
) -> None:
    try:
        for n in (4, 6, 4):
            gym.registry.pop("Outside-v0", None)
            user({"e_outside.py": ENVIRONMENT.format(n=n, entry=entry)}, load="")
            board = cbg.evaluate(
                Empirical(1),
                "e_outside:Outside-v0",
                trials=1,
                progress=False,
                bound=False,
                out="out",
            )
            assert board.trials["n_agents"].tolist() == [n]
        assert len(cbg.Store("out")) == 2
    finally:
        gym.registry.pop("Outside-v0", None)


def test_a_generator_named_by_a_string_that_reads_the_environment(user: Write) -> None:
    text = GENERATOR.format(n="int(__import__('os').environ['N'])")
    user({"g_outside.py": text}, load="")
    with pytest.raises(Unhashable, match="draw uses __import__"):
        env_key("ClusteredBAI-v0", {"generator": "g_outside:draw"})


def test_a_function_with_the_name_of_an_installed_one(user: Write) -> None:
    """`functools.wraps` gives a user's function the name and module of what it wraps."""
    text = """
    import functools, statistics

    @functools.wraps(statistics.mean)
    def times(values):
        return {}
    """
    keys = []
    for times in (3, 5, 3):
        wrapped = user({"w_outside.py": text.format(times)}, load="w_outside").times
        files = {"w_outside.py": "", **mine("import w_outside", times="w_outside.times([1])")}
        module = user(files)
        module.w_outside.times = wrapped
        keys.append(policy_key(module.Mine()))
    assert keys[0] == keys[2] != keys[1]


def test_functions_of_the_standard_library_are_known_by_name(user: Write) -> None:
    """Some are frozen into Python: their code has no file. This one reads the environment."""
    assert policy_key(user(mine("from os.path import expanduser as f", times="len(f('a'))")).Mine())


def test_a_method_of_a_list(user: Write) -> None:
    module = user(mine(times="self.take()"))
    keys = []
    for times in (3, 5, 3):
        policy = module.Mine()
        policy.take = [times].pop
        keys.append(policy_key(policy))
    assert keys[0] == keys[2] != keys[1]
