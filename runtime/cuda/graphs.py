"""CUDA graphs that replay the kernels of a launch record.

In: a record that has run often enough. Out: a graph that launches all kernels of the record in one driver call.
Invariant: a graph owns no memory. Before a replay, its kernels get their changed arguments. The graph lives at most as
long as its record.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.records import LaunchRecord, RecordedLaunch
from weft.runtime.errors import CompileError, CudaError, OutOfMemoryError
from weft.runtime.settings import setting

# Minimum number of kernels for which a graph pays off.
LEAST = 3
# Maximum mean number of bytes that the kernels move. This takes about 10 us, so that a kernel ends before the next one
# could be launched without a graph.
MOST_BYTES = 32 << 20
# Maximum number of graphs of a device.
LIMIT = 512


class CudaGraph:
    """A CUDA graph that contains the `count` kernels of a launch record, in sequence, with one node per launch."""

    def __init__(self, driver: Driver, record: LaunchRecord, count: int) -> None:
        self._driver = driver
        self._graph = self.executable = 0
        self.nodes: list[int] = []
        self._graph = self._made("cuGraphCreate", 0)
        for k in range(count):
            # sequential: the record does not tell which kernels are independent
            before = (ctypes.c_int64 * 1)(*self.nodes[-1:])
            found = (ctypes.addressof(before), 1) if self.nodes else (0, 0)
            self.nodes.append(self._made("cuGraphAddKernelNode", self._graph, *found, record.parameters(k)))
        self.executable = self._made("cuGraphInstantiateWithFlags", self._graph, 0)
        driver.graphs += 1

    def _made(self, name: str, *arguments: int) -> int:
        result = ctypes.c_int64()
        self._driver.native(name, ctypes.addressof(result), *arguments)
        return result.value

    def __del__(self) -> None:
        if self.executable:
            self._driver.graphs -= 1
            self._driver.quietly("cuGraphExecDestroy", self.executable)
        if self._graph:
            self._driver.quietly("cuGraphDestroy", self._graph)


def is_faster(starts: Sequence[RecordedLaunch]) -> bool:
    """Return whether a CUDA graph is expected to be faster than separate kernel launches. The sequence `starts` describes the launches."""
    small = sum(start.nbytes for start in starts) < MOST_BYTES * len(starts)
    # (a graph would copy arguments that are passed by value in each run, even if they have not changed)
    plain = not any(start.function.cooperative or start.function.by_value for start in starts)
    return len(starts) >= LEAST and small and plain


def make_graph_if_due(driver: Driver, record: LaunchRecord, starts: Sequence[RecordedLaunch]) -> bool:
    """Create a CUDA graph for a launch record if the record has run often enough.

    Return whether to call this function again after the next run.
    """
    after = setting("graphs")
    if not after or record.runs < after:
        return bool(after)
    if driver.graphs < LIMIT:
        try:
            graph = CudaGraph(driver, record, len(starts))
        except (CompileError, CudaError, OutOfMemoryError):
            return False  # the record is launched without a graph
        record.attach(graph, graph.nodes)
    return False
