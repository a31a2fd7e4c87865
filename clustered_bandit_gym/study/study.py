"""`Study`: a policy on real agents, by ask and tell; `drive`: the loop, where a Python function can
reach the agents."""

from __future__ import annotations

import copy
import reprlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clustered_bandit_gym._types import Array, FilePath, Floats, Ints
from clustered_bandit_gym._version import __version__
from clustered_bandit_gym.errors import BudgetExceeded, UserError
from clustered_bandit_gym.game.checks import increasing, indices
from clustered_bandit_gym.game.federation import Federation
from clustered_bandit_gym.game.ledger import Ledger
from clustered_bandit_gym.game.problem import Problem
from clustered_bandit_gym.game.pulls import MAX_PULLS
from clustered_bandit_gym.game.seeds import trial_seeds
from clustered_bandit_gym.harness.play import check_answer, seeded_globals
from clustered_bandit_gym.harness.scoring.numbers import counted
from clustered_bandit_gym.harness.settings import (
    PACKAGE,
    label_of,
    path_of,
    plain,
    rebuild_policy,
    settings_of,
)
from clustered_bandit_gym.policies import make
from clustered_bandit_gym.study.file import StudyFile
from clustered_bandit_gym.study.order import Order, PullsNeeded, Reader, Recorded, check_same


@dataclass(frozen=True, eq=False)
class Status:
    """How far a study is.

    Attributes:
        done: the policy has named an arm for every agent.
        decided: (N,) booleans: the agent's arm is final. All False until the study is done, then
            all True: the guarantee is about all arms together, at the time when the policy stops.
        phase: the policy's phase; at the end "done", or "stopped" if a limit of pulls forbids more.
        orders: closed orders.
        missing: pulls that the open order waits for.
        pulls: rewards told.
        pulls_per_agent: (N,) rewards told.
        pulls_per_arm: (N, K) rewards told.
        means: (N, K) averages of the rewards told; NaN where there are none.
        pulls_max_agent: rewards told of the busiest agent.
        failure: why the study ends without an answer; "" if it does not.
    """

    done: bool
    phase: str
    orders: int
    missing: int
    pulls_per_arm: Ints
    means: Floats
    failure: str = ""

    @property
    def decided(self) -> Array:
        return np.full(len(self.means), self.done)

    @property
    def pulls(self) -> int:
        return int(self.pulls_per_arm.sum())

    @property
    def pulls_per_agent(self) -> Ints:
        return np.asarray(self.pulls_per_arm.sum(axis=1))

    @property
    def pulls_max_agent(self) -> int:
        return int(self.pulls_per_agent.max())

    def __str__(self) -> str:
        state = "done" if self.done else f"phase {self.phase!r}"
        if self.failure:
            state = f"stopped without an answer: {self.failure}"
        if self.missing:
            state += f", waiting for {self.missing:,} pulls"
        return (
            f"{state}; {counted(self.orders, 'order')} complete; {self.pulls:,} pulls told, "
            f"{self.pulls_max_agent:,} of them at the busiest agent"
        )


