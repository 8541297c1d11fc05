"""Host time to start kernels and plans of weft, and kernels of other libraries.

Many calls are timed together, without waiting for the device between them, so that on a GPU only host time is measured.
The wait at the end of a turn is not included. On the CPU device, a call includes its work.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import weft as wf
from weft import cuda

TURNS = 7
CALLS = 200
FEW = 256


def vector_add(x, y, out):  # type: ignore[no-untyped-def]
    """Add two vectors, one element per thread."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def _weft_kernel() -> tuple[Callable[[], Any], Callable[[], Any]]:
    arrays = [cuda.to_device(np.ones(FEW, np.float32)) for _ in range(3)]
    launcher = wf.kernel(vector_add)[1, FEW]
    return lambda: launcher(*arrays), cuda.synchronize


def _weft_plan(kernels: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    x = wf.asarray(np.ones(FEW, np.float32))

    def call() -> Any:
        y = x
        for _ in range(kernels - 1):
            y = y.cumsum() * 0.5  # a scan fuses with elementwise operations, but not with another scan
        return wf.evaluate(y * 2)

    return call, cuda.synchronize


def _numba_kernel() -> tuple[Callable[[], Any], Callable[[], Any]]:
    from numba import cuda as theirs

    globals()["cuda"] = theirs
    try:
        arrays = [theirs.to_device(np.ones(FEW, np.float32)) for _ in range(3)]
        launcher = theirs.jit(vector_add)[1, FEW]
        launcher(*arrays)
    finally:
        globals()["cuda"] = cuda
    return lambda: launcher(*arrays), theirs.synchronize


def _cupy_add() -> tuple[Callable[[], Any], Callable[[], Any]]:
    import cupy

    x, y, out = (cupy.ones(FEW, cupy.float32) for _ in range(3))
    return lambda: cupy.add(x, y, out), lambda: cupy.cuda.get_current_stream().synchronize()


def _torch_add() -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    home = "cuda" if wf.default_device().name.startswith("cuda") else "cpu"
    x, y, out = (torch.ones(FEW, device=home) for _ in range(3))
    return lambda: torch.add(x, y, out=out), torch.cuda.synchronize if home == "cuda" else lambda: None


def measure() -> dict[str, str]:
    """Return a dict that maps each kind of launch to a text: the median time that a call takes on the host."""
    makers: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[], Any]]]] = {
        "explicit kernel of three arrays": _weft_kernel,
        "plan of one kernel": lambda: _weft_plan(1),
        "plan of eight scans": lambda: _weft_plan(9),
    }
    if wf.default_device().name.startswith("cuda"):
        for module, name, maker in (
            ("numba", "explicit kernel of three arrays, numba-cuda", _numba_kernel),
            ("cupy", "add of two arrays, CuPy", _cupy_add),
        ):
            if find_spec(module) is not None:
                makers[name] = maker
    if find_spec("torch") is not None:
        makers["add of two arrays, torch"] = _torch_add
    ready = {}
    for name, maker in makers.items():
        try:
            ready[name] = maker()
            ready[name][0]()
        except Exception as error:  # a peer may fail in any way, and the others continue
            print(f"{name}: left out: {type(error).__name__}: {str(error)[:100]}")
    taken: dict[str, list[float]] = {name: [] for name in ready}
    for turn in range(TURNS + 1):
        for name, (call, wait) in ready.items():
            wait()
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            seconds = time.perf_counter() - begin
            wait()
            if turn:
                taken[name].append(seconds / CALLS)
    return {f"{name}, host time a call": f"{1e6 * statistics.median(t):.2f} us" for name, t in taken.items()}
