"""Values of each dtype for tests, and a bitwise comparison of arrays.

The comparison treats all NaNs as equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CODES = "?bBhHiIqQfdFD"


def values(code: str, count: int = 24) -> np.ndarray:
    dtype = np.dtype(code)
    rng = np.random.default_rng(ord(code))
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 9, count).astype(dtype)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5]
    real = np.concatenate([special, rng.normal(size=count - len(special)) * 8])
    return (real + 1j * rng.permutation(real) if dtype.kind == "c" else real).astype(dtype)


def same(found: Any, wanted: Any) -> bool:
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))
