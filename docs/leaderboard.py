"""Puts the leaderboards of the committed reference submissions on the site. MkDocs calls `on_files`.

`leaderboard.html` shows quick runs as long as some policy has no full run: full and quick runs cannot share a board.
`leaderboard-full.html` shows the full runs that there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SUBMISSIONS = Path(__file__).resolve().parents[1] / "submissions"


def folders_of(kind: str) -> list[Path]:
    """The committed submissions, "full" or "quick"."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"{kind}/*/metadata.json"))


def reference_folders() -> list[Path]:
    """The committed submissions that the README and the first board show."""
    full, quick = folders_of("full"), folders_of("quick")
    return full if len(full) >= len(quick) else quick


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from clustered_bandit_gym.suite.leaderboard import leaderboard_page

    boards = {"leaderboard.html": reference_folders(), "leaderboard-full.html": folders_of("full")}
    for name, folders in boards.items():
        if folders:
            page = leaderboard_page(folders)
            files.append(File.generated(config, name, content=page))
    return files