class Study:
    """A policy on real agents: it orders pulls (`ask`), you report rewards (`tell`).

    If the file exists, the study is resumed: policy, problem, seed and version must be the same.

    Args:
        policy: a `Policy`, or its name with settings, such as "structured-bai".
        problem: what is known before the first pull.
        path: file of the study; None keeps it in memory.
        seed: of the policy's own random choices.
        values: the values that rewards can take, such as (0, 1); None if they are not finitely
            many. Policies that know them need fewer pulls. They are the support if none is told.
    """

    def __init__(
        self,
        policy: Any,
        problem: Problem,
        path: FilePath | None = None,
        seed: int = 0,
        *,
        values: ArrayLike | None = None,
    ) -> None:
        self.policy: Any = make(policy) if isinstance(policy, str) else policy
        if not hasattr(self.policy, "solve"):
            raise UserError(
                f"{label_of(self.policy)} plays step by step; a study needs a policy with `solve`"
            )
        self.values: Floats | None = None
        if values is not None:
            self.values = increasing(np.sort(values), "values")
            if self.values.size < 2:
                raise UserError(f"values must be two or more different numbers, got {values!r}")
            least, most = self.values[[0, -1]]
            low, high = problem.support or (least, most)
            if not low <= least <= most <= high:
                raise UserError(f"values must lie in the support {problem.support}, got {values!r}")
            problem = replace(problem, support=(low, high))
        if problem.n_clusters != 1 and (problem.eta or 0) > np.ptp(problem.support or (0, np.inf)):
            raise UserError(f"eta = {problem.eta} exceeds the range of rewards, {problem.support}")
        self.problem = problem
        self.seed = seed
        self._weights = np.ones(1) if self.values is None else self.values
        self._log: list[Order] = []
        self._recorded = self._replay()  # a policy may refuse the problem: no file yet
        facts = {
            "version": __version__,
            "policy": label_of(self.policy),
            "policy_class": path_of(type(self.policy)),
            "settings": settings_of(self.policy),
            "problem": problem.to_dict(),
            "values": None if self.values is None else self.values.tolist(),
            "seed": seed,
        }
        facts = plain(facts)
        self._file = StudyFile(path, facts)
        if self._file.is_new:
            self._warn()
        found = self._file.facts
        limits = [(one["problem"]["max_pulls_per_agent"] or MAX_PULLS) for one in (found, facts)]
        if limits[0] < limits[1]:  # more may be spent than was said
            raised = {"max_pulls_per_agent": facts["problem"]["max_pulls_per_agent"]}
            found["problem"] = self._file.keep("problem", found["problem"] | raised, replace=True)
        for name, value in (facts["problem"] | facts).items():
            other = (found["problem"] | found).get(name)
            if other != value:
                self._file.close()
                raise UserError(f"{path} holds another study: {name} is {other!r}, not {value!r}")

    def _warn(self) -> None:
        """What may be meant and is likely to be a mistake."""
        low, high = self.problem.support or (0.0, 2 * self.problem.sigma)
        sigma = self.problem.sigma
        if str(getattr(self.policy, "guarantee", "")).startswith("none"):
            text = f"{label_of(self.policy)} states no guarantee"
            warnings.warn(f"{text}: its arms may be wrong more often than delta", stacklevel=3)
        if sigma < (high - low) / 2 * (1 - 1e-9):
            text = f"sigma = {sigma:g} is less than half the width of the support"
            warnings.warn(
                f"{text}: it is a sub-Gaussian bound, no standard deviation", stacklevel=3
            )
        if self.problem.epsilon >= high - low:
            warnings.warn("epsilon covers all rewards: any arm is good enough", stacklevel=3)

    @classmethod
    def open(
        cls, path: FilePath, policy: Any = None, max_pulls_per_agent: int | None = None
    ) -> Study:
        """Resume the study in `path`; a policy that is not of this package must be given.

        `max_pulls_per_agent` raises the limit. Policies that plan with it ask for other pulls then:
        they refuse.
        """
        if not Path(path).is_file():
            raise UserError(f"there is no file {path}")
        file = StudyFile(path)
        facts = file.facts
        file.close()
        if facts.get("version") != __version__:
            raise UserError(
                f"{path} was made by version {facts.get('version')} of this package; this is "
                f"{__version__}. Continue with the version that began the study"
            )
        own = facts["policy_class"]
        if policy is None and not own.startswith(PACKAGE):
            raise UserError(
                f"{path} is played by {own}, a policy of your own: give it, as --policy {own} with "
                "its settings, or to Study.open(path, policy)"
            )
        if policy is None:
            policy = rebuild_policy(own, facts["settings"])
        raised = {"max_pulls_per_agent": max_pulls_per_agent} if max_pulls_per_agent else {}
        problem = Problem(**facts["problem"] | raised)
        return cls(policy, problem, path, facts["seed"], values=facts["values"])

    def close(self) -> None:
        """Close the file. Nothing is lost without it."""
        self._file.close()

    def check_file(self) -> None:
        """`UserError` if the file cannot be written: before pulls are made."""
        with self._file.writing():
            pass

    def __repr__(self) -> str:
        return f"Study({label_of(self.policy)!r}, {self._file.name!r})"

    def ask(self) -> Order | None:
        """The pulls to make now, the same until all are told; None once the policy is done.

        Raises `BudgetExceeded` if the policy cannot go on within `problem.max_pulls_per_agent`.
        """
        while len(orders := self.orders()) == len(self._log):
            if self._recorded.play.failure is not None:
                raise self._recorded.play.failure
            if self._recorded.next is None:
                return None
            self._file.add(self._recorded.next)
        return orders[-1]

    def tell(
        self,
        order: Order | int,
        rewards: Any = None,
        *,
        sums: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        pulls: ArrayLike | None = None,
        rows: ArrayLike | None = None,
        key: str | None = None,
    ) -> bool:
        """Record rewards of an order in one transaction. An invalid tell changes nothing.

        Args:
            order: what `ask` returned, or its number; then rows are those first asked for.
            rewards: for each row an array of rewards (or a number, where one is missing). Fewer
                than asked for are kept, and the order waits for the rest.
            sums: instead, (R,) the sum of the rewards of each row.
            pulls: (R,) how many rewards are in each sum; by default as many as are missing.
            counts: instead, (R, S) how often each of the study's `values` occurred.
            rows: numbers of the rows that the tell is about, as in `order.table`; by default all.
            key: a name for this tell: a second tell with the same name is known as a repetition.

        Returns:
            False if the same tell was taken before; then nothing is recorded.
        """
        known = {stored.id: stored for stored in self.orders()}
        number = getattr(order, "id", order)
        if number not in known:
            raise UserError(
                f"there is no order {number!r}; the last one is {len(known)}; nothing was recorded"
            )
        stored = known[number]
        # Rows that are complete may be told once more: a repetition, which is recognised.
        told_before = np.where(stored.done == stored.asked[2], 0, stored.done)
        whole = replace(stored, done=told_before, tells=-1)
        seen = order if isinstance(order, Order) else whole
        check_same(stored, seen)
        chosen = indices(seen.rows if rows is None else rows, seen.done.size, "row")
        if chosen.ndim != 1 or not chosen.size or np.unique(chosen).size < chosen.size:
            raise UserError(f"rows must be a list of different rows, got {reprlib.repr(rows)}")
        if [rewards is None, sums is None, counts is None].count(False) != 1:
            raise UserError("tell exactly one of rewards, sums= and counts=")
        reader = Reader(self.problem.support, self.values)
        if rewards is not None:
            told = reader.rewards(chosen, rewards, (seen.asked[2] - seen.done)[chosen])
        elif counts is not None:
            told = reader.counts(chosen, counts)
        else:
            missing = (seen.asked[2] - seen.done)[chosen]
            told = reader.sums(chosen, sums, missing if pulls is None else pulls)
        if not told.pulls.any():
            raise UserError("a tell needs at least one reward")
        return self._file.record(seen.id, told, seen.tells, key)

    @property
    def arms(self) -> Ints | None:
        """(N,) the arm of every agent; None until the study is done."""
        return copy.copy(self._played().answer)

    @property
    def clusters(self) -> Ints | None:
        """(N,) labels of the clustering that the policy reported; None if it has not."""
        return copy.copy(self._played().labels)

    @property
    def ledger(self) -> Ledger:
        """What centre and agents would have sent each other for the closed orders."""
        return copy.deepcopy(self._played().ledger)

    @property
    @np.errstate(invalid="ignore")
    def status(self) -> Status:
        """How far the study is."""
        orders = self.orders()
        pulls = np.zeros((self.problem.n_agents, self.problem.n_arms), np.int64)
        sums = np.zeros(pulls.shape)
        for order in orders:
            cells = tuple(order.asked[:2])
            np.add.at(pulls, cells, order.done)
            np.add.at(sums, cells, order.told @ self._weights)
        done = self._recorded.play.answer is not None
        return Status(
            done=done,
            phase=getattr(self._recorded.next, "phase", "done" if done else "stopped"),
            orders=len(self._log),
            missing=orders[-1].pulls if orders else 0,
            pulls_per_arm=pulls,
            means=sums / pulls,
            failure=str(self._recorded.play.failure or ""),
        )

    def _played(self) -> Federation:
        """The play of the closed orders, as they are in the file now."""
        self.orders()
        return self._recorded.play

    def orders(self) -> list[Order]:
        """All orders in the file, in turn; the last one may be open."""
        new = self._file.orders(len(self._log))
        closed = [order for order in new if not order.pulls]
        if closed:
            self._log += closed
            self._recorded = self._replay()
        answer = self._recorded.play.answer
        if answer is not None and self._file.keep("answer", answer.tolist()) != answer.tolist():
            raise UserError(
                "the policy names other arms than those in the file: its code, or a library, has "
                "changed since it ended; continue with those that began the study"
            )
        waiting = new[len(closed) :]
        for order in waiting:
            check_same(order, self._recorded.next)
        return self._log + waiting

    def _replay(self) -> Recorded:
        """Run the policy from the start on the closed orders."""
        seeds = trial_seeds(self.seed, 0)
        found = Recorded(self._log, self._weights)
        found.play = Federation(None, self.problem, seeds.play, source=found, values=self.values)
        try:
            with seeded_globals(seeds.policy):
                arms = copy.deepcopy(self.policy).solve(found.play.view())
        except PullsNeeded:
            return found
        except BudgetExceeded as error:
            found.play.failure = error
            return found
        if found.next is not None or found.answered < len(self._log):
            raise UserError(
                f"{label_of(self.policy)} ended without the rewards that it asked for; a policy "
                "must not catch BaseException, and must act the same on the same rewards"
            )
        if found.play.answer is None:
            check_answer(arms, found.play)
            found.play.stop(arms)
        return found


