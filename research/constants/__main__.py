"""How much a tuning constant of a policy matters: pulls and communication with other values, on the
same trials.

    python -m research.constants structured-bai tuning.TUNING.urgent 3 30
    python -m research.constants structured-bai tuning.TUNING.bet_slack 2 8 --env ClusteredBAI-v0 \\
        generator=random rewards=categorical n_agents=100

Names are relative to the policy's package. The families below are played, or with `--env` one
environment. Prints, for each family, the geometric mean over trials of the ratio to the present
value, in percent, with its standard error; trials that are not solved are counted. A constant
changes which rewards are drawn, so a play's own noise remains: on families with near ties it is 10%
to 20% with the default trials.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import clustered_bandit_gym as cbg
from clustered_bandit_gym.settings_text import parse_pairs

PACKAGES = {
    "structured-bai": "clustered_bandit_gym.policies.structured",
}
#: Name, environment, settings, and trials for `--scale 1`.
Family = tuple[str, str, dict[str, Any], int]
#: Flat and other means, near ties, and both kinds of rewards.
FAMILIES: tuple[Family, ...] = (
    ("small", "ClusteredBAI-PaperSmall-v0", {"n_agents": 60}, 8),
    ("flat", "ClusteredBAI-PaperFlat-v0", {"n_agents": 80}, 6),
    ("random", "ClusteredBAI-PaperRandom-v0", {"n_agents": 60}, 6),
    ("near tie", "ClusteredBAI-NearTie-v0", {"n_agents": 60}, 12),
    (
        "coins",
        "ClusteredBAI-v0",
        {"generator": "random", "rewards": "bernoulli", "n_agents": 60},
        10,
    ),
    ("ratings", "ClusteredBAI-YelpLike-v0", {"n_agents": 60}, 10),
)
Plays = dict[str, list[tuple[int, float, bool]]]


def users(package: str, module: str, name: str) -> list[ModuleType]:
    """The module that defines a constant, and those of the package that import it by name."""
    folder = importlib.import_module(package)
    found = [importlib.import_module(f"{package}.{module}")]
    for info in pkgutil.iter_modules(folder.__path__):
        other = importlib.import_module(f"{package}.{info.name}")
        nodes = [
            node
            for node in ast.walk(ast.parse(inspect.getsource(other)))
            if isinstance(node, ast.ImportFrom)
        ]
        if any(
            node.module == found[0].__name__ and name in [one.name for one in node.names]
            for node in nodes
        ):
            found.append(other)
    return found


@contextmanager
def changed(package: str, constant: str, value: float) -> Iterator[None]:
    """`module.NAME` or `module.TUNING.name` of a package has another value inside."""
    module, *owner, name = constant.split(".")
    where: list[Any] = users(package, module, owner[0] if owner else name)
    if owner:
        where = [getattr(where[0], owner[0])]
    before = getattr(where[0], name)
    change = object.__setattr__ if owner else setattr  # the dataclass is frozen
    try:
        for one in where:
            change(one, name, type(before)(value))
        yield
    finally:
        for one in where:
            change(one, name, before)


def plays(policy: str, families: Sequence[Family], scale: float) -> Plays:
    """Pulls, communication cost, and whether it was solved, of each trial of each family."""
    found: Plays = {}
    for family, env, settings, trials in families:
        rows = [
            cbg.play(policy, env, trial=t, bound=False, env_kwargs=settings)
            for t in range(math.ceil(scale * trials))
        ]
        found[family] = [(row["pulls"], row["cost"], row["outcome"] == "solved") for row in rows]
    return found


def compare(new: Plays, old: Plays) -> Iterator[str]:
    """A line for each family."""
    for family, rows in new.items():
        ratios = np.log(
            [
                [a / b for a, b in zip(x[:2], y[:2], strict=True)]
                for x, y in zip(rows, old[family], strict=True)
            ]
        )
        mean, error = ratios.mean(axis=0), ratios.std(axis=0) / math.sqrt(len(ratios))
        text = (
            f"{100 * math.expm1(m):+6.1f}% ± {100 * e:4.1f}"
            for m, e in zip(mean, error, strict=True)
        )
        yield f"  {family:<9} pulls {next(text)}   cost {next(text)}   not solved {sum(not row[2] for row in rows)}"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("policy", choices=PACKAGES)
    parser.add_argument("constant", help="module.NAME")
    parser.add_argument("values", type=float, nargs="+")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="play this many times the trials (default: 1)"
    )
    parser.add_argument(
        "--env",
        nargs="+",
        metavar=("ID", "KEY=VALUE"),
        help="play 8 trials of this environment instead",
    )
    options = parser.parse_args(words)
    families: Sequence[Family] = FAMILIES
    if options.env:
        families = [("this one", options.env[0], parse_pairs(options.env[1:], "--env"), 8)]
    old = plays(options.policy, families, options.scale)
    for value in options.values:
        with changed(PACKAGES[options.policy], options.constant, value):
            print(
                f"{options.constant} = {value:g}",
                *compare(plays(options.policy, families, options.scale), old),
                sep="\n",
            )


if __name__ == "__main__":
    main()
