"""Host time of launches with a stand-in for the CUDA driver.

The stand-in runs no kernels. Times are medians over the turns, in microseconds. They are measured in a process in which
libcuda.so.1 is the stand-in, so that cuda.bindings, ctypes and weft's own launcher all call the same functions.
"""

from __future__ import annotations

import ctypes
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TURNS = 9
CALLS = 1000
LENGTHS = (1, 10, 100)  # numbers of kernels of a plan
OUTPUTS = (1, 4, 64)  # numbers of results of a plan


def measure() -> dict[str, str]:
    """Run all measurements in a new process. Return a dict from the name of each measurement to its result as text.

    Return an empty dict if the measuring process fails, if the platform is not Linux on x86-64 or AArch64, or if
    cuda.bindings is not installed.
    """
    if find_spec("cuda") is None or sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return {}
    command = [sys.executable, "-m", "benchmarks.launch_host"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    if done.returncode:
        print(f"launches on a stand-in: left out: {done.stderr.strip().splitlines()[-1:]}")
        return {}
    found: dict[str, float] = json.loads(done.stdout)
    return {f"{name}, on a stand-in for the driver": f"{taken:.2f} us" for name, taken in found.items()}


def run() -> dict[str, float]:
    """Time all functions alternately. Return a dict from their names to the median microseconds per call."""
    from tests.stand_in import StandIn
    from tests.stand_in.library import load_library

    driver = StandIn()
    with tempfile.TemporaryDirectory() as folder:
        load_library(Path(folder), driver)
    makers = {**_plain(driver), **_explicit(), **_prepared(), **_outputs()}
    taken: dict[str, list[float]] = {name: [] for name in makers}
    for turn in range(TURNS + 1):
        for name, call in makers.items():
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            if turn:
                taken[name].append((time.perf_counter() - begin) / CALLS * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def _plain(driver: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that launch a kernel through ctypes or cuda.bindings.

    One more function does nothing, so that its time is the cost of a call in Python.
    """
    from cuda.bindings import driver as table

    slots = array("q", [1, 2, 3])
    base = slots.buffer_info()[0]
    pointers = (ctypes.c_void_p * 3)(base, base + 8, base + 16)
    kinds = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    native = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(driver.native.addresses["cuLaunchKernel"])
    address = ctypes.addressof(pointers)
    values = ((1, 2, 3), (ctypes.c_void_p,) * 3)
    return {
        "cuLaunchKernel by ctypes": lambda: native(16, 4, 1, 1, 256, 1, 1, 0, 32, address, None),
        "cuLaunchKernel by cuda.bindings": lambda: table.cuLaunchKernel(16, 4, 1, 1, 256, 1, 1, 0, 32, address, 0),
        "cuLaunchKernel by cuda.bindings, with its arguments packed": (
            lambda: table.cuLaunchKernel(16, 4, 1, 1, 256, 1, 1, 0, 32, values, 0)
        ),
        # keeps alive the memory that the other calls point to
        "an empty call": lambda: (slots, pointers)[0] and None,
    }


def _explicit() -> dict[str, Callable[[], Any]]:
    """Return functions that launch an explicit kernel or evaluate an expression."""
    import weft as wf
    from benchmarks.launch_cost import vector_add

    wf.set_default_device("cuda:0")
    x, y, out = (wf.asarray(np.ones(256, np.float32)) for _ in range(3))
    wf.evaluate(x, y, out)
    kernel = wf.kernel(vector_add)
    launcher = kernel[1, 256]
    return {
        "explicit kernel of three arrays": lambda: launcher(x, y, out),
        "explicit kernel of three arrays, with its brackets": lambda: kernel[1, 256](x, y, out),
        "record, find and run x * 2 + y": lambda: wf.evaluate(x * 2.0 + y),
    }


def _prepared() -> dict[str, Callable[[], Any]]:
    """Return functions that run prepared launches, one by one or as a CUDA graph."""
    from weft.runtime import ObjectCode, get_device
    from weft.runtime.cuda.graphs import MOST_BYTES
    from weft.runtime.cuda.launcher import CudaLaunches
    from weft.runtime.cuda.records import RecordedLaunch

    device: Any = get_device("cuda:0")
    entry = ".visible .entry fused(.param .u64 a, .param .u64 b, .param .u64 c)\n{\nret;\n}\n"
    ptx = f".version 7.8\n.target sm_90\n.address_size 64\n{entry}".encode()
    function = device.load(ObjectCode("ptx", "fused", ptx, "sm_90", ("pointer",) * 3))
    table = [device.allocate(4096) for _ in range(8)]
    found: dict[str, Callable[[], Any]] = {}
    for count in LENGTHS:
        for way, nbytes in (("launched", MOST_BYTES), ("as a graph", 0)):
            patches = [[(0, k % 8, 0), (1, (k + 1) % 8, 64)] for k in range(count)]
            starts = [
                RecordedLaunch(function, (4, 1, 1), (256, 1, 1), 0, array("q", [0, 0, k]), patches[k], (), nbytes)
                for k in range(count)
            ]
            if way == "as a graph" and count < 3:
                continue
            prepared = CudaLaunches(device._launcher, starts)
            for _ in range(4):
                prepared.run(table)
            found[f"cached plan of {count} kernels, {way}"] = lambda prepared=prepared: prepared.run(table)  # type: ignore[misc]
    return found


def _outputs() -> dict[str, Callable[[], Any]]:
    """Return functions that run cached plans with one or several results.

    Their times include the allocation and release of the results.
    """
    from importlib import import_module

    import weft as wf
    from weft.fusion import Epoch, current_epoch
    from weft.runtime import override

    plans, run_plan = (import_module(f"weft.fusion.run.{name}") for name in ("execute", "run_plan"))
    found: dict[str, Callable[[], Any]] = {}
    for length, size in ((100, "800 bytes"), (1000, "8 KB")):
        x, y = ([wf.asarray(np.ones(length)) for _ in range(8)] for _ in range(2))
        for count in OUTPUTS:
            with override(immediate=0, interpret="never"):  # (small operations would have no plan)
                made = [x[k % 8] + y[k // 8] for k in range(count)]
                epoch = Epoch(x[0].device)
                epoch.slots += current_epoch().slots
                wf.evaluate(made)
            plan = next(reversed(plans._plans.values()))
            found[f"cached plan with {count} results of {size}"] = (
                lambda plan=plan, epoch=epoch: run_plan.execute(plan, epoch, lambda plan, table: None, False)  # type: ignore[misc]
            )
    return found


if __name__ == "__main__":
    print(json.dumps(run()))
