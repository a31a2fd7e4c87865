"""A search for the game on which a policy errs most often, relative to δ.

Candidates are small games inside the assumptions: what is told is true, or a lower bound where that
is allowed, or hidden. The search starts from the audit's games and from random ones, plays a few
trials of each, and varies the worst ones. Its counts are biased, since the worst of many was kept:
the verdict rests on fresh trials alone.

The budget is processor time of this process, so that a busy machine does not shorten the search.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.harness.audit.audit import MAX_PULLS, MAX_STEPS
from clustered_bandit_gym.harness.audit.candidates import Knobs, draw, vary
from clustered_bandit_gym.harness.audit.games import GAMES, AuditGame
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.play import play
from clustered_bandit_gym.harness.scoring.verdict import Verdict, verdict
from clustered_bandit_gym.harness.settings import label_of

#: Trials of a new candidate, and the most that the search spends on one.
FIRST_TRIALS, MOST_TRIALS = 6, 96
#: Candidates that are varied, and how many of them get fresh trials.
ELITE, FINALISTS = 12, 3
#: Share of the budget for the search; the rest is for fresh trials.
SEARCH_SHARE = 0.7
#: A policy that is δ-correct on the finalists is failed with probability at most this.
ALPHA = 0.01
#: A FAIL needs at least this many fresh trials: the bound on the error rate sharpens with them.
LEAST_FRESH = 40


@dataclass
class Candidate:
    """A game, and counts of the trials played on it."""

    game: AuditGame
    delta: float
    knobs: Knobs | None = None
    trials: int = 0
    errors: int = 0
    unfinished: int = 0

    @property
    def badness(self) -> float:
        """Estimated error rate over δ, shrunk towards 1/2 while trials are few."""
        errors = self.errors + 0.5 * self.delta * FIRST_TRIALS
        return errors / (self.trials + FIRST_TRIALS) / self.delta

    def judge(self, alpha: float) -> Verdict:
        """The verdict on these counts."""
        return verdict(self.errors, self.trials, self.delta, alpha, unfinished=self.unfinished)


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
    found: Candidate
    verdict: Verdict
    searched: int
    search_trials: int
    seconds: float
    seed: int

    def __str__(self) -> str:
        found = self.found
        game = found.game
        lines = [
            f"{self.verdict.word}: {self.policy} at δ = {found.delta:g}: {found.errors} wrong and "
            f"{found.unfinished} unfinished in {found.trials} fresh trials; P(wrong) is at least "
            f"{self.verdict.low:.3g}",
            f"  game      {game.name}: {game.why}",
            f"  sizes     {game.sizes}   rewards {game.rewards}   sigma {game.sigma:.4g}",
        ]
        for m, row in enumerate(game.means):
            lines.append(f"  means {m}   " + " ".join(f"{mean:.5g}" for mean in row))
        lines += [
            f"  told      {game.told or 'the truth'}",
            f"  search    {self.searched} games, {self.search_trials:,} trials, "
            f"{self.seconds:.0f} s of processor time",
        ]
        if self.verdict.word != "FAIL":
            lines.append(
                "No game with an error rate above δ was found. This does not prove that none "
                "exists."
            )
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
            "cell": asdict(self.found.game),
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path


def load_game(path: str | Path) -> tuple[AuditGame, float]:
    """A game that `WorstGame.save` wrote, for `audit(policy, delta, cells=[game])`, and its δ."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        fields = dict(content["cell"])
        fields["means"] = tuple(tuple(float(mean) for mean in row) for row in fields["means"])
        fields["sizes"] = tuple(int(size) for size in fields["sizes"])
        return AuditGame(**fields), float(content["delta"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a game that `clustered-bai audit --search` wrote ({error})"
        ) from error


def search(
    policy: Any,
    budget: float = 600.0,
    seed: int = 0,
    *,
    from_audit: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> WorstGame:
    """Search for a game on which `policy` errs more often than δ.

    Args:
        policy: a `Policy`, anything with `act(obs, info)`, or a name.
        budget: seconds of processor time. A FAIL ends the search early.
        seed: of the search and of all trials; the time it takes decides how far the search gets.
        from_audit: start from the audit's games; False starts from random ones alone.
        progress: called with a line of text from time to time.
    """
    if isinstance(policy, str):
        from clustered_bandit_gym.policies import make

        policy = make(policy)
    if not budget > 0:
        raise UserError(f"budget must be a positive number of seconds, got {budget}")
    run = _Search(policy, budget, seed)
    run.explore(from_audit, progress)
    found, judged = run.finals()
    return WorstGame(label_of(policy), found, judged, run.games, run.played, run.spent, seed)


@dataclass
class _Search:
    policy: Any
    budget: float
    seed: int
    pool: list[Candidate] = field(default_factory=list)
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

    def explore(self, from_audit: bool, progress: Callable[[str], None]) -> None:
        """Fill the pool: new candidates get a few trials, the worst ones more."""
        waiting = [
            Candidate(game, game.delta(delta))
            for delta in (0.3, 0.1)
            for game in GAMES
            if from_audit and game.in_scope and game.quick and (game.small or not self.stepper)
        ]
        told = 0.0
        while self.spent < SEARCH_SHARE * self.budget:
            candidate = waiting.pop() if waiting else self._next()
            if candidate is None:
                continue
            self.games += 1
            self._play_more(candidate, FIRST_TRIALS)
            self.pool.append(candidate)
            self._sort()
            # The worst ones get more trials until they are known well: luck fades, errors stay.
            for one in [one for one in self.pool[:ELITE] if one.trials < MOST_TRIALS][:3]:
                self._play_more(one, one.trials)
            self._sort()
            del self.pool[5 * ELITE :]
            best = self.pool[0]
            if self.spent > told + 5:
                told = self.spent
                progress(
                    f"{told:.0f} s: {self.played} trials; worst so far {best.errors} wrong in "
                    f"{best.trials} at δ = {best.delta:g}"
                )
            if best.trials >= 32 and best.judge(1e-6).word == "FAIL":
                return  # significant even after a search: continue with fresh trials

    def finals(self) -> tuple[Candidate, Verdict]:
        """Fresh trials of the worst games: the worst of them, and the verdict on it."""
        found: list[tuple[Candidate, Verdict]] = []
        finalists = self.pool[:FINALISTS]
        trial = 0
        for number, one in enumerate(finalists):
            fresh = Candidate(one.game, one.delta)
            end = self.spent + (self.budget - self.spent) / (len(finalists) - number)
            env = self._env(one)
            # At most 200/δ trials: enough to pass or fail all but borderline error rates.
            while fresh.trials < LEAST_FRESH or (
                self.spent < end and fresh.trials < 200 / one.delta
            ):
                self._play(fresh, env, 2 * self.seed + 1, trial)
                trial += 1
                judged = fresh.judge(ALPHA / FINALISTS)
                decided = judged.word != "INCONCLUSIVE" or judged.hopeless
                if fresh.trials >= LEAST_FRESH and decided:
                    break
            found.append((fresh, fresh.judge(ALPHA / FINALISTS)))
            if found[-1][1].word == "FAIL":
                return found[-1]
        return max(found, key=lambda pair: (pair[1].low / pair[0].delta, pair[0].badness))

    def _sort(self) -> None:
        self.pool.sort(key=lambda one: -one.badness)

    def _next(self) -> Candidate | None:
        """A variation of a good candidate (seven in ten), or a random game."""
        parents = [one.knobs for one in self.pool[:ELITE] if one.knobs is not None]
        if parents and self.rng.random() < 0.7:
            knobs = vary(parents[int(self.rng.integers(len(parents)))], self.rng)
        else:
            knobs = draw(self.rng)
        try:
            return Candidate(knobs.game(f"search {self.played}"), knobs.delta, knobs)
        except ValueError:  # numbers that do not fit together, e.g. means outside of [0, 1]
            return None

    def _play_more(self, one: Candidate, more: int) -> None:
        env = self._env(one)
        for _ in range(more):
            # Every trial of the search has noise of its own; fresh trials use another root seed.
            self._play(one, env, 2 * self.seed, self.played)
            self.played += 1
            if one.unfinished == one.trials >= 2:
                return

    def _play(self, one: Candidate, env: Any, seed: int, trial: int) -> None:
        row = play(self.policy, env, seed, trial=trial, bound=False, env_kwargs={}, strict=True)
        one.trials += 1
        one.errors += row["outcome"] == "wrong"
        one.unfinished += row["correct"] is None

    def _env(self, one: Candidate) -> Any:
        kwargs = {
            "generator": one.game,
            "delta": one.delta,
            "told": one.game.told,
            "max_pulls": MAX_STEPS if self.stepper else MAX_PULLS,
        }
        return Cell("ClusteredBAI-v0", kwargs).make()
