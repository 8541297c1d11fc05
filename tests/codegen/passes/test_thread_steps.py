"""Tests of the strides by which values differ between threads.

The tests also check the innermost loop that follows from the strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen import Kernel, KernelBuilder, Value
from weft.codegen.passes.find_common_loops import find_common_loops
from weft.codegen.passes.find_uniform import find_uniform
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.thread_steps import ThreadSteps, innermost_axis

INT = np.dtype(np.int32)
Index = Callable[[KernelBuilder, Value, Value, Value], Value]


@pytest.mark.parametrize(
    ("index", "step"),
    [
        (lambda b, t, n, x: t, 1),
        (lambda b, t, n, x: b.op("subtract", n, t), -1),
        (lambda b, t, n, x: b.op("multiply", t, b.constant(3)), 3),
        (lambda b, t, n, x: b.op("multiply", n, t), "symbolic"),
        (lambda b, t, n, x: b.op("add", b.op("multiply", n, t), t), "symbolic"),
        (lambda b, t, n, x: b.op("subtract", b.op("multiply", n, t), b.op("multiply", n, t)), None),
        (lambda b, t, n, x: b.cast(b.load(x, t), INT), "data"),
        (lambda b, t, n, x: b.op("multiply", b.cast(b.load(x, t), INT), b.constant(2)), "data"),
        (lambda b, t, n, x: b.op("bitwise_and", t, b.constant(31)), "bent"),
        (lambda b, t, n, x: b.op("multiply", b.op("bitwise_and", t, b.constant(31)), b.constant(2)), None),
        (lambda b, t, n, x: b.op("multiply", t, t), None),
        (lambda b, t, n, x: b.load(x, n), 0),
    ],
)
def test_steps(index: Index, step: object) -> None:
    b = KernelBuilder("kernel", np.int32, "threaded", explicit=True)
    x, n = b.pointer("x", np.int64, writable=True), b.scalar("n")
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    value = index(b, t, n, x)
    kernel = b.finish()
    assert ThreadSteps(kernel, find_uniform(kernel)).of(value) == step


def test_addresses_count_in_bytes() -> None:
    b = KernelBuilder("kernel", np.int32, "threaded", explicit=True)
    x = b.pointer("x", np.int32, writable=True)
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    zero = b.constant(0)
    near = b.load(b.offset(x, t), zero)
    parts = b.load(b.reinterpret(b.offset(x, t), np.int8), zero)
    kernel = b.finish()
    steps = ThreadSteps(kernel, find_uniform(kernel))
    loads = {o.results[0]: o for o in kernel.walk() if o.opcode == "load"}
    assert steps.have_simple_strides([loads[near]], [])
    assert not steps.have_simple_strides([loads[parts]], [])


# -- the axis of the innermost loop ----------------------------------------------------------------------


def rows_by_y(a: Any, o: Any) -> None:
    y, x = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        o[y, x] = a[y, x] + 100 * cuda.threadIdx.x + cuda.threadIdx.y


def rows_by_x(a: Any, o: Any) -> None:
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        o[y, x] = a[y, x] + 100 * cuda.threadIdx.x + cuda.threadIdx.y


def through_shared(a: Any, o: Any) -> None:
    """Exchange elements through shared memory.

    Each thread stores s + 1000 e + lane, where s is a sum of eight elements and e is the thread's own element.
    """
    tile = cuda.shared.array((8, 8), np.float64)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    y, x = cuda.grid(2)
    inside = y < a.shape[0] and x < a.shape[1]
    own = a[y, x] if inside else 0.0
    tile[i, j] = own
    cuda.syncthreads()
    total = 0.0
    for k in range(8):
        total += tile[i, k]
    cuda.syncthreads()
    if inside:
        o[y, x] = total + own * 1000 + cuda.laneid


def product(a: Any, o: Any) -> None:
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * a[k % a.shape[0], j]
        o[i, j] = total


def shuffled(a: Any, o: Any) -> None:
    y, x = cuda.grid(2)
    value = cuda.shfl_xor_sync(0xFFFFFFFF, x, 1)
    if y < a.shape[0] and x < a.shape[1]:
        o[y, x] = a[y, x] + value


def expected_tiles(a: np.ndarray) -> np.ndarray:
    whole = np.zeros((-(-a.shape[0] // 8) * 8, -(-a.shape[1] // 8) * 8))
    whole[: a.shape[0], : a.shape[1]] = a
    sums = np.repeat(whole.reshape(len(whole), -1, 8).sum(2), 8, axis=1)
    i, j = np.indices(whole.shape)
    lanes = ((j % 8) * 8 + i % 8) % 32  # x is the row index
    return (sums + whole * 1000 + lanes)[: a.shape[0], : a.shape[1]]


def forwarded(kernel: Any) -> Kernel:
    """Return the IR of a launched kernel after store-to-load forwarding of its variables."""
    (found,) = kernel._found.values()
    return forward_variables(found.kernel)


def threads_of(a: np.ndarray, x_axis: int) -> np.ndarray:
    numbers = np.indices(a.shape) % 8
    return 100 * numbers[x_axis] + numbers[1 - x_axis]


@pytest.mark.parametrize(
    ("function", "axis", "expected"),
    [
        (rows_by_y, 1, lambda a: a + threads_of(a, 0)),
        (rows_by_x, 0, lambda a: a + threads_of(a, 1)),
        (through_shared, 1, expected_tiles),
        (product, 1, lambda a: a @ a[np.arange(a.shape[1]) % len(a)]),
        (shuffled, 0, lambda a: a + np.indices(a.shape)[1]),
    ],
)
@pytest.mark.parametrize("shape", [(24, 16), (37, 21), (5, 70)])
def test_innermost_axis(function: Any, axis: int, expected: Any, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(0, 9, shape) / 1.0
    out = np.zeros(shape)
    kernel: Any = cuda.jit(function)
    grid = tuple(-(-max(shape) // 8) for _ in shape)
    kernel[grid, (8, 8)](a, out)
    ready = forwarded(kernel)
    assert innermost_axis(ready, find_uniform(ready)) == axis
    assert np.array_equal(out, expected(a))


def row_sums(a: Any, o: Any) -> None:
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k]
        o[i] = total


def column_sums(a: Any, o: Any) -> None:
    i = cuda.grid(1)
    if i < a.shape[1]:
        total = 0.0
        for k in range(a.shape[0]):
            total += a[k, i]
        o[i] = total


@pytest.mark.parametrize(("function", "axis"), [(row_sums, 1), (column_sums, 0)])
def test_rows_are_read_by_one_thread_at_a_time(function: Any, axis: int) -> None:
    a = np.arange(40.0 * 60).reshape(40, 60)
    out = np.zeros(a.shape[1 - axis])
    kernel: Any = cuda.jit(function)
    kernel[4, 32](a, out)
    ready = forwarded(kernel)
    assert len(find_common_loops(ready, find_uniform(ready), 0)) == (axis == 0)
    assert np.array_equal(out, a.sum(axis))


def copied_columns(a: Any, o: Any) -> None:
    i = cuda.grid(1)
    if i < a.shape[1]:
        for k in range(a.shape[0]):
            o[k, i] = a[k, i]


def copied_rows(a: Any, o: Any) -> None:
    i = cuda.grid(1)
    if i < a.shape[0]:
        for k in range(a.shape[1]):
            o[i, k] = a[i, k]


@pytest.mark.parametrize(("function", "count"), [(copied_columns, 1), (copied_rows, 0)])
def test_adjacent_threads_copy_adjacent_elements(function: Any, count: int) -> None:
    a = np.arange(40 * 60).reshape(40, 60)
    out = np.zeros_like(a)
    kernel: Any = cuda.jit(function)
    kernel[4, 32](a, out)
    ready = forwarded(kernel)
    assert len(find_common_loops(ready, find_uniform(ready), 0)) == count
    assert np.array_equal(out, a)
