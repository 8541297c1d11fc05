"""The Gray-Scott model: two substances that react and diffuse on a torus."""

import numpy as np

FEED, KILL = 0.0367, 0.0649
DIFFUSION_U, DIFFUSION_V = 0.16, 0.08


def laplacian(z):
    return (
        0.2 * (np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1))
        + 0.05 * (np.roll(z, (1, 1), (0, 1)) + np.roll(z, (1, -1), (0, 1)))
        + 0.05 * (np.roll(z, (-1, 1), (0, 1)) + np.roll(z, (-1, -1), (0, 1)))
        - z
    )


def start(n):
    u, v = np.ones((n, n)), np.zeros((n, n))
    rng = np.random.default_rng(5)
    for _ in range(10):
        i, j = rng.integers(n // 8, n - n // 8, 2)
        radius = max(2, n // 20)
        u[i - radius : i + radius, j - radius : j + radius] = 0.5
        v[i - radius : i + radius, j - radius : j + radius] = 0.25
    return u, v


def step(u, v):
    reaction = u * v * v
    new_u = u + DIFFUSION_U * laplacian(u) - reaction + FEED * (1 - u)
    new_v = v + DIFFUSION_V * laplacian(v) + reaction - (FEED + KILL) * v
    return np.clip(new_u, 0, 1), np.clip(new_v, 0, 1)


def main(size):
    u, v = start(size)
    masses = []
    for k in range(60):
        u, v = step(u, v)
        if k % 15 == 14:
            masses.append(v.sum())
    pattern = (v > 0.2).astype(np.uint8)
    return u, v, pattern, np.array(masses)
