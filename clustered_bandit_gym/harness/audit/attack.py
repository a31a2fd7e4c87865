"""A search for the instance on which a policy errs most often, relative to δ.

Candidates are small games inside the assumptions: what is told is true, or a lower bound where that is allowed, or
hidden. The search starts from the audit's games and from random ones, plays a few trials of each, and varies the worst
ones. Its counts are biased, since the worst of many was kept: the verdict rests on fresh trials alone.

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
from clustered_bandit_gym.harness.audit.cells import CELLS, AuditCell
from clustered_bandit_gym.harness.audit.games import Knobs, draw, vary
from clustered_bandit_gym.harness.cell import Cell
from clustered_bandit_gym.harness.play import Row, play
from clustered_bandit_gym.harness.scoring.verdict import Verdict, verdict
from clustered_bandit_gym.harness.settings import label_of

#: Trials of a new candidate, and the most that the search spends on one.
FIRST_TRIALS, MOST_TRIALS = 6, 96
#: Share of new candidates that are varied from a good one; the others are drawn afresh.
VARIED = 0.7
#: Candidates that are varied, and how many of them get fresh trials.
ELITE, FINALISTS = 12, 3
#: Share of the budget for the search; the rest is for fresh trials.
SEARCH_SHARE = 0.7
#: A policy that is δ-correct on the finalists is failed with probability at most this.
ALPHA = 0.01
#: Fresh trials of a finalist, times 1/δ, at most.
FRESH_TRIALS = 200.0
#: A FAIL is not reported before this many fresh trials: the bound on the error rate sharpens with them.
LEAST_FRESH = 40


@dataclass
class Candidate:
    """A game, and what the search has seen of it."""

    cell: AuditCell
    delta: float
    knobs: Knobs | None
    trials: int = 0
    errors: int = 0
    unfinished: int = 0

    @property
    def badness(self) -> float:
        """Estimated error rate over δ, shrunk towards 1/2 while trials are few."""
        return (
            (self.errors + 0.5 * self.delta * FIRST_TRIALS)
            / (self.trials + FIRST_TRIALS)
            / self.delta
        )


@dataclass(frozen=True)
class Attack:
    """What a search found: the game with the most errors relative to δ, judged by fresh trials.

    Attributes:
        policy: its label.
        cell, delta: the game.
        trials, errors, unfinished: of the fresh trials.
        verdict: on "P(stopped and wrong) ≤ δ", from the fresh trials alone.
        searched: games that the search has played. search_trials: their trials.
        seconds: processor time.
    """

    policy: str
    cell: AuditCell
    delta: float
    trials: int
    errors: int
    unfinished: int
    verdict: Verdict
    searched: int
    search_trials: int
    seconds: float
    seed: int

    def __str__(self) -> str:
        cell = self.cell
        lines = [
            f"{self.verdict.word}: {self.policy} at δ = {self.delta:g}: {self.errors} wrong and {self.unfinished} "
            f"unfinished in {self.trials} fresh trials; P(wrong) is at least {self.verdict.low:.3g}",
            f"  game      {cell.name}: {cell.why}",
            f"  sizes     {cell.sizes}   rewards {cell.rewards}   sigma {cell.sigma:.4g}",
            *(
                f"  means {m}   " + " ".join(f"{mean:.5g}" for mean in row)
                for m, row in enumerate(cell.means)
            ),
            f"  told      {cell.told or 'the truth'}",
            f"  search    {self.searched} games, {self.search_trials:,} trials, {self.seconds:.0f} s of processor time",
        ]
        if self.verdict.word != "FAIL":
            lines.append(
                "No game with an error rate above δ was found. This does not prove that none exists."
            )
        return "\n".join(lines)

    def save(self, path: str | Path) -> Path:
        """Write the game and the verdict as JSON; `load_game` reads it back."""
        content = {
            "policy": self.policy,
            "delta": self.delta,
            "verdict": self.verdict.word,
            "trials": self.trials,
            "errors": self.errors,
            "unfinished": self.unfinished,
            "seed": self.seed,
            "cell": asdict(self.cell),
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path


def load_game(path: str | Path) -> tuple[AuditCell, float]:
    """A game that `Attack.save` wrote, for `audit(policy, delta, cells=[game])`, and its δ."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        fields = dict(content["cell"])
        fields["means"] = tuple(tuple(float(mean) for mean in row) for row in fields["means"])
        fields["sizes"] = tuple(int(size) for size in fields["sizes"])
        return AuditCell(**fields), float(content["delta"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a game that `clustered-bai attack` wrote ({error})"
        ) from error


def attack(
    policy: Any,
    budget: float = 600.0,
    seed: int = 0,
    *,
    from_audit: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Attack:
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
    search = _Search(policy, budget, seed, from_audit, progress or (lambda text: None))
    return search.run()


@dataclass
class _Search:
    policy: Any
    budget: float
    seed: int
    from_audit: bool
    progress: Callable[[str], None]
    pool: list[Candidate] = field(default_factory=list)
    played: int = 0
    games: int = 0

    def run(self) -> Attack:
        self.rng = np.random.default_rng([self.seed, 14])
        self.start = time.process_time()
        self.stepper = not hasattr(self.policy, "solve")
        self._search()
        return self._judge()

    @property
    def spent(self) -> float:
        return time.process_time() - self.start

    def _search(self) -> None:
        waiting = [
            Candidate(cell, cell.delta(delta), None)
            for delta in (0.3, 0.1)
            for cell in CELLS
            if self.from_audit and cell.in_scope and cell.quick and (cell.small or not self.stepper)
        ]
        told = 0.0
        while self.spent < SEARCH_SHARE * self.budget:
            candidate = waiting.pop() if waiting else self._next()
            if candidate is None:
                continue
            self.games += 1
            self._play(candidate, FIRST_TRIALS)
            self.pool.append(candidate)
            self.pool.sort(key=lambda one: -one.badness)
            # The worst ones get more trials until they are known well: luck fades, real errors stay.
            for one in [one for one in self.pool[:ELITE] if one.trials < MOST_TRIALS][:3]:
                self._play(one, one.trials)
            self.pool.sort(key=lambda one: -one.badness)
            del self.pool[5 * ELITE :]
            best = self.pool[0]
            if self.spent > told + 5:
                told = self.spent
                self.progress(
                    f"{told:.0f} s: {self.played} trials; worst so far {best.errors} wrong in {best.trials} "
                    f"at δ = {best.delta:g}"
                )
            if (
                best.trials >= 32
                and verdict(best.errors, best.trials, best.delta, 1e-6).word == "FAIL"
            ):
                return  # significant even after a search: continue with fresh trials

    def _next(self) -> Candidate | None:
        parents = [one.knobs for one in self.pool[:ELITE] if one.knobs is not None]
        if parents and self.rng.random() < VARIED:
            knobs = vary(parents[int(self.rng.integers(len(parents)))], self.rng)
        else:
            knobs = draw(self.rng)
        try:
            return Candidate(knobs.cell(f"attack {self.played}"), knobs.delta, knobs)
        except ValueError:  # numbers that do not fit together, e.g. means outside of [0, 1]
            return None

    def _play(self, one: Candidate, more: int) -> None:
        env = self._env(one)
        for _ in range(more):
            # Every trial of the search has noise of its own; the fresh trials below use another root seed.
            row = self._row(env, 2 * self.seed, self.played)
            self.played += 1
            one.trials += 1
            one.errors += row["outcome"] == "wrong"
            one.unfinished += row["correct"] is None
            if one.unfinished == one.trials >= 2:
                return

    def _row(self, env: Any, seed: int, trial: int) -> Row:
        return play(self.policy, env, seed, trial=trial, bound=False, env_kwargs={}, strict=True)

    def _env(self, one: Candidate) -> Any:
        budget = MAX_STEPS if self.stepper else MAX_PULLS
        kwargs = {
            "generator": one.cell,
            "delta": one.delta,
            "told": one.cell.told,
            "max_pulls": budget,
        }
        return Cell("ClusteredBAI-v0", kwargs).make()

    def _judge(self) -> Attack:
        finalists = self.pool[:FINALISTS]
        found: list[tuple[Candidate, Verdict]] = []
        trial = 0
        for number, one in enumerate(finalists):
            fresh = Candidate(one.cell, one.delta, one.knobs)
            env = self._env(one)
            end = self.spent + (self.budget - self.spent) / (len(finalists) - number)
            judged = verdict(0, 0, one.delta, ALPHA / FINALISTS)
            while fresh.trials < FRESH_TRIALS / one.delta and (
                self.spent < end or fresh.trials < LEAST_FRESH
            ):
                row = self._row(env, 2 * self.seed + 1, trial)
                trial += 1
                fresh.trials += 1
                fresh.errors += row["outcome"] == "wrong"
                fresh.unfinished += row["correct"] is None
                judged = verdict(
                    fresh.errors,
                    fresh.trials,
                    fresh.delta,
                    ALPHA / FINALISTS,
                    unfinished=fresh.unfinished,
                )
                if fresh.trials >= LEAST_FRESH and (
                    judged.word != "INCONCLUSIVE" or judged.hopeless
                ):
                    break
            found.append((fresh, judged))
            if judged.word == "FAIL":
                break
        worst, judged = max(
            found,
            key=lambda pair: (pair[1].word == "FAIL", pair[1].low / pair[0].delta, pair[0].badness),
        )
        return Attack(
            policy=label_of(self.policy),
            cell=worst.cell,
            delta=worst.delta,
            trials=worst.trials,
            errors=worst.errors,
            unfinished=worst.unfinished,
            verdict=judged,
            searched=self.games,
            search_trials=self.played,
            seconds=self.spent,
            seed=self.seed,
        )
