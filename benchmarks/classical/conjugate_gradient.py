"""Conjugate gradients with a diagonal preconditioner, for heat conduction."""

import numpy as np


def conductivity(n):
    x = np.linspace(0, 1, n + 1)
    grid_x, grid_y = np.meshgrid(x, x, indexing="ij")
    return 1 + 0.9 * np.sin(6 * np.pi * grid_x) * np.cos(4 * np.pi * grid_y)


def apply(u, east, north, diagonal):
    found = diagonal * u
    found[1:] -= east * u[:-1]
    found[:-1] -= east * u[1:]
    found[:, 1:] -= north * u[:, :-1]
    found[:, :-1] -= north * u[:, 1:]
    return found


def coefficients(k):
    east = 0.5 * (k[1:-1, :-1] + k[1:-1, 1:])
    north = 0.5 * (k[:-1, 1:-1] + k[1:, 1:-1])
    diagonal = np.full((k.shape[0] - 1, k.shape[1] - 1), 1e-3)
    diagonal[1:] += east
    diagonal[:-1] += east
    diagonal[:, 1:] += north
    diagonal[:, :-1] += north
    return east, north, diagonal


def main(size):
    east, north, diagonal = coefficients(conductivity(size))
    rng = np.random.default_rng(12)
    b = rng.standard_normal((size, size))
    x, r = np.zeros_like(b), b.copy()
    z = r / diagonal
    p, rz = z.copy(), float((r * z).sum())
    norm, history = float(np.sqrt((b * b).sum())), []
    for iteration in range(150):
        ap = apply(p, east, north, diagonal)
        alpha = rz / float((p * ap).sum())
        x += alpha * p
        r -= alpha * ap
        residual = float(np.sqrt((r * r).sum())) / norm
        history.append(residual)
        if residual < 1e-6:
            break
        z = r / diagonal
        rz, before = float((r * z).sum()), rz
        p = z + rz / before * p
    return x, np.array(history[:50]), float(np.abs(apply(x, east, north, diagonal) - b).max()) < 1
