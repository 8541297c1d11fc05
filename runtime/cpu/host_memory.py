"""The memory pool of the CPU, which caches host memory by size class.

Blocks are aligned to 64 bytes. The page faults of a new large block cost more than a memory-bound kernel that fills it.
Blocks are therefore cached up to a limit and reused. Taking and returning a cached block need no lock besides the GIL,
which the reference counts also need. Lists and counters are consistent at every point where another thread could
intervene.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.runtime.allocation_report import out_of_memory
from weft.runtime.cpu.free_list_code import KEPT, MADE
from weft.runtime.cpu.free_lists import Counted
from weft.runtime.device import Buffer
from weft.runtime.synchronous_device import machine_memory

if TYPE_CHECKING:
    from collections.abc import Callable

ALIGNMENT = 64
HUGE = 1 << 21  # minimum size of blocks that are mapped, with huge pages if the system has them
KEPT_BYTES = 1 << 30  # maximum number of bytes of free blocks
PAGE = 1 << 12
_LARGEST_KEPT = 31 << 20  # bytes; glibc changes its thresholds for blocks of up to 32 MB
COLOURED = 1 << 16  # minimum size in bytes of blocks whose offset within a page is chosen
COLOUR = 17 * ALIGNMENT  # bytes between the offsets of consecutive blocks, so that there are 64 different offsets
_colours = count()


class HostBlock(NamedTuple):
    """A block of memory: its owner, its address and its size in bytes."""

    raw: object
    address: int
    size: int


@lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """Return the size of a block for a request of `nbytes`.

    There are four size classes between successive powers of two, which limits the waste. The smallest has 256 bytes.
    """
    if nbytes <= 256:
        return 256
    step = 1 << max(6, (nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class HostBuffer(Buffer):
    """A buffer in host memory, which returns its block to the pool when it is deleted."""

    __slots__ = ()
    pooled = True

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at exit, the system reclaims the memory, and the pool's modules may be gone
            self.device.memory.give_back(self._owner)  # type: ignore[attr-defined]


class Pool(Counted):
    """The memory pool of the CPU, which caches free blocks by size."""

    buffers = HostBuffer

    def __init__(self, name: str = "cpu") -> None:
        super().__init__(KEPT_BYTES, threading.RLock())  # reentrant: garbage collection inside may return blocks
        self._name = name
        self._free: dict[int, list[HostBlock]] = {}

    def allocate(self, nbytes: int) -> HostBlock:
        """Return a block of at least `nbytes`.

        If the system has no memory, or the pool would exceed its limit, unused blocks are freed before a second try.
        Raises OutOfMemoryError if the second try fails.
        """
        size = size_class(nbytes)
        free = self._free.get(size)
        if free:
            block = free.pop()  # (no other thread runs between these two lines)
            self.counts[KEPT] -= size
        else:
            block = self._new(size, nbytes)
        self.note_peak()
        return block

    def _new(self, size: int, nbytes: int) -> HostBlock:
        with self._lock:
            block = self._fresh(size)
            if block is None:
                # arrays in reference cycles can be freed too
                gc.collect()
                self.empty()
                block = self._fresh(size)
        if block is None:
            raise out_of_memory(self._name, nbytes, self.held, machine_memory()[1], self.limit)
        return block

    def _fresh(self, size: int) -> HostBlock | None:
        """Allocate a block from the system.

        Return None if there is not enough memory, or if the pool would exceed its limit.
        """
        if self.limit is not None and self.made + size > self.limit:
            return None
        try:
            block = _from_system(size)
        except (MemoryError, OSError, ValueError):
            return None
        self.counts[MADE] += size
        return block

    def give_back(self, block: HostBlock) -> None:
        """Cache a free block, or return it to the system if the cache is full."""
        size = block[2]
        if self.kept + size > self.most_kept:
            self.counts[MADE] -= size
            return
        free = self._free.get(size)
        if free is None:
            free = self._free.setdefault(size, [])
        free.append(block)
        self.counts[KEPT] += size

    def empty(self) -> int:
        """Empty the pool's cache: free all cached blocks, and return their total size in bytes."""
        if self.free_lists is not None:
            self.free_lists.clear()
        given = 0
        for size, free in list(self._free.items()):
            while free:  # (one by one, to take concurrent changes by other threads into account)
                try:
                    free.pop()
                except IndexError:  # another thread ran between these two lines, as it may at the end of each iteration
                    break
                self.counts[KEPT] -= size
                self.counts[MADE] -= size
                given += size
        return given


def _from_system(size: int) -> HostBlock:
    if size >= HUGE:
        mapped = _mapped(size + HUGE + PAGE)
        # an exported buffer keeps the mapping alive and open
        raw: object = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        address = ctypes.addressof(raw)  # type: ignore[arg-type]
        return HostBlock((raw, mapped), -(-address // HUGE) * HUGE + _next_colour(), size)
    colour = _next_colour() if size >= COLOURED else 0
    plain = np.empty(size + ALIGNMENT + colour, np.uint8)  # (ctypes would fill it with zeros)
    address = plain.__array_interface__["data"][0]
    return HostBlock(plain, -(-address // ALIGNMENT) * ALIGNMENT + colour, size)


def keep_freed_memory() -> None:
    """Make the C library keep the memory of freed arrays of up to 31 MiB for reuse.

    glibc does so once a program has freed a block of that size. Until then, NumPy results of a few hundred kilobytes
    may be mapped anew at each call, which takes ten times as long as the computation.
    """
    with suppress(MemoryError):  # (if the address space is limited, memory is not kept)
        np.empty(_LARGEST_KEPT, np.uint8)  # (its pages are never touched)


def _next_colour() -> int:
    """Return the offset within a page at which the next large block should start.

    A processor compares the addresses of loads and earlier stores by their offsets within a page (4K aliasing). A loop
    that reads one array and writes another at nearly the same offset takes up to ten times as long.
    """
    return next(_colours) * COLOUR % PAGE


def _mapped(size: int) -> mmap.mmap:
    # the default mapping, which is shared with children, has no huge pages
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # (a kernel may be built without huge pages)
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
