"""Gravitational n-body simulation with the leapfrog method.

The program also computes the energy and the angular momentum over time.
"""

import numpy as np

SOFTENING, STEP = 0.05, 0.01


def accelerations(positions, masses):
    apart = positions[None, :, :] - positions[:, None, :]
    squares = (apart**2).sum(axis=2) + SOFTENING**2
    inverse = squares**-1.5
    return (apart * (masses[None, :] * inverse)[:, :, None]).sum(axis=1)


def energy(positions, speeds, masses):
    kinetic = 0.5 * (masses * (speeds**2).sum(axis=1)).sum()
    apart = positions[None, :, :] - positions[:, None, :]
    distances = np.sqrt((apart**2).sum(axis=2) + SOFTENING**2)
    upper = np.triu(masses[:, None] * masses[None, :] / distances, 1)
    return kinetic - upper.sum()


def main(size):
    rng = np.random.default_rng(13)
    masses = rng.uniform(0.5, 1.5, size) / size
    positions = rng.standard_normal((size, 3))
    speeds = 0.3 * rng.standard_normal((size, 3))
    speeds -= (masses[:, None] * speeds).sum(axis=0) / masses.sum()
    pull = accelerations(positions, masses)
    energies, momenta = [], []
    for step in range(30):
        speeds += 0.5 * STEP * pull
        positions += STEP * speeds
        pull = accelerations(positions, masses)
        speeds += 0.5 * STEP * pull
        if step % 10 == 9:
            energies.append(energy(positions, speeds, masses))
            momenta.append((masses[:, None] * np.cross(positions, speeds)).sum(axis=0))
    return positions, speeds, np.array(energies), np.array(momenta)
