"""Host memory: 64-byte aligned blocks, kept for reuse by size class.

A fresh large block costs more in page faults than a memory-bound kernel takes to fill it, so that blocks are
kept, up to a bound, and handed out again.
"""

from __future__ import annotations

import ctypes
import mmap
import threading

from weft.runtime.errors import OutOfMemoryError

ALIGNMENT = 64
HUGE = 1 << 21  # from here on blocks are mapped, with huge pages where the system has them
KEPT_BYTES = 1 << 30  # that free blocks may hold


class Block:
    """One block; goes back to its pool when it dies."""

    __slots__ = ("_pool", "_raw", "address", "size")

    def __init__(self, pool: Pool, raw: object, address: int, size: int) -> None:
        self._pool = pool
        self._raw = raw
        self.address = address
        self.size = size

    def __del__(self) -> None:
        self._pool.give_back(self._raw, self.address, self.size)


def size_class(nbytes: int) -> int:
    """Bytes that a request is rounded up to: quarters of powers of two, so that little is wasted."""
    if nbytes <= 256:
        return 256
    step = 1 << max(6, (nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class Pool:
    """Free blocks by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[tuple[object, int]]] = {}
        self._kept = 0
        self._lock = threading.Lock()
        self.held = 0
        self._limit = KEPT_BYTES  # an attribute: blocks may die after the module has been taken down

    def allocate(self, nbytes: int) -> Block:
        """A block of at least `nbytes`. Raises OutOfMemoryError after the free blocks were given up and one retry."""
        size = size_class(nbytes)
        free = self._free.get(size)
        if free:
            with self._lock:
                if free:
                    raw, address = free.pop()
                    self._kept -= size
                    self.held += size
                    return Block(self, raw, address, size)
        try:
            raw, address = _fresh(size)
        except (MemoryError, OSError, ValueError):
            self.empty()
            try:
                raw, address = _fresh(size)
            except (MemoryError, OSError, ValueError):
                raise OutOfMemoryError("cpu", nbytes, self.held) from None
        self.held += size
        return Block(self, raw, address, size)

    def give_back(self, raw: object, address: int, size: int) -> None:
        """Keep a block for reuse, or let it go where enough are kept."""
        self.held -= size
        if self._kept + size <= self._limit:
            with self._lock:
                self._free.setdefault(size, []).append((raw, address))
                self._kept += size

    def empty(self) -> None:
        """Give every free block back to the system."""
        with self._lock:
            self._free.clear()
            self._kept = 0


def _fresh(size: int) -> tuple[object, int]:
    if size >= HUGE:
        mapped = mmap.mmap(-1, size + HUGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapped.madvise(mmap.MADV_HUGEPAGE)
        # an exported buffer keeps the mapping alive and open
        raw: object = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        address = ctypes.addressof(raw)  # type: ignore[arg-type]
        return (raw, mapped), -(-address // HUGE) * HUGE
    plain = ctypes.create_string_buffer(size + ALIGNMENT)
    address = ctypes.addressof(plain)
    return plain, -(-address // ALIGNMENT) * ALIGNMENT
