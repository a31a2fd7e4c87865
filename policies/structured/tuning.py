"""Tuning of `StructuredBAI`: values that cost pulls or time when poor, never correctness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What the planning of `StructuredBAI` can be tuned by; the guarantee holds for any values.

    Halving or doubling moves the mean pulls of 19 games by more than 3% for the first seven. The
    others are used in several places. Numbers that stand in the code change nothing beyond noise.

    Attributes:
        first_effort: Pulls of a leading arm with which discovery starts; they show differences of
            σ.
        look: Pulls of every arm at a drawn agent, in all, as a multiple of the effort.
        deviations: An agent is odd when half a χ² exceeds its mean by this many deviations.
        odd_leader: An agent is odd when it differs by this many nats on a leading arm.
        fitting_leader: An agent fits when it differs by at most this many nats on the leader.
        apart: Nats that tell two arms of a representative apart in discovery.
        margin: Variances guessed from few pulls are raised by this factor, up to σ².
        start: First pulls of every arm at a representative: averages with an error of about σ/3.
        growth: A batch adds at most this share to the pulls of an arm.
        least: A batch adds at least this share to the pulls of an arm.
        part: Share of the expected pulls of a task that is made at once; leaves room to correct.
        urgent: A task waits while another needs this many times fewer pulls, and may settle it.
        bet_slack: Nats that a bet costs beside Wald's ratio, in forecasts.
        patience: Multiple of the plan after which an agent that sticks to its guess starts again.
    """

    first_effort: int = 32
    look: float = 2.0
    deviations: float = 3.5
    odd_leader: float = 6.0
    fitting_leader: float = 3.0
    apart: float = 7.0
    margin: float = 1.3
    start: int = 8
    growth: float = 0.5
    least: float = 0.08
    part: float = 0.6
    urgent: float = 10.0
    bet_slack: float = 4.0
    patience: float = 4.0


TUNING = Tuning()
