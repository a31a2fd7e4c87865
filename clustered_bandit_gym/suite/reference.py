"""The reference submissions, every policy that ships, and the proofs that the maintainers have
read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from clustered_bandit_gym.suite.files import Submission
from clustered_bandit_gym.suite.submission import run_suite


@cache
def known() -> list[dict[str, Any]]:
    """The policies in known.json: `folder`, `policy`, `proved`, `authors`, `link`, `sources`.

    `proved` is true where the maintainers have read the proof behind `link` and found that it adds
    up to δ. `sources` holds the hashes of the policy's own files; {} for policies of this package.
    """
    text = files("clustered_bandit_gym.suite").joinpath("known.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def is_proved(policy: str, sources: dict[str, str]) -> bool:
    """Whether the maintainers have read a proof of exactly this policy."""
    return any(
        one["proved"] and one["policy"] == policy and one.get("sources", {}) == sources
        for one in known()
    )


def make_references(
    folder: str | Path,
    *,
    quick: bool,
    n_jobs: int = 1,
    names: list[str] | None = None,
    progress: bool = True,
    tell: Callable[[str], None] = print,
) -> list[Submission]:
    """Make the reference submissions in `folder`, one subfolder each; `names` restricts them.

    Complete ones are played again only where the package has changed: finished trials are kept.
    """
    made = []
    for one in known():
        if (names and one["folder"] not in names) or one.get("sources"):
            continue
        tell(f"{one['folder']} ({'quick' if quick else 'full'})")
        made.append(
            run_suite(
                one["policy"],
                Path(folder) / one["folder"],
                quick=quick,
                n_jobs=n_jobs,
                name=one["policy"],
                authors=one["authors"],
                link=one["link"],
                guarantee="proved" if one["proved"] else "none",
                progress=progress,
            )
        )
    return made
