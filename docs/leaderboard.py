"""Puts the leaderboards of the committed reference submissions on the site. MkDocs calls `on_files`.

Full and quick runs cannot share a board: `leaderboard.html` shows full runs, `leaderboard-quick.html` quick ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SUBMISSIONS = Path(__file__).resolve().parents[1] / "submissions"


def reference_folders(kind: str = "full") -> list[Path]:
    """The committed reference submissions, "full" or "quick"."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"{kind}/*/metadata.json"))


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from clustered_bandit_gym.suite.leaderboard import leaderboard_page

    for name, kind in (("leaderboard.html", "full"), ("leaderboard-quick.html", "quick")):
        page = leaderboard_page(reference_folders(kind))
        files.append(File.generated(config, name, content=page))
    return files
