"""Heat conduction in a plate with a hot square, two cold edges and two insulated edges, computed with explicit time steps."""

import numpy as np

STEPS = 100


def step(plate):
    center = plate[1:-1, 1:-1]
    flow = plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2] - 4.0 * center
    plate[1:-1, 1:-1] = center + 0.2 * flow
    plate[0, :] = 20.0
    plate[-1, :] = 20.0
    plate[:, 0] = plate[:, 1]
    plate[:, -1] = plate[:, -2]


def main(size):
    plate = np.zeros((size, size))
    plate[size // 4 : size // 2, size // 4 : size // 2] = 100.0
    for _ in range(STEPS):
        step(plate)
    return (plate,)
