"""Tests of the pass that lets all threads of a block run each iteration together.

The pass rewrites strided loops. The results do not change. Loops in which threads may diverge are not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen import KernelBuilder, verify_kernel
from weft.codegen.llvm import host_threads
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.share_strides import share_strides
from weft.codegen.passes.split_at_barriers import split_at_barriers
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher
from weft.runtime import override


def scale(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        o[i] = x[i] * 2 + i


def counted(x, o):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    first = i
    while i < x.size:
        o[i] = x[i] * 2 + i
        i += cuda.blockDim.x * cuda.gridDim.x
    if first < 0:
        o[0] = 0


def skipping(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        o[i] = i
        if x[i] < 0.5:
            continue
        total = 0.0
        for k in range(i % 5):
            total += x[i] * k
        o[i] = total


def summed(x, o):
    shared = cuda.shared.array(128, np.float64)
    t = cuda.threadIdx.x
    total = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    shared[t] = total
    cuda.syncthreads()
    if t == 0:
        for k in range(1, cuda.blockDim.x):
            total += shared[k]
        cuda.atomic.add(o, 0, total)


def own_sums(x, o):
    total = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    cuda.atomic.add(o, 0, total)


def histogram(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(o, int(x[i] * 7), 1.0)


def shared_counts(x, o):
    """Count in shared memory."""
    counts = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    for k in range(t, 8, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x[i] > 0.1:
            cuda.atomic.add(counts, int(x[i] * 8), 1)
    cuda.syncthreads()
    for k in range(t, 8, cuda.blockDim.x):
        cuda.atomic.add(o, k, counts[k])


def binned(x, o):
    """Count the elements of `x` in each bin, and compute a maximum per bin. The value of a float element determines its bin."""
    counts = cuda.shared.array((2, 8), np.int32)
    t = cuda.threadIdx.x
    for k in range(t, 8, cuda.blockDim.x):
        counts[0, k] = counts[1, k] = 0
    cuda.syncthreads()
    low = x[0] / 2
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        k = np.int32((x[i] - low) / 0.125)
        if k >= 0 and k < 8:
            cuda.atomic.add(counts, (0, k), 1)
            cuda.atomic.max(counts, (1, k), i % 5)
    cuda.syncthreads()
    for k in range(t, 8, cuda.blockDim.x):
        cuda.atomic.add(o, k, counts[0, k] + counts[1, k] / 8)


def binned_or_skipped(x, o):
    """Compute a histogram of the array `x`. Elements below 0.3 are skipped."""
    counts = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    for k in range(t, 8, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x[i] < 0.3:
            continue
        k = int(x[i] * 8)
        cuda.atomic.add(counts, k, 1)
    cuda.syncthreads()
    for k in range(t, 8, cuda.blockDim.x):
        cuda.atomic.add(o, k, counts[k])


def binned_by_some(x, o):
    """Compute a histogram of the array `x`. In each block, only two thirds of the threads count elements."""
    counts = cuda.shared.array(8, np.int32)
    t = cuda.threadIdx.x
    for k in range(t, 8, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    if t % 3 != 1:
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            cuda.atomic.add(counts, int(x[i] * 8), 1)
    cuda.syncthreads()
    for k in range(t, 8, cuda.blockDim.x):
        cuda.atomic.add(o, k, counts[k])


def taken_numbers(x, o):
    """Use the results of atomics, which depend on the order of the threads."""
    count = cuda.shared.array(1, np.int32)
    if cuda.threadIdx.x == 0:
        count[0] = 0
    cuda.syncthreads()
    total = 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += cuda.atomic.add(count, 0, 1)
    cuda.atomic.add(o, 0, total)


def rows(a, o):
    for row in range(cuda.blockIdx.x, a.shape[0], cuda.gridDim.x):
        for column in range(cuda.threadIdx.x, a.shape[1], cuda.blockDim.x):
            o[row, column] = a[row, column] + row * 100 + column


def plane(a, o):
    x, y = cuda.grid(2)
    across, down = cuda.gridsize(2)
    for i in range(y, a.shape[0], down):
        for j in range(x, a.shape[1], across):
            o[i, j] = a[i, j] + i * 100 + j


def early(x, o):
    if cuda.grid(1) % 3 == 0:
        return
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        o[i] = x[i] + 1


def warp_sums(x, o):
    """Sum by shuffles, in blocks whose last warp may be incomplete."""
    total = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
    if cuda.laneid == 0:
        cuda.atomic.add(o, cuda.blockIdx.x % 8, total)


def last_block(x, o):
    """Add the sums of all blocks, and use the total in the block that finishes last."""
    part = cuda.shared.array(128, np.float64)
    is_last = cuda.shared.array(1, np.bool_)
    t = cuda.threadIdx.x
    part[t] = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        part[t] += x[i]
    cuda.syncthreads()
    if t == 0:
        total = 0.0
        for k in range(cuda.blockDim.x):
            total += part[k]
        cuda.atomic.add(o, 1, total)
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(o, 0, 1.0) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        part[t] = o[1] + t
        cuda.syncthreads()
        if t == 0:
            o[2] = part[0] + part[cuda.blockDim.x - 1]


def returns_first(x, o):
    """Let some threads of each block return early, before the other threads reach a barrier."""
    part = cuda.shared.array(128, np.float64)
    t = cuda.threadIdx.x
    part[t] = 0.0
    if cuda.grid(1) % 5 == 3:
        return
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        part[t] += x[i]
    cuda.syncthreads()
    if t == 0:
        for k in range(cuda.blockDim.x):
            cuda.atomic.add(o, cuda.blockIdx.x % 8, part[k])


def every_second_block(x, o):
    """Synchronize the threads of every second block, and combine their maxima."""
    part = cuda.shared.array(0, np.float64)
    t = cuda.threadIdx.x
    own = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own = max(own, x[i])
    part[t] = own
    if cuda.blockIdx.x % 2 == 0:
        cuda.syncthreads()
        if t == 0:
            for k in range(cuda.blockDim.x):
                cuda.atomic.max(o, cuda.blockIdx.x % 8, part[k])


def plane_sums(a, o):
    """Sum an array in blocks with two axes of threads."""
    part = cuda.shared.array((8, 16), np.float64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for k in range(cuda.grid(1) + y * cuda.gridsize(1), a.size, cuda.gridsize(1) * cuda.blockDim.y):
        total += a[k // a.shape[1], k % a.shape[1]]
    part[y, x] = total
    cuda.syncthreads()
    if x == 0 and y == 0:
        for k in range(cuda.blockDim.x * cuda.blockDim.y):
            cuda.atomic.add(o, (cuda.blockIdx.x % a.shape[0], 0), part[k // cuda.blockDim.x, k % cuda.blockDim.x])


def votes(x, o):
    """Vote in each block. The result may differ between blocks."""
    own = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    cuda.atomic.add(o, cuda.blockIdx.x % 8, cuda.syncthreads_or(own > 1000.0))


def one_after_another(x, o):
    """Wait in each block for the previous block."""
    own = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(o, 0, 0.0) < cuda.blockIdx.x:
            cuda.nanosleep(1)
        cuda.atomic.add(o, 0, 1.0)
    cuda.atomic.add(o, 1, own)


def row_sums(a, o):
    """Sum each row in one block."""
    part = cuda.shared.array(128, np.float64)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, a.shape[0], cuda.gridDim.x):
        own = 0.0
        for column in range(t, a.shape[1], cuda.blockDim.x):
            own += a[row, column]
        part[t] = own
        cuda.syncthreads()
        if t == 0:
            for k in range(1, cuda.blockDim.x):
                own += part[k]
            o[row, 0] = own
        cuda.syncthreads()


# -- loops that remain independent for each thread -------------------------------------------------------


def stops_early(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x[i] > 0.9:
            break
        o[i] = x[i]


def returns(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x[i] > 0.9:
            return
        o[i] = x[i]


def read_after(x, o):
    i = cuda.grid(1)
    while i < x.size:
        o[i] = x[i]
        i += cuda.gridsize(1)
    if cuda.grid(1) < x.size and i == x.size:
        o[cuda.grid(1)] = 7


def changed(x, o):
    i = cuda.grid(1)
    while i < x.size:
        if x[i] > 0.9:
            i += cuda.gridsize(1)
        if i < x.size:
            o[i] = x[i]
        i += cuda.gridsize(1)


def own_steps(x, o):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1) * (1 + cuda.threadIdx.x % 2)):
        o[i] = x[i]


def own_stops(x, o):
    for i in range(cuda.grid(1), x.size - cuda.threadIdx.x, cuda.gridsize(1)):
        o[i] = x[i]


def backward(x, o):
    for i in range(cuda.grid(1) - 3, x.size, cuda.gridsize(1)):
        if i >= 0:
            o[i] = x[i]


def waits(x, o):
    """Let thread 0 execute all its iterations except one while the other threads wait."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        while cuda.grid(1) > 0 and cuda.atomic.add(o, 0, 0.0) < x.size // cuda.gridsize(1) - 1:
            cuda.nanosleep(1)
        cuda.atomic.add(o, 0, 1.0)


