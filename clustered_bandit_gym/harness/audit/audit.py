"""Is a policy δ-correct where it is hard to be? Sequential tests on a suite of adversarial games."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from clustered_bandit_gym.envs.stepwise import crosstalk
from clustered_bandit_gym.errors import UserError
from clustered_bandit_gym.game.seeds import root_seed, trial_seeds
from clustered_bandit_gym.harness.audit.games import GAMES, AuditGame
from clustered_bandit_gym.harness.audit.report import AuditReport
from clustered_bandit_gym.harness.output.progress import progress_bar
from clustered_bandit_gym.harness.play import Row
from clustered_bandit_gym.harness.pool import Task, Work, run
from clustered_bandit_gym.harness.replay import reproduced
from clustered_bandit_gym.harness.resume import Resume
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.scoring.plausibility import implausible
from clustered_bandit_gym.harness.scoring.verdict import Verdict, verdict
from clustered_bandit_gym.harness.settings import label_of

#: Budgets of a trial. A play that needs more is stuck; in the Gymnasium loop (one pull per step)
#: time is the limit.
MAX_PULLS, MAX_STEPS = 10**12, 50_000


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
    stop_at_fail: bool = False,
    replays: int = 0,
    out: str | Path | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> AuditReport:
    """Play a suite of games on which policies that are not δ-correct show it, and judge each by a
    sequential test.

    A cell is played until its confidence sequence lies on one side of δ, or until `trials`. The
    level is family-wise: a policy that *is* δ-correct is failed on any cell at all with probability
    at most `alpha`. Misspecified cells (η too large, M wrong, shared best arms), where no guarantee
    holds, are reported apart and not scored. A trial without an answer (an exception, or more than
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
        seed, n_jobs: root seed, and processes (-1: all cores). Results do not depend on `n_jobs`.
        quick: a shorter suite.
        cells: names of cells, or cells of your own, instead of the suite.
        alpha: family-wise level.
        max_pulls: budget of a trial; default 10^12, or 50,000 in the Gymnasium loop. Lower it for a
            policy that pulls one by one.
        stop_at_fail: end as soon as one cell fails, instead of finding out where else the policy
            fails.
        replays: trials of each cell to play once more in a fresh process.
        out: folder that keeps every finished trial. The same call again plays only what is missing
            or has failed; a trial that failed counts as unfinished even if a later attempt is
            right.
        max_seconds: limit for a trial. A trial beyond it is ended and unfinished.
        progress: show a bar.
    """
    seed = root_seed(seed)
    if isinstance(policy, str):
        from clustered_bandit_gym.policies import make

        policy = make(policy)
    stepper = not hasattr(policy, "solve")
    if isinstance(policy, type) or (stepper and not hasattr(policy, "act")):
        raise TypeError(
            "audit takes a policy object with solve(federation) or act(obs, info), or a name; got "
            f"{policy!r}"
        )
    if trials is not None and trials < 1:
        raise UserError(f"trials must be at least 1, got {trials}")
    if not 0 < alpha < 1:
        raise UserError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    chosen, left_out = _choose(cells, quick, stepper)
    if max_pulls is None:
        max_pulls = MAX_STEPS if stepper else MAX_PULLS
    # One level for everything that can fail the policy.
    share = alpha / sum(cell.in_scope for cell in chosen)
    tallies = []
    games = []
    for cell in chosen:
        own = cell.delta(delta)
        # Enough to fail a policy whose error is 2δ, and to pass one well below δ.
        cap = trials or math.ceil((30 if quick else 60) / own)
        if not cell.in_scope:  # not scored: a few trials show what happens
            cap = min(cap, 60)
        tallies.append(_Tally(cell, own, share if cell.in_scope else alpha, cap))
        games.append(cell.env(own, max_pulls))
    label = label_of(policy)
    work = Work(games, [(label, policy)], seed, strict=True)
    bar = progress_bar(desc=f"audit of {label}", unit="trial", disable=not progress)
    store: Resume | nullcontext[None] = nullcontext() if out is None else Resume(out, work)
    with bar, store as kept:
        played, failed = _play(work, tallies, bar, kept, n_jobs, max_seconds, stop_at_fail)
        reused = 0 if kept is None else len(played) - kept.added
    breaches: tuple[str, ...] = ()
    if not (failed and stop_at_fail):
        breaches = tuple(_breaches(policy, work, tallies, played, replays))
    return AuditReport(
        policy=label,
        delta=delta,
        alpha=alpha,
        seed=seed,
        left_out=left_out,
        cells=pd.DataFrame([tally.row() for tally in tallies]),
        breaches=breaches,
        raised=next((row for row in played.values() if row["outcome"] == "error"), None),
        reused=reused,
    )


def _play(
    work: Work,
    tallies: list[_Tally],
    bar: Any,
    kept: Resume | None,
    n_jobs: int,
    max_seconds: float | None,
    stop_at_fail: bool,
) -> tuple[dict[Task, Row], bool]:
    """Plays every cell until it is decided.

    Returns all rows, and whether a decisive cell has failed.
    """
    played: dict[Task, Row] = {}
    known = {} if kept is None else kept.rows()
    failed = False
    while True:
        tasks = []
        for i, tally in enumerate(tallies):
            batch = range(tally.trials, tally.trials + tally.batch())
            tasks += [Task(i, 0, trial) for trial in batch]
        if not tasks:
            return played, failed
        bar.total = len(played) + len(tasks)
        rows = {task: known[task] for task in tasks if task in known}
        bar.update(len(rows))
        missing = [task for task in tasks if task not in rows]
        for task, row in run(work, missing, n_jobs, max_seconds=max_seconds):
            rows[task] = row if kept is None else kept.put(task, row)
            bar.update()
        for task in tasks:
            tallies[task.cell].add(rows[task])
            played[task] = rows[task]
        failed = any(tally.cell.in_scope and tally.judge().word == "FAIL" for tally in tallies)
        if failed:
            # The policy has failed: a few trials show where else it does.
            for tally in tallies:
                enough = 0 if stop_at_fail else math.ceil(20 / tally.delta)
                tally.cap = min(tally.cap, max(tally.trials, enough))


def _breaches(
    policy: Any, work: Work, tallies: list[_Tally], played: dict[Task, Row], replays: int
) -> Iterator[str]:
    """Rules of the game that the policy broke, in words."""
    for position, tally in enumerate(tallies):
        if not tally.cell.in_scope:
            continue
        rows = [row for task, row in played.items() if task.cell == position]
        reason = implausible(
            [row["pulls"] for row in rows],
            [math.nan if row["bound"] is None else row["bound"] for row in rows],
            [row["outcome"] == "solved" for row in rows],
            [row["suspicious_communication"] for row in rows],
            tally.delta,
            policy,
        )
        if reason:
            yield f"on {tally.cell.name!r} it {reason}"
        # Blocks are compared in this process, without a time limit: not where a trial has already
        # taken too long.
        slow = any(row["outcome"] == "timeout" for row in rows)
        if not hasattr(policy, "solve") or not tally.cell.small or slow:
            continue
        env: Any = work.env(position).unwrapped
        for trial in range(3):
            seeds = trial_seeds(work.seed, trial)
            if differ := crosstalk(policy, env, seeds.instance, seeds.play):
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
class _Tally:
    """Counts of one cell, and whether it needs more trials."""

    cell: AuditGame
    delta: float
    alpha: float
    cap: int
    trials: int = 0
    errors: int = 0
    unfinished: int = 0
    pulls: int = 0
    message: str = ""

    def add(self, row: Row) -> None:
        retried = row.get("attempts", 1) - row.get("killed", 0) > 1
        self.trials += 1
        self.pulls += row["pulls"]
        if row["correct"] is None or (row["correct"] and retried):
            self.unfinished += 1
            self.message = self.message or row["message"] or "it failed at its first attempt"
        elif not row["correct"]:
            self.errors += 1

    def judge(self) -> Verdict:
        return verdict(self.errors, self.trials, self.delta, self.alpha, unfinished=self.unfinished)

    def batch(self) -> int:
        """How many trials to play next; 0 when the cell is done. Depends on the counts alone, never
        on timing.
        """
        if self.trials == 0:
            return min(5, self.cap)
        judged = self.judge()
        if judged.word != "INCONCLUSIVE" or judged.hopeless or self.unfinished == self.trials:
            return 0
        return min(max(20, min(judged.more or 0, self.trials)), self.cap - self.trials)

    def row(self) -> dict[str, Any]:
        judged = self.judge()
        return {
            "cell": self.cell.name,
            "in_scope": self.cell.in_scope,
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
    wanted: Sequence[str | AuditGame] | None, quick: bool, stepper: bool
) -> tuple[list[AuditGame], tuple[str, ...]]:
    """The cells to play, and the names of those of the suite that do not suit the policy."""
    if wanted is None:
        suite = [cell for cell in GAMES if cell.quick or not quick]
        if not stepper:
            return suite, ()
        small = [cell for cell in GAMES if cell.small]
        return small, tuple(cell.name for cell in suite if not cell.small)
    known = {cell.name: cell for cell in GAMES}
    if isinstance(wanted, str) or not wanted:
        raise UserError("cells must be a list of names or of cells, with at least one")
    unknown = [repr(one) for one in wanted if isinstance(one, str) and one not in known]
    if unknown:
        raise UserError(f"unknown cells {', '.join(unknown)}; known: {', '.join(known)}")
    chosen = [known[one] if isinstance(one, str) else one for one in wanted]
    if not any(cell.in_scope for cell in chosen):
        raise UserError("all of these cells are misspecified, and none is scored: add another")
    return chosen, ()
