"""The theorems' terms and the coupon-collector count beside what was measured."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import pandas as pd

from clustered_bandit_gym.game.instance import Instance
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.scoring.numbers import number
from clustered_bandit_gym.reproduce.figures import DELTA, SCHEMES
from research.markdown import table
from research.paper import formulas
from research.paper.claim import NAMES, SIGNS
from research.paper.ratios import drawn_agents, points_of

if TYPE_CHECKING:
    from research.paper.play import Played

_PHASES = {
    "naive": ("identify", ""),
    "cl-bai": ("cluster", "identify"),
    "bai-cl": ("identify", "assign"),
    "bai-cl++": ("identify", "assign"),
}


def span(values: list[float]) -> str:
    """“0.98 to 1.06”; one number if both ends look the same."""
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def instance_of(row: pd.Series) -> Instance:
    """The instance of a row's trial, drawn again."""
    kwargs = tuple(
        sorted(
            (key, value) for key, value in row["env_kwargs"].items() if key not in ("told", "check")
        )
    )
    seeds = trial_seeds(int(row["seed"]), int(row["trial"]))
    instance: Instance = _env(row["env"], kwargs).draw_instance(seeds.instance)
    return instance


@lru_cache(maxsize=256)
def _env(env_id: str, kwargs: tuple[tuple[str, Any], ...]) -> Any:
    return gym.make(env_id, disable_env_checker=True, **dict(kwargs)).unwrapped


def sizes_of(rows: pd.DataFrame) -> list[np.ndarray]:
    """(M,) agents of each cluster, for each row's trial."""
    first = rows.iloc[0]
    n, m = int(first["n_agents"]), int(first["n_clusters"])
    if first["sizes"] is None:  # equal
        return [np.bincount(np.arange(n) % m)] * len(rows)
    return [np.bincount(instance_of(row).clusters, minlength=m) for _, row in rows.iterrows()]


def theorem_table(played: dict[str, Played]) -> str:
    """The constant that each theorem's term would need, phase by phase."""
    lines = []
    for name, one in played.items():
        if one.figure.measure != "pulls" or one.figure.panel:
            continue
        constants: dict[tuple[str, int], list[float]] = {}
        for _, point in points_of(one.rows, one.figure):
            for _, rows in point.groupby(point["instance_seed"].fillna(-1)):
                _add_constants(rows, constants)
        for scheme in SCHEMES:
            second = span(constants[scheme, 1]) if (scheme, 1) in constants else "no second phase"
            lines.append([name, NAMES[scheme], span(constants[scheme, 0]), second])
    if not lines:
        return ""
    return "\n\n".join(
        [
            "## The theorems' terms",
            "Measured pulls of a phase over the theorem's term for it, with the hidden constant "
            "set to 1 (as in "
            "`research/paper/formulas.py`), from the smallest to the largest over the figure's points. The theorems "
            "promise that a "
            "constant above these exists; a narrow range says that the term describes how pulls "
            "grow. Where Cl-BAI's "
            "first range is far above the others', it is because its rounds go on to ε = η/17, at "
            "(17/η)² pulls for a "
            "close arm where the theorem writes η⁻².",
            table(["figure", "scheme", "first phase", "second phase"], lines),
        ]
    )


def _add_constants(rows: pd.DataFrame, constants: dict[tuple[str, int], list[float]]) -> None:
    first = rows.iloc[0]
    instance, eta, eta1 = instance_of(first), float(first["eta"]), float(first["eta1"])
    terms = {
        "naive": formulas.naive_terms(instance, DELTA),
        "cl-bai": formulas.cl_bai_terms(instance, DELTA, eta),
        "bai-cl": formulas.bai_cl_terms(instance, DELTA, eta),
        "bai-cl++": formulas.bai_cl_pp_terms(instance, DELTA, eta, eta1),
    }
    for scheme, phases in _PHASES.items():
        own = rows[rows["policy"] == scheme]["pulls_by_phase"]
        for i, phase in enumerate(phases):
            if phase:
                measured = float(np.mean([counts.get(phase, 0) for counts in own]))
                constants.setdefault((scheme, i), []).append(measured / terms[scheme][i])


def coupon_table(played: dict[str, Played]) -> str:
    """Agents that BAI-Cl samples in its first phase, against the exact expectation."""
    lines, scores = [], []
    for name, one in played.items():
        if one.figure.measure != "pulls":
            continue
        for _, rows in points_of(one.rows, one.figure):
            own = rows[rows["policy"] == "bai-cl"]
            m = int(own["n_clusters"].iloc[0])
            expected, variance = np.mean(
                [_draws(tuple(sizes.tolist())) for sizes in sizes_of(own)], axis=0
            )
            asked = drawn_agents(own).to_numpy(dtype=float)
            score = (
                float((asked.mean() - expected) / math.sqrt(variance / asked.size))
                if variance > 0
                else 0.0
            )
            scores.append(score)
            shown = [
                column for column in SIGNS if column in ("n_agents", "n_clusters", one.figure.x)
            ]
            lines.append(
                [
                    name,
                    ", ".join(f"{SIGNS[column]} = {own[column].iloc[0]:g}" for column in shown),
                    f"{asked.mean():.1f}",
                    f"{expected:.1f}",
                    f"{score:+.1f}",
                    f"{m * sum(1 / i for i in range(1, m + 1)):.1f}",
                    f"{m * math.log(3 * m / DELTA):.0f}",
                ]
            )
    if not lines:
        return ""
    return "\n\n".join(
        [
            "## The coupon collector",
            "Agents asked in BAI-Cl's first phase: mean over the trials, and the exact expectation "
            "for a draw without "
            "replacement from the trials' own clusters (z: the difference in standard errors; the "
            "largest of the "
            f"{len(scores)}, which share random numbers, is {max(map(abs, scores)):.1f}). M·H_M is "
            "the expectation "
            "with replacement from equal clusters, M ln(3M/δ) the number in the paper's theorem, "
            "which holds for "
            "clusters of equal probability only.",
            table(["figure", "setting", "asked", "expected", "z", "M·H_M", "M ln(3M/δ)"], lines),
        ]
    )


@lru_cache(maxsize=1024)
def _draws(sizes: tuple[int, ...]) -> tuple[float, float]:
    """Agents asked until every cluster was met: exact mean, and the variance of 500 simulated
    draws.
    """
    expected = formulas.coupon_collector_without_replacement(np.array(sizes))
    if min(sizes) == 0 or max(sizes) == 1:
        return expected, 0.0
    agents = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(0).permuted(np.tile(agents, (500, 1)), axis=1)
    first = np.stack([(order == cluster).argmax(axis=1) for cluster in range(len(sizes))])
    return expected, float((first.max(axis=0) + 1).var(ddof=1))
