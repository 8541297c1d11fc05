"""Motion of bodies under their mutual gravity, computed with the leapfrog method.

The program prints the total energy before and after the simulation.
Usage: nbody.py [bodies] [steps]
"""

import sys

import numpy as np

bodies = int(sys.argv[1]) if len(sys.argv) > 1 else 400
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
random = np.random.default_rng(11)
mass = random.uniform(0.5, 1.5, bodies) / bodies
position = random.standard_normal((bodies, 3))
velocity = 0.3 * random.standard_normal((bodies, 3))


def acceleration(position):
    away = position[None, :, :] - position[:, None, :]
    squared = (away**2).sum(axis=-1) + 0.01
    return (away * (mass[None, :] / squared**1.5)[:, :, None]).sum(axis=1)


def energy(position, velocity):
    away = position[None, :, :] - position[:, None, :]
    distance = np.sqrt((away**2).sum(axis=-1) + 0.01)
    pairs = mass[None, :] * mass[:, None] / distance
    return 0.5 * (mass * (velocity**2).sum(axis=1)).sum() - 0.5 * (pairs.sum() - np.trace(pairs))


before = energy(position, velocity)
pull = acceleration(position)
for step in range(steps):
    velocity += 0.005 * pull
    position += 0.01 * velocity
    pull = acceleration(position)
    velocity += 0.005 * pull
print(f"{bodies} bodies, {steps} steps")
print(f"energy {before:.8f} before, {energy(position, velocity):.8f} after")
