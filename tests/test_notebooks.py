"""The notebooks run from top to bottom, at a small budget, and are committed with outputs that hold no error."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05", "06", "07"]


@pytest.mark.parametrize("share", [0, 1])
def test_run_from_top_to_bottom(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the notebooks one after the other in one kernel, which forgets all variables between
    them: a kernel of its own for each would spend most of its time on imports."""
    monkeypatch.setenv("CLUSTERED_BANDIT_QUICK", "1")
    # Notebooks are run elsewhere, to leave nothing behind: the clone's `research` is found by this.
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent))
    where = {"metadata": {"path": str(tmp_path)}}
    first = NotebookClient(nbformat.v4.new_notebook(), kernel_name="python3", resources=where)
    with first.setup_kernel():
        for path in NOTEBOOKS[share::2]:
            notebook = nbformat.read(path, as_version=4)
            forget = f"%reset -f\n%cd -q {tmp_path}"
            notebook.cells.insert(0, nbformat.v4.new_code_cell(forget))
            client = NotebookClient(notebook, timeout=300, km=first.km, resources=where)
            client.kc = first.kc
            # Any failing cell raises CellExecutionError with its traceback.
            client.execute(reset_kc=False)
            code = [cell for cell in notebook.cells if cell.cell_type == "code"]
            assert all(cell.execution_count for cell in code), path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_with_clean_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in code), "commit the notebook with its outputs"
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), (
        "run it from top to bottom"
    )
    outputs = [output for cell in code for output in cell.outputs]
    assert not [
        output
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert "pip install" in code[0].source, (
        "the first cell installs the package where it is missing"
    )
    assert ").style" not in "".join(cell.source for cell in code), (
        "pandas' styles need jinja2, which may be missing"
    )
    text = path.read_text(encoding="utf-8")
    assert os.path.expanduser("~") + "/" not in text, "no path of the machine that ran it"
    assert path.stat().st_size < 2_000_000
