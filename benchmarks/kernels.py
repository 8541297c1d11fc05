"""Times of explicit kernels: launches on the default device, and compilation to PTX.

Times are medians, except those of first launches. If Numba is installed, its CUDA simulator and weft also run the same
kernels alternately on few elements, since the simulator runs only about 10,000 threads per second.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft import cuda

TURNS = 15
ELEMENTS = 1_000_000
THREADS = 256
FEW = 4096


def vector_add(x, y, out):  # type: ignore[no-untyped-def]
    """Add two vectors, one element per thread."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def block_sums(x, out):  # type: ignore[no-untyped-def]
    """Compute the sum of each block's elements by a tree reduction in shared memory."""
    part = cuda.shared.array(THREADS, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def milliseconds(function: Callable[[], Any]) -> float:
    """Call a function, and return the time of the call in milliseconds."""
    begin = time.perf_counter()
    function()
    return (time.perf_counter() - begin) * 1e3


def median(function: Callable[[], Any], turns: int = TURNS) -> float:
    """Return the median time of `turns` calls in milliseconds, after one call that is not timed."""
    function()
    return statistics.median(milliseconds(function) for _ in range(turns))


def launches() -> dict[str, str]:
    """Measure launches of kernels, and similar computations with NumPy."""
    source = np.random.default_rng(0)
    x, y = (source.random(ELEMENTS, dtype=np.float32) for _ in range(2))
    d_x, d_y, d_out = cuda.to_device(x), cuda.to_device(y), cuda.device_array_like(x)
    blocks = -(-ELEMENTS // THREADS)
    d_sums = cuda.device_array(blocks, np.float32)
    add, reduce = wf.kernel(vector_add), wf.kernel(block_sums)

    def run(kernel: Any, *arguments: Any) -> None:
        kernel[blocks, THREADS](*arguments)
        cuda.synchronize()

    results = {}
    out = np.empty_like(x)
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("vector add", lambda: run(add, d_x, d_y, d_out), lambda: np.add(x, y, out=out)),
        ("shared-memory block reduction", lambda: run(reduce, d_x, d_sums), lambda: x.sum()),
    ]
    for name, ours, theirs in cases:
        first = milliseconds(ours)
        results[f"{name} of {ELEMENTS:,} float32, {THREADS} threads a block, warm"] = (
            f"{median(ours):.3f} ms (first launch {first:.0f} ms, NumPy {median(theirs):.3f} ms)"
        )
    np.testing.assert_array_equal(d_out.copy_to_host(), x + y)
    np.testing.assert_allclose(d_sums.copy_to_host().sum(dtype=np.float64), x.sum(dtype=np.float64), rtol=1e-5)
    few = [cuda.device_array(1, np.float32) for _ in range(3)]
    results["launch of a vector add of one element"] = f"{1e3 * median(lambda: add[1, 1](*few), 200):.1f} us"
    return results


# A program that measures the first compilation to PTX after `import weft`, and compilations for further types, which no
# cache contains.
_COMPILES = """
import statistics, time
import weft
from weft import cuda

def vector_add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

def milliseconds(name):
    begin = time.perf_counter()
    ptx, _ = cuda.compile_ptx(vector_add, f"void({name}[::1], {name}[::1], {name}[::1])", cc=(8, 0))
    assert ".entry" in ptx
    return (time.perf_counter() - begin) * 1e3

first = milliseconds("float32")
others = ("float64", "int32", "int64", "uint32", "uint64", "int16", "uint16", "int8", "uint8")
print(first, statistics.median([milliseconds(name) for name in others]))
"""

# A program that runs the same kernels alternately in Numba's CUDA simulator and on weft.
_SIMULATED = """
import statistics, sys, time
import numpy as np
from numba import cuda as simulated
import weft
from weft import cuda as compiled
from benchmarks import kernels

n = int(sys.argv[1])
x = np.ones(n, np.float32)

def runs(face, kernel):
    kernels.cuda = face
    made = face.jit(kernel)
    arrays = [face.to_device(x) for _ in range(kernel.__code__.co_argcount)]
    def call():
        kernels.cuda = face
        made[n // kernels.THREADS, kernels.THREADS](*arrays)
        face.synchronize()
    call()
    return call

for kernel in (kernels.vector_add, kernels.block_sums):
    pair = [runs(face, kernel) for face in (simulated, compiled)]
    times = [[kernels.milliseconds(call) for call in pair] for _ in range(3)]
    print(*(statistics.median(t[k] for t in times) for k in (0, 1)))
"""


def _child(code: str, *arguments: str, **environment: str) -> list[list[float]]:
    """Run code in a new process, and return the numbers on each line of its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(code)
        done = subprocess.run(
            [sys.executable, str(path), *arguments],
            capture_output=True,
            text=True,
            check=True,
            # with byte code, as in an installed package
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
                "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "weft-benchmark-modules"),
                "PYTHONPATH": os.pathsep.join(sys.path),
                "WEFT_CACHE": "0",
                **environment,
            },
        )
    return [[float(part) for part in line.split()] for line in done.stdout.splitlines()]


def compiles(processes: int = 5) -> dict[str, str]:
    """Measure compilation to PTX in new processes without a disk cache. The first process is not counted."""
    figures = [_child(_COMPILES)[0] for _ in range(processes + 1)][1:]
    first, warm = (statistics.median(f[k] for f in figures) for k in (0, 1))
    return {"compile of a vector add to PTX": f"{first:.1f} ms first, {warm:.1f} ms warm (new types each time)"}


def simulator() -> dict[str, str]:
    """Measure kernels on few elements, in Numba's CUDA simulator and on weft.

    Return an empty dict if Numba is not installed.
    """
    if find_spec("numba") is None or find_spec("numba.cuda") is None:
        return {}
    add, reduction = _child(_SIMULATED, str(FEW), NUMBA_ENABLE_CUDASIM="1")
    return {
        f"{name} of {FEW:,} float32 in numba-cuda's simulator": f"{theirs:.0f} ms (weft {ours:.3f} ms)"
        for name, (theirs, ours) in (("vector add", add), ("shared-memory block reduction", reduction))
    }


def measure() -> dict[str, str]:
    """Run all measurements, and return the results with their units as text, by name."""
    return {**launches(), **compiles(), **simulator()}
