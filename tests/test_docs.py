"""The documentation site builds without a warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra 'docs'")
    built = tmp_path / "built"
    # The API pages read an installed copy, in which the two mapped folders stand inside the package.
    package = built / "clustered_bandit_gym"
    package.parent.mkdir()
    shutil.copytree(ROOT / "clustered_bandit_gym", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("policies", "envs_registry"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "CLUSTERED_BANDIT_BUILT": str(built), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    page = (tmp_path / "site" / "api" / "policies" / "index.html").read_text(encoding="utf-8")
    assert "BAIClPlusPlus" in page
    assert "StructuredBAI" in page
    site = tmp_path / "site"
    assert "clustered-bai compare" in (site / "reference" / "cli" / "index.html").read_text(encoding="utf-8")
    flights = (site / "environments" / "clusteredbai-flights" / "index.html").read_text(encoding="utf-8")
    assert "MultiDiscrete([32, 3])" in flights
    assert "clustered_bandit_gym" in (site / "tutorials" / "01_quickstart" / "index.html").read_text(encoding="utf-8")
    assert "<svg" in (site / "house" / "index.html").read_text(encoding="utf-8")
