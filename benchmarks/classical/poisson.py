"""Poisson's equation by Jacobi iterations and by successive over-relaxation."""

import numpy as np


def right_side(n):
    x = np.linspace(0, 1, n)
    grid_x, grid_y = np.meshgrid(x, x, indexing="ij")
    return np.exp(-50 * ((grid_x - 0.3) ** 2 + (grid_y - 0.6) ** 2)) - np.exp(
        -80 * ((grid_x - 0.7) ** 2 + (grid_y - 0.3) ** 2)
    )


def residual(u, f, h):
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return np.abs(inner - h * h * f[1:-1, 1:-1]).max()


def jacobi(u, f, h, iterations):
    history = []
    for k in range(iterations):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - h * h * f[1:-1, 1:-1])
        if k % 20 == 19:
            history.append(float(np.abs(new - u).max()))
        u = new
    return u, history


def relax(u, f, h, iterations):
    n = u.shape[0]
    omega = 2 / (1 + np.sin(np.pi / n))
    i, j = np.indices((n - 2, n - 2))
    red = (i + j) % 2 == 0
    for _ in range(iterations):
        for color in (red, ~red):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            change = 0.25 * (around - h * h * f[1:-1, 1:-1]) - u[1:-1, 1:-1]
            u[1:-1, 1:-1] += omega * np.where(color, change, 0.0)
    return u


def main(size):
    h = 1 / (size - 1)
    f = right_side(size)
    u, history = jacobi(np.zeros((size, size)), f, h, 120)
    u = relax(u, f, h, 60)
    return u, np.array(history), residual(u, f, h)
