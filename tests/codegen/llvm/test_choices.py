"""Tests of vectorized loops with branches that only select a value.

In the branch that a lane does not take, the lane reads no memory. It does not use the branch's value.
"""

from __future__ import annotations

import re
from array import array

import numpy as np
import pytest

from weft.codegen import Kernel, KernelBuilder, Value, lower_stages, obtain_function, resolve_target
from weft.runtime import get_device


def pieces(dtype: type, stride: int, likely: bool | None = None) -> Kernel:
    """Return a kernel that computes ``out[i]`` in one of three ways. If ``i < m``, the value is ``a[i * stride] * 2``.
    Otherwise it is ``b[i - m]`` for even ``i - m``, and 7 for odd ``i - m``.

    For bools, ``or`` with itself replaces the doubling, and True replaces 7. `likely` states whether ``i < m`` mostly
    holds.
    """
    b = KernelBuilder("pieces")
    first, second = (b.pointer(name, dtype, noalias=True) for name in "ab")
    out = b.pointer("out", dtype, writable=True)
    n, m = b.scalar("n"), b.scalar("m")

    def otherwise(i: Value) -> Value:
        rest = b.op("subtract", i, m)
        even = b.op("equal", b.op("bitwise_and", rest, b.constant(1)), b.constant(0), dtype=bool)
        with b.if_(even, [np.dtype(dtype)]) as inner:
            inner.yield_(b.load(second, rest))
        with b.else_() as inner:
            inner.yield_(b.constant(1 if dtype is bool else 7, dtype))
        return inner.results[0]

    with b.loop(n, "parallel") as i:
        with b.if_(b.op("less", i.index, m, dtype=bool), [np.dtype(dtype)], likely) as branch:
            value = b.load(first, i.index if stride == 1 else b.op("multiply", i.index, b.constant(stride)))
            branch.yield_(b.op("logical_or" if dtype is bool else "add", value, value))
        with b.else_() as branch:
            branch.yield_(otherwise(i.index))
        b.store(out, i.index, branch.results[0])
    return b.finish()


@pytest.mark.parametrize("likely", [None, True, False])
@pytest.mark.parametrize("stride", [1, 3, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, np.float16, bool, np.complex64])
def test_same_values_as_one_by_one(dtype: type, stride: int, likely: bool | None) -> None:
    device, kernel = get_device("cpu"), pieces(dtype, stride, likely)
    function = obtain_function(device, kernel)
    random = np.random.default_rng(0)
    for n, m in ((0, 0), (5, 2), (64, 64), (64, 0), (131, 40), (131, 64), (300, 299)):
        inputs = [(random.random(max(1, size)) * 9).astype(dtype) for size in (m * abs(stride), n - m)]
        start = (m - 1) * -stride if stride < 0 else 0
        head = inputs[0][start::stride][:m]
        wanted = np.concatenate([head | head if dtype is bool else head + head, inputs[1][: n - m]])
        wanted[m + 1 :: 2] = 7
        result = np.zeros_like(wanted)
        addresses = [inputs[0].ctypes.data + start * inputs[0].itemsize, inputs[1].ctypes.data, result.ctypes.data]
        device.launch(function, (n,), n, array("q", [*addresses, n, m]))
        np.testing.assert_array_equal(result, wanted)


def test_whole_vectors_are_read() -> None:
    text = lower_stages(pieces(np.float32, 1), resolve_target("host"))["llvm"]
    assert "llvm.masked.load" in text
    assert "llvm.masked.gather" not in text


def test_a_likely_region_is_also_emitted_without_a_mask() -> None:
    emitted = [lower_stages(pieces(np.int8, 1, likely), resolve_target("host"))["llvm"] for likely in (None, True)]
    assert [bool(re.search(r"= load <\d+ x i8>", text)) for text in emitted] == [False, True]
