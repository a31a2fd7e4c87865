"""StructuredBAI and FrugalBAI beside the paper's schemes: pulls, communication, lower bound.

With --out the trials are kept, and the table and a picture go to beyond.md and beyond.png there.
"""

from __future__ import annotations

from research.beyond.table import SETTINGS, beyond_table
from research.options import parser, run, shows_progress


def main(words: list[str] | None = None) -> None:
    options = parser(__doc__, trials=20)
    options.add_argument(
        "--settings",
        type=int,
        nargs="+",
        choices=range(len(SETTINGS)),
        default=list(range(len(SETTINGS))),
        help="which of the settings, by number",
    )
    options.add_argument("--n-agents", type=int, help="N instead of that of each setting")
    given = options.parse_args(words)
    settings = tuple(SETTINGS[i] for i in given.settings)
    if given.n_agents is not None:
        settings = tuple(one._replace(n_agents=given.n_agents) for one in settings)
    table = beyond_table(
        given.trials, given.seed, given.out, given.jobs, shows_progress(given), settings
    )
    print(table)


if __name__ == "__main__":
    run(main)
