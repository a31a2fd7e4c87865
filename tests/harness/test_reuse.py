"""A kept row is reused only for what made it: other state, other code or another package plays
anew.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from harness_players import TINY, USER_MODULE, Empirical

import clustered_bandit_gym as cbg
from clustered_bandit_gym.harness.identity import env_key, policy_key

SMALL: dict[str, Any] = {
    "env_id": "ClusteredBAI-v0",
    "trials": 2,
    "progress": False,
    "bound": False,
}


def draw(rng: np.random.Generator, n: int) -> cbg.Instance:
    return cbg.generators.PaperSmall(n_agents=n)(rng)


def test_a_generator_with_other_partial_arguments(tmp_path: Path) -> None:
    for n in (10, 30, 10):
        board = cbg.evaluate(
            Empirical(1), **SMALL, generator=functools.partial(draw, n=n), out=tmp_path
        )
        assert board.trials["n_agents"].tolist() == [n, n]
    assert len(cbg.Store(tmp_path)) == 4  # n = 10 was played once


def test_a_generator_that_closes_over_another_value(tmp_path: Path) -> None:
    def generator(n: int) -> Callable[[np.random.Generator], cbg.Instance]:
        return lambda rng: draw(rng, n)

    for n in (10, 30, 10):
        board = cbg.evaluate(Empirical(1), **SMALL, generator=generator(n), out=tmp_path)
        assert board.trials["n_agents"].tolist() == [n, n]
    assert len(cbg.Store(tmp_path)) == 4


class Private(cbg.Policy):
    """Pulls as often as a private attribute says."""

    label = "private"  # type: ignore[assignment]
    factor = 1

    def __init__(self, times: Any) -> None:
        self._times = times

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        times = self._times() if callable(self._times) else self._times
        federation.pull(0, 0, self.factor * times)
        return np.zeros(federation.problem.n_agents, dtype=int)


def pulls(policy: Any, out: Path) -> list[int]:
    return list(
        cbg.evaluate(policy, TINY, trials=2, progress=False, bound=False, out=out).trials["pulls"]
    )


def test_a_private_attribute(tmp_path: Path) -> None:
    assert pulls(Private(10), tmp_path) == [10, 10]
    assert pulls(Private(1000), tmp_path) == [1000, 1000]
    assert pulls(Private(10), tmp_path) == [10, 10]
    assert len(cbg.Store(tmp_path)) == 4


def test_a_setting_that_is_a_partial(tmp_path: Path) -> None:
    for times in (10, 30):
        assert pulls(Private(functools.partial(int, str(times))), tmp_path) == [times, times]


def test_a_class_attribute_changed_at_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pulls(Private(10), tmp_path) == [10, 10]
    monkeypatch.setattr(Private, "factor", 2)
    assert pulls(Private(10), tmp_path) == [20, 20]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a user's modules into a folder on the path and imports one of them."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # two edits within a second would look the same
    names: set[str] = set()

    def write(load: str | None, **modules: str) -> Any:
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
            names.add(name)
        if load is None:
            return None
        importlib.invalidate_caches()
        for name in names:
            sys.modules.pop(name, None)
        return importlib.import_module(load)

    yield write
    for name in names:
        sys.modules.pop(name, None)


FROM = USER_MODULE.format(imports="from conf_of_reuse import TIMES", inside="", times="TIMES")
WHOLE = USER_MODULE.format(imports="import conf_of_reuse", inside="", times="conf_of_reuse.TIMES")
OBJECT = USER_MODULE.format(imports="", inside="import conf_of_reuse", times="conf_of_reuse.TIMES")
INSIDE = USER_MODULE.format(imports="", inside="from conf_of_reuse import TIMES", times="TIMES")


@pytest.mark.parametrize(
    "text", [FROM, WHOLE, INSIDE], ids=["from import", "import", "import inside"]
)
@pytest.mark.parametrize("indirect", [False, True])
def test_an_imported_module_that_was_edited(
    tmp_path: Path, user: Any, text: str, indirect: bool
) -> None:
    for times in (3, 5, 3):
        conf = f"TIMES = {times}"
        modules = (
            {"deep_of_reuse": conf, "conf_of_reuse": "from deep_of_reuse import *"}
            if indirect
            else {}
        )
        mine = user("mine_of_reuse", mine_of_reuse=text, **({"conf_of_reuse": conf} | modules)).Mine
        assert pulls(mine(), tmp_path / "out") == [times, times]
    assert len(cbg.Store(tmp_path / "out")) == 4


def test_what_a_module_reads_when_a_policy_imports_it(
    tmp_path: Path, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is the same; its variables are not."""
    for times in (3, 5):
        monkeypatch.setenv("TIMES_OF_REUSE", str(times))
        conf = "import os\nTIMES = int(os.environ['TIMES_OF_REUSE'])"
        mine = user("mine_of_reuse", mine_of_reuse=OBJECT, conf_of_reuse=conf).Mine
        sys.modules.pop("conf_of_reuse", None)
        assert pulls(mine(), tmp_path / "out") == [times, times]


