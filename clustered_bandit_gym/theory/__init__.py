"""Lower bounds, to be set against what is measured.

`lower_bound`: the expected pulls that every δ-PC learner needs on an instance. `formulas`: for how
many agents BAI-Cl is δ-PC.
"""

from clustered_bandit_gym.theory.formulas import bai_cl_gamma, bai_cl_most_agents
from clustered_bandit_gym.theory.lower_bound import (
    LowerBound,
    information_needed,
    instance_lower_bound,
    solve_lower_bound,
)

__all__ = [
    "LowerBound",
    "bai_cl_gamma",
    "bai_cl_most_agents",
    "information_needed",
    "instance_lower_bound",
    "solve_lower_bound",
]
