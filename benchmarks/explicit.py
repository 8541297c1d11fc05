"""Compute-bound explicit kernels: an n-body potential and a matrix product.

The same Python source runs on weft and, on a GPU, on numba-cuda. On a GPU, both are compared with the same kernels in
CUDA C++ if nvcc is installed. The matrix product is also compared with that of a library. Results are checked first.
Times are medians over the turns; in each turn, all implementations run once.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import weft as wf
from weft import cuda
from weft import cuda as weft_cuda  # (kernels use the name `cuda`, which stands for the module that compiles them)

TURNS = 7
TILE = 16
THREADS = 256
SOFT = 1e-3
CHECKED = 256  # number of bodies, or of rows of the product, to check


def n_body(x, y, z, out):  # type: ignore[no-untyped-def]
    """Compute the potential at each body from all bodies, in tiles in shared memory."""
    px = cuda.shared.array(THREADS, np.float32)
    py = cuda.shared.array(THREADS, np.float32)
    pz = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = out.size
    xi, yi, zi = x[i % n], y[i % n], z[i % n]
    total = np.float32(0)
    for start in range(0, n, THREADS):
        j = start + t
        px[t] = x[j] if j < n else np.float32(1e18)
        py[t] = y[j] if j < n else np.float32(1e18)
        pz[t] = z[j] if j < n else np.float32(1e18)
        cuda.syncthreads()
        for k in range(THREADS):
            a = px[k] - xi
            b = py[k] - yi
            c = pz[k] - zi
            total += np.float32(1) / math.sqrt(a * a + b * b + c * c + np.float32(SOFT))
        cuda.syncthreads()
    if i < n:
        out[i] = total


def matmul(a, b, out):  # type: ignore[no-untyped-def]
    """Compute a matrix product in tiles of 16 x 16 elements."""
    left = cuda.shared.array((TILE, TILE), np.float32)
    right = cuda.shared.array((TILE, TILE), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    n = out.shape[0]
    total = np.float32(0)
    for start in range(0, n, TILE):
        left[ty, tx] = a[row, start + tx] if row < n and start + tx < n else np.float32(0)
        right[ty, tx] = b[start + ty, column] if start + ty < n and column < n else np.float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if row < n and column < n:
        out[row, column] = total


def expected_n_body(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the potential at the first `CHECKED` bodies, computed in float64 with NumPy."""
    p = np.stack([x, y, z]).astype(np.float64)
    return (1 / np.sqrt(((p[:, None, :] - p[:, :CHECKED, None]) ** 2).sum(0) + SOFT)).sum(1)  # type: ignore[no-any-return]


def _launch(face: Any, kernel: Any, arrays: list[Any], out: Any) -> Callable[[], Any]:
    """Return a function that launches a kernel and waits for its end. `face` is weft's or Numba's `cuda` module."""
    made = face.jit(kernel)
    n = out.shape[0]
    grid: Any = -(-n // THREADS) if kernel is n_body else (-(-n // TILE), -(-n // TILE))
    block: Any = THREADS if kernel is n_body else (TILE, TILE)

    def call() -> Any:
        made[grid, block](*arrays, out)
        face.synchronize()
        return out

    globals()["cuda"] = face  # the name that the kernel uses when it is compiled
    try:
        call()
    finally:
        globals()["cuda"] = weft_cuda
    return call


def participants(kernel: Any, inputs: list[np.ndarray], shape: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """Return a dict from the names of the available implementations to functions that run the kernel."""
    from benchmarks import cuda_cpp

    makers: dict[str, Callable[[], Callable[[], Any]]] = {
        "weft": lambda: _launch(
            weft_cuda, kernel, [cuda.to_device(x) for x in inputs], cuda.device_array(shape, np.float32)
        )
    }
    if wf.default_device().name.startswith("cuda"):
        if find_spec("numba") is not None:
            makers["numba-cuda"] = lambda: _numba(kernel, inputs, shape)
        if cuda_cpp.is_there():
            makers["CUDA C++"] = lambda: cuda_cpp.prepare(kernel.__name__, tuple(inputs))
        if kernel is matmul:
            makers["weft, library"] = lambda: _library(inputs)
    elif kernel is matmul:
        makers["NumPy, library"] = lambda: lambda: inputs[0] @ inputs[1]
    ready = {}
    for name, maker in makers.items():
        try:
            ready[name] = maker()
            ready[name]()
        except Exception as error:  # a peer may fail in any way, and the others continue
            if name == "weft":
                raise
            print(f"{name}: left out: {type(error).__name__}: {str(error)[:100]}")
            ready.pop(name, None)
    return ready


def _numba(kernel: Any, inputs: list[np.ndarray], shape: tuple[int, ...]) -> Callable[[], Any]:
    from numba import cuda as theirs

    return _launch(theirs, kernel, [theirs.to_device(x) for x in inputs], theirs.device_array(shape, np.float32))


def _library(inputs: list[np.ndarray]) -> Callable[[], Any]:
    a, b = (wf.asarray(x) for x in inputs)

    def call() -> Any:
        product = a @ b
        wf.evaluate(product)
        product.device.synchronize()
        return product

    return call


def _values(result: Any) -> np.ndarray:
    found = result[0] if isinstance(result, list) else result
    return np.asarray(found.copy_to_host() if hasattr(found, "copy_to_host") else found)


def run(kernel: Any, inputs: list[np.ndarray], expected: np.ndarray, work: float, unit: str) -> dict[str, str]:
    """Check the results of all implementations, then time the implementations alternately.

    Only the first elements or rows are checked. An implementation with wrong results is not timed.
    Raises AssertionError if the results of weft are wrong.
    """
    calls = participants(kernel, inputs, inputs[0].shape)
    for name in list(calls):
        found = _values(calls[name]())[: len(expected)]
        off = float(np.abs(found - expected).max() / np.abs(expected).max())
        if not off < 1e-4:
            if name == "weft":
                raise AssertionError(f"{kernel.__name__} is wrong by {off:.1e}")
            print(f"{name}: left out: wrong by {off:.1e}")
            del calls[name]
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    n = len(inputs[0])
    return {
        f"{kernel.__name__} of {n:,}, {name}": f"{1e3 * t:.3f} ms ({work / t / 1e9:.1f} {unit})"
        for name, t in medians.items()
    }


def measure(bodies: int = 0, size: int = 0) -> dict[str, str]:
    """Measure both kernels. Return a dict: each key names a kernel and an implementation, and the value is the result as text."""
    large = wf.default_device().name.startswith("cuda")
    bodies = bodies or (1 << 16 if large else 1 << 12)
    size = size or (2048 if large else 256)
    source = np.random.default_rng(0)
    points = [source.random(bodies, dtype=np.float32) for _ in range(3)]
    a, b = (source.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    product = a[:CHECKED].astype(np.float64) @ b
    return {
        **run(n_body, points, expected_n_body(*points), float(bodies) ** 2, "G pairs/s"),
        **run(matmul, [a, b], product, 2.0 * size**3, "GFlop/s"),
    }
