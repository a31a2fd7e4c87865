"""Runs all notebooks and keeps their outputs, without times of execution: `make notebooks`."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(NOTEBOOKS)}}
        # The program `jupyter execute` of nbclient 0.11 drops this setting.
        NotebookClient(notebook, record_timing=False, resources=resources).execute()
        nbformat.write(notebook, path)
        print(path.name, flush=True)


if __name__ == "__main__":
    main()
