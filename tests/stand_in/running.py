"""A stand-in for the CUDA driver. The stand-in executes kernel launches on the host.

The kernels have GPU schedules, and are compiled for the host.

In: launches, copies and graphs in streams. Out: results, so that whole programs run on a CUDA device without a GPU.
Invariant: arguments are read when the driver would read them. Work is delayed until a caller waits for it (`Queues`). A
kernel with pointers to freed memory raises the error "illegal address".
"""

from __future__ import annotations

import ctypes
import itertools
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.stand_in.driver import (
    COOPERATIVE,
    ILLEGAL_ADDRESS,
    INVALID_HANDLE,
    MOST_BLOCK,
    MOST_GRID,
    MOST_THREADS,
    ORDINARY_SHARED,
    StandIn,
    put64,
)
from tests.stand_in.queues import Queues
from weft.runtime import CudaDevice, ObjectCode, get_device
from weft.runtime.cpu.faults import FaultRecord
from weft.runtime.cpu.loader import HostFunction, load_object
from weft.runtime.cuda.modules import CudaFunction

LAUNCH_FAILED = 719


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel that was launched, with its configuration and arguments."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    stream: int
    arguments: tuple[int, ...]
    cooperative: bool = False


@dataclass(slots=True)
class Loaded:
    """A loaded function: its name, a description of its arguments, and its host code."""

    name: str
    count: int
    pointers: tuple[int, ...] = ()
    values: tuple[tuple[int, int], ...] = ()  # positions and sizes of arguments passed by value
    host: HostFunction | None = None


