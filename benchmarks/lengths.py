"""Linear algebra in loops, with array lengths that change in each iteration.

Each program runs on weft for the first time, then at a larger size, then repeatedly at that size, and on NumPy. Results
are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf


def triangular(xp: Any, a: Any, b: Any) -> Any:
    """Solve a lower triangular system by forward substitution."""
    x = xp.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


def lu(xp: Any, a: Any, b: Any) -> Any:
    """Compute an LU decomposition, element by element."""
    for i in range(len(b)):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, len(b)):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


def cholesky(xp: Any, a: Any, b: Any) -> Any:
    """Compute a Cholesky decomposition, element by element."""
    a[0, 0] = xp.sqrt(a[0, 0])
    for i in range(1, len(b)):
        for j in range(i):
            a[i, j] -= xp.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= xp.dot(a[i, :i], a[i, :i])
        a[i, i] = xp.sqrt(a[i, i])
    return a


def elimination(xp: Any, a: Any, b: Any) -> Any:
    """Compute an LU decomposition by outer products."""
    for k in range(len(b) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= xp.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def durbin(xp: Any, a: Any, b: Any) -> Any:
    """Solve the Yule-Walker equations for the autocorrelations `b` by Durbin's algorithm."""
    y = xp.zeros(len(b))
    alpha, beta = -b[0], 1.0
    y[0] = -b[0]
    for k in range(1, len(b)):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(b[k] + xp.dot(xp.flip(b[:k]), y[:k])) / beta
        y[:k] += alpha * xp.flip(y[:k])
        y[k] = alpha
    return y


def gram_schmidt(xp: Any, a: Any, b: Any) -> Any:
    """Orthonormalize columns by the modified Gram-Schmidt process."""
    q = xp.zeros(a.shape)
    for k in range(len(b)):
        q[:, k] = a[:, k] / xp.sqrt(xp.dot(a[:, k], a[:, k]))
        for j in range(k + 1, len(b)):
            a[:, j] -= q[:, k] * xp.dot(q[:, k], a[:, j])
    return q


PROGRAMS: dict[Callable[[Any, Any, Any], Any], tuple[int, int]] = {
    triangular: (400, 500),
    lu: (40, 50),
    cholesky: (40, 50),
    elimination: (150, 200),
    durbin: (200, 250),
    gram_schmidt: (24, 30),
}


def _run(program: Callable[[Any, Any, Any], Any], xp: Any, n: int) -> tuple[float, np.ndarray]:
    """Run a program at size `n`, and return its time in seconds and its result."""
    a = np.random.default_rng(0).random((n, n)) * 0.1
    inputs = xp.asarray(a @ a.T + n * np.eye(n)), xp.asarray(0.3 / np.arange(1.0, n + 1))
    begin = time.perf_counter()
    result = np.asarray(program(xp, *inputs))
    return time.perf_counter() - begin, result


def measure() -> dict[str, str]:
    """Return a dict that maps each program's name to a text. The text states run times and how many plans weft made."""
    results: dict[str, str] = {}
    for program, (small, large) in PROGRAMS.items():
        wf.reset_statistics()
        first, _ = _run(program, wf, small)
        plans = wf.statistics()["plans"]
        wf.reset_statistics()
        other, found = _run(program, wf, large)
        more = wf.statistics()["plans"]
        again = min(_run(program, wf, large)[0] for _ in range(4))
        plain, expected = min((_run(program, np, large) for _ in range(5)), key=lambda pair: pair[0])
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        results[f"{program.__name__}, n = {large}"] = (
            f"{other * 1e3:.0f} ms after n = {small}, {more} plans made; {again * 1e3:.0f} ms once more "
            f"(NumPy {plain * 1e3:.1f} ms; n = {small}, the first: {first * 1e3:.0f} ms, {plans} plans)"
        )
    return results
