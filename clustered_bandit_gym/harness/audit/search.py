"""A search for the game on which a policy errs most often, relative to δ.

It starts from the audit's games, plays a few trials of each, and varies the worst ones. All games
keep the assumptions: what is told is true, or a lower bound where that is allowed, or hidden. The
counts of the search are biased, since the worst of many was kept: the verdict rests on fresh trials
alone.

The budget is processor time of this process, so that a busy machine does not shorten the search.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.audit.audit import MAX_PULLS, MAX_STEPS, Tally
from clustered_bandit_gym.harness.audit.games import GAMES, AuditGame
from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.harness.run import resolve_policies
from clustered_bandit_gym.harness.scoring.verdict import Verdict

#: Trials of a new candidate.
FIRST_TRIALS = 6
#: Games whose fresh trials decide; a policy that is δ-correct on them fails with probability 0.01.
FINALISTS = 3
LEVEL = 0.01 / FINALISTS


def vary(game: AuditGame, rng: np.random.Generator) -> AuditGame:
    """A game like `game`, with other gaps and sizes, of which more or less is told.

    Raises `ValueError` where the new numbers do not fit together.
    """
    means = np.array(game.means)
    top = means.max(axis=1, keepdims=True)
    factors = np.exp(rng.normal(0, 0.7) + rng.normal(0, 0.2, means.shape))
    means = top - (top - means) * factors
    sizes = np.array(game.sizes) * np.exp(rng.normal(0, 0.5, len(means)))
    first, *others = np.round(sizes).astype(int)
    varied = replace(
        game,
        why="found by a search",
        means=tuple(map(tuple, means.tolist())),
        sizes=(max(1, int(first)), *map(int, others)),
        told={},
    )
    truth = varied(rng)
    chance = rng.random()
    if chance < 0.2:  # M is not told, or nothing
        hidden = ("n_clusters",) if chance < 0.1 else ("n_clusters", "eta", "eta1")
        return replace(varied, told=dict.fromkeys(hidden))
    share = float(rng.choice([1.0, 1.0, 0.5, 0.1]))
    if share == 1 or not truth.eta < math.inf or not truth.eta1 > 0:
        return varied
    return replace(varied, told={"eta": share * truth.eta, "eta1": share * truth.eta1})


@dataclass(frozen=True)
class WorstGame:
    """The game with the most errors relative to δ that a search found, judged by fresh trials.

    Attributes:
        policy: its label.
        found: the game, and the counts of the fresh trials.
        verdict: on "P(stopped and wrong) ≤ δ", from the fresh trials alone.
        searched, search_trials: games that the search has played, and their trials.
        seconds: processor time.
    """

    policy: str
    found: Tally
    verdict: Verdict
    searched: int
    search_trials: int
    seconds: float
    seed: int

    def __str__(self) -> str:
        game = self.found.cell
        lines = [
            f"{self.verdict.word}: {self.policy} at δ = {self.found.delta:g}, in fresh trials: "
            f"{self.verdict.reason}",
            f"  game      {game.name}: {game.why}",
            f"  sizes     {game.sizes}   rewards {game.rewards}   sigma {game.sigma:.4g}",
            *(f"  means     {' '.join(f'{mean:.5g}' for mean in row)}" for row in game.means),
            f"  told      {game.told or 'the truth'}",
            f"  search    {self.searched} games, {self.search_trials:,} trials, "
            f"{self.seconds:.0f} s of processor time",
        ]
        if self.verdict.word != "FAIL":
            lines.append("No game above δ was found. This does not prove that none exists.")
        return "\n".join(lines)

    def save(self, path: str | Path) -> Path:
        """Write the game and the verdict as JSON; `load_game` reads it back."""
        content = {
            "policy": self.policy,
            "delta": self.found.delta,
            "verdict": self.verdict.word,
            "trials": self.found.trials,
            "errors": self.found.errors,
            "unfinished": self.found.unfinished,
            "seed": self.seed,
            "cell": asdict(self.found.cell),
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path


def load_game(path: str | Path) -> tuple[AuditGame, float]:
    """A game that `WorstGame.save` wrote, for `audit(policy, delta, cells=[game])`, and its δ."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        cell = dict(content["cell"])
        cell["means"] = tuple(tuple(float(mean) for mean in row) for row in cell["means"])
        cell["sizes"] = tuple(int(size) for size in cell["sizes"])
        return AuditGame(**cell), float(content["delta"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a game that `audit --search` wrote ({error})") from error


def search(
    policy: Any,
    budget: float = 600.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> WorstGame:
    """Search for a game on which `policy` errs more often than δ.

    Args:
        policy: a `Policy`, anything with `act(obs, info)`, or a name.
        budget: seconds of processor time. A FAIL ends the search early.
        seed: of the search and of all trials; the time it takes decides how far the search gets.
        progress: called with a line of text from time to time.
    """
    if not budget > 0:
        raise UserError(f"budget must be a positive number of seconds, got {budget}")
    ((label, player),) = resolve_policies(policy)
    run = _Search(player, budget, seed)
    run.explore(progress)
    found = run.finals()
    return WorstGame(label, found, found.judge(), run.games, run.played, run.spent, seed)


def _badness(one: Tally) -> float:
    """Estimated error rate over δ, shrunk towards 1/2 while trials are few."""
    errors = one.errors + 0.5 * one.delta * FIRST_TRIALS
    return errors / (one.trials + FIRST_TRIALS) / one.delta


@dataclass
class _Search:
    policy: Any
    budget: float
    seed: int
    pool: list[Tally] = field(default_factory=list)
    played: int = 0
    games: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 14])
        self.start = time.process_time()
        self.stepper = not hasattr(self.policy, "solve")

    @property
    def spent(self) -> float:
        """Seconds of processor time so far."""
        return time.process_time() - self.start

    def explore(self, progress: Callable[[str], None]) -> None:
        """Fill the pool: new candidates get a few trials, the worst ones more."""
        games = [game for game in GAMES if game.in_scope and (game.small or not self.stepper)]
        waiting = [Tally(game, game.delta(0.2), 1e-6) for game in games]
        told = 0.0
        # The rest of the budget is for fresh trials.
        while self.spent < 0.7 * self.budget:
            candidate = waiting.pop() if waiting else self._varied()
            self.games += 1
            self._play_more(candidate, FIRST_TRIALS)
            self.pool.append(candidate)
            self.pool.sort(key=_badness, reverse=True)
            # The worst ones get more trials until they are known well: luck fades, errors stay.
            for one in [one for one in self.pool[:12] if one.trials < 96][:3]:
                self._play_more(one, one.trials)
            self.pool.sort(key=_badness, reverse=True)
            del self.pool[60:]
            best = self.pool[0]
            if self.spent > told + 5:
                told = self.spent
                progress(
                    f"{told:.0f} s: {self.played} trials; worst so far {best.errors} wrong in "
                    f"{best.trials} at δ = {best.delta:g}"
                )
            if best.trials >= 32 and best.judge().word == "FAIL":
                return  # significant even after a search: continue with fresh trials

    def finals(self) -> Tally:
        """Fresh trials of the worst games; the worst of them."""
        found = []
        finalists = self.pool[:FINALISTS]
        trial = 0
        for position, one in enumerate(finalists):
            fresh = Tally(one.cell, one.delta, LEVEL)
            end = self.spent + (self.budget - self.spent) / (len(finalists) - position)
            env = self._env(one)
            judged = None
            # 200/δ trials pass or fail all but borderline error rates.
            while fresh.trials < 40 or (self.spent < end and fresh.trials < 200 / one.delta):
                row = play(
                    self.policy, env, 2 * self.seed + 1, trial=trial, bound=False, env_kwargs={}
                )
                fresh.add(row)
                trial += 1
                judged = fresh.judge()
                if fresh.trials >= 40 and (judged.word != "INCONCLUSIVE" or judged.hopeless):
                    break
            found.append(fresh)
            if judged is not None and judged.word == "FAIL":
                return fresh
        return max(found, key=lambda one: (one.judge().low / one.delta, _badness(one)))

    def _varied(self) -> Tally:
        """A variation of one of the worst games."""
        while True:
            parent = self.pool[int(self.rng.integers(min(12, len(self.pool))))]
            delta = float(self.rng.choice([0.3, 0.2, 0.1, 0.05]))
            try:
                return Tally(vary(parent.cell, self.rng), delta, 1e-6)
            except ValueError:  # its numbers do not fit together
                continue

    def _play_more(self, one: Tally, more: int) -> None:
        env = self._env(one)
        for _ in range(more):
            # Every trial of the search has noise of its own; fresh trials use another root seed.
            one.add(
                play(self.policy, env, 2 * self.seed, trial=self.played, bound=False, env_kwargs={})
            )
            self.played += 1
            if one.unfinished == one.trials >= 2:
                return

    def _env(self, one: Tally) -> Any:
        budget = MAX_STEPS if self.stepper else MAX_PULLS
        return one.cell.env(one.delta, budget).make()
