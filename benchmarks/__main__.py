"""`python -m benchmarks` measures everything, `python -m benchmarks core env` two modules.

Exit code 1 if a target is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import Figure


def main(arguments: list[str] | None = None) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory against yardsticks.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(known)}")
    chosen = parser.parse_args(arguments).modules or known
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    missed = 0
    for name in chosen:
        print(f"\n{name}\n{'figure':<84}{'measured':>12}{'target':>22}  ok")
        for figure in importlib.import_module(f"benchmarks.bench_{name}").figures():
            missed += not figure.ok
            print(_row(figure), flush=True)
    print(f"\n{missed} of the targets missed" if missed else "\nall targets met")
    return 1 if missed else 0


def _row(figure: Figure) -> str:
    target = "" if figure.target is None else f"{figure.sense} {figure.target:.4g} {figure.unit}"
    verdict = "" if figure.target is None else "yes" if figure.ok else "NO"
    return f"{figure.name:<84}{f'{figure.value:.4g} {figure.unit}':>12}{target:>22}  {verdict}"


if __name__ == "__main__":
    sys.exit(main())
