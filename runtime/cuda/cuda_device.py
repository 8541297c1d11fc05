"""A GPU as a device, with memory, modules, and launches in streams."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from weft.runtime.cuda.blas import Blas
from weft.runtime.cuda.cuda_services import Attributes, GpuServices
from weft.runtime.cuda.device_memory import ASIDE, MemoryPool
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.fourier import Fourier
from weft.runtime.cuda.launcher import CudaLauncher, CudaLaunches
from weft.runtime.cuda.linker import newest_ptx
from weft.runtime.cuda.modules import CudaFunction, Modules
from weft.runtime.cuda.peers import copy_from_peer, enable_peer_access
from weft.runtime.cuda.ranges import Ranges
from weft.runtime.cuda.records import RecordedLaunch, Triple
from weft.runtime.cuda.solver import Solver
from weft.runtime.cuda.staging import Staging
from weft.runtime.cuda.streams import NON_BLOCKING, CudaStream, StreamOrder
from weft.runtime.device import Buffer, BufferRequests, Operand, Registered
from weft.runtime.launches import Launch
from weft.runtime.listening import Listening
from weft.runtime.object_code import ObjectCode
from weft.runtime.settings import setting

# Maximum number of requests for the same descriptors, each for a few launches: the launches are numbered with 32 bits.
DESCRIPTOR_USES = 1 << 20
# Maximum number of grids for which a function's prepared launches are kept.
RECORDS_LIMIT = 64


class CudaDevice(GpuServices):
    """A GPU as a device.

    All work runs in order, except large uploads and work in the user's streams. `download` and `synchronize` wait for
    the work.

    Parameters
    ----------
    ordinal : int
    table : module, optional
        The driver functions: cuda.bindings.driver, or a stand-in from tests.
    """

    small_on_host = True
    host_math = False
    memory: MemoryPool

    def __init__(self, ordinal: int, table: Any = None) -> None:
        if table is None:
            from cuda.bindings import driver

            table = driver
        self.name = f"cuda:{ordinal}"
        self._driver = Driver(table, ordinal)
        attributes = Attributes(self._driver)
        self.capability = (attributes["COMPUTE_CAPABILITY_MAJOR"], attributes["COMPUTE_CAPABILITY_MINOR"])
        self._order = StreamOrder(self._driver, self._driver.call("cuStreamCreate", NON_BLOCKING))
        self.memory = MemoryPool(self, self._driver, self._order)
        self._staging = Staging(self._driver, self._order)
        self._blas = Blas(self._driver, self._order)
        self.fourier = Fourier(self._driver, self._order, self.allocate)
        self.solver = Solver(self._driver, self._order, self.allocate, self.read)
        self._launcher = CudaLauncher(self._driver, self._order)
        self._modules = Modules(self._driver, self.synchronize)
        self._counters: WeakKeyDictionary[CudaStream, Buffer] = WeakKeyDictionary()
        self._descriptors: WeakKeyDictionary[CudaStream, tuple[Buffer, Iterator[int]]] = WeakKeyDictionary()
        self._target: Any = None
        if setting("nvtx") and not any(isinstance(listener, Ranges) for listener in Listening.listeners):
            Listening.add(Ranges())

    @property
    def architecture(self) -> str:
        """The architecture of the GPU's machine code, such as "sm_90"."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def target(self) -> Any:
        """The newest code generation target whose PTX the GPU and the driver support."""
        if self._target is None:
            self._target = Registered.resolve_target(self.architecture, newest_ptx(self._driver.version))
        return self._target

    # -- memory -------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Buffer:
        return self.memory.allocate(nbytes)

    def allocate_into(self, table: list[Any], requests: BufferRequests) -> None:
        self.memory.allocate_into(table, requests)

    def completion_counter(self) -> Buffer:
        """Return the counter of completed blocks for the calling thread's stream. A stream's kernels share it, since they run one after another."""
        stream = self._order.current
        found = self._counters.get(stream)
        if found is None:
            found = self._counters[stream] = self._zeros(4)
        return found

    def lookback_descriptors(self, nbytes: int) -> Buffer:
        """Return look-back descriptors for the calling thread's stream.

        The descriptors contain launch numbers, and are replaced before the numbers run out.
        """
        stream = self._order.current
        found, uses = self._descriptors.get(stream, (None, iter(())))
        if found is None or found.nbytes < nbytes or next(uses, None) is None:
            found = self._zeros(1 << (nbytes - 1).bit_length())
            self._descriptors[stream] = found, iter(range(DESCRIPTOR_USES))
        return found

    def _zeros(self, nbytes: int) -> Buffer:
        """Return zeroed memory, allocated on the device's own stream. Memory allocated on a user stream would keep that stream alive."""
        with self.working_in(self._order.own):
            return self.upload(np.zeros(nbytes, np.uint8))

    def upload(self, values: np.ndarray) -> Buffer:
        """Return a buffer with a copy of `values` in C order.

        If there are no launch listeners, a large copy in the device's own stream usually does not wait for earlier
        work.
        """
        if values.nbytes >= ASIDE and self._order.current.is_main and not Listening.listeners:
            block = self.memory.allocate_for_upload(values.nbytes)
            try:
                self._staging.upload(block.address, np.ascontiguousarray(values), self._order.beside)
            finally:
                self._order.join_copies()
            return block
        buffer = self.allocate(values.nbytes)
        self.write(buffer.address, np.ascontiguousarray(values))
        return buffer

    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        values = np.empty(shape, dtype)
        self.claim(buffer)
        self.read(buffer.address, values)
        values.flags.writeable = False
        return values

    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        if nbytes:
            self.claim(source)
            self.claim(destination, written=True)
            self._staging.move("cuMemcpyDtoDAsync", destination.address, source.address, nbytes, None)

    def fetch(self, buffer: Buffer) -> Buffer:
        """Copy another device's buffer to this GPU. Copies between GPUs bypass the host if possible."""
        source = buffer.device
        if not isinstance(source, CudaDevice):
            return self.upload(source.download(buffer, np.dtype(np.uint8), (buffer.nbytes,)))
        own = self.allocate(buffer.nbytes)
        if buffer.nbytes:
            source.claim(buffer)
            enable_peer_access(self._driver, source._driver)
            copy_from_peer(self._order, own.address, source._order, buffer.address, buffer.nbytes)
        return own

    def multiply(self, out: Buffer, left: Operand, right: Operand, dtype: np.dtype) -> bool:
        """Multiply matrices with cuBLAS, or return False if that is not possible."""
        return self._blas.multiply(out.address, left, right, dtype)

    # -- kernels --------------------------------------------------------------------------------

    def load(self, code: ObjectCode) -> CudaFunction:
        """Load a kernel. Its PTX is assembled by nvJitLink or, if nvJitLink cannot be used, by the driver."""
        return self._modules.load(code, self.architecture)

    def launch(self, function: CudaFunction, parallel: tuple[int, ...], work: int, arguments: array[int]) -> None:
        blocks = function.schedule.blocks(parallel, work)
        if blocks:
            self.launch_grid(function, (blocks, 1, 1), (function.schedule.threads, 1, 1), 0, arguments)

    def launch_grid(
        self,
        function: CudaFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: array[int],
        stream: CudaStream | None = None,
    ) -> None:
        """Launch a user-written kernel in a stream, by default in the calling thread's stream."""
        items = arguments.tolist()
        self.prepare_grid(function, grid, block, shared_bytes, len(items)).run(items, stream)

    def prepare(self, launches: Sequence[Launch]) -> CudaLaunches:
        starts = []
        for k in launches:
            schedule = k.function.schedule
            grid, block = (schedule.blocks(k.parallel, k.work), 1, 1), (schedule.threads, 1, 1)
            starts.append(
                RecordedLaunch(k.function, grid, block, 0, k.arguments, k.patches, k.scalars, k.nbytes, k.origin)
            )
        return CudaLaunches(self._launcher, starts)

    def prepare_grid(
        self, function: CudaFunction, grid: Triple, block: Triple, shared_bytes: int, count: int
    ) -> CudaLaunches:
        """Prepare a user-written kernel for repeated launches with the same grid and block.

        Each launch takes a list of `count` arguments, and a stream.
        """
        found: CudaLaunches | None = function.prepared.get((grid, block, shared_bytes))
        if found is None:
            function.raise_shared_limit(shared_bytes)
            if len(function.prepared) >= RECORDS_LIMIT:
                function.prepared.clear()
            numbers = [(k, k) for k in range(count)]
            # (A proxy, because the function owns its prepared launches. A reference would form a cycle.)
            own = weakref.proxy(function)
            start = RecordedLaunch(own, grid, block, shared_bytes, array("q", bytes(8 * count)), (), numbers)
            found = function.prepared[grid, block, shared_bytes] = CudaLaunches(self._launcher, [start])
        return found

    def synchronize(self) -> None:
        self._order.create(0).synchronize()

    def reset(self) -> None:
        self._modules.unload()
        self.synchronize()
        self.memory.empty()
