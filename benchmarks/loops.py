"""The ten programs of the fused suite, as `prange` loops for Numba.

The loops have strict floating-point semantics. This module needs Numba. Each public function has the name, the inputs
and the results of a program.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from benchmarks.programs import SEAWATER

# The functions below are compiled, and therefore have no type annotations.
# mypy: disable-error-code="no-untyped-def"

compiled = njit(parallel=True, fastmath=False, error_model="numpy")
inlined = njit(fastmath=False, error_model="numpy")
F = np.float32


@compiled
def axpy_chain(a, b, c, x):
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = a[i] * x[i] + b[i] * x[i] * x[i] - c[i]
    return out


@inlined
def _cumulative(d):
    k = F(1) / (F(1) + F(0.2316419) * abs(d))
    series = k * (
        F(0.319381530)
        + k * (F(-0.356563782) + k * (F(1.781477937) + k * (F(-1.821255978) + k * F(1.330274429))))
    )  # fmt: skip
    tail = F(0.3989422804014327) * math.exp(F(-0.5) * d * d) * series
    return F(1) - tail if d > F(0) else tail


@compiled
def black_scholes(price, strike, years):
    call, put = np.empty_like(price), np.empty_like(price)
    for i in prange(price.size):
        spread = F(0.3) * math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + F(0.02 + 0.5 * 0.3 * 0.3) * years[i]) / spread
        n1, n2 = _cumulative(d1), _cumulative(d1 - spread)
        discounted = strike[i] * math.exp(F(-0.02) * years[i])
        call[i] = price[i] * n1 - discounted * n2
        put[i] = discounted * (F(1) - n2) - price[i] * (F(1) - n1)
    return call, put


@compiled
def squared_differences(x, y):
    # In blocks, because a single float32 sum of 16 M values would be inaccurate.
    block = 4096
    parts = np.zeros((x.size + block - 1) // block, np.float32)
    for k in prange(parts.size):
        total = F(0)
        for i in range(k * block, min((k + 1) * block, x.size)):
            d = x[i] - y[i]
            total += d * d
        parts[k] = total
    whole = 0.0
    for k in range(parts.size):
        whole += parts[k]
    return F(whole)


@compiled
def softmax(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = F(0)
        for j in range(x.shape[1]):
            e = math.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@compiled
def layer_norm(x):
    out = np.empty_like(x)
    n = F(x.shape[1])
    for i in prange(x.shape[0]):
        total = F(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        squares = F(0)
        for j in range(x.shape[1]):
            d = x[i, j] - mean
            squares += d * d
        root = math.sqrt(squares / n + F(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) / root
    return out


@compiled
def _smooth(u, v):
    for i in prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            v[i, j] = F(0.2) * (u[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@njit
def jacobi(u):
    u = u.copy()
    v = u.copy()
    for _ in range(10):
        _smooth(u, v)
        u, v = v, u
    return u


_density = inlined(eval(f"lambda sa, ct, p: {SEAWATER}", {"sqrt": math.sqrt}))


@compiled
def seawater(sa, ct, p):
    out = np.empty_like(sa)
    for i in prange(sa.size):
        out[i] = _density(sa[i], ct[i], p[i])
    return out


@compiled
def mandelbrot(re, im):
    out = np.empty((im.shape[0], re.shape[1]), np.float32)
    for i in prange(im.shape[0]):
        for j in range(re.shape[1]):
            x = cx = re[0, j]
            y = cy = im[i, 0]
            steps = 0
            # As a user would write it: iteration stops when the point escapes.
            while steps < 20 and x * x + y * y <= F(4):
                x, y = x * x - y * y + cx, F(2) * x * y + cy
                steps += 1
            out[i, j] = steps
    return out


@compiled
def add_transposed(a, b):
    n, m = a.shape
    out = np.empty_like(a)
    tile = 64
    for block in prange((n + tile - 1) // tile):
        for left in range(0, m, tile):
            for i in range(block * tile, min((block + 1) * tile, n)):
                for j in range(left, min(left + tile, m)):
                    out[i, j] = a[i, j] + b[j, i]
    return out


@compiled
def distances(x, y):
    out = np.empty((x.shape[0], y.shape[0]), np.float32)
    for i in prange(x.shape[0]):
        for j in range(y.shape[0]):
            d0, d1, d2 = x[i, 0] - y[j, 0], x[i, 1] - y[j, 1], x[i, 2] - y[j, 2]
            out[i, j] = math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
    return out