SHARED = [
    scale,
    counted,
    skipping,
    summed,
    own_sums,
    histogram,
    shared_counts,
    binned,
    binned_or_skipped,
    taken_numbers,
    rows,
    plane,
    early,
]
SHARED += [warp_sums, last_block, returns_first, every_second_block, plane_sums, votes, one_after_another, row_sums]
ALONE = [stops_early, returns, read_after, changed, own_steps, own_stops, backward, waits]
BLOCK = [rows, votes, one_after_another, row_sums]
PLANES = (rows, plane, plane_sums, row_sums)


def inputs(function: Callable[..., None], elements: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(elements)
    shape = (elements // 30 + 1, 30) if function in PLANES else elements
    x = rng.integers(0, 64, shape) / 64.0  # (all sums are exact)
    return x, np.zeros(x.shape if x.ndim == 2 else max(x.size, 8))


_alone: dict[str, Any] = {}


def alone(function: Callable[..., None], grid: Any, block: Any, x: np.ndarray) -> np.ndarray:
    """Return the result of a kernel that is compiled without the pass."""
    out = np.zeros(x.shape if x.ndim == 2 else max(x.size, 8))
    if function.__name__ not in _alone:
        seen: list[Any] = []
        with pytest.MonkeyPatch.context() as patch, override(cache=False):
            patch.setattr(host_threads, "share_strides", lambda kernel: seen.append(kernel) or ())
            other = FunctionType(function.__code__, function.__globals__, function.__name__ + "_alone")
            _alone[function.__name__] = cuda.jit(other)
            _alone[function.__name__][1, 1, 0, 1024](*inputs(function, 40))
        assert len(seen) == 1
    _alone[function.__name__][grid, block, 0, 1024](x, out)
    return out


def passed(function: Callable[..., None]) -> Any:
    """Return a function's kernel IR before and after the pass."""
    kernel = cuda.jit(function)
    assert isinstance(kernel, KernelDispatcher)
    kernel[1, 32, 0, 1024](*inputs(function, 40))
    (found,) = kernel._found.values()
    before = forward_variables(found.kernel)
    return before, next(share_strides(before), before)


@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_loops_that_are_shared(function: Callable[..., None]) -> None:
    before, after = passed(function)
    assert after is not before
    verify_kernel(after)
    assert after.attributes["in_step"] == ("block" if function in BLOCK else "grid")
    assert any(o.attributes.get("in_step") for o in after.walk())
    assert split_at_barriers(after) is not None


@pytest.mark.parametrize("function", ALONE, ids=lambda f: f.__name__)
def test_loops_that_are_not(function: Callable[..., None]) -> None:
    before, after = passed(function)
    assert after is before


@pytest.mark.parametrize(
    "function, several",
    [
        (own_sums, True),
        (shared_counts, True),
        (binned, True),
        (binned_or_skipped, True),
        (taken_numbers, False),
        (histogram, False),
    ],
)
def test_loops_with_several_iterations_at_once(function: Callable[..., None], several: bool) -> None:
    """Test which loops run several iterations at once.

    These are sums, and loops with integer atomics whose results are not used.
    """
    _, after = passed(function)
    labels = [o.attributes["label"] for o in after.walk() if o.opcode == "scope"]
    assert any(label.endswith(".whole") for label in labels) == several


@pytest.mark.parametrize(
    "function, split", [(binned, True), (binned_or_skipped, False), (binned_by_some, False), (shared_counts, False)]
)
def test_bins_from_floats_are_computed_before_a_barrier(function: Callable[..., None], split: bool) -> None:
    before, after = passed(function)
    barriers = [sum(o.opcode == "barrier" for o in kernel.walk()) for kernel in (before, after)]
    assert barriers[1] - barriers[0] == split


@pytest.mark.parametrize("elements", [1, 31, 1000, 70_001])
@pytest.mark.parametrize("function", [f for f in SHARED + ALONE if f is not waits], ids=lambda f: f.__name__)
def test_results_are_those_of_threads_alone(function: Callable[..., None], elements: int) -> None:
    two = function in (plane, plane_sums)
    for grid, block in (
        (((3, 2), (8, 4)), ((1, 1), (16, 8)), ((20, 1), (16, 1))) if two else ((1, 1), (3, 32), (40, 128), (7, 100))
    ):
        x, out = inputs(function, elements)
        cuda.jit(function)[grid, block, 0, 1024](x, out)
        assert np.array_equal(out, alone(function, grid, block, x)), (grid, block)


def test_a_stop_far_below_zero_runs_no_iteration() -> None:
    @cuda.jit
    def sums(x, n, o):
        total = 0.0
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            total += x[i]
        o[cuda.grid(1)] = total

    out = np.ones(64)
    sums[2, 32](np.ones(1000), np.int64(-(2**63)), out)
    assert not out.any()


def test_a_thread_may_wait_for_the_end_of_another() -> None:
    out = np.zeros(1)
    cuda.jit(waits)[1, 4](np.zeros(40), out)
    assert out[0] == 40


@pytest.mark.parametrize("terms", [5, 40, 1500])
def test_only_starts_of_few_terms_are_shared(terms: int) -> None:
    integer = np.dtype(np.int32)
    b = KernelBuilder("kernel", integer, "threaded", explicit=True)
    x, n, zero = b.pointer("x", integer, writable=True), b.scalar("n", integer), b.constant(0)
    start, width = (b.emit(name, (), (integer,), axis=0)[0] for name in ("thread_index", "block_size"))
    for _ in range(terms):
        start = b.op("add", start, b.constant(1))
    index = b.local(integer)
    b.store(index, zero, start)
    with b.scope("loop"), b.repeat():
        k = b.load(index, zero)
        with b.if_(b.op("greater_equal", k, n, dtype=np.bool_)):
            b.leave("loop")
        b.store(x, k, k)
        b.store(index, zero, b.op("add", k, width))
    assert len(list(share_strides(b.finish()))) == (terms < 48)
