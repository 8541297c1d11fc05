"""The memory pool of a GPU, which caches stream-ordered blocks by size.

In: a device, its driver and the order of its streams. Out: a `MemoryPool` and its `PoolBlock` objects, which return to
the pool when they are deleted. Small blocks of the device's own stream are taken and returned without a lock besides
the GIL, which the reference counts also need. Lists and counters are consistent at every point where another thread
could intervene.

Invariant: a block is reused only in a stream that follows all work that may still use it. Total memory
stays within its limit, and so does cached memory, except for blocks that several streams have used. Returning a block
never raises, and never waits for the GPU.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from weft.runtime.allocation_report import out_of_memory
from weft.runtime.cpu.free_list_code import KEPT, MADE
from weft.runtime.cpu.free_lists import Counted, allocate_for_plan
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import CudaEvent, CudaStream, StreamOrder
from weft.runtime.device import Buffer, BufferRequests
from weft.runtime.errors import CudaError, OutOfMemoryError, WeftError

KEPT_BYTES = 4 << 30  # limit on the bytes of free blocks; the rest is returned to the driver's pool
# After a copy has overtaken the device's own stream, positions in this stream are recorded for this number of returned
# blocks of at least `ASIDE` bytes. Recording a position costs more than launching a kernel, and only the next copies
# use the position.
RECORDED = 64
SMALL = 1 << 20
LARGE_STEP = 2 << 20  # the driver's own granularity
SLACK = 8  # a reused block may exceed the requested size by at most one part in this number
NEVER_RELEASE = 2**64 - 1
OLDEST, NEWEST = 0, -1  # index of a block in the list of its size
ASIDE = 8 << 20  # minimum number of bytes of host copies that overtake the device's own work
NOBODY: frozenset[CudaStream] = frozenset()


@lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Return the size of a block for a request of `nbytes`.

    Up to 1 MiB, sizes are multiples of 512, with at most four sizes between successive powers of two. Above 1 MiB,
    sizes are multiples of 2 MiB.
    """
    if nbytes <= 512:
        return 512
    step = LARGE_STEP if nbytes > SMALL else max(512, 1 << ((nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


def _listed_class(nbytes: int) -> int | None:
    size = size_class(nbytes)
    return size if size <= SMALL else None


class FreeList:
    """A collection of memory blocks that are free for reuse, in one list per block size.

    Attributes
    ----------
    addresses : dict of int to list of int
        The addresses of the free blocks of each size, oldest first.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, list[int]] = {}
        self._sizes: list[int] = []  # all sizes that ever had a block, ascending

    def put(self, address: int, size: int) -> None:
        """Add a free block."""
        found = self.addresses.get(size)
        if found is None:
            found = self.addresses[size] = []
            insort(self._sizes, size)
        found.append(address)

    def take(self, size: int, which: int = NEWEST) -> tuple[int, int] | None:
        """Remove a free block, and return its address and size, or None if there is none.

        The block has `size` bytes or slightly more. `which` is the index of the block among those of its size, `OLDEST`
        or `NEWEST`.
        """
        found = self.addresses.get(size)
        if found:
            return found.pop(which), size
        most = size + size // SLACK
        for k in range(bisect_left(self._sizes, size), len(self._sizes)):
            if self._sizes[k] > most:
                break
            found = self.addresses[self._sizes[k]]
            if found:
                return found.pop(which), self._sizes[k]
        return None

    def drain(self) -> list[tuple[int, int]]:
        """Remove all blocks, and return their addresses and sizes."""
        found = []
        for size, addresses in list(self.addresses.items()):
            while addresses:
                found.append((addresses.pop(), size))
        return found


class MultiStreamList:
    """A free list of memory blocks that several streams have used.

    For each block, the list holds the number of each stream's last work (`last_work`) at the time the block was freed.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, list[tuple[int, dict[int, int]]]] = {}

    def put(self, address: int, size: int, users: Iterable[CudaStream]) -> None:
        """Add a free block. `users` are the streams that have used the block."""
        self._blocks.setdefault(size, []).append((address, {user.number: user.last_work for user in users}))

    def take(self, size: int, stream: CudaStream) -> tuple[int, int] | None:
        """Remove a free block of `size` bytes, and return its address and size, or None.

        A block is returned only if `stream` has waited for all other users of the block.
        """
        found = self._blocks.get(size, [])
        for k, (address, users) in enumerate(found):
            if all(stream.waits_for(number, last_work) for number, last_work in users.items()):
                del found[k]
                return address, size
        return None

    def drain(self) -> list[tuple[int, int]]:
        """Remove all blocks, and return their addresses and sizes."""
        found = [(address, size) for size, blocks in self._blocks.items() for address, _ in blocks]
        self._blocks.clear()
        return found


class PoolBlock(Buffer):
    """A buffer that occupies a block of a GPU memory pool. When the buffer is deleted, the block returns to the pool.

    Attributes
    ----------
    size : int
        Size of the block in bytes. `nbytes` is the requested size.
    origin_stream : CudaStream
        The stream in which the block was allocated.
    writer : CudaStream
        The stream that last wrote to the block.
    readers : frozenset of CudaStream
        The other streams that have used the block since then.
    """

    __slots__ = ("_pool", "origin_stream", "readers", "size", "writer")

    def __init__(self, pool: MemoryPool, address: int, size: int, nbytes: int, origin_stream: CudaStream) -> None:
        # (sets the fields of a buffer directly, to save a call)
        self.device = pool.device
        self.address = address
        self.nbytes = nbytes
        self.unwritten = self.origin = self.values = None
        self._pool = pool
        self.size = size
        self.origin_stream = self.writer = origin_stream
        self.readers = NOBODY
        self._owner = None

    @property
    def is_multi_stream(self) -> bool:
        """Whether the block was used in a third stream, besides the stream that allocated it and the device's stream.

        Every stream waits for the device's own stream.
        """
        return any(stream is not self.origin_stream and not stream.is_main for stream in self.users)

    @property
    def users(self) -> frozenset[CudaStream]:
        """Return the streams that may still contain work on the block."""
        return self.readers | {self.origin_stream, self.writer}

    def __del__(self) -> None:
        pool, size = self._pool, self.size
        if size <= SMALL and self.writer is self.origin_stream is pool.own and not self.readers:
            free = pool.own.free.addresses.get(size)
            if free is not None and pool.kept + size <= pool.most_kept:
                free.append(self.address)
                pool.counts[KEPT] += size
                return
        pool.give_back(self)


class MemoryPool(Counted):
    """The memory pool of one GPU. Its free lists hold most small blocks of the device's own stream (`own`)."""

    buffers = PoolBlock

    def __init__(self, device: Any, driver: Driver, order: StreamOrder) -> None:
        # the streams' lock, since blocks are deleted wherever garbage is collected
        super().__init__(KEPT_BYTES, order.lock)
        self.device = device
        self._driver = driver
        self._order = order
        self.own = order.own
        self.expected = {"origin_stream": self.own, "writer": self.own, "readers": NOBODY}
        self._multi_stream = MultiStreamList()
        # address -> position in the device's own stream at which a large block was returned
        self._left: dict[int, CudaEvent] = {}
        self._to_record = 0  # number of returned blocks whose positions are still to be recorded
        order.own.free = FreeList()
        order.inherit = self._inherit
        self._pool = self._open_pool()

    def _open_pool(self) -> object | None:
        """Return the driver's memory pool, configured to keep freed memory, or None if the driver has none."""
        kinds = self._driver.table.CUdevice_attribute
        kind = getattr(kinds, "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED", None)
        try:
            if kind is not None and not self._driver.call("cuDeviceGetAttribute", kind, self._driver.handle):
                return None
            pool: object = self._driver.call("cuDeviceGetDefaultMemPool", self._driver.handle)
            table = self._driver.table
            threshold = table.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            self._driver.call("cuMemPoolSetAttribute", pool, threshold, table.cuuint64_t(NEVER_RELEASE))
        except CudaError:
            return None
        return pool

    # -- taking -----------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> PoolBlock:
        """Return a block of at least `nbytes` for use in the stream of the calling thread.

        If there is not enough memory, all work is awaited and all free blocks are released before a second try. Raises
        OutOfMemoryError if the second try fails.
        """
        stream = self._order.current
        # a buffer without elements has an address too: a load before an empty loop reads from it
        size = size_class(nbytes)
        free_lists = self.free_lists if stream is self.own and size <= SMALL else None
        if free_lists is not None:
            block: Any = free_lists.take(size, nbytes)
            if block is not None:
                return block  # type: ignore[no-any-return]
        free = stream.free.addresses.get(size) if stream.free is not None else None
        if free:
            address = free.pop()  # (no other thread runs between these two lines)
            self.counts[KEPT] -= size
        else:
            with self._lock:
                if stream.free is None:
                    stream.free = FreeList()
                address, size = self._kept_block(stream, size) or self._fresh(stream, size, nbytes)
        if self._left:
            self._left.pop(address, None)
        self.note_peak()
        if free_lists is not None and size <= SMALL:
            block = free_lists.make(size, self, address, size, nbytes, stream)
            return block  # type: ignore[no-any-return]
        return PoolBlock(self, address, size, nbytes, stream)

    def allocate_into(self, table: list[Any], requests: BufferRequests) -> None:
        """Allocate the buffers of `requests`, and store them in `table`."""
        call = requests.call
        if call is None or self._order.current is not self.own or call(requests.address, table):
            allocate_for_plan(self.device, table, requests, _listed_class)

    def allocate_for_upload(self, nbytes: int) -> PoolBlock:
        """Return a block for an upload in the copy stream.

        The device's own stream will use the block afterwards. If the end of the block's previous use was recorded, the
        copy stream waits only for this use, and not for later work of the device's own stream. Raises OutOfMemoryError
        as `allocate` does.
        """
        size, own = size_class(nbytes), self._order.own
        with self._lock:
            beside = self._order.beside
            self._to_record = RECORDED
            found = own.free.take(size, OLDEST)
            if found is not None:
                self.counts[KEPT] -= found[1]
                event = self._left.pop(found[0], None)
                if event is None:
                    beside.follow(own)
                else:
                    beside.wait(event)
            address, size = found or self._fresh(beside, size, nbytes)
            self.note_peak()
        return PoolBlock(self, address, size, nbytes, own)

    def _kept_block(self, stream: CudaStream, size: int) -> tuple[int, int] | None:
        found: tuple[int, int] | None = stream.free.take(size)
        if found is None and not stream.is_main:
            found = self._order.own.free.take(size)  # later work in the stream follows the device's own work
        if found is None:
            if stream.is_main or self.kept > self.most_kept:
                self._order.join()
                stream.follow(self._order.own)
            found = self._multi_stream.take(size, stream)
        if found is not None:
            self.counts[KEPT] -= found[1]
        return found

    def _fresh(self, stream: CudaStream, size: int, nbytes: int) -> tuple[int, int]:
        for is_last in (False, True):
            if self.limit is None or self.made + size <= self.limit:
                try:
                    return self._from_driver(stream, size), size
                except OutOfMemoryError:
                    pass
            if not is_last:
                gc.collect()  # arrays in reference cycles can be freed too
                self.empty()
                self._order.own.synchronize()
        total = int(self._driver.call("cuMemGetInfo")[1])
        raise out_of_memory(self._driver.name, nbytes, self.held, total, self.limit)

    def _from_driver(self, stream: CudaStream, size: int) -> int:
        with self._order.lock:
            if self._pool is None:
                address = int(self._driver.call("cuMemAlloc", size))
            else:
                address = int(self._driver.call("cuMemAllocAsync", size, self._order.enter(stream)))
            self.counts[MADE] += size
            return address

    # -- giving back --------------------------------------------------------------------------------

    def give_back(self, block: PoolBlock) -> None:
        """Cache a free block, or return it to the driver if the cache is full."""
        if self._driver.silent:
            return  # the memory is freed with the process
        with self._lock:
            if (block.readers or block.writer is not block.origin_stream) and block.is_multi_stream:
                # freeing it now would be too early: other streams may still use it
                self._multi_stream.put(block.address, block.size, block.users)
                self.counts[KEPT] += block.size
            else:
                self._take_back(block.address, block.size, block.origin_stream)

    def _take_back(self, address: int, size: int, origin_stream: CudaStream) -> None:
        """Cache an unused memory block, or free it if the cache is full. No user stream other than `origin_stream` may have used the block."""
        if self.kept + size > self.most_kept or self._driver.lost:
            self.counts[MADE] -= size
            self._free(address, origin_stream)
            return
        origin_stream.free.put(address, size)
        self.counts[KEPT] += size
        if self._to_record and size >= ASIDE and origin_stream.is_main:
            self._to_record -= 1
            self._leave(address, origin_stream)

    def _leave(self, address: int, stream: CudaStream) -> None:
        """Record the point in a stream after which a block is free."""
        try:
            event = CudaEvent(self._driver, None, timing=False)
            event.record(stream)
        except (WeftError, MemoryError):
            return  # the next user of the block waits for the stream instead
        self._left[address] = event

    def _free(self, address: int, stream: CudaStream) -> None:
        if self._pool is None:
            self._driver.quietly("cuMemFree", address)
        else:
            self._driver.quietly("cuMemFreeAsync", address, stream.queue)

    def _inherit(self, free: FreeList) -> None:
        """Give the free blocks of a destroyed stream to the device's own stream.

        The device's own stream has already waited for the destroyed stream.
        """
        with self._lock:
            for address, size in free.drain():
                self._order.own.free.put(address, size)

    def empty(self) -> int:
        """Empty the memory caches: give unused blocks back to the driver, and the driver's unused memory back to the system.

        Return the size of the blocks in bytes.
        """
        if self.free_lists is not None:
            self.free_lists.clear()
        with self._lock:
            given = 0
            if not self._driver.lost:
                self._order.join()
            lists = [self._multi_stream, *(stream.free for stream in self._order.all if stream.free is not None)]
            for free in lists:
                for address, size in free.drain():
                    self._free(address, self._order.own)  # the device's own stream follows all others
                    self.counts[KEPT] -= size
                    self.counts[MADE] -= size
                    given += size
            if self._left:
                self._left.clear()
            if self._pool is not None and not self._driver.lost:
                self._order.own.synchronize()
                self._driver.quietly("cuMemPoolTrimTo", self._pool, 0)
            return given
