"""The Ising model of a magnet, simulated with the Metropolis algorithm.

Each half sweep updates all cells of one color of a checkerboard.
"""

import numpy as np

COUPLING = 0.44  # close to the critical point


def half_sweep(spins, color, rng):
    around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
    cost = 2 * COUPLING * spins * around
    flips = color & (rng.random(spins.shape) < np.exp(-cost))
    spins[flips] *= -1


def energy(spins):
    return -float(np.mean(spins * (np.roll(spins, 1, 0) + np.roll(spins, 1, 1))))


def main(size):
    rng = np.random.default_rng(3)
    spins = np.where(rng.random((size, size)) < 0.5, 1, -1)
    i, j = np.indices(spins.shape)
    black = (i + j) % 2 == 0
    energies, magnetisations = [], []
    for sweep in range(40):
        half_sweep(spins, black, rng)
        half_sweep(spins, ~black, rng)
        energies.append(energy(spins))
        magnetisations.append(abs(float(spins.mean())))
    energies, magnetisations = np.array(energies), np.array(magnetisations)
    late = energies[len(energies) // 2 :]
    correlation = np.array([np.mean(spins * np.roll(spins, k, axis=1)) for k in range(1, 8)])
    return spins, energies, magnetisations, late.var() * size * size, correlation
