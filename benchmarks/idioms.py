"""CUDA's idioms on the CPU device, compared with Numba.

The idioms are grid-stride loops, index orders, and one row per thread. Times are medians over the turns; in each turn,
all implementations run once. Numba's ``njit(parallel=True)`` is included if numba is installed. Results are checked
first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from weft import cuda

TURNS = 9
ELEMENTS = 10_000_000
SIDE = 2_048
PRODUCT = 384
BINS = 128
THREADS = 256
BLOCKS = 256


def scale(x, out):  # type: ignore[no-untyped-def]
    """Scale an array, one element per thread."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = np.float32(2) * x[i]


def scale_strided(x, out):  # type: ignore[no-untyped-def]
    """Scale an array in a grid-stride loop."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = np.float32(2) * x[i]


def total(x, out):  # type: ignore[no-untyped-def]
    """Sum an array with one element per thread and a tree reduction in each block."""
    part = cuda.shared.array(THREADS, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            part[t] += part[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


def total_strided(x, out):  # type: ignore[no-untyped-def]
    """Sum an array in a grid-stride loop, followed by a tree reduction in each block."""
    part = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    own = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    part[t] = own
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            part[t] += part[t + width]
        cuda.syncthreads()
        width //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


def histogram(x, out):  # type: ignore[no-untyped-def]
    """Count elements by value, one element per thread."""
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, x[i], 1)


def histogram_strided(x, out):  # type: ignore[no-untyped-def]
    """Count elements by value in a grid-stride loop, in shared memory."""
    counts = cuda.shared.array(BINS, np.int32)
    for k in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i], 1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(out, k, counts[k])


def row_sums(x, out):  # type: ignore[no-untyped-def]
    """Sum each row of a matrix, one row per thread."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        own = np.float32(0)
        for k in range(x.shape[1]):
            own += x[i, k]
        out[i] = own


def transposed_order(x, out):  # type: ignore[no-untyped-def]
    """Scale a matrix. Adjacent threads process elements of the same column, which are far apart in memory."""
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = np.float32(2) * x[i, j]


def memory_order(x, out):  # type: ignore[no-untyped-def]
    """Scale a matrix. Adjacent threads process adjacent elements in memory."""
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = np.float32(2) * x[i, j]


def product(a, b, out):  # type: ignore[no-untyped-def]
    """Compute a matrix product. Each thread computes one element of the result."""
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        own = np.float32(0)
        for k in range(a.shape[1]):
            own += a[i, k] * b[k, j]
        out[i, j] = own


Call = Callable[[], Any]


def _launch(kernel: Any, grid: Any, block: Any, *arguments: Any) -> Call:
    configured = cuda.jit(kernel)[grid, block]

    def call() -> Any:
        if arguments[-1].size <= BINS:
            arguments[-1].fill(0)
        configured(*arguments)
        return arguments[-1]

    return call


def numbas() -> dict[str, Callable[..., Any]]:
    """Return a dict of parallel Numba loops for five of the computations.

    The dict is empty if Numba is not installed.
    """
    if find_spec("numba") is None:
        return {}
    from numba import get_num_threads, njit, prange

    @njit(parallel=True)
    def scale(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            out[i] = np.float32(2) * x[i]

    @njit(parallel=True, fastmath=True)
    def total(x, out):  # type: ignore[no-untyped-def]
        own = np.float32(0)
        for i in prange(x.size):
            own += x[i]
        out[0] = own

    @njit(parallel=True)
    def histogram(x, out):  # type: ignore[no-untyped-def]
        parts = get_num_threads()
        counts = np.zeros((parts, out.size), np.int32)
        for part in prange(parts):
            for i in range(part * x.size // parts, (part + 1) * x.size // parts):
                counts[part, x[i]] += 1
        out[:] = counts.sum(0)

    @njit(parallel=True)
    def row_sums(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            own = np.float32(0)
            for k in range(x.shape[1]):
                own += x[i, k]
            out[i] = own

    @njit(parallel=True)
    def product(a, b, out):  # type: ignore[no-untyped-def]
        for i in prange(out.shape[0]):
            for j in range(out.shape[1]):
                own = np.float32(0)
                for k in range(a.shape[1]):
                    own += a[i, k] * b[k, j]
                out[i, j] = own

    return {f.__name__: f for f in (scale, total, histogram, row_sums, product)}


def subjects(elements: int, side: int) -> dict[str, dict[str, Call]]:
    """Return a dict from each computation to its implementations."""
    source = np.random.default_rng(0)
    x, grid = source.random(elements, dtype=np.float32), source.random((side, side), dtype=np.float32)
    bins = source.integers(0, BINS, elements).astype(np.int32)
    a, b = (source.random((PRODUCT, PRODUCT), dtype=np.float32) for _ in range(2))
    every, theirs = -(-elements // THREADS), numbas()
    sides, few = (-(-side // 16),) * 2, -(-PRODUCT // 16)

    def apart(name: str, *arrays: Any) -> dict[str, Call]:
        return {"Numba": lambda: (theirs[name](*arrays), arrays[-1])[1]} if name in theirs else {}

    def new(shape: Any, dtype: Any = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype)

    return {
        "scale": {
            "one element per thread": _launch(scale, every, THREADS, x, new(elements)),
            "a grid twice as large": _launch(scale, 2 * every, THREADS, x, new(elements)),
            "grid-stride": _launch(scale_strided, BLOCKS, THREADS, x, new(elements)),
            **apart("scale", x, new(elements)),
        },
        "sum": {
            "one element per thread": _launch(total, every, THREADS, x, new(1)),
            "grid-stride": _launch(total_strided, BLOCKS, THREADS, x, new(1)),
            **apart("total", x, new(1)),
        },
        "histogram": {
            "one element per thread": _launch(histogram, every, THREADS, bins, new(BINS, np.int32)),
            "grid-stride": _launch(histogram_strided, BLOCKS, THREADS, bins, new(BINS, np.int32)),
            **apart("histogram", bins, new(BINS, np.int32)),
        },
        "index order": {
            "out[y, x]": _launch(memory_order, sides, (16, 16), grid, new(grid.shape)),
            "out[x, y]": _launch(transposed_order, sides, (16, 16), grid, new(grid.shape)),
        },
        "row sums": {
            "weft": _launch(row_sums, -(-side // THREADS), THREADS, grid, new(side)),
            **apart("row_sums", grid, new(side)),
        },
        "matrix product": {
            "weft": _launch(product, (few, few), (16, 16), a, b, new(a.shape)),
            **apart("product", a, b, new(a.shape)),
        },
    }


def measure(elements: int = ELEMENTS, side: int = SIDE, turns: int = TURNS) -> dict[str, str]:
    """Return the time of each implementation as text.

    The text includes the ratio to the first implementation's time.
    """
    found: dict[str, str] = {}
    for name, calls in subjects(elements, side).items():
        results = {who: np.array(call()) for who, call in calls.items()}
        first = next(iter(results.values()))
        for who, result in results.items():
            np.testing.assert_allclose(result, first, rtol=2e-3, err_msg=f"{name}, {who}")
        taken: dict[str, list[float]] = {who: [] for who in calls}
        for _ in range(turns):
            for who, call in calls.items():
                begin = time.perf_counter()
                call()
                taken[who].append(time.perf_counter() - begin)
        medians = {who: statistics.median(times) for who, times in taken.items()}
        base = next(iter(medians.values()))
        for who, seconds in medians.items():
            found[f"{name}, {who}"] = f"{1e3 * seconds:.2f} ms ({seconds / base:.2f})"
    return found
