"""Heat conduction in a square plate with two cold and two insulated edges, computed with explicit time steps.

Usage: heat.py [points per side] [steps]
"""

import sys

import numpy as np

n = int(sys.argv[1]) if len(sys.argv) > 1 else 512
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
plate = np.zeros((n, n))
plate[n // 4 : n // 2, n // 4 : n // 2] = 100.0
for step in range(steps):
    center = plate[1:-1, 1:-1]
    flow = plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2] - 4.0 * center
    plate[1:-1, 1:-1] = center + 0.2 * flow
    plate[0, :] = 20.0
    plate[-1, :] = 20.0
    plate[:, 0] = plate[:, 1]
    plate[:, -1] = plate[:, -2]
print(f"{n} x {n} points, {steps} steps")
print(f"mean {plate.mean():.6f}, hottest {plate.max():.6f}, center {plate[n // 2, n // 2]:.6f}")