class RunningStandIn(StandIn):
    """A stand-in that reads the arguments of launches, and runs kernels that have host code."""

    def __init__(self, total: int = 1 << 30) -> None:
        self.queues = Queues()
        self.launched: list[Launched] = []
        self.loaded: dict[int, Loaded] = {}
        self._taken: list[Any] = []  # copies of arguments passed by value
        self._modules: dict[int, str] = {}
        self._graphs: dict[int, list[int]] = {}
        self._nodes: dict[int, Any] = {}  # graph node -> launch
        self._executables: dict[int, dict[int, Any]] = {}
        super().__init__(total)

    def _bodies(self) -> dict[str, Callable[[Any], int]]:
        queues = self.queues
        streams = {
            "cuEventRecord": lambda a: queues.record(a[0], a[1]),
            "cuEventQuery": lambda a: queues.reach(a[0]),
            "cuEventSynchronize": lambda a: queues.reach(a[0]),
            "cuStreamQuery": lambda a: queues.drain(a[0]),
            "cuStreamSynchronize": lambda a: queues.drain(a[0]),
            "cuCtxSynchronize": lambda a: queues.finish(),
            "cuStreamWaitEvent": lambda a: queues.wait(a[0], a[1]),
            "cuLaunchHostFunc": lambda a: self._call_host(a[0], a[1], a[2]),
        }
        launches = {
            "cuLaunchKernel": lambda a: self._launch(a[0], a[1:4], a[4:7], a[7], a[8], a[9]),
            "cuLaunchCooperativeKernel": lambda a: self._launch(a[0], a[1:4], a[4:7], a[7], a[8], a[9], True),
            "cuLaunchKernelEx": self._launch_by_configuration,
        }
        graphs = {
            "cuGraphAddKernelNode": self._add_node,
            "cuGraphInstantiateWithFlags": self._instantiate,
            "cuGraphExecKernelNodeSetParams": self._change_node,
            "cuGraphLaunch": self._replay,
            "cuGraphExecDestroy": lambda a: 0 if self._executables.pop(a[0], None) else INVALID_HANDLE,
            "cuGraphDestroy": lambda a: 0 if self._graphs.pop(a[0], None) is not None else INVALID_HANDLE,
        }
        bodies = {**super()._bodies(), **streams, **launches, **graphs}
        for name, stream in (("cuMemcpyDtoDAsync", 3), ("cuMemFreeAsync", 1), ("cuMemsetD8Async", 3)):
            bodies[name] = self._later(bodies[name], stream)
        bodies["cuMemcpyHtoDAsync"] = self._to_device
        bodies["cuMemcpyDtoHAsync"] = self._to_host
        return bodies

    def _later(self, body: Callable[[Any], int], stream: int) -> Callable[[Any], int]:
        def put_off(a: Any) -> int:
            given = a[: stream + 1]
            return self.queues.give(given[stream], lambda: body(given))

        return put_off

    def _call_host(self, stream: int, function: int, given: int) -> int:
        """Execute all pending work of a stream at once, and then call the host function at address `function` with the argument `given`."""

        def call() -> int:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(given)
            return 0

        self.queues.give(stream, call)
        return self.queues.drain(stream)

    # -- copies ---------------------------------------------------------------------------------------

    def _to_device(self, a: Any) -> int:
        to, source, size, stream = a[:4]
        if self.memory.covers(source, size):
            return self.queues.give(stream, lambda: self._copy(to, source, size, (to, source)))
        # pageable memory is read before the call returns
        taken = ctypes.create_string_buffer(ctypes.string_at(source, size), size)
        return self.queues.give(stream, lambda: self._copy(to, ctypes.addressof(taken), size, (to,)))

    def _to_host(self, a: Any) -> int:
        to, source, size, stream = a[:4]
        pinned = self.memory.covers(to, size)
        code = self.queues.give(stream, lambda: self._copy(to, source, size, (to, source) if pinned else (source,)))
        # pageable memory is written before the call returns
        return code if pinned else self.queues.drain(stream)

    # -- functions --------------------------------------------------------------------------------------

    def _load(self, a: Any) -> int:
        at = self._handle()
        self._modules[at] = ctypes.string_at(a[1]).decode(errors="replace")
        return put64(a[0], at)

    def _function(self, a: Any) -> int:
        name = ctypes.string_at(a[2]).decode()
        found = re.search(rf"\.entry\s+{name}\s*\(([^)]*)\)", self._modules.get(a[1], ""))
        if found is None:
            return 500
        at = self._handle()
        self.loaded[at] = Loaded(name, found[1].count(".param"))
        return put64(a[0], at)

    # -- launches -----------------------------------------------------------------------------------------

    def _launch_by_configuration(self, a: Any) -> int:
        halves = (ctypes.c_uint32 * 14).from_address(a[0])
        words = (ctypes.c_int64 * 7).from_address(a[0])
        together = bool(halves[12]) and ctypes.c_uint32.from_address(words[5]).value == COOPERATIVE
        return self._launch(a[1], halves[0:3], halves[3:6], halves[6], words[4], a[2], together)

    def _launch(
        self, function: int, grid: Any, block: Any, shared: int, stream: int, arguments: int, together: bool = False
    ) -> int:
        started = self._read(function, grid, block, shared, stream, arguments, together)
        if started is None:
            return INVALID_HANDLE
        return self.queues.give(stream, lambda: self._run(self.loaded[function], started))

    def _read(
        self, function: int, grid: Any, block: Any, shared: int, stream: int, arguments: int, together: bool
    ) -> Launched | None:
        """Return a launch with a copy of its arguments, or None for an unknown function."""
        loaded = self.loaded.get(function)
        if loaded is None:
            return None
        self._check_size(function, grid, block, shared)
        addresses = (ctypes.c_int64 * loaded.count).from_address(arguments) if loaded.count else ()
        values = [ctypes.c_int64.from_address(address).value for address in addresses]
        for k, size in loaded.values:
            taken = ctypes.create_string_buffer(ctypes.string_at(addresses[k], size), size)
            self._taken.append(taken)
            values[k] = ctypes.addressof(taken)
        shape = tuple(ctypes.c_uint32(n).value for n in grid), tuple(ctypes.c_uint32(n).value for n in block)
        return Launched(loaded.name, *shape, shared, stream, tuple(values), together)

    def _check_size(self, function: int, grid: Any, block: Any, shared: int) -> None:
        """Record an error if the driver would reject a launch because of its size."""
        fits = [
            all(1 <= n <= most for n, most in zip(grid, MOST_GRID, strict=True)),
            all(1 <= n <= most for n, most in zip(block, MOST_BLOCK, strict=True)),
            block[0] * block[1] * block[2] <= MOST_THREADS,
            shared <= self.shared.get(function, ORDINARY_SHARED),
        ]
        if not all(fits):
            self.memory.wrong.append(f"a launch of {tuple(grid)} blocks, {tuple(block)} threads, {shared} shared bytes")

    def _run(self, loaded: Loaded, started: Launched) -> int:
        self.launched.append(started)
        if any(not self.memory.may_start(started.arguments[k]) for k in loaded.pointers):
            self.memory.wrong.append(f"{loaded.name} was given an address where no memory is")
            return ILLEGAL_ADDRESS
        if loaded.host is None:
            return 0
        fault = FaultRecord()
        blocks = started.grid[0] * started.grid[1] * started.grid[2]
        packed = array("q", [*started.arguments, *started.grid, *started.block, started.shared_bytes, fault.address])
        loaded.host.call(packed.buffer_info()[0], 0, blocks)
        try:
            fault.check(loaded.host, started.grid, started.block)  # type: ignore[arg-type]
        except Exception as error:  # an error in a kernel becomes an error code of the driver
            self.memory.wrong.append(str(error))
            return LAUNCH_FAILED
        return 0

    # -- graphs -----------------------------------------------------------------------------------------------

    def _node(self, at: int) -> Any:
        """Return the function and the launch in a CUDA_KERNEL_NODE_PARAMS at the address `at`.

        Return None for an unknown function.
        """
        words = (ctypes.c_int64 * 9).from_address(at)
        halves = (ctypes.c_uint32 * 18).from_address(at)
        read = self._read(words[0], halves[2:5], halves[5:8], halves[8], 0, words[5], False)
        return None if read is None else (words[0], read)

    def _add_node(self, a: Any) -> int:
        node = self._node(a[4])
        before = [ctypes.c_int64.from_address(a[2] + 8 * k).value for k in range(a[3])]
        nodes = self._graphs.setdefault(a[1], [])
        if node is None or before != nodes[-1:]:
            return INVALID_HANDLE
        at = self._handle()
        self._nodes[at] = node
        nodes.append(at)
        return put64(a[0], at)

    def _instantiate(self, a: Any) -> int:
        at = self._handle()
        self._executables[at] = {node: self._nodes[node] for node in self._graphs[a[1]]}
        return put64(a[0], at)

    def _change_node(self, a: Any) -> int:
        node, nodes = self._node(a[2]), self._executables.get(a[0])
        if node is None or nodes is None or a[1] not in nodes:
            return INVALID_HANDLE
        nodes[a[1]] = node
        return 0

    def _replay(self, a: Any) -> int:
        nodes, stream = self._executables.get(a[0]), a[1]
        if nodes is None:
            return INVALID_HANDLE
        started = list(nodes.values())

        def run() -> int:
            return next((code for f, s in started if (code := self._run(self.loaded[f], s))), 0)

        return self.queues.give(stream, run)


_numbers = itertools.count(100)


class RunningDevice(CudaDevice):
    """A simulated CUDA device. Its kernels have GPU schedules, but are compiled for this machine's processor, and run on it."""

    def __init__(self, stand_in: RunningStandIn) -> None:
        super().__init__(next(_numbers), stand_in.table)
        self._stand_in = stand_in

    @property
    def target(self) -> Any:
        """Return the compilation target: the processor of this machine, with the schedules of a GPU."""
        return get_device("simt").target

    def load(self, code: ObjectCode) -> CudaFunction:
        """Load host code in place of a GPU's machine code. Return a function object that the simulated driver can launch."""
        parameters = ", ".join([".param"] * len(code.parameters))
        module = self._driver.call("cuModuleLoadData", f".visible .entry {code.entry}({parameters})\0".encode())
        function = self._modules.function(module, code)
        loaded = self._stand_in.loaded[function.handle]
        loaded.pointers = tuple(k for k, kind in enumerate(code.parameters) if kind == "pointer")
        kinds = enumerate(code.parameters)
        loaded.values = tuple((k, int(kind.split()[1])) for k, kind in kinds if kind.startswith("value"))
        loaded.host = load_object(code)
        return function
