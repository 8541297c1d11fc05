"""Host memory in 64-byte aligned blocks, which are cached by size class.

The page faults of a new large block cost more than a memory-bound kernel that fills it. Blocks are therefore cached
up to a limit and reused. Taking a cached block and returning it need no lock. Lists and counters are consistent at
every point where another thread could intervene, under the interpreter's lock, which the reference counts also need.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from weft.runtime.cpu.shelf_code import KEPT, MADE
from weft.runtime.cpu.shelves import Counted, Shelves
from weft.runtime.device import Buffer
from weft.runtime.errors import CompileError
from weft.runtime.immediate import machine_memory
from weft.runtime.live import out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable

ALIGNMENT = 64
HUGE = 1 << 21  # from here on blocks are mapped, with huge pages where the system has them
KEPT_BYTES = 1 << 30  # that free blocks may hold
PAGE = 1 << 12
COLOURED = 1 << 16  # bytes of a block from which on its place in a page is chosen
COLOUR = 17 * ALIGNMENT  # bytes between the places of two blocks made one after the other: 64 places in all
_colours = count()


class HostBlock(NamedTuple):
    """A block of memory: its owner, its address and its size in bytes."""

    raw: object
    address: int
    size: int


@lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """Return the size class of a request.

    Size classes are quarters of powers of two, which limits the waste.
    """
    if nbytes <= 256:
        return 256
    step = 1 << max(6, (nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class HostBuffer(Buffer):
    """A buffer that returns its block of memory to the pool when it is deleted."""

    __slots__ = ()
    pooled = True

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at exit the system takes the memory back, and the pool's modules may be gone
            self.device.memory.give_back(self._owner)  # type: ignore[attr-defined]


class Pool(Counted):
    """A pool that caches free blocks of memory by size.

    Attributes
    ----------
    limit : int or None
        The maximum number of bytes of all blocks, in use or free.
    shelves : Shelves or None
        The free lists of most deleted buffers. They are created when a plan runs repeatedly.
    """

    def __init__(self, name: str = "cpu") -> None:
        super().__init__(KEPT_BYTES)
        self._name = name
        self._free: dict[int, list[HostBlock]] = {}
        self._lock = threading.RLock()  # collecting garbage inside may give blocks back
        self.limit: int | None = None
        self.shelves: Shelves | None = None

    def obtain_shelves(self) -> Shelves | None:
        """Return the free lists of buffers, or None if they cannot be created."""
        if self.shelves is None:
            try:
                found = Shelves(HostBuffer, self, {})
            except CompileError:
                return None
            with self._lock:
                self.shelves = self.shelves or found
        return self.shelves

    def allocate(self, nbytes: int) -> HostBlock:
        """Return a block of at least `nbytes`.

        If the system has no memory, unused blocks are freed before a second try. Raises OutOfMemoryError if that fails.
        """
        size = size_class(nbytes)
        free = self._free.get(size)
        if free:
            block = free.pop()  # (nobody comes between these two lines)
            self.counts[KEPT] -= size
        else:
            block = self._new(size, nbytes)
        self.note_peak()
        return block

    def _new(self, size: int, nbytes: int) -> HostBlock:
        with self._lock:
            block = self._fresh(size)
            if block is None:
                # arrays that only refer to each other are free too
                gc.collect()
                self.empty()
                block = self._fresh(size)
        if block is None:
            raise out_of_memory(self._name, nbytes, self.held, machine_memory()[1], self.limit)
        return block

    def _fresh(self, size: int) -> HostBlock | None:
        """Return a new block from the system. Return None if there is no memory, or if the limit forbids it."""
        if self.limit is not None and self.made + size > self.limit:
            return None
        try:
            block = _from_system(size)
        except (MemoryError, OSError, ValueError):
            return None
        self.counts[MADE] += size
        return block

    def give_back(self, block: HostBlock) -> None:
        """Keep a block for reuse, or free it if the free blocks would exceed their limit."""
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
        """Free all unused blocks, and return their size in bytes."""
        if self.shelves is not None:
            self.shelves.clear()
        given = 0
        for size, free in list(self._free.items()):
            while free:  # (one by one: what others take or give meanwhile counts too)
                try:
                    free.pop()
                except IndexError:  # another thread came between these two lines, as it may at the end of each turn
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
    plain = ctypes.create_string_buffer(size + ALIGNMENT + colour)
    address = ctypes.addressof(plain)
    return HostBlock(plain, -(-address // ALIGNMENT) * ALIGNMENT + colour, size)


def _next_colour() -> int:
    """Return the offset within a page at which the next large block begins.

    A processor compares the addresses of loads and earlier stores by their offsets within a page (4K aliasing). A loop
    that reads one array and writes another at nearly the same offset takes up to ten times as long.
    """
    return next(_colours) * COLOUR % PAGE


def _mapped(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    # memory that is shared with children, the default, has no huge pages
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
