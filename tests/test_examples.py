"""The recipes run from top to bottom at a small budget."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
#: What each leaves behind.
LEFT = {
    "sb3_ppo": "sb3_ppo-quick.zip",
    "maskable_ppo": "maskable-quick.zip",
    "dqn": "dqn-quick.zip",
    "feature_extractor": "extractor-quick.zip",
    "cleanrl_ppo": "cleanrl.pt",
    "pettingzoo_ppo": "pettingzoo.pt",
}


@pytest.mark.filterwarnings("ignore:loading extractor.zip unpickles it")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_recipe_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("pettingzoo")
    monkeypatch.setenv("CLUSTERED_BANDIT_QUICK", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert (tmp_path / LEFT[path.stem]).stat().st_size > 0
    printed = capsys.readouterr().out
    assert "pulls" in printed
    if "evaluate(" in path.read_text(encoding="utf-8"):
        assert "sb3:" in printed or "extractor" in printed
        assert "uniform-glr" in printed


def test_every_recipe_is_listed() -> None:
    assert {path.stem for path in SCRIPTS} == set(LEFT)
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in listed for path in SCRIPTS)
