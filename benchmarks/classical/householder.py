"""QR decomposition by Householder reflections, and least squares by back substitution."""

import numpy as np


def decompose(a):
    r = a.copy()
    m, n = r.shape
    q = np.eye(m)
    for k in range(n):
        x = r[k:, k]
        v = x.copy()
        v[0] += np.copysign(np.linalg.norm(x), x[0])
        v /= np.linalg.norm(v)
        r[k:, k:] -= 2 * np.outer(v, v @ r[k:, k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q, r


def back_substitution(r, y):
    n = r.shape[1]
    x = np.zeros(n)
    for k in range(n - 1, -1, -1):
        x[k] = (y[k] - r[k, k + 1 : n] @ x[k + 1 :]) / r[k, k]
    return x


def main(size):
    rng = np.random.default_rng(9)
    t = (np.arange(size) + 0.5) / size
    a = np.cos(np.pi * np.outer(t, np.arange(size // 2))) + 0.1 * rng.standard_normal((size, size // 2))
    target = np.sin(5 * t) + 0.1 * rng.standard_normal(size)
    q, r = decompose(a)
    x = back_substitution(r, q.T @ target)
    below = np.abs(np.tril(r, -1)).max()
    return np.abs(np.diag(r)), x, a @ x, below < 1e-10, np.abs(q.T @ q - np.eye(size)).max() < 1e-10
