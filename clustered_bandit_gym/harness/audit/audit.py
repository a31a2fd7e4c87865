"""Is a policy δ-correct where it is hard to be? Sequential tests on a suite of adversarial games."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from clustered_bandit_gym._types import FilePath
from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.checks import whole
from clustered_bandit_gym.game.seeds import root_seed, trial_seeds
from clustered_bandit_gym.harness.audit.games import GAMES, AuditGame
from clustered_bandit_gym.harness.audit.report import AuditReport
from clustered_bandit_gym.harness.play import Row, Task, Work, resolve_policies
from clustered_bandit_gym.harness.replay import reproduced
from clustered_bandit_gym.harness.run import check_backend, progress_of, run
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.scoring.plausibility import implausible
from clustered_bandit_gym.harness.scoring.verdict import Verdict, verdict
from clustered_bandit_gym.harness.settings import settings_of
from clustered_bandit_gym.harness.store import Resume


def budget_of(policy: Any) -> int:
    """Most pulls of a trial. A play that needs more is stuck; in the Gymnasium loop (one pull per
    step) time is the limit."""
    return 10**12 if hasattr(policy, "solve") else 50_000


def audit(
    policy: Any,
    delta: float = 0.1,
    trials: int | None = None,
    seed: int | str = 0,
    n_jobs: int = 1,
    *,
    quick: bool = False,
    cells: Sequence[str | AuditGame] | None = None,
    alpha: float = 0.05,
    max_pulls: int | None = None,
    replays: int = 1,
    out: FilePath | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> AuditReport:
    """Play games on which policies that are not δ-correct show it; judge each by a sequential test.

    A cell is played until its confidence sequence lies on one side of δ, or until `trials`. The
    level is family-wise: a policy that *is* δ-correct is failed on any cell at all with probability
    at most `alpha`. Misspecified games (η too large, M wrong, shared best arms), where no guarantee
    holds, are reported, not scored. A trial without an answer (an exception, or more than
    `max_pulls`) cannot FAIL a policy, but a PASS must hold even if every such trial had been wrong.

    Trials are played in strict mode. A policy fails as well if it breaks the rules of the game: its
    agents see each other (some trials are played in blocks of one agent, too), it makes
    significantly fewer pulls than the lower bound, or it plays trials differently in a fresh
    process.

    Args:
        policy: a `Policy`, or anything with `act(obs, info)`, or a name such as "bai-cl". Players
            of the Gymnasium loop get the small games only: the others take millions of steps.
        delta: what the policy is asked for. Errors show fastest at a large δ; a threshold that is
            wrong there is wrong.
        trials: most trials per cell; default 60/δ of the cell, or 30/δ if `quick`. Raise it if
            cells are INCONCLUSIVE.
        seed, n_jobs, max_seconds: as in `evaluate`. Results do not depend on `n_jobs`.
        quick: a shorter suite.
        cells: names of cells, or cells of your own, instead of the suite.
        alpha: family-wise level.
        max_pulls: budget of a trial; default 10^12, or 50,000 in the Gymnasium loop. Lower it for a
            policy that pulls one by one.
        replays: trials of each cell to play once more in a fresh process.
        out: folder that keeps every finished trial, as in `evaluate`.
        progress: show a bar.
    """
    seed = root_seed(seed)
    ((label, policy),) = resolve_policies(policy)
    if trials is not None:
        whole(trials, "trials")
    whole(replays, "replays", 0)
    if not 0 < alpha < 1:
        raise UserError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    check_backend(max_seconds)
    chosen, left_out = _choose(cells, quick, policy)
    # One level for everything that can fail the policy.
    level = alpha / sum(cell.in_scope for cell in chosen)
    tallies = []
    for cell in chosen:
        own = cell.delta(delta)
        # Enough to fail a policy whose error is 2δ, and to pass one well below δ.
        cap = trials or math.ceil((30 if quick else 60) / own)
        # Where nothing is scored, a few trials show what happens.
        tallies.append(Tally(cell, own, level, cap if cell.in_scope else min(cap, 60)))
    budget = max_pulls or budget_of(policy)
    games = [tally.cell.env(tally.delta, budget) for tally in tallies]
    work = Work(games, [(label, policy)], seed)
    with progress_of(0, 0, progress) as bar, Resume(out, work) as kept:
        played: dict[Task, Row] = {}
        known = kept.rows()
        while tasks := _next_tasks(tallies):
            bar.total = len(played) + len(tasks)
            played |= {task: known[task] for task in tasks if task in known}
            missing = [task for task in tasks if task not in known]
            for task, row in run(work, missing, n_jobs, max_seconds=max_seconds):
                played[task] = kept.put(task, row)
                bar.update()
            for task in tasks:
                tallies[task.cell].add(played[task])
    return AuditReport(
        policy=label,
        delta=delta,
        alpha=alpha,
        seed=seed,
        left_out=left_out,
        cells=pd.DataFrame([tally.row() for tally in tallies if tally.cell.in_scope]),
        misspecified=pd.DataFrame([one.row() for one in tallies if not one.cell.in_scope]),
        breaches=tuple(_breaches(policy, work, tallies, played, replays)),
        reused=len(played.keys() & known),
    )


def _next_tasks(tallies: list[Tally]) -> list[Task]:
    """The next trials of every cell that is not decided."""
    if any(tally.judge().word == "FAIL" for tally in tallies if tally.cell.in_scope):
        # The policy has failed: a few trials show where else it does.
        for tally in tallies:
            tally.cap = min(tally.cap, max(tally.trials, math.ceil(20 / tally.delta)))
    return [
        Task(position, 0, tally.trials + more)
        for position, tally in enumerate(tallies)
        for more in range(tally.batch())
    ]


def _breaches(
    policy: Any, work: Work, tallies: list[Tally], played: dict[Task, Row], replays: int
) -> Iterator[str]:
    """Rules of the game that the policy broke, in words."""
    for position, tally in enumerate(tallies):
        if not tally.cell.in_scope:
            continue
        rows = pd.DataFrame([row for task, row in played.items() if task.cell == position])
        if reason := implausible(rows, tally.delta, str(getattr(policy, "guarantee", ""))):
            yield f"on {tally.cell.name!r} it {reason}"
        # Blocks are compared in this process, without a time limit: not where a trial has already
        # taken too long.
        slow = (rows["outcome"] == "timeout").any()
        if not hasattr(policy, "solve") or not tally.cell.small or slow:
            continue
        env = work.envs[position].unwrapped
        for trial in range(3):
            if differ := crosstalk(policy, env, *trial_seeds(work.seed, trial)):
                yield (
                    f"on {tally.cell.name!r} it plays differently in blocks of one agent "
                    f"({differ}): its local programs let agents use each other's rewards, which "
                    "were not sent"
                )
                break
    if replays:
        other = sum(not same for same in reproduced(work, played, replays).values())
        if other:
            yield f"it plays {counted(other, 'trial')} differently in a fresh process"


@dataclass
class Tally:
    """Counts of one game's trials at δ = `delta`, judged at level `alpha`; `cap`: most trials."""

    cell: AuditGame
    delta: float
    alpha: float
    cap: int = 0
    trials: int = 0
    errors: int = 0
    unfinished: int = 0
    pulls: int = 0
    message: str = ""

    def add(self, row: Row) -> None:
        """Count a trial."""
        retried = row["attempts"] - row.get("killed", 0) > 1
        self.trials += 1
        self.pulls += row["pulls"]
        if row["correct"] is None or (row["correct"] and retried):
            self.unfinished += 1
            self.message = self.message or row["message"] or "it failed at its first attempt"
        elif not row["correct"]:
            self.errors += 1

    def judge(self) -> Verdict:
        """The verdict on these counts."""
        return verdict(self.errors, self.trials, self.delta, self.alpha, unfinished=self.unfinished)

    def batch(self) -> int:
        """How many trials to play next; 0 when the cell is done. Depends on the counts alone,
        never on timing."""
        if self.trials == 0:
            return min(5, self.cap)
        more = self.judge().more
        if not more or self.unfinished == self.trials:
            return 0
        return min(max(20, min(more, self.trials)), self.cap - self.trials)

    def row(self) -> Row:
        """The cell's row of the report."""
        judged = self.judge()
        return {
            "cell": self.cell.name,
            "n_agents": sum(self.cell.sizes),
            "n_clusters": len(self.cell.means),
            "n_arms": len(self.cell.means[0]),
            "delta": self.delta,
            "trials": self.trials,
            "errors": self.errors,
            "unfinished": self.unfinished,
            "low": judged.low,
            "high": judged.high,
            "verdict": judged.word,
            "reason": judged.reason,
            "pulls_mean": self.pulls / self.trials,
            "why": self.cell.why,
            "message": self.message,
        }


def _choose(
    wanted: Sequence[str | AuditGame] | None, quick: bool, policy: Any
) -> tuple[list[AuditGame], tuple[str, ...]]:
    """The cells to play, and the names of those of the suite that do not suit the policy."""
    if wanted is not None:
        known = {cell.name: cell for cell in GAMES}
        try:
            found = [known[one] if isinstance(one, str) else one for one in wanted]
        except KeyError as error:
            raise UserError(f"unknown cell {error}; known: {', '.join(known)}") from None
        if not any(cell.in_scope for cell in found):
            raise UserError("none of these cells is scored: add one that is not misspecified")
        return found, ()
    if hasattr(policy, "solve"):
        # Whoever needs Assumption 1, or does not say so, promises nothing without it.
        stated = str(getattr(policy, "guarantee", ""))
        free = stated.startswith("delta-PC") and "Assumption" not in stated
        free = free or settings_of(policy).get("assume") == "clusters"
        suite = [cell for cell in GAMES if cell.quick or not quick]
        return [one for one in suite if free or not (one.shared and one.in_scope)], ()
    left_out = tuple(cell.name for cell in GAMES if not cell.small)
    return [cell for cell in GAMES if cell.small], left_out
