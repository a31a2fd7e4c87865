"""Tuning of `StructuredBAI`: values that cost pulls or time when poor, never correctness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What the planning of `StructuredBAI` can be tuned by; the guarantee holds for any values.

    Halving or doubling moves the mean pulls of 19 games by more than 3% for `first_effort`, `look`,
    `deviations`, `odd_leader`, `fitting_leader`, `apart` and `margin`; for the others by less.

    Attributes:
        start: First pulls of every arm at a representative: averages with an error of about σ/3.
        first_effort: Pulls of a leading arm with which discovery starts; they show differences of
            σ.
        more_effort: Factor by which the effort grows when everybody drawn so far is explained.
        last_effort: Nats that a difference of η is worth at the last effort; the search then ends.
        look: Pulls of every arm at a drawn agent, in all, as a multiple of the effort.
        look_most: The most such pulls of one arm if there are many arms: each sends an average.
        leader_effort: Pulls of a representative's leader as a multiple of the effort: its noise
            then adds a quarter to the variance of a comparison.
        margin: Variances guessed from few pulls are raised by this factor, up to σ².
        deviations: An agent is odd when half a χ² exceeds its mean by this many deviations.
        odd_leader: An agent is odd when it differs by this many nats on a leading arm.
        fitting_leader: An agent fits when it differs by at most this many nats on the leader.
        behind: A representative that fits this many nats worse than another is not looked at.
        apart: Nats that tell two arms of a representative apart in discovery.
        untold_eta: Difference, in units of σ, that stands for η in plans where η is not told.
        growth: A batch adds at most this share to the pulls of an arm.
        least: A batch adds at least this share to the pulls of an arm.
        part: Share of the expected pulls of a task that is made at once; leaves room to correct.
        trifle: A batch is at least this share of all expected pulls over the number of tasks.
        urgent: A task waits while another needs this many times fewer pulls, and may settle it.
        alike: Rows that are good enough are told apart with at most this many times the pulls
            that settled them; then everybody goes on alone.
        bet_slack: Nats that a bet costs beside Wald's ratio, in forecasts.
        bet_more: Factor on the pulls of representatives that bets compare agents with.
        search: First batches of an agent to be classified, as a share of its planned pulls, times
            the square root of the number of clusters.
        confirm_least: The smallest batch that confirms a guess, as a share of the plan.
        confirm_most: The largest batch that is staked on one guess, as a share of the plan.
        patience: Multiple of the plan after which an agent that sticks to its guess starts again.
        accept_step: Share by which acceptance raises the pulls of an arm; twice that for the arm
            that all others are compared with.
    """

    start: int = 8
    first_effort: int = 32
    more_effort: int = 4
    last_effort: float = 24.0
    look: float = 2.0
    look_most: int = 5
    leader_effort: float = 4.0
    margin: float = 1.3
    deviations: float = 3.5
    odd_leader: float = 6.0
    fitting_leader: float = 3.0
    behind: float = 3.0
    apart: float = 7.0
    untold_eta: float = 0.1
    growth: float = 0.5
    least: float = 0.08
    part: float = 0.6
    trifle: float = 0.005
    urgent: float = 10.0
    alike: float = 16.0
    bet_slack: float = 4.0
    bet_more: float = 1.5
    search: float = 0.093
    confirm_least: float = 1 / 24
    confirm_most: float = 1 / 4
    patience: float = 4.0
    accept_step: float = 0.15


TUNING = Tuning()
