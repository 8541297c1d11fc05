"""Launches of a single kernel, or of several prepared kernels, on a GPU.

In: kernels with grids and arguments. Out: launches in the requested stream. Invariant: the native function and the
driver's function table have the same effect. The table is used if the native function cannot be compiled. Failures
name the kernel and the user's line.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from weft.runtime.cuda import graphs
from weft.runtime.cuda.cuda_launch_code import native_launcher
from weft.runtime.cuda.driver import STICKY, Driver
from weft.runtime.cuda.records import ENTERING, FAILED, REPLAYING, LaunchRecord, RecordedLaunch
from weft.runtime.cuda.streams import CudaStream, StreamOrder
from weft.runtime.failures import try_compiling


class CudaLaunches:
    """Kernels that are launched together again and again. Their launches are prepared once, and run in the order of `starts`."""

    __slots__ = ("_asks", "_last", "_launcher", "_spare", "starts")

    def __init__(self, launcher: CudaLauncher, starts: Sequence[RecordedLaunch]) -> None:
        self._launcher = launcher
        self.starts = starts
        # records that are not running: two threads may run the launches at the same time
        self._spare: list[LaunchRecord] = []
        self._last = starts[-1].doing()
        self._asks = graphs.is_faster(starts)

    def run(self, table: list[Any], stream: CudaStream | None = None) -> None:
        """Launch the kernels on the buffers in a table.

        Raises
        ------
        CudaError, DeviceLostError, OutOfMemoryError
        """
        launcher = self._launcher
        driver = launcher.driver
        if driver.lost or launcher.native is None:
            launcher.by_table(self.starts, table, stream)
            return
        try:
            record = self._spare.pop()
        except IndexError:
            record = LaunchRecord(self.starts)
        with launcher.order.lock:
            queue = launcher.order.enter(stream)
            code = launcher.native(record.address, table, int(queue))
        if code:
            self._failed(record, code, table, stream)
            return
        driver.doing = self._last
        if self._asks:
            record.runs += 1
            self._asks = graphs.make_graph_if_due(driver, record, self.starts)
        self._spare.append(record)

    def _failed(self, record: LaunchRecord, code: int, table: list[Any], stream: CudaStream | None) -> None:
        driver, failed = self._launcher.driver, record.words[FAILED]
        if record.graph is not None and failed != ENTERING and code not in STICKY:
            # no kernel of this run has started: the kernels are launched without the graph
            record.detach()
            self._spare.append(record)
            self.run(table, stream)
            return
        driver.doing = self.starts[failed].doing() if failed >= 0 else self._last
        names = {ENTERING: "cuCtxPushCurrent", REPLAYING: "cuGraphLaunch"}
        driver.fail(names.get(failed, "cuLaunchKernelEx"), code)


class CudaLauncher:
    """The part of a device that launches prepared kernels."""

    def __init__(self, driver: Driver, order: StreamOrder) -> None:
        self.driver = driver
        self.order = order

    @cached_property
    def native(self) -> Any:
        """The native function that runs launch records, or None if it is not available."""
        instead = "Python starts kernels one by one, which is slower"
        self._holds_code = try_compiling("native code for launches", instead, lambda: native_launcher(self.driver))
        return self._holds_code and self._holds_code.call

    def by_table(self, starts: Sequence[RecordedLaunch], table: list[Any], stream: CudaStream | None) -> None:
        """Launch kernels one by one, by calling CUDA driver functions from Python. This is the fallback if there is no native code for launches."""
        for start in starts:
            arguments = start.arguments[:]
            for argument, slot, offset in start.patches:
                arguments[argument] = table[slot].address + offset
            for argument, slot in start.numbers:
                arguments[argument] = table[slot]
            base = arguments.buffer_info()[0]
            pointers = (ctypes.c_void_p * max(len(arguments), 1))(*(base + 8 * k for k in range(len(arguments))))
            for argument in start.function.by_value:
                pointers[argument] = arguments[argument]
            self.driver.doing = start.doing()
            with self.order.lock:
                queue = self.order.enter(stream)
                shape = (*start.grid, *start.block, start.shared_bytes, queue, ctypes.addressof(pointers))
                if start.function.cooperative:
                    self.driver.call("cuLaunchCooperativeKernel", start.function.handle, *shape)
                else:
                    self.driver.call("cuLaunchKernel", start.function.handle, *shape, 0)