@dataclass(frozen=True)
class Folder:
    """Stands for a generator that reads the files of a folder."""

    path: str


def test_files_and_folders_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "data").mkdir()
    keys = set()
    for text in ("0.9,0.1\n0.2,0.8", "0.9,0.5\n0.4,0.88"):
        for name in ("means.csv", "data/means.csv"):
            (tmp_path / name).write_text(text)
        settings: list[dict[str, Any]] = [
            {"means": "~/means.csv"},
            {"generator_kwargs": {"data": "~/data"}},
            {"generator": Folder(str(tmp_path / "data"))},
            {"folders": [str(tmp_path / "data")]},
        ]
        keys |= {env_key(TINY, own) for own in settings}
    assert len(keys) == 2 * len(settings)


def test_two_jobs_play_what_is_loaded_here(tmp_path: Path, user: Any) -> None:
    """Not what a worker process would import from the disk."""
    module = user("mine_of_reuse", mine_of_reuse=WHOLE, conf_of_reuse="TIMES = 3")
    module.conf_of_reuse.TIMES = 7
    how: dict[str, Any] = {"trials": 2, "progress": False, "bound": False}
    for jobs in (1, 2):
        board = cbg.evaluate(module.Mine(), TINY, n_jobs=jobs, **how)
        assert board.trials["pulls"].tolist() == [7, 7]


def test_what_a_policy_of_a_script_imports_while_it_plays(tmp_path: Path, user: Any) -> None:
    """A script, or a cell of a notebook, has no file under its module's name."""
    for inside in ("from conf_of_reuse import TIMES", "import conf_of_reuse\n        TIMES = 3"):
        keys = set()
        for times in (3, 5):
            user(None, conf_of_reuse=f"TIMES = {times}")
            scope: dict[str, Any] = {"__name__": "__main__"}
            text = USER_MODULE.format(imports="", inside=inside, times="TIMES")
            exec(compile(text, "<cell>", "exec"), scope)
            keys.add(policy_key(scope["Mine"]()))
        assert len(keys) == 2


def test_an_attribute_that_one_base_has_and_another_has_before_it(tmp_path: Path) -> None:
    class Plain(Private):
        pass

    class Slow:
        factor = 5

    class Mine(Plain, Slow):
        pass

    assert pulls(Mine(1), tmp_path) == [1, 1]
    Mine.factor = Slow.factor
    assert pulls(Mine(1), tmp_path) == [5, 5]


def test_a_reward_model_of_the_user_s_own_that_was_edited(tmp_path: Path, user: Any) -> None:
    text = """
    import clustered_bandit_gym as cbg

    class Mine(cbg.Gaussian):
        def average(self, *args, **kwargs):
            return super().average(*args, **kwargs) + {shift}
    """
    keys = set()
    for shift in (0, 1):
        model = user("law_of_reuse", law_of_reuse=text.format(shift=shift)).Mine
        instance = cbg.Instance([[1.0, 0.0]], [0, 0], model(1.0))
        keys.add(env_key(TINY, {"instance": instance}))
    assert len(keys) == 2


def test_a_module_global_changed_at_run_time(tmp_path: Path, user: Any) -> None:
    for text in (FROM, WHOLE):
        module = user("mine_of_reuse", mine_of_reuse=text, conf_of_reuse="TIMES = 3")
        assert pulls(module.Mine(), tmp_path / "out") == [3, 3]
        holder = module if text is FROM else module.conf_of_reuse
        holder.TIMES = 7
        assert pulls(module.Mine(), tmp_path / "out") == [7, 7]


def test_a_module_edited_and_not_imported_again(tmp_path: Path, user: Any) -> None:
    """The old code plays while the new text lies on disk: these rows must not be taken for rows of
    the new code.
    """
    text = USER_MODULE.format(imports="", inside="", times="{}")
    old = user("mine_of_reuse", mine_of_reuse=text.format(3)).Mine
    user(None, mine_of_reuse=text.format(5))
    assert pulls(old(), tmp_path / "out") == [3, 3]
    new = user("mine_of_reuse").Mine
    assert pulls(new(), tmp_path / "out") == [5, 5]


