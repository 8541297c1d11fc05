"""Tests that many kinds of kernels have NumPy's results on a real GPU (``pytest -m gpu``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fuzz.row_columns import however_small

pytestmark = pytest.mark.gpu


A = np.random.default_rng(0).random((300, 1000)).astype(np.float32) + 0.5
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "elements": lambda xp, a: a * 2 + a * a - 1,
    "division": lambda xp, a: 1 / a,
    "math": lambda xp, a: xp.exp(-a) * xp.sin(a) + xp.log(a),
    "transposed": lambda xp, a: a.T * 2 + 1,
    "broadcast": lambda xp, a: a - a[0] + a[:, :1],
    "stencil": lambda xp, a: a[1:-1, 2:] + a[1:-1, :-2] - a[:-2, 1:-1],
    "unaligned": lambda xp, a: a.reshape(-1)[1:] + a.reshape(-1)[:-1],
    "rows": lambda xp, a: a.sum(axis=1),
    "columns": lambda xp, a: a.max(axis=0),
    "all": lambda xp, a: (a * a).sum(),
    "mean and variance": lambda xp, a: a.var(axis=1),
    "argmax": lambda xp, a: a.argmax(axis=1),
    "argmin of all": lambda xp, a: a.argmin(),
    "truth": lambda xp, a: (a > 1.4).any(axis=1),
    "scan": lambda xp, a: a.cumsum(axis=1),
    "softmax": lambda xp, a: (lambda e: e / e.sum(1, keepdims=True))(xp.exp(a - a.max(1, keepdims=True))),
    "gather": lambda xp, a: a[[5, 2, 299]][:, ::-1],
    "float64": lambda xp, a: xp.sqrt(a.astype("float64")) / 3,
    "float16": lambda xp, a: a.astype("float16") * 3,
    "complex": lambda xp, a: (a + 1j) * (a - 2j),
    "integers": lambda xp, a: (a * 100).astype("int32") // 7 % 5,
    "matmul": lambda xp, a: a @ a.T,
    "empty": lambda xp, a: a[:0] + 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_templates(name: str) -> None:
    wanted = PROGRAMS[name](np, A)
    found = np.asarray(PROGRAMS[name](wf, wf.asarray(A)))
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if found.dtype == np.float16 else 2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["elements", "division", "transposed", "broadcast", "stencil", "unaligned", "float64", "float16", "integers"],
)
def test_exact_operations_have_numpys_bits(name: str) -> None:
    np.testing.assert_array_equal(np.asarray(PROGRAMS[name](wf, wf.asarray(A))), PROGRAMS[name](np, A))


def test_updates_in_place() -> None:
    x, y = wf.asarray(A), A.copy()
    x[1:] += x[:-1]
    y[1:] += y[:-1].copy()
    x[x > 2] = 0
    y[y > 2] = 0
    np.testing.assert_array_equal(np.asarray(x), y)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 255, 256, 257, 1023, 4097, 100_003])
def test_odd_sizes(n: int) -> None:
    values = np.random.default_rng(n).random(n).astype(np.float32)
    x = wf.asarray(values)
    np.testing.assert_array_equal(np.asarray(x * 2 + 1), values * 2 + 1)
    np.testing.assert_allclose(float(x.sum()), values.astype(np.float64).sum(), rtol=1e-5)


def test_sums_have_the_same_bits_every_time() -> None:
    x = wf.asarray(np.random.default_rng(1).random(1_000_003).astype(np.float32))
    assert len({float(x.sum()) for _ in range(20)}) == 1


def test_rows_and_columns_in_one_pass_have_the_bits_of_each_alone() -> None:
    a = np.random.default_rng(3).standard_normal((1500, 130)).astype(np.float32)
    with however_small():
        x = wf.asarray(a)
        together = x.sum(axis=0), (x * 2).sum(axis=1), x.argmax(axis=0)
        assert len(wf.explain(*together).kernels) == 1
        wf.evaluate(*together)
    x = wf.asarray(a)
    for found, alone in zip(together, (x.sum(axis=0), (x * 2).sum(axis=1), x.argmax(axis=0)), strict=True):
        assert np.array(found).tobytes() == np.array(wf.evaluate(alone)).tobytes()
