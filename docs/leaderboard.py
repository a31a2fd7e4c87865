"""Puts the leaderboard of the committed reference submissions on the site. MkDocs calls `on_files`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Full runs are shown once there is one of every policy; until then, quick runs.
KINDS = ("full", "quick")
SUBMISSIONS = ROOT / "submissions"


def reference_folders() -> list[Path]:
    """The committed submissions that the README and the site show."""
    full, quick = (
        sorted(path.parent for path in SUBMISSIONS.glob(f"{kind}/*/metadata.json"))
        for kind in KINDS
    )
    return full if len(full) >= len(quick) else quick


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from clustered_bandit_gym.suite.leaderboard import leaderboard_page

    if folders := reference_folders():
        page = leaderboard_page(folders)
        files.append(File.generated(config, "leaderboard.html", content=page))
    return files
