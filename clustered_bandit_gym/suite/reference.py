"""The reference submissions: every policy that ships, made by one command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from clustered_bandit_gym.suite.files import Submission
from clustered_bandit_gym.suite.submission import run_suite

PAPER = "https://arxiv.org/abs/2505.10147"


class Reference(NamedTuple):
    """A policy of this package on the leaderboard."""

    folder: str
    policy: str
    guarantee: str
    authors: str
    link: str


_YKG, _OURS = "Yash, Karamchandani, Ghosh", "this package"
_ENGINES, _READ = "policies/engines/registry.py", "docs/paper-read-closely.md"
#: "proved" only where the proof has been checked to add up to δ. The schemes as printed are proved up to a number of
#: agents that no cell of the suite exceeds (`theory.bai_cl_most_agents`).
REFERENCES = (
    Reference("naive", "naive", "proved", _YKG, PAPER),
    Reference("naive-mixture", "naive:engine=mixture", "proved", _OURS, _ENGINES),
    Reference("naive-lucb", "naive:engine=lucb", "proved", _OURS, _ENGINES),
    Reference("naive-track-and-stop", "naive:engine=track-and-stop", "proved", _OURS, _ENGINES),
    Reference("cl-bai", "cl-bai", "proved", _YKG, PAPER),
    Reference("bai-cl", "bai-cl", "proved", _YKG, _READ),
    Reference("bai-cl-certified", "bai-cl:confidence=certified", "proved", _YKG, _READ),
    Reference("bai-cl-plus-plus", "bai-cl++", "proved", _YKG, _READ),
    Reference("bai-cl-plus-plus-certified", "bai-cl++:confidence=certified", "proved", _YKG, _READ),
    Reference("structured-bai", "structured-bai", "proved", _OURS, "docs/structured-bai.md"),
    Reference("frugal-bai", "frugal-bai", "proved", _OURS, "docs/frugal-bai.md"),
    Reference("uniform-glr", "uniform-glr", "proved", _OURS, "policies/uniform_glr.py"),
    Reference("uniform", "uniform", "none", _OURS, ""),
    Reference("random", "random", "none", _OURS, ""),
)  # fmt: skip


def make_references(
    folder: str | Path,
    *,
    quick: bool,
    n_jobs: int = 1,
    names: list[str] | None = None,
    progress: bool = True,
    tell: Callable[[str], None] = print,
) -> list[Submission]:
    """Make the reference submissions in `folder`, one subfolder each; `names` restricts them."""
    made = []
    for one in REFERENCES:
        if names and one.folder not in names:
            continue
        tell(f"{one.folder} ({'quick' if quick else 'full'})")
        made.append(
            run_suite(
                one.policy,
                Path(folder) / one.folder,
                quick=quick,
                n_jobs=n_jobs,
                name=one.policy,
                authors=one.authors,
                link=one.link,
                guarantee=one.guarantee,
                progress=progress,
                packed=not quick,
            )
        )
    return made
