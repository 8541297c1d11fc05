"""Tests of scans that are fused with their producers and consumers.

On the CPU, results are bit-identical to NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics

RANDOM = np.random.default_rng(6)
A = RANDOM.standard_normal((7, 70)).astype(np.float32)
B = RANDOM.standard_normal((7, 70)).astype(np.float32)
Z = (A + 1j * B).astype(np.complex64)
N = RANDOM.integers(-5, 5, (7, 70))

Program = Callable[[Any, Callable[[Any], Any]], Any]


def before_and_after(xp: Any, c: Any) -> Any:
    """Return the input of a scan, and a value computed from its result."""
    product = c(A) * c(B)
    return product, xp.cumsum(product, 1) * 2 + c(A)


# number of kernels, and program
PROGRAMS: dict[str, tuple[int, Program]] = {
    "along rows": (1, lambda xp, c: xp.cumsum(c(A) * c(B), 1) * 2 + c(A)),
    "along columns": (1, lambda xp, c: xp.cumsum(c(A) * c(B), 0) * 2 + c(A)),
    "flat": (1, lambda xp, c: xp.cumsum(c(A) * c(B)) * 2),
    "with its input": (1, before_and_after),
    "of a scan": (1, lambda xp, c: xp.cumsum(xp.cumsum(c(A), 1) * 2, 1) + 1),
    "two": (1, lambda xp, c: (lambda a: (xp.cumsum(a, 1), xp.maximum.accumulate(a, 1) + 1))(c(A))),
    "product": (1, lambda xp, c: xp.cumprod(c(A) + 1, 1) - 1),
    "of a transposed": (1, lambda xp, c: xp.cumsum(c(A).T * 2, 0) + 1),
    "of parts": (1, lambda xp, c: xp.cumsum(xp.concatenate([c(A), c(B) * 2], 1), 1) + 1),
    "differences": (1, lambda xp, c: xp.diff(c(A) * 2, 2, 1) * 3),
    "integers": (1, lambda xp, c: xp.cumsum(c(N), 1) % 7),
    "complex": (1, lambda xp, c: xp.cumsum(c(Z) * 2, 1) + 1),
    "complex product": (1, lambda xp, c: xp.cumprod(c(Z), 1)),
    "bools": (1, lambda xp, c: ~xp.logical_and.accumulate(c(A) > -1, 1)),
    "counted bools": (1, lambda xp, c: xp.cumsum(c(A) > 0, 1) * 2),
    # the last element of a row is known only after the whole row
    "share of the whole": (2, lambda xp, c: (lambda s: s / s[:, -1:])(xp.cumsum(xp.abs(c(A)), 1))),
    "maximum behind": (2, lambda xp, c: xp.cumsum(c(A), 1).max(1)),
    "behind a maximum": (2, lambda xp, c: xp.cumsum(c(A) - c(A).max(1, keepdims=True), 1)),
}


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_and_kernels(name: str, device: str) -> None:
    kernels, program = PROGRAMS[name]
    wanted = program(np, lambda x: x)
    with wf.device(device):
        found = program(wf, wf.asarray)
        found, wanted = ((r,) if not isinstance(r, tuple) else r for r in (found, wanted))
        reset_statistics()
        wf.evaluate(*found)
        assert statistics()["kernels"] == kernels
    for ours, theirs in zip(found, wanted, strict=True):
        if device == "cpu" or theirs.dtype.kind not in "fc":
            np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)
        else:
            # the threads of a block share a row, and add in another order
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-4, strict=True)
