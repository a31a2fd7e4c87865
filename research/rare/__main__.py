"""Error probabilities too small to simulate, measured by plays tilted towards an error.

python -m research.rare measure bai-cl++ ClusteredBAI-PaperSmall-v0 --n-agents 9 --delta 1e-10
python -m research.rare table --out docs/results
python -m research.rare brute-force
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clustered_bandit_gym.settings_text import parse_pairs
from research.options import run
from research.rare import brute_force
from research.rare.estimate import rare
from research.rare.kept import keep
from research.rare.table import rare_table


def main(words: list[str] | None = None) -> int:
    """Exit code 1 if an error probability is certified to exceed δ."""
    commands = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = commands.add_subparsers(dest="command", required=True)
    one = kinds.add_parser("measure", help="one policy on the instance of trial 0")
    one.add_argument("policy", help="a name, or module:Class, with settings after a colon")
    one.add_argument("env", nargs="?", default="ClusteredBAI-PaperSmall-v0")
    one.add_argument("--n-agents", type=int)
    one.add_argument("--delta", type=float)
    one.add_argument("--trials", type=int, default=2000, help="plays of the estimate")
    one.add_argument("--searches", type=int, default=3, help="independent searches for errors")
    one.add_argument("--search-plays", type=int, default=200, help="plays in a round of a search")
    one.add_argument("--rounds", type=int, default=6, help="rounds of a search")
    one.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the environment")
    one.add_argument("--out", type=Path, help="folder to append the result to rare.jsonl in")
    table = kinds.add_parser("table", help="every policy at δ = 1e-10, and at larger δ; it resumes")
    table.add_argument("--policies", nargs="+", help="names of policies; all of the table if none")
    table.add_argument("--keep-old", action="store_true", help="keep results of other versions")
    table.add_argument("--out", type=Path, default=Path("out/rare"), help="folder for results")
    for kind in (one, table):
        kind.add_argument("--seed", type=int, default=0)
        kind.add_argument("--quiet", action="store_true", help="no progress bar")
    brute = kinds.add_parser("brute-force", help="a million plays of one agent, for comparison")
    brute.add_argument("--plays", type=int, default=1_000_000)
    brute.add_argument("--seed", type=int, default=0)
    given = commands.parse_args(words)
    if given.command == "brute-force":
        brute_force.report(given.plays, given.seed)
        return 0
    progress = not given.quiet and sys.stderr.isatty()
    if given.command == "table":
        page, figure = rare_table(
            given.out, given.policies, given.seed, keep_old=given.keep_old, progress=progress
        )
        print(page.read_text(encoding="utf-8"))
        print(f"figure: {figure}")
        return 0
    named = {"n_agents": given.n_agents, "delta": given.delta}
    settings = {key: value for key, value in named.items() if value is not None}
    result = rare(
        given.policy,
        given.env,
        given.trials,
        given.seed,
        searches=given.searches,
        search_plays=given.search_plays,
        rounds=given.rounds,
        progress=progress,
        **settings,
        **parse_pairs(given.set, "--set"),
    )
    print(result)
    if given.out is not None:
        keep(result, given.out)
    return int(result.fails)


if __name__ == "__main__":
    run(main)
