"""Makes the reference submissions, of every policy that ships: ``make submissions``.

``python docs/make_submissions.py --out submissions/quick --quick --jobs 2`` plays them, and resumes.
``python docs/make_submissions.py --rescore submissions/*/*`` computes scores again from the rows,
after lower bounds have been replaced by larger ones.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from clustered_bandit_gym.suite.files import load_submission, write_submission
from clustered_bandit_gym.suite.leaderboard import known
from clustered_bandit_gym.suite.score import score
from clustered_bandit_gym.suite.submission import run_suite


def make(out: Path, quick: bool, jobs: int, only: list[str]) -> None:
    """Make the submissions in `out`, one subfolder each; `only` names some of them."""
    for one in known():
        if (only and one["folder"] not in only) or one.get("sources"):
            continue
        print(one["folder"], flush=True)
        run_suite(
            one["policy"],
            out / one["folder"],
            quick=quick,
            n_jobs=jobs,
            name=one["policy"],
            authors=one["authors"],
            link=one["link"],
            guarantee="proved" if one["proved"] else "none",
            overwrite=True,
        )


def rescore(folder: Path) -> None:
    """Compute the scores of a submission again from its rows."""
    old = load_submission(folder)
    write_submission(
        replace(old, scores=score(old.rows, old.quick, old.metadata["guarantee_text"]))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("submissions/full"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--rescore", nargs="*", type=Path, default=[], metavar="SUBMISSION")
    given = parser.parse_args()
    for folder in given.rescore:
        rescore(folder)
    if not given.rescore:
        make(given.out, given.quick, given.jobs, given.only)


if __name__ == "__main__":
    main()
