"""How a play ended: the figures of its row, and the text of an error."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym._types import Values
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.isolation import is_installed
from clustered_bandit_gym.harness.settings import writable


def outcome_row(federation: Federation, unfinished: str, message: str) -> Values:
    """The row's figures, from the play as it stands. A play that has stopped is judged by its stop
    alone; any other one is `unfinished`."""
    judgement = federation.judgement
    problem = federation.problem
    ledger = federation.ledger
    names = ("correct", "wrong_agents", "clustering_errors", "arm_errors")
    outcome = unfinished
    texts = [message]
    quiet = False
    if judgement is not None:
        outcome = "solved" if judgement.correct else "wrong"
        quiet = judgement.correct and _too_quiet(judgement.arms, ledger)
        texts = []
        if outcome == "wrong":
            texts.append(f"{judgement.wrong_agents} of {problem.n_agents} agents got a wrong arm")
        if unfinished:
            texts.append(f"after its stop the player raised {message}")
    if outcome != "solved":
        texts.append(federation.hint())
    return {
        "outcome": outcome,
        "message": "; ".join(text for text in texts if text),
        **{name: getattr(judgement, name, None) for name in names},
        "pulls": federation.pulls,
        "pulls_max_agent": int(federation.pulls_per_agent.max()),
        "pulls_by_phase": {writable(name): n for name, n in federation.pulls_by_phase.items()},
        **ledger.summary(),
        "cost_by_phase": {writable(name): float(x) for name, x in ledger.by_phase().items()},
        "rounds": federation.rounds,
        "suspicious_communication": quiet,
        **problem.to_dict(),
    }


def _too_quiet(arms: np.ndarray, ledger: Any) -> bool:
    """The centre learnt N answers of empirical entropy H: about N·H bits must have come up."""
    _, counts = np.unique(arms, return_counts=True)
    needed = float(-(counts * np.log2(counts / arms.size)).sum())
    sent = ledger.bits("up") + 64 * ledger.reals("up")  # a real is a float64
    return bool(sent < 0.5 * needed)


def describe(error: BaseException, seen: BaseException) -> str:
    """Kind, text and place of an error, on one line: the last line of the player's own code in its
    traceback or in that of `seen`, which the player got in its place."""
    stack = traceback.extract_tb(seen.__traceback__) + traceback.extract_tb(error.__traceback__)
    place = ""
    for frame in stack:
        file = Path(frame.filename)
        players = "policies" in file.parts or not is_installed(frame.filename)
        if players and not file.name.startswith("<"):
            place = f" ({file.name}, line {frame.lineno})"
    return f"{type(error).__name__}: {text_of(error)}{place}".replace("\n", " ")


def without_place(message: str) -> str:
    """A message of `describe` for readers who do not look for a bug: without the line of code."""
    return re.sub(r" \([^()]+, line \d+\)", "", message)


def text_of(error: BaseException) -> str:
    """The text of an error, which may fail, hold lone surrogates, or be too long for a table."""
    text = "".join(traceback.format_exception_only(error)).strip().partition(": ")[2]
    if len(text) > 2000:
        text = f"{text[:2000]}... ({len(text):,} characters)"
    return writable(text)
