"""Time-uniform boundaries from normal mixtures: valid at all numbers of pulls at once.

All functions are for 1-sub-Gaussian rewards in the moment-generating sense; divide means by σ
first. Each mixture has a constant ρ > 0 that must be fixed before the data. The mechanism is always
the same: for a sub-Gaussian random walk S with variance process V and any law F, ∫ exp(λS − λ²V/2)
dF(λ) is a non-negative supermartingale that starts at one, so it ever exceeds 1/α with probability
at most α (Ville). Sources: Robbins (1970), "Statistical methods related to the law of the iterated
logarithm"; Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic
confidence sequences".
"""

from __future__ import annotations

from typing import Any

import numpy as np


def tuned_rho(n: Any, alpha: Any) -> Any:
    """The ρ for which a two-sided mixture at level α is tightest when about n pulls have been made."""
    log_term = -2 * np.log(np.asarray(alpha, dtype=np.float64))
    return n / (log_term + np.log1p(log_term))


def radius(n: Any, alpha: Any, rho: Any) -> Any:
    """Two-sided: |average of n pulls − mean| stays within this at all n ≥ 1 with probability 1 − α."""
    total = np.asarray(n, dtype=np.float64) + rho
    return np.sqrt(total * (np.log(total / rho) - 2 * np.log(alpha))) / n


def pair_evidence(mean_a: Any, mean_b: Any, n_a: Any, n_b: Any, rho: Any) -> Any:
    """Log-evidence against equal means of two arms, or of one arm at two agents.

    At the true common mean the product of the two arms' mixtures is a supermartingale; this is the
    logarithm of its minimum over common means. It ever exceeds ln(1/α) with probability at most α.
    The same number counts against "μ_a ≤ μ_b" when mean_a > mean_b, and the other way round.
    """
    n_a, n_b = np.asarray(n_a, dtype=np.float64), np.asarray(n_b, dtype=np.float64)
    spread = (n_a + rho) / n_a**2 + (n_b + rho) / n_b**2
    return 0.5 * (mean_a - mean_b) ** 2 / spread - 0.5 * (np.log1p(n_a / rho) + np.log1p(n_b / rho))
