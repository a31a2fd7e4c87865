"""What a user gets from a wheel: an editable install hides files that were left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SOURCES = ("clustered_bandit_gym", "policies", "envs_registry")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEAVY = ("torch", "matplotlib", "pandas", "pebble")

INSIDE = """
import importlib, importlib.util, json, pkgutil, sys
from pathlib import Path

import gymnasium as gym
import clustered_bandit_gym as cbg
from clustered_bandit_gym.policies import NaiveSE, ClBAI, BAICl, BAIClPlusPlus

home = Path(cbg.__file__).parent
assert Path(sys.prefix) in home.parents, f"not the installed package: {home}"
assert (home / "py.typed").is_file()
assert (home / "harness" / "output" / "report.html").is_file()
for name in ("policies", "envs_registry", "tests", "benchmarks"):
    assert importlib.util.find_spec(name) is None, f"a top-level module {name} was installed"

for name in ("ClusteredBAI-v0", "clustered_bandit_gym:ClusteredBAI-v0"):
    env = gym.make(name, n_agents=4, delta=0.1)
    obs, info = env.reset(seed=7)
    obs, reward, terminated, truncated, info = env.step((cbg.PULL, (3, 2)))
    assert obs["pulls"][3, 2] == 1 and not terminated
    obs, reward, terminated, truncated, info = env.step((cbg.STOP, [0] * 4))
    assert terminated and "correct" in info

for policy in (NaiveSE(), ClBAI(), BAICl(), BAIClPlusPlus()):
    row = cbg.play(policy, "ClusteredBAI-PaperSmall-v0", seed=3)
    assert row["pulls"] > 0

broken = {}
for module in pkgutil.walk_packages(cbg.__path__, "clustered_bandit_gym."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        broken[module.name] = error.name or getattr(error.__cause__, "name", str(error))
print(json.dumps(broken))
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with the package from a wheel and nothing but what `[all]` declares."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    options = ["--no-deps", "--no-build-isolation"]
    run([*pip, "wheel", *options, "-w", str(folder), str(source)], folder)
    (wheel,) = folder.glob("*.whl")
    shutil.rmtree(source)

    home = folder / "venv"
    venv.create(home)
    python = str(home / "bin" / "python")
    run([*pip, "--python", python, "install", "--no-deps", "--no-compile", str(wheel)], folder)
    (packages,) = (home / "lib").glob("python*/site-packages")
    (metadata,) = packages.glob("clustered_bandit_gym-*.dist-info")
    for package in declared(Distribution.at(metadata), {"all"}).values():
        for name in {path.parts[0] for path in package.files or []} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(str(package.locate_file(name)))
    return home / "bin"


def declared(package: Distribution, extras: set[str]) -> dict[str, Distribution]:
    """Installed packages that `package` with these extras needs, and what they need in turn."""
    found: dict[str, Distribution] = {}
    waiting = [(package, extras)]
    while waiting:
        package, extras = waiting.pop()
        for line in package.requires or []:
            needed = Requirement(line)
            choices = [{"extra": extra} for extra in ("", *extras)]
            if needed.marker is None or any(needed.marker.evaluate(one) for one in choices):
                own = needed.name == package.name
                if own or needed.name not in found:
                    known = package if own else distribution(needed.name)
                    waiting.append((known, needed.extras))
                    found[needed.name] = known
    return found


def test_the_wheel_plays_and_imports(scripts: Path, tmp_path: Path) -> None:
    broken = run([str(scripts / "python"), "-c", INSIDE], tmp_path)
    # Whatever fails to import must lack an optional extra, nothing else.
    extras = {"torch", "stable_baselines3", "sb3_contrib", "pettingzoo"}
    assert set(json.loads(broken.splitlines()[-1]).values()) <= extras, broken


def test_the_command_of_the_wheel(scripts: Path, tmp_path: Path) -> None:
    command = str(scripts / "clustered-bai")
    assert "ClusteredBAI-v0" in run([command, "list"], tmp_path)
    settings = "--policies naive bai-cl --n-agents 6 --delta 0.1 --trials 2 --jobs 2"
    board = run([command, "compare", "ClusteredBAI-PaperSmall-v0", *settings.split()], tmp_path)
    assert "naive" in board
    assert "bai-cl" in board


def run(command: list[str], where: Path) -> str:
    """Output of a command run outside the repository, which must not be importable there."""
    clean = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    clean |= {"COLUMNS": "250", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command, cwd=where, env=clean, capture_output=True, encoding="utf-8", timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_importing_stays_light() -> None:
    script = f"import sys, clustered_bandit_gym; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [
        ("matplotlib", "cbg.evaluate('uniform', trials=1, progress=False).plot('a.png')", "plots"),
        (
            "PIL",
            "e = gym.make('ClusteredBAI-Tiny-v0', render_mode='rgb_array', disable_env_checker=True); e.reset(); e.render()",
            "plots",
        ),
        ("typer", "import clustered_bandit_gym.cli", "cli"),
    ],
)
def test_a_missing_extra_is_named(missing: str, call: str, extra: str, tmp_path: Path) -> None:
    blocked = f"import sys; sys.modules[{missing!r}] = None\n"
    script = blocked + "import clustered_bandit_gym as cbg, gymnasium as gym\n" + call
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        f"it comes with the extra '{extra}': in a clone .venv/bin/pip install"
        in done.stderr.splitlines()[-1]
    )


def test_every_folder_of_code_is_listed() -> None:
    """The list of packages is explicit, because two folders are mapped into the package."""
    found = set()
    for name in SOURCES:
        for folder in (ROOT / name, *(path for path in (ROOT / name).rglob("*") if path.is_dir())):
            if folder.name != "__pycache__" and any(folder.glob("*.py")):
                inside = ".".join(folder.relative_to(ROOT).parts)
                found.add(
                    inside if name == "clustered_bandit_gym" else f"clustered_bandit_gym.{inside}"
                )
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_everything_public_resolves() -> None:
    import clustered_bandit_gym as cbg

    assert cbg.__version__ == PROJECT["project"]["version"]
    assert set(cbg.__all__) <= set(dir(cbg))
    for name in cbg.__all__:
        assert getattr(cbg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cbg.nonsense


#: Tools of the developers and of the documentation, and extras that the job with the lowest versions does not install.
NOT_TESTED_LOW = {
    "ruff",
    "mypy",
    "setuptools",
    "jupyterlab",
    "mkdocs",
    "mkdocs-material",
    "mkdocstrings",
    "tensorboard",
}


def test_lower_bounds_are_the_versions_that_are_tested() -> None:
    lines = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = [
        *PROJECT["project"]["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    bounds = {}
    for requirement in [
        *PROJECT["project"]["dependencies"],
        *(one for extra in extras for one in extra),
    ]:
        name, found, bound = requirement.partition(">=")
        if found:
            bounds.setdefault(name.partition("[")[0], set()).add(bound.partition(",")[0])
    assert all(len(found) == 1 for found in bounds.values()), bounds
    low = {name: found.pop() for name, found in bounds.items() if name not in NOT_TESTED_LOW}
    assert set(tested) == {*low, "distributed"}  # an extra of dask
    for name, bound in low.items():
        assert f"{tested[name]}.".startswith(f"{bound}."), (
            f"{name}: {bound} in pyproject.toml, {tested[name]} tested"
        )
