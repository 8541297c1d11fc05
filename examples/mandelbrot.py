"""The Mandelbrot set, computed as the number of steps after which each point leaves the circle of radius 2.

Usage: mandelbrot.py [width] [steps]
"""

import sys

import numpy as np

width = int(sys.argv[1]) if len(sys.argv) > 1 else 600
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60
x = np.linspace(-2.0, 0.6, width)
y = np.linspace(-1.2, 1.2, width * 12 // 13)
cx, cy = x[None, :], y[:, None]
zx = np.zeros((len(y), len(x)))
zy = np.zeros((len(y), len(x)))
count = np.zeros((len(y), len(x)), dtype=np.int32)
for step in range(steps):
    inside = zx * zx + zy * zy <= 4.0
    new_x = zx * zx - zy * zy + cx
    new_y = 2.0 * zx * zy + cy
    zx = np.where(inside, new_x, zx)
    zy = np.where(inside, new_y, zy)
    count += inside
print(f"{len(x)} x {len(y)} points, {steps} steps")
print(f"in the set: {int((count == steps).sum())}, mean steps {count.mean():.6f}")
