"""Flow around a cylinder, simulated by the lattice Boltzmann method (D2Q9)."""

import numpy as np

VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]
RELAXATION = 0.6


def equilibrium(density, ux, uy):
    square = 1.5 * (ux * ux + uy * uy)
    found = np.empty((9, *density.shape))
    for k, (cx, cy) in enumerate(VELOCITIES):
        along = 3 * (cx * ux + cy * uy)
        found[k] = WEIGHTS[k] * density * (1 + along + 0.5 * along * along - square)
    return found


def cylinder(nx, ny):
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    return (x - nx / 4) ** 2 + (y - ny / 2) ** 2 < (ny / 9) ** 2


def moments(f):
    density = f.sum(axis=0)
    ux = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / density
    uy = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / density
    return density, ux, uy


def main(size):
    nx, ny = size, size // 2
    wall = cylinder(nx, ny)
    y = np.arange(ny)
    inflow = 0.08 * (1 + 1e-3 * np.sin(2 * np.pi * y / (ny - 1)))
    f = equilibrium(np.ones((nx, ny)), np.tile(inflow, (nx, 1)), np.zeros((nx, ny)))
    for _ in range(120):
        for k, (cx, cy) in enumerate(VELOCITIES):
            f[k] = np.roll(np.roll(f[k], cx, axis=0), cy, axis=1)
        bounced = f[:, wall]
        density, ux, uy = moments(f)
        ux[0], uy[0] = inflow, 0.0
        f += (equilibrium(density, ux, uy) - f) / RELAXATION * 0.5
        f[:, wall] = bounced[OPPOSITE]
        f[[3, 6, 7], -1] = f[[3, 6, 7], -2]
    density, ux, uy = moments(f)
    ux[wall] = uy[wall] = 0
    vorticity = (np.roll(uy, -1, 0) - np.roll(uy, 1, 0)) - (np.roll(ux, -1, 1) - np.roll(ux, 1, 1))
    return density, vorticity, np.sqrt(ux * ux + uy * uy).max()
