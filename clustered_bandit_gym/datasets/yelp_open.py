"""The Yelp Open Dataset as bandits: a state is a cluster, a business name an arm, its average stars
the mean."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from clustered_bandit_gym._types import Floats
from clustered_bandit_gym.datasets.sources import Bandits, Origin, Source, find
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.rewards import Gaussian

FILE = "yelp_academic_dataset_business.json"
ORIGIN = Origin(
    "Yelp Open Dataset",
    "https://www.yelp.com/dataset",
    (
        FILE,
        "yelp_dataset",
        "yelp_dataset.tar",
        "yelp_dataset.tgz",
        "Yelp-JSON.zip",
        "yelp_dataset.zip",
    ),
    "ClusteredBAI-YelpLike-v0",
    any_name=".json",
)
STATES = ("LA", "TN", "MO", "IN")


def load(
    path: str | os.PathLike[str] | None, states: Sequence[str] = STATES, weights: str = "branches"
) -> Bandits:
    """Read (once per process and file) and select the arms."""
    check_states(states)
    if weights not in ("branches", "reviews"):
        raise UserError(f'weights must be "branches" or "reviews", got {weights!r}')
    return _select(find(path, FILE, ORIGIN), tuple(states), weights)


def check_states(states: Sequence[str]) -> None:
    """`ValueError` unless these are one or more different state codes."""
    if isinstance(states, str) or len(states) < 1 or len(set(states)) < len(states):
        raise UserError(
            f"states must be different state codes such as ('LA', 'TN'), got {states!r}"
        )


@lru_cache(maxsize=8)
def _select(source: Source, states: tuple[str, ...], weights: str) -> Bandits:
    totals, others = _read(source, states, weights)
    for state, names in zip(states, totals, strict=True):
        if not names:
            common = ", ".join(sorted(others, key=lambda code: -others[code])[:12])
            raise UserError(
                f"{source.label} has no business in state {state!r}; most are in {common}"
            )
    shared = sorted(set(totals[0]).intersection(*totals[1:]))
    if not shared:
        raise UserError(f"no business name is present in all of {', '.join(states)}: no arm left")
    means = np.array([[names[name][0] / names[name][1] for name in shared] for names in totals])
    keep = np.flatnonzero(_arms(means, shared, states))
    arm_names = tuple(shared[k] for k in keep.tolist())
    return Bandits(means[:, keep], Gaussian(), arm_names, states)


def _arms(means: Floats, names: list[str], states: tuple[str, ...]) -> np.ndarray:
    """(K,) booleans: arms that stay, so that every state has one best arm and no two states the
    same."""
    # A sum of half stars over a whole number is rounded once: equal averages are equal floats.
    best = means == means.max(axis=1, keepdims=True)
    keep = ~best.any(axis=0)
    for state, row in zip(states, best, strict=True):
        own = np.flatnonzero(row & (best.sum(axis=0) == 1))
        if own.size == 0:
            tied = ", ".join(names[k] for k in np.flatnonzero(row)[:5].tolist())
            raise UserError(
                f"no unique best arm: every best business of {state} ({tied}) is also best in another state. "
                "Choose other states"
            )
        keep[own[0]] = True
    return keep


@lru_cache(maxsize=2)
def _read(
    source: Source, states: tuple[str, ...], weights: str
) -> tuple[list[dict[str, tuple[float, int]]], dict[str, int]]:
    """Per state name -> (weighted sum of stars, sum of weights); and how many businesses every
    state code has."""
    totals: dict[str, dict[str, tuple[float, int]]] = {state: {} for state in states}
    seen: dict[str, int] = {}
    expected = 'one JSON object with "name", "state", "stars" (1 to 5) and "review_count"'
    for number, line in source.lines():
        try:
            business = json.loads(line)
            name, state = business["name"].strip(), business["state"]
            stars, reviews = float(business["stars"]), int(business["review_count"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise source.bad_line(number, line, expected) from None
        if not (1 <= stars <= 5 and 0 <= reviews < 2**31 and isinstance(state, str)):
            raise source.bad_line(number, line, expected)
        seen[state] = seen.get(state, 0) + 1
        weight = 1 if weights == "branches" else reviews
        # A blank name would make one arm of unrelated businesses.
        if state in totals and name and weight:
            total, count = totals[state].get(name, (0.0, 0))
            totals[state][name] = (total + weight * stars, count + weight)
    return list(totals.values()), seen
