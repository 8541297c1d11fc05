"""Heat conduction in a plate by the alternating direction implicit method.

The Thomas algorithm solves the tridiagonal systems of all lines together.
"""

import numpy as np


def factor(n, r):
    ratio, pivot = np.zeros(n), np.zeros(n)
    pivot[0] = 1 + r
    for k in range(1, n):
        ratio[k] = -r / pivot[k - 1]
        pivot[k] = 1 + 2 * r + ratio[k] * r
    return ratio, pivot


def solve(right, ratio, pivot, r):
    x = right.copy()
    n = len(x)
    for k in range(1, n):
        x[k] -= ratio[k] * x[k - 1]
    x[n - 1] /= pivot[n - 1]
    for k in range(n - 2, -1, -1):
        x[k] = (x[k] + r * x[k + 1]) / pivot[k]
    return x


def explicit(u, r):
    found = (1 - 2 * r) * u
    found[:, 1:] += r * u[:, :-1]
    found[:, :-1] += r * u[:, 1:]
    found[:, 0] += r * u[:, 0]
    found[:, -1] += r * u[:, -1]
    return found


def main(size):
    r = 2.0
    x = np.linspace(0, 1, size)
    u = np.where((np.abs(x[:, None] - 0.4) < 0.2) & (np.abs(x[None, :] - 0.5) < 0.1), 100.0, 20.0)
    ratio, pivot = factor(size, r)
    center, hottest = [], []
    for _ in range(10):
        u = solve(explicit(u, r), ratio, pivot, r)
        u = solve(explicit(u.T, r), ratio, pivot, r).T
        center.append(float(u[size // 2, size // 2]))
        hottest.append(float(u.max()))
    return u, np.array(center), np.array(hottest), u.mean(axis=0)
