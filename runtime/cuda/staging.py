"""Copies between pageable host memory and a GPU through pinned memory.

In: host arrays, addresses and a stream. Out: copies. Invariant: an upload returns when the host array may be changed,
possibly before the copy to the device has ended. A download returns when the elements have arrived. The host copies one
block while the GPU transfers another. Ctrl-C interrupts uploads and downloads.
"""

from __future__ import annotations

import ctypes
import threading
from functools import partial

import numpy as np

from weft.runtime.cpu.python_threads import run_calls
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import CudaEvent, CudaStream, StreamOrder
from weft.runtime.errors import CudaError, OutOfMemoryError
from weft.runtime.fork_locks import renew_in_children
from weft.runtime.settings import usable_cores

PIECE = 4 << 20
PIECES = 4
PORTABLE = 1
HANDS = 4  # threads that copy on the host: a single thread is slower than the bus
WORTH, LEAST_CORES = 1 << 20, 3  # minimum numbers of bytes and of cores for several threads


def copy_on_host(to: int, source: int, nbytes: int) -> None:
    """Copy host memory, with several threads for a large copy. After the call or an interrupt, no thread is copying."""
    if nbytes < WORTH or usable_cores() < LEAST_CORES:
        ctypes.memmove(to, source, nbytes)
        return
    part = -(-nbytes // HANDS)
    starts = range(0, nbytes, part)
    run_calls([partial(ctypes.memmove, to + k, source + k, min(part, nbytes - k)) for k in starts], HANDS)


class PinnedBlock:
    """A block of pinned memory, with an event that marks the end of its last use."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver = driver
        self.address = int(driver.call("cuMemHostAlloc", nbytes, PORTABLE))
        self.used = CudaEvent(driver, None, timing=False)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._driver.quietly("cuMemFreeHost", self.address)


class Staging:
    """Blocks of pinned memory for copies to and from a device, allocated at the first copy."""

    def __init__(self, driver: Driver, order: StreamOrder) -> None:
        self._driver = driver
        self._order = order
        self._pieces: list[PinnedBlock] | None = None
        self._next = 0
        self._lock = threading.Lock()  # protects the blocks of pinned memory
        renew_in_children(self, threading.Lock)

    def _next_piece(self) -> PinnedBlock | None:
        """Return the next block of pinned memory after waiting for its last use, or None if there are no blocks."""
        if self._pieces is None:
            try:
                self._pieces = [PinnedBlock(self._driver, PIECE) for _ in range(PIECES)]
            except (CudaError, OutOfMemoryError):
                self._pieces = []
        if not self._pieces:
            return None
        piece = self._pieces[self._next % len(self._pieces)]
        self._next += 1
        piece.used.synchronize()
        return piece

    def upload(self, address: int, values: np.ndarray, stream: CudaStream) -> None:
        """Copy a contiguous host array to the device."""
        start, size = values.ctypes.data, values.nbytes
        with self._lock:
            for offset in range(0, size, PIECE):
                length = min(PIECE, size - offset)
                piece = self._next_piece()
                if piece is None:
                    # the driver may still read pageable memory after its call returns, so this waits
                    self.move("cuMemcpyHtoDAsync", address, start, size, stream)
                    stream.synchronize()
                    return
                copy_on_host(piece.address, start + offset, length)
                self.move("cuMemcpyHtoDAsync", address + offset, piece.address, length, stream)
                piece.used.record(stream)

    def download(self, address: int, values: np.ndarray, stream: CudaStream) -> None:
        """Copy from the device to a contiguous host array."""
        start, size = values.ctypes.data, values.nbytes
        moving: list[tuple[PinnedBlock, int]] = []  # pieces in transfer, oldest first
        with self._lock:
            for offset in range(0, size, PIECE):
                if len(moving) == PIECES:
                    self._arrive(*moving.pop(0), start, size)
                piece = self._next_piece()
                if piece is None:
                    self.move("cuMemcpyDtoHAsync", start, address, size, stream)
                    stream.synchronize()
                    return
                self.move("cuMemcpyDtoHAsync", piece.address, address + offset, min(PIECE, size - offset), stream)
                piece.used.record(stream)
                moving.append((piece, offset))
            for piece, offset in moving:
                self._arrive(piece, offset, start, size)

    def move(self, name: str, to: int, source: int, nbytes: int, stream: CudaStream | None) -> None:
        """Enqueue a copy in `stream` by calling the driver function `name`. If `stream` is None, use the calling thread's stream."""
        with self._order.lock:
            self._driver.call(name, to, source, nbytes, self._order.enter(stream))

    def _arrive(self, piece: PinnedBlock, offset: int, start: int, size: int) -> None:
        """Wait for a copy to a block of pinned memory, and copy the block to host memory."""
        piece.used.synchronize()
        copy_on_host(start + offset, piece.address, min(PIECE, size - offset))
