"""Rows of trials that were never played, for tests of what is made from rows."""

from __future__ import annotations

from typing import Any


def rows(
    policy: str, pulls: list[float], outcomes: str | list[str] = "solved", **more: Any
) -> list[dict[str, Any]]:
    outcomes = [outcomes] * len(pulls) if isinstance(outcomes, str) else outcomes
    base = {
        "env": "E", "env_kwargs": {}, "policy": policy, "seed": 0, "n_agents": 4, "delta": 0.1, "bound": 0.5,
        "cost": 5.0, "bits_up": 1, "bits_down": 2, "reals_up": 3, "reals_down": 4, "rounds": 5, "seconds": 0.5,
        "pulls_max_agent": 7, "message": "", "wrong_agents": 0, "clustering_errors": None, "arm_errors": None,
        "suspicious_communication": False, "policy_class": "nowhere:Player", "guarantee": "none", "settings": {},
        "strict": True, "attempts": 1, "pulls_by_phase": {}, "version": "0",
    }  # fmt: skip
    return [
        base
        | {"trial": t, "pulls": p, "outcome": o, "correct": {"solved": True, "wrong": False}.get(o)}
        | more
        for t, (p, o) in enumerate(zip(pulls, outcomes, strict=True))
    ]