def test_an_environment_of_the_user_s_own_that_was_edited(tmp_path: Path, user: Any) -> None:
    text = """
    from clustered_bandit_gym.envs.env import ClusteredBAIEnv

    def make(**kwargs):
        return ClusteredBAIEnv(generator="paper-small", n_agents={n}, **kwargs)
    """
    gym.register(id="OfReuse-v0", entry_point="env_of_reuse:make")
    try:
        for n in (4, 6):
            user("env_of_reuse", env_of_reuse=text.format(n=n))
            board = cbg.evaluate(
                Empirical(1),
                "OfReuse-v0",
                trials=1,
                progress=False,
                bound=False,
                out=tmp_path / "out",
            )
            assert board.trials["n_agents"].tolist() == [n]
    finally:
        del gym.registry["OfReuse-v0"]


# --- what has no stable form -----------------------------------------------------------------------------------------


class Holds(cbg.Policy):
    """Reads how often to pull from a file that it holds open; copies share the file."""

    label = "holds"  # type: ignore[assignment]

    def __init__(self, path: Path) -> None:
        self._file = open(path)  # noqa: SIM115

    def __deepcopy__(self, memo: Any) -> Holds:
        return self

    def solve(self, federation: cbg.Federation) -> np.ndarray:
        self._file.seek(0)
        federation.pull(0, 0, int(self._file.read()))
        return np.zeros(federation.problem.n_agents, dtype=int)


def test_an_open_file_is_played_afresh_and_the_board_says_so(tmp_path: Path) -> None:
    source, out = tmp_path / "times", tmp_path / "out"
    for times in (3, 5):
        source.write_text(str(times))
        policy = Holds(source)
        with pytest.warns(
            UserWarning,
            match="holds: kept trials are not reused, because .*cannot pickle '_io.TextIOWrapper'",
        ):
            assert pulls([policy, Private(1)], out) == [times, times, 1, 1]
        policy._file.close()
    board = cbg.Board.load(out)
    assert board.trials["pulls"].tolist() == [5, 5, 1, 1]  # the earlier run is out of date
    assert [note for note in board.notes if "not reused" in note and note.startswith("holds")]
    assert not [note for note in board.notes if "not reused" in note and note.startswith("private")]
    assert len(cbg.Store(out)) == 6  # the other policy was played once


def test_a_generator_with_an_open_file(tmp_path: Path) -> None:
    with open(__file__) as file:
        for n in (4, 6):

            def generator(rng: np.random.Generator, n: int = n, file: Any = file) -> cbg.Instance:
                return draw(rng, n)

            with pytest.warns(
                UserWarning,
                match="kept trials are not reused, because .*cannot pickle '_io.TextIOWrapper'",
            ):
                board = cbg.evaluate(Private(1), **SMALL, generator=generator, out=tmp_path)
            assert board.trials["n_agents"].tolist() == [n, n]
    assert cbg.Board.load(tmp_path).trials["n_agents"].tolist() == [6, 6]


# --- the package itself, on a copy -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copy_of_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel would install it, in a folder that goes to PYTHONPATH."""
    home = tmp_path_factory.mktemp("copy")
    for name in (
        "clustered_bandit_gym",
        "clustered_bandit_gym.policies",
        "clustered_bandit_gym.envs_registry",
    ):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        target = home / name.replace(".", "/")
        shutil.copytree(
            Path(spec.origin).parent,
            target,
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    return home


def run_copy(home: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(home)}
    text = "import clustered_bandit_gym as cbg\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, cwd=home
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_byte_in_any_folder_of_the_package(copy_of_package: Path) -> None:
    """Every folder is in the key."""
    code = """
    from pathlib import Path
    from clustered_bandit_gym.harness.identity import versions
    root = Path(cbg.__file__).parent
    before = versions.__wrapped__()
    for folder in [root, *sorted(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        for file in sorted(path for path in folder.iterdir() if path.is_file())[:1]:
            content = file.read_bytes()
            file.write_bytes(content + b"#")
            print(folder.relative_to(root).as_posix(), versions.__wrapped__() != before)
            file.write_bytes(content)
    assert versions.__wrapped__() == before
    (root / "game" / "table.csv").write_text("1,2")
    print("new data file", versions.__wrapped__() != before)
    (root / "game" / "table.csv").unlink()
    """
    seen = dict(line.rsplit(" ", 1) for line in run_copy(copy_of_package, code).splitlines())
    assert set(seen.values()) == {"True"}
    assert {".", "game", "harness", "policies/engines", "envs_registry", "new data file"} <= set(
        seen
    )
