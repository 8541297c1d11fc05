"""Electromagnetic waves in two dimensions by Yee's finite-difference method."""

import numpy as np

COURANT = 0.5


def absorption(n):
    depth = np.maximum(0, 12 - np.minimum(np.arange(n), n - 1 - np.arange(n)))
    damping = 0.02 * (depth / 12.0) ** 2
    return 1 - np.minimum(damping[:, None] + damping[None, :], 1)


def material(n):
    x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    lens = (x - 0.6 * n) ** 2 + (y - 0.5 * n) ** 2 < (0.15 * n) ** 2
    mirror = (np.abs(x - 0.85 * n) < 2) & (np.abs(y - 0.5 * n) < 0.2 * n)
    return np.where(lens, 2.25, 1.0), mirror


def main(size):
    steps = 100
    ez, hx, hy = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    permittivity, mirror = material(size)
    factor, fading = COURANT / permittivity, absorption(size)
    probe, energies = np.zeros(steps), []
    for t in range(steps):
        hx[:, :-1] -= COURANT * (ez[:, 1:] - ez[:, :-1])
        hy[:-1, :] += COURANT * (ez[1:, :] - ez[:-1, :])
        curl = hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]
        ez[1:-1, 1:-1] += factor[1:-1, 1:-1] * curl
        ez[size // 4, size // 4 : 3 * size // 4] += np.exp(-(((t - 30) / 10) ** 2)) * np.sin(0.4 * t)
        ez[mirror] = 0
        ez *= fading
        hx *= fading
        hy *= fading
        probe[t] = ez[size // 2, size // 2]
        if t % 20 == 19:
            energies.append(0.5 * float((permittivity * ez**2 + hx**2 + hy**2).sum()))
    return ez, probe, np.array(energies)
