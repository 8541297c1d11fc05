"""Tests of the removal of code for negative indices.

The code is removed if a guard proves that an index is not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest

import weft
from weft import cuda
from weft.codegen import verify_kernel
from weft.codegen.llvm import host_threads
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.unwrap_indices import unwrap_indices
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher
from weft.runtime import override

SIZE = 100


def previous(x, o, d):
    i = cuda.grid(1)
    if 0 < i < x.size:
        o[i] = x[i - 1]


def returned(x, o, d):
    i = cuda.grid(1)
    if i < 2 or i >= x.size:
        return
    o[i] = x[i - 1] + x[i - 2]


def distant(x, o, d):
    i = cuda.grid(1)
    if d <= i < x.size:
        o[i] = x[i - d]


def selected(x, o, d):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i - 3] if i - 3 >= 0 else -1.0


def doubled(x, o, d):
    i = cuda.grid(1)
    step = 1
    while step < 64:
        if i < x.size and i >= step:
            o[i] += x[i - step]
        step *= 2


def tree(x, o, d):
    i = cuda.grid(1)
    k = 2 * i + 1
    if i >= 1 and k < x.size:
        o[i] = x[k - 2] + x[2 * i - 1]


def named(x, o, d):
    i = cuda.grid(1)
    inside = i > 0 and i < x.size
    if inside:
        before = i - 1
        o[i] = x[before]


def inner(x, o, d):
    i = cuda.grid(1)
    if 2 <= i < x.size - 2:
        for k in range(-2, 3):
            o[i] += x[i + k]


def inner_guard(x, o, d):
    i = cuda.grid(1)
    if i < x.size:
        for k in range(d):
            if i - k >= 0:
                o[i] += x[i - k]


def strided(x, o, d):
    for i in range(cuda.grid(1) + 1, x.size - 1, cuda.gridsize(1)):
        o[i] = x[i - 1] + x[i + 1]


def nested(x, o, d):
    for k in range(1, 9):
        for j in range(k, 20, 2):
            o[j] = x[j - 1]


NATURAL = [previous, returned, distant, selected, doubled, tree, named, inner, inner_guard, strided, nested]


# -- indices that may be negative ------------------------------------------------------------------------


def unguarded(x, o, d):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i - 1]


def too_far(x, o, d):
    i = cuda.grid(1)
    if 0 < i < x.size:
        o[i] = x[i - 2]


def either(x, o, d):
    i = cuda.grid(1)
    if i < x.size and (i > 0 or x[0] >= 0):
        o[i] = x[i - 1]


def behind(x, o, d):
    i = cuda.grid(1)
    before = x[i - 1] if i < x.size else 0.0
    if 0 < i < x.size:
        o[i] = before
    if i < x.size:
        o[i] += x[i - 1]


def changed(x, o, d):
    i = cuda.grid(1)
    step = 1
    if i >= step and i < x.size:
        step += d
        o[i] = x[i - step]


def looped(x, o, d):
    i = cuda.grid(1)
    k = 5
    while k > -5:
        if i < x.size and k >= 0:
            k -= 3
            o[i] += x[k]
        else:
            k -= 1


def wrapped(x, o, d):
    i = cuda.grid(1)
    far = np.int64(d) << 32
    if i < x.size and far > i:
        o[i] = x[np.int32(far - 1 - i % 2)]


def difference(x, o, d):
    i = cuda.grid(1)
    low, high = np.int64(-(2**63)), np.int64(2**63 - 1)
    low += i - i + d - d
    high += i - i + d - d
    if i < x.size and low <= high:
        o[i] = x[high - low]


def started_below(x, o, d):
    for k in range(d - 5, 20):
        o[k] = x[k - 1]


def stepping_back(x, o, d):
    k = 1
    for turn in range(30):
        o[turn] = x[k - 1]
        k += 1
        if k > 10:
            k -= 15


def own_steps(x, o, d):
    k = 1
    while -20 < k < x.size:
        o[k] = x[k - 1]
        k += d - 10


NEGATIVE = [unguarded, too_far, either, behind, changed, looped, wrapped, difference]
NEGATIVE += [started_below, stepping_back, own_steps]


@pytest.mark.parametrize("function", NATURAL + NEGATIVE, ids=lambda f: f.__name__)
def test_kernels(function: Callable[..., None]) -> None:
    kernel = cuda.jit(function)
    assert isinstance(kernel, KernelDispatcher)
    x = np.random.default_rng(0).random(SIZE)
    out, expected = np.zeros(SIZE), np.zeros(SIZE)
    kernel[3, 64](x, out, 5)
    with pytest.MonkeyPatch.context() as patch, override(cache=False):
        patch.setattr(host_threads, "unwrap_indices", lambda kernel: kernel)
        other = cuda.jit(FunctionType(function.__code__, function.__globals__, function.__name__ + "_wrapped"))
        other[3, 64](x, expected, 5)
    np.testing.assert_array_equal(out, expected)
    assert out.any()
    (found,) = kernel._found.values()
    before = forward_variables(found.kernel)
    after = unwrap_indices(before)
    verify_kernel(after)
    rest = [o for o in after.walk() if "index" in o.attributes]
    assert any("index" in o.attributes for o in before.walk())
    assert bool(rest) == (function in NEGATIVE)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_counter_of_few_bits_wraps_around(dtype: type[np.signedinteger]) -> None:
    @weft.kernel
    def wraps(x, start, o):
        k = start[0]
        turn = 0
        if k > 0:
            while turn < 20:
                o[turn] = x[k]
                k += dtype(1)
                turn += 1

    last = np.iinfo(dtype).max
    x = np.random.default_rng(0).random(2 * last + 50)
    start, out = np.array([last - 9], dtype), np.zeros(20)
    wraps[1, 1](x, start, out)
    np.testing.assert_array_equal(out, x[np.arange(last - 9, last + 11).astype(dtype)])
