"""Bounds and sample sizes, to be set against what is measured.

`lower_bound`: the expected pulls that every δ-PC learner needs on an instance. `minimax`: those
that it needs on some instance of a class, and the bounds as the paper prints them. `formulas`: the
terms of the paper's theorems and sample sizes.
"""

from clustered_bandit_gym.theory.formulas import (
    Terms,
    bai_cl_gamma,
    bai_cl_most_agents,
    bai_cl_pp_terms,
    bai_cl_terms,
    cl_bai_terms,
    coupon_collector_without_replacement,
    naive_terms,
    se_error,
    se_round_size,
)
from clustered_bandit_gym.theory.lower_bound import (
    LowerBound,
    information_needed,
    instance_lower_bound,
    solve_lower_bound,
)
from clustered_bandit_gym.theory.minimax import (
    assignment_information,
    minimax_lower_bound,
    paper_instance_bound,
    paper_minimax_bound,
)

__all__ = [
    "LowerBound",
    "Terms",
    "assignment_information",
    "bai_cl_gamma",
    "bai_cl_most_agents",
    "bai_cl_pp_terms",
    "bai_cl_terms",
    "cl_bai_terms",
    "coupon_collector_without_replacement",
    "information_needed",
    "instance_lower_bound",
    "minimax_lower_bound",
    "naive_terms",
    "paper_instance_bound",
    "paper_minimax_bound",
    "se_error",
    "se_round_size",
    "solve_lower_bound",
]
