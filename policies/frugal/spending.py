"""How many bits `FrugalBAI` may spend to save pulls: one setting. Correctness does not depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spending:
    """What more bits buy.

    Attributes:
        step: the effort of representatives grows by this factor from one exchange with the centre to the next. Fewer
            pulls are wasted on what another one shows more cheaply, the more often they exchange what they found.
        efforts: efforts that can be counted.
        bound_steps: steps between two powers of two when a bound is sent to an agent; a power of two.
        gaps: distances that can be sent to an agent.
        support_steps: bounds inside a told support that can be sent to an agent; a power of two.
        support_gaps: distances inside a told support.
    """

    step: float
    efforts: int
    bound_steps: int
    gaps: int
    support_steps: int
    support_gaps: int


#: From few bits to few pulls.
SPENDING = {
    "frugal": Spending(
        step=1.5, efforts=64, bound_steps=32, gaps=128, support_steps=256, support_gaps=16
    ),
    "balanced": Spending(
        step=1.3, efforts=128, bound_steps=128, gaps=256, support_steps=1024, support_gaps=64
    ),
    "lavish": Spending(
        step=1.15, efforts=256, bound_steps=1024, gaps=1024, support_steps=8192, support_gaps=256
    ),
}
FRUGAL = SPENDING["frugal"]
