"""Shares of pulls that maximise the least rate of evidence against a rival."""

from __future__ import annotations

import numpy as np

from clustered_bandit_gym._types import Floats


def max_min_shares(rates: Floats) -> Floats:
    """(B, K) shares w that maximise min_j Σ_k w_k·rates[b, j, k]; `rates` is (B, J, K), ≥ 0.

    These are B linear programs: the largest t with Aw ≥ t, and its dual, the smallest s with
    Aᵀy ≤ s. A primal-dual interior-point method solves all of them in lock-step, to 10^-4 of the
    largest rate: rates are estimates that are off by far more. It starts from equal shares, which
    are feasible for both, and brings w·z and y·u to zero, where z = s − Aᵀy and u = Aw − t. Each
    step aims at a tenth of the present gap and goes 95% of the way to the nearest bound.
    """
    a = rates / np.maximum(rates.max(axis=(1, 2), keepdims=True, initial=0.0), 1e-300)
    games, rivals, arms = a.shape
    at = np.ascontiguousarray(a.transpose(0, 2, 1))
    w = np.full((games, arms), 1 / arms)
    y = np.full((games, rivals), 1 / rivals)
    u = _times(a, w)
    u = u - u.min(axis=1, keepdims=True) + 1.0
    z = _times(at, y)
    z = z.max(axis=1, keepdims=True) + 1.0 - z
    system = np.zeros((games, rivals + 2, rivals + 2))
    system[:, :rivals, rivals + 1] = system[:, rivals + 1, :rivals] = -1
    diagonal = np.arange(rivals)
    right = np.zeros((games, rivals + 2))
    for _ in range(40):
        gap = (w * z).sum(axis=1) + (y * u).sum(axis=1)
        if gap.max(initial=0.0) <= 1e-4:
            break
        target = (0.1 * gap / (arms + rivals))[:, None]
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
            length = np.minimum(length, -0.95 / (change / value).min(axis=1, initial=-0.95))
        length = length[:, None]
        w, z, y, u = w + length * dw, z + length * dz, y + length * dy, u + length * du
    # Smaller shares are what the method leaves of zeros.
    w = np.where(w > 2e-3 * w.max(axis=1, keepdims=True), w, 0.0)
    return w / w.sum(axis=1, keepdims=True)


def _times(matrices: Floats, vectors: Floats) -> Floats:
    """(B, m) products of matrices (B, m, n) and vectors (B, n)."""
    return (matrices @ vectors[:, :, None])[:, :, 0]
