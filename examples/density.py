"""Density of points in the plane.

At each node of a grid, the density is the mean of Gaussian functions that are centered at the points.
Usage: density.py [number of points] [nodes per side]
"""

import sys

import numpy as np


def density_at(node_x, node_y, x, y, width):
    """Estimate a density from the points (x, y), and return its value at each node. The coordinates of the nodes are column vectors."""
    squares = (node_x - x) ** 2 + (node_y - y) ** 2
    bumps = np.exp(-squares / (2.0 * width**2)) / (2.0 * np.pi * width**2)
    return bumps.mean(axis=1)


count = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
side = int(sys.argv[2]) if len(sys.argv) > 2 else 100
random = np.random.default_rng(5)
x = random.normal(0.0, 1.0, count)
y = 0.6 * x + random.normal(0.0, 0.7, count)
grid = np.linspace(-4.0, 4.0, side)
node_x, node_y = np.meshgrid(grid, grid)

density = density_at(node_x.reshape(-1, 1), node_y.reshape(-1, 1), x, y, 0.25)
cell = (grid[1] - grid[0]) ** 2
print(f"{count} points, {side} x {side} nodes")
print(f"highest density {density.max():.6f}, integral {density.sum() * cell:.6f}")
