"""The CPU as a device."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.runtime.cpu.faults import FaultRecord
from weft.runtime.cpu.free_lists import allocate_for_plan
from weft.runtime.cpu.grids import PreparedGrid, Triple, divide_blocks, guarded, hidden_slots
from weft.runtime.cpu.host_launches import HostLaunches, divide, elements_of, launch, runner
from weft.runtime.cpu.host_memory import HostBuffer, Pool, keep_freed_memory, size_class
from weft.runtime.cpu.loader import HostFunction, load_object
from weft.runtime.cpu.pool import COPY_GRAIN, copy_bytes, workers
from weft.runtime.device import Buffer, BufferRequests, Registered
from weft.runtime.launches import Launch
from weft.runtime.object_code import ObjectCode
from weft.runtime.services import array_over
from weft.runtime.settings import thread_count
from weft.runtime.synchronous_device import SynchronousDevice


class CpuDevice(SynchronousDevice):
    """The CPU as a device. Short kernels run in the calling thread, and long ones on up to `thread_count` threads."""

    name = "cpu"
    memory: Pool

    def __init__(self) -> None:
        self.memory = Pool(self.name)
        self._own = threading.local()
        keep_freed_memory()

    @property
    def target(self) -> Any:
        return Registered.resolve_target("host")

    def allocate(self, nbytes: int) -> Buffer:
        # a buffer without elements has an address too: a load before an empty loop reads from it
        free_lists = self.memory.free_lists
        if free_lists is None:
            block = self.memory.allocate(nbytes or 1)
            return HostBuffer(self, block.address, nbytes, block)
        size = size_class(nbytes or 1)
        found = free_lists.take(size, nbytes)
        if found is None:
            block = self.memory.allocate(nbytes or 1)
            found = free_lists.make(size, self, block.address, nbytes, block)
        return found

    def allocate_into(self, table: list[Any], requests: BufferRequests) -> None:
        call = requests.call
        if call is None or call(requests.address, table):
            allocate_for_plan(self, table, requests, lambda nbytes: size_class(nbytes or 1))

    def completion_counter(self) -> Buffer:
        return self._zeros("completion_counter", 4)

    def lookback_descriptors(self, nbytes: int) -> Buffer:
        return self._zeros("lookback_descriptors", nbytes)

    def _zeros(self, name: str, nbytes: int) -> Buffer:
        """Return zeroed memory that belongs to the calling thread.

        Each call sets the memory to zero, because a failed launch may have changed it.
        """
        found: Buffer | None = getattr(self._own, name, None)
        if found is None or found.nbytes < nbytes:
            found = self.allocate(nbytes)
            setattr(self._own, name, found)
        self.view_memory(found, np.dtype(np.uint8), (nbytes,))[:] = 0
        return found

    def upload(self, values: np.ndarray) -> Buffer:
        buffer = self.allocate(values.nbytes)
        if values.nbytes:
            np.copyto(self.view_memory(buffer, values.dtype, values.shape), values)
        return buffer

    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the elements of a buffer as a read-only array, without a copy.

        The array keeps the buffer alive. An array without elements is a new, writable array.
        """
        if not prod(shape):
            return np.empty(shape, dtype)
        values = self.view_memory(buffer, dtype, shape)
        values.flags.writeable = False
        return values

    memory_on_host = True

    def view_memory(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        return array_over(buffer, buffer.address, dtype, shape)

    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        threads = thread_count() if nbytes >= 2 * COPY_GRAIN else 1  # (the query takes longer than a short copy)
        copy_bytes(source.address, destination.address, nbytes, threads)

    def fetch(self, buffer: Buffer) -> Buffer:
        own = self.allocate(buffer.nbytes)
        if buffer.nbytes:
            buffer.device.claim(buffer)
            buffer.device.read(buffer.address, self.view_memory(own, np.dtype(np.uint8), (buffer.nbytes,)))
        return own

    def load(self, code: ObjectCode) -> HostFunction:
        return load_object(code)

    def launch(self, function: HostFunction, parallel: tuple[int, ...], work: int, arguments: array[int]) -> None:
        threads = thread_count() if work >= 2 * elements_of(function) else 1
        launch(function, *divide(function, parallel, work, threads), arguments)

    def prepare(self, launches: Sequence[Launch]) -> HostLaunches | None:
        return HostLaunches(launches)

    def launch_grid(
        self,
        function: HostFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: array[int],
        stream: object = None,
    ) -> None:
        """Run a user-written kernel to completion. The stream is ignored.

        Raises `KernelFault` if threads wait for each other forever.
        """
        blocks = prod(grid)
        if not blocks:
            return
        fault = FaultRecord()
        entry, given = guarded(function, [*arguments, *hidden_slots(grid, block, shared_bytes, fault)], fault)
        packed = array("q", given)
        address = packed.buffer_info()[0]
        parts, chunk, alone = divide_blocks(function, blocks, block, thread_count())
        if parts > 1:
            workers().split(entry, address, blocks, parts, chunk, alone=alone)
        else:
            entry.call(address, 0, blocks)
        fault.check(function, grid, block)

    def prepare_grid(
        self, function: HostFunction, grid: Triple, block: Triple, shared_bytes: int, count: int
    ) -> PreparedGrid | None:
        if not prod(grid) or runner() is None:
            return None
        return PreparedGrid(function, grid, block, shared_bytes, count)
