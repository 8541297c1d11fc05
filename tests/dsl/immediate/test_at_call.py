"""Tests of NumPy functions that are called with small weft arrays."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

CALLS = """
wf.sum(x, 0, out=out)
wf.sum(x, 0, None, out)
x.sum(0, out=out)
wf.cumsum(x[0], out=out)
wf.std(x, axis=0, out=out)
wf.clip(x[0], 0, 2, out=out)
wf.round(x[0], 2, out=out)
wf.matmul(x, x[0], out=out)
wf.take(x[0], wf.arange(n), out=out)
wf.concatenate([x[0, :7], x[1, 7:]], out=out)
wf.median(x, axis=0, out=out)
wf.nanstd(x, axis=0, out=out)
wf.fix(x[0], out=out)
wf.vecdot(x, x, out=out)
""".strip().splitlines()


@pytest.mark.parametrize("n", [20, 150], ids=["small", "large"])
@pytest.mark.parametrize("call", CALLS)
def test_a_numpy_array_as_out_is_itself_the_result(call, n):
    values = np.random.default_rng(3).standard_normal((n, n))
    x, out = wf.asarray(values), np.full(n, np.nan)
    assert eval(call, {"wf": wf, "x": x, "out": out, "n": n}) is out
    expected = eval(call, {"wf": np, "x": values, "out": np.empty(n), "n": n})
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [20, 150], ids=["small", "large"])
def test_a_part_of_the_operand_as_out_is_itself_the_result(n):
    values = np.random.default_rng(3).standard_normal((n, n)) + 0j
    x = wf.asarray(values)
    part = x[:10]
    assert wf.fft.fft(x, n=10, axis=0, out=part) is part
    np.testing.assert_allclose(x[:10], np.fft.fft(values, n=10, axis=0), rtol=1e-12, atol=1e-12)
    assert np.array_equal(x[10:], values[10:])
