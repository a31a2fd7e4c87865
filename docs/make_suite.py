"""Draws the instances of suite v2 and computes their bounds: ``python docs/make_suite.py``.

It reads the families in v2.json, writes datasets/suite_v2.zip and the bounds, and prints the digest, which belongs
into `cells.DIGESTS`. v2 is frozen: only the bounds may be replaced, by larger ones (``--bounds``).
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from clustered_bandit_gym import datasets, suite
from clustered_bandit_gym.datasets.suite_v2 import INSTANCES, drawn, shipped
from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.harness.bound import bound_of
from clustered_bandit_gym.suite.cells import (
    GIVE_UP,
    MAX_PULLS,
    MAX_STEPS,
    SuiteCell,
    cells_of,
)

CELLS = Path(suite.__file__).with_name("v2.json")
ARCHIVE = Path(datasets.__file__).with_name("suite_v2.zip")


def bound(cell: SuiteCell, instance: Instance) -> float:
    """The lower bound on the expected pulls of every policy that is δ-PC on the cell's problems.

    With ε > 0 no bound is known, and that of ε = 0 serves as the unit. Without Assumption 1 agents
    tell nothing about each other, and the bounds of single agents add up.
    """
    told: Any = cell.setting().make().unwrapped
    problem = replace(told.problem_of(instance), epsilon=0.0)
    found = bound_of(instance, problem)
    if found is None:
        sizes = np.bincount(instance.clusters, minlength=instance.n_clusters)
        alone = [Instance(row[None], [0], instance.rewards) for row in instance.means]
        bounds = [bound_of(one, Problem.of(one, cell.delta)) or 0.0 for one in alone]
        found = float(sizes @ bounds)
    # Six digits: the solver's last ones differ between platforms.
    return float(f"{found:.6g}")


def suite_digest(suite: str) -> str:
    """A hash of everything that defines a suite: instances, settings, trials, seeds and budgets.

    Lower bounds are not part of it: larger ones may replace them.
    """
    rules: list[Any] = [MAX_PULLS, MAX_STEPS, GIVE_UP, INSTANCES, "strict"]
    if suite == "v1":
        rules = [1, 2026, MAX_PULLS, MAX_STEPS, GIVE_UP, "strict"]
    table = []
    for cell in cells_of(suite).values():
        entry: list[Any]
        if suite == "v1":
            entry = [cell.name, cell.tags, cell.env_id, cell.setting().plain_kwargs]
            entry += [cell.trials, cell.quick]
            env: Any = cell.setting().make().unwrapped
            drawn_now = env.draw_instance(cell.kwargs["instance_seed"])
            # Rounded: the last digits of an exponential depend on the processor.
            entry.append(_instance_digest(drawn_now, 7))
        else:
            entry = [cell.name, cell.tags, cell.track, cell.kwargs]
            entry += [cell.trials, cell.quick, cell.seed]
            entry += [_instance_digest(one, 15) for one in cell.instances]
        table.append(entry)
    content = json.dumps({"rules": rules, "cells": table}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _instance_digest(instance: Instance, decimals: int) -> str:
    """Hash of means, clusters and reward law."""
    digest = hashlib.sha256()
    law = instance.rewards.to_dict()
    digest.update(str(law.pop("kind")).encode())
    values = {"means": instance.means, "clusters": instance.clusters, **law}
    for name, value in values.items():
        array = np.asarray(value, dtype=float)
        # Adding 0.0 turns -0.0 into 0.0.
        rounded = np.round(array, decimals) + 0.0
        digest.update(f"{name} {array.shape}".encode() + rounded.tobytes())
    return digest.hexdigest()[:24]


def main(arguments: list[str]) -> None:
    if "--bounds" not in arguments:
        with ZipFile(ARCHIVE, "w", ZIP_STORED) as file:
            for place, cell in enumerate(cells_of("v2").values()):
                for number in range(INSTANCES):
                    part = io.BytesIO()
                    drawn(cell.family, [2026, place, number]).save(part)
                    file.writestr(ZipInfo(f"{cell.name}-{number}.npz"), part.getvalue())
    lines = []
    for cell in cells_of("v2").values():
        bounds = [bound(cell, instance) for instance in shipped(cell.name)]
        entry = asdict(replace(cell, bounds=bounds))
        print(f"{cell.name}: {bounds}")
        lines.append(json.dumps(entry, ensure_ascii=False))
    CELLS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"digest {suite_digest('v2')}")


if __name__ == "__main__":
    main(sys.argv[1:])
