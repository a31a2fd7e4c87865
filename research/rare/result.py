"""What `rare` returns, and how it is printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from clustered_bandit_gym._types import Floats

#: Searches whose estimates differ by more than this many of their standard errors are called out of
#: agreement.
AGREE = 3.0
#: Effective plays below this many give an order of magnitude at best.
FEW = 10.0


class Estimate(NamedTuple):
    """Mean of weights, its standard error, and the number of equal weights that would be as good."""

    error: float
    stderr: float
    ess: float

    @classmethod
    def of(cls, log_weights: Floats) -> Estimate:
        """From the logs of the weights of all plays, −inf for plays without an error."""
        n = log_weights.size
        top = log_weights.max(initial=-np.inf)
        if not np.isfinite(top):
            return cls(0.0, 0.0, 0.0)
        scaled = np.exp(log_weights - top)
        spread = float(scaled.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        ess = float(scaled.sum() ** 2 / (scaled**2).sum())
        return cls(math.exp(top) * float(scaled.mean()), math.exp(top) * spread, ess)


class WayShare(NamedTuple):
    """A way to err: its part of the error measured, and its part of the plays (0: tried and
    dropped).
    """

    name: str
    error: float
    plays: float


@dataclass(frozen=True, eq=False)
class Rare:
    """The error probability of a policy on one instance, as measured by `rare`.

    Attributes:
        error, stderr, ess: unbiased estimate of P(stopped and wrong), its standard error, effective
            number of plays.
        low: certified lower bound at confidence 1 − alpha, valid at any number of plays. The
            largest over all searches
            is what it amounts to: half of the bet is on all plays together, the other half split
                over the searches.
        high: certified upper bound at the same confidence. It rests on the untilted plays and
            cannot be small.
        searches: estimate of each independent search, from its own plays alone.
        spread: largest over smallest of these estimates.
        families: for each search the ways that its plays were drawn from, as plain values: another
            call may start from them.
        ways: the ways to err that were tried, with their parts of the error and of the plays.
        unfinished: plays of the estimate that did not stop.
        trials, search_plays: plays of the estimate, and of all searches.
        log_weights: (trials,) ln of the weights, −inf for plays without an error.
        log_ratios: (trials,) ln dQ/dP of each play.
    """

    policy: str
    env: str
    env_kwargs: dict[str, Any]
    n_agents: int
    delta: float
    seed: int
    alpha: float
    log_low: float
    high: float
    unfinished: int
    search_plays: int
    seconds: float
    version: str
    searches: list[Estimate]
    families: list[list[dict[str, Any]]]
    ways: list[WayShare]
    log_weights: Floats = field(repr=False)
    log_ratios: Floats = field(repr=False)

    @property
    def trials(self) -> int:
        return int(self.log_weights.size)

    @property
    def error(self) -> float:
        return Estimate.of(self.log_weights).error

    @property
    def stderr(self) -> float:
        return Estimate.of(self.log_weights).stderr

    @property
    def ess(self) -> float:
        return Estimate.of(self.log_weights).ess

    @property
    def low(self) -> float:
        return math.exp(self.log_low)

    @property
    def spread(self) -> float:
        found = [s.error for s in self.searches]
        return max(found) / min(found) if min(found) > 0 else math.inf if max(found) > 0 else 1.0

    @property
    def fails(self) -> bool:
        """The lower bound is above δ: the policy is not δ-correct on this instance."""
        return self.low > self.delta

    def __str__(self) -> str:
        lines = [
            f"{self.policy} on {self.env}, N = {self.n_agents}, δ = {self.delta:g} (instance of "
            f"seed {self.seed})"
        ]
        if self.error == 0:
            lines.append(f"no error in {self.trials:,} tilted plays: no way to err was found")
        else:
            lines += [
                f"error      {self.error:.3g} ± {self.stderr:.2g} (standard error), "
                f"{_effective(self.ess)}",
                f"low        {self.low:.3g}: certified at confidence {1 - self.alpha:g}, at any "
                "number of plays",
            ]
        lines.append(
            f"high       {self.high:.2g}: certified; no way to err found above "
            f"{self.error + 2 * self.stderr:.2g}"
        )
        if self.fails:
            lines.append(f"FAIL       the error probability is above δ = {self.delta:g}")
        shown = ", ".join(f"{s.error:.2g} ± {s.stderr:.1g}" for s in self.searches)
        lines.append(
            f"searches   {shown}; largest/smallest {self.spread:.2g}{self._disagreement()}"
        )
        if self.unfinished:
            lines.append(
                f"unfinished {self.unfinished:,} of {self.trials:,} plays; `high` counts them as "
                "wrong"
            )
        lines.append(
            f"plays      {self.trials:,} measured, {self.search_plays:,} to search; "
            f"{self.seconds:.1f} s"
        )
        lines.append("ways to err (part of the error, part of the plays):")
        used = [way for way in self.ways if way.plays > 0]
        lines += [f"  {way.error:6.1%} {way.plays:6.1%}  {way.name}" for way in used]
        dropped = [way.name for way in self.ways if way.plays == 0]
        if dropped:
            lines.append(f"  tried and dropped: {'; '.join(dropped)}")
        return "\n".join(lines)

    def _disagreement(self) -> str:
        found = [s for s in self.searches if s.error > 0]
        if self.ess < FEW:
            return "; an order of magnitude at best"
        for a in found:
            for b in found:
                if abs(a.error - b.error) > AGREE * math.hypot(a.stderr, b.stderr):
                    return "; they disagree beyond their standard errors"
        return ""


def _effective(ess: float) -> str:
    return f"as good as {ess:.0f} equal weights" if ess >= 1 else "no effective play"