def drive(
    policy: Any,
    pull: Callable[[Array, Array, Array], Any],
    problem: Problem,
    path: FilePath | None = None,
    seed: int = 0,
    *,
    values: ArrayLike | None = None,
    progress: bool | None = None,
) -> Study:
    """Run a study to its end. The same call resumes an interrupted one.

    Args:
        policy, problem, path, seed, values: as for `Study`.
        pull: `pull(agents, arms, times)` makes the pulls and returns for each row an array of
            rewards, or ``{"sums": ...}`` or ``{"counts": ...}``. It may return fewer rewards than
            asked for; it is then called again for the rest, with a warning the first time.
        progress: show a progress bar; by default in a terminal.
    """
    from clustered_bandit_gym.harness.run import progress_bar

    study = Study(policy, problem, path, seed, values=values)
    if study.arms is not None:
        text = f"{path} holds a finished study: nothing is pulled; delete it to begin again"
        warnings.warn(text, stacklevel=2)
    hidden = None if progress is None else not progress  # None: unless in a terminal
    before = study.status.pulls
    with progress_bar(initial=before, unit=" pulls", unit_scale=True, disable=hidden) as bar:
        while (order := study.ask()) is not None:
            if order.tells:
                warnings.warn("pull returned fewer rewards than asked for", stacklevel=2)
            study.check_file()
            bar.set_description(f"order {order.id}, {order.phase}")
            result = pull(order.agents, order.arms, order.times)
            told = result if isinstance(result, dict) else {"rewards": result}
            if result is None or not told.keys() <= {"rewards", "sums", "counts", "pulls", "rows"}:
                raise UserError(
                    "pull must return an array of rewards for each row, or a dict with sums or "
                    f"counts; got {reprlib.repr(result)}"
                )
            study.tell(order, **told)
            bar.update(study.status.pulls - bar.n)
    return study
