"""Shares of pulls that maximise the least rate of evidence against a rival: many small matrix games at once."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats

#: Newton steps at most, and the gap between bounds, relative to the largest rate, at which they end. A plan needs no
#: more: rates are estimates that are off by far more.
STEPS, GAP = 40, 1e-4
#: Each step aims at this part of the present gap, and goes this part of the way to the nearest bound: usual values for
#: interior-point methods, which keep all shares positive.
CENTRE, REACH = 0.1, 0.95
#: Shares below this, relative to the largest, are what the method leaves of zeros. Half and twice of it give the same
#: pulls.
ZERO = 2e-3


def max_min_shares(rates: Floats) -> tuple[Floats, Floats]:
    """Shares w (B, K) that maximise min_j Σ_k w_k·rates[b, j, k], and weights y (B, J) of the rivals that minimise
    max_k Σ_j y_j·rates[b, j, k], its smallest upper bound. All are ≥ 0 and sum to one; `rates` is (B, J, K), ≥ 0.

    These are B linear programs: the largest t with Aw ≥ t, and the smallest s with Aᵀy ≤ s, for shares w and y. A
    primal-dual interior-point method solves all of them in lock-step. It starts from equal shares, which are feasible
    for both, and brings w·(s − Aᵀy) and y·(Aw − t) to zero. One system of J + 2 equations a step is left for each.
    """
    a = rates / np.maximum(rates.max(axis=(1, 2), keepdims=True, initial=0.0), 1e-300)
    games, rivals, arms = a.shape
    at = np.ascontiguousarray(a.transpose(0, 2, 1))
    w, y = np.full((games, arms), 1 / arms), np.full((games, rivals), 1 / rivals)
    rows = _times(a, w)
    u = rows - rows.min(axis=1, keepdims=True) + 1.0
    columns = _times(at, y)
    z = columns.max(axis=1, keepdims=True) + 1.0 - columns
    system = np.zeros((games, rivals + 2, rivals + 2))
    system[:, :rivals, rivals + 1] = system[:, rivals + 1, :rivals] = -1
    diagonal = np.arange(rivals)
    right = np.zeros((games, rivals + 2))
    for _ in range(STEPS):
        gap = ((w * z).sum(axis=1) + (y * u).sum(axis=1)) / (arms + rivals)
        if gap.max(initial=0.0) * (arms + rivals) <= GAP:
            break
        target = (CENTRE * gap)[:, None]
        scale = w / z
        scaled = a * scale[:, None, :]
        pushed = target / z - w  # what w would do if y stayed
        system[:, :rivals, :rivals] = scaled @ at
        system[:, diagonal, diagonal] += u / y
        system[:, :rivals, rivals] = system[:, rivals, :rivals] = -scaled.sum(axis=2)
        system[:, rivals, rivals] = scale.sum(axis=1)
        right[:, :rivals] = target / y - u - _times(a, pushed)
        right[:, rivals] = pushed.sum(axis=1)
        step = np.linalg.solve(system, right[:, :, None])[:, :, 0]
        dy, ds, dt = step[:, :rivals], step[:, rivals, None], step[:, rivals + 1, None]
        dz = ds - _times(at, dy)
        dw = pushed - scale * dz
        du = _times(a, dw) - dt
        length = np.ones(games)
        for value, change in ((w, dw), (z, dz), (y, dy), (u, du)):
            length = np.minimum(length, -REACH / (change / value).min(axis=1, initial=-REACH))
        length = length[:, None]
        w, z, y, u = w + length * dw, z + length * dz, y + length * dy, u + length * du
    w = np.where(w > ZERO * w.max(axis=1, keepdims=True), w, 0.0)
    return w / w.sum(axis=1, keepdims=True), y


def _times(matrices: Floats, vectors: Floats) -> Floats:
    """(B, m) products of matrices (B, m, n) and vectors (B, n)."""
    return (matrices @ vectors[:, :, None])[:, :, 0]
