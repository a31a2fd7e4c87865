"""`python -m benchmarks` measures everything, `python -m benchmarks core env` two modules.

Studies with options of their own: `python -m benchmarks panel|families|stress|clients --help`.

`--out docs/results/bench.json` keeps the figures of these modules, with date and version, and makes the page beside it.
Exit code 1 if a target is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import Figure
from benchmarks.page import keep

#: Studies that print tables; each has `main(arguments) -> exit code`.
STUDIES = ("panel", "families", "stress", "clients")


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in STUDIES:
        return int(importlib.import_module(f"benchmarks.{words[0]}").main(words[1:]))
    known = sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Speed and memory against yardsticks."
    )
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(known)}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json", help="keep the figures here, and a page beside it"
    )
    options = parser.parse_args(arguments)
    if options.modules == ["walk"]:
        importlib.import_module("benchmarks.walk").main()
        return 0
    chosen = options.modules or known
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    missed = 0
    for name in chosen:
        print(f"\n{name}\n{'figure':<84}{'measured':>12}{'target':>22}  ok")
        figures = []
        for figure in importlib.import_module(f"benchmarks.bench_{name}").figures():
            missed += not figure.ok
            figures.append(figure)
            print(_row(figure), flush=True)
        if options.out is not None:
            keep(options.out, name, figures)
    print(f"\n{missed} of the targets missed" if missed else "\nall targets met")
    return 1 if missed else 0


def _row(figure: Figure) -> str:
    target = "" if figure.target is None else f"{figure.sense} {figure.target:.4g} {figure.unit}"
    verdict = "" if figure.target is None else "yes" if figure.ok else "NO"
    return f"{figure.name:<84}{f'{figure.value:.4g} {figure.unit}':>12}{target:>22}  {verdict}"


if __name__ == "__main__":
    sys.exit(main())
