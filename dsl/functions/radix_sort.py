"""Radix sort on a GPU: the sequence of kernels, and the buffers between them.

In: rows of elements in device memory. Out: the sorted elements, or their indices in sorted order. Invariant: sorts
are stable, NaNs come last in both orders, and zeros of either sign are equal, as in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import wrap
from weft.dsl.functions.host_loops import host_argsort, host_sort
from weft.dsl.functions.radix_kernels import (
    DIGITS,
    SPAN,
    THREADS,
    BitOrder,
    make_block_sort,
    make_clear,
    make_count,
    make_find_moving,
    make_radix_pass,
    order_of,
)
from weft.fusion import Storage
from weft.runtime import Buffer, Device

_UINT32, _INT64, _UINT64 = np.dtype(np.uint32), np.dtype(np.int64), np.dtype(np.uint64)


def tile_items(order: BitOrder) -> int:
    """Return the size of a tile of the radix sort, in elements per thread.

    Tiles of this size fit, with indices, in the shared memory of every GPU.
    """
    return 8 if order.word.itemsize == 8 else 16


def block_items(order: BitOrder, n: int, numbered: bool) -> int:
    """Return the number of elements per thread if one block can sort a whole row, otherwise 0.

    Sorts that also move indices allow fewer elements per thread, since the indices occupy registers.
    """
    if n <= THREADS:
        return 2
    choices = (8,) if numbered else (8, tile_items(order))
    return next((items for items in choices if n <= THREADS * items), 0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The cost of a sort: tiles per row, number of kernels, and bytes moved.

    There is one tile per row if a block sorts whole rows.
    """

    tiles: int
    kernels: int
    moved: int


def measure(rows: int, n: int, dtype: np.dtype, numbered: bool) -> Sizes:
    """Return the cost of sorting `rows` rows of `n` elements."""
    order = order_of(dtype, False)
    size, count = dtype.itemsize, rows * n
    result = 8 if numbered else size
    if block_items(order, n, numbered):
        return Sizes(1, 1, count * (size + result))
    tiles = -(-n // (THREADS * tile_items(order)))
    # Elements are read once for counting, then read and written in each pass, if all passes move elements. Indices are
    # moved too. They have four bytes, and the first pass does not read them.
    along = (order.passes - 1) * (size + 4) * 2 + size + result if numbered else 2 * size * order.passes
    return Sizes(tiles, 3 + order.passes, count * (size + along) + 8 * DIGITS * tiles * rows)


@dataclass(frozen=True, slots=True)
class Rows:
    """A radix sort of contiguous rows in device memory.

    Attributes
    ----------
    source : (Buffer, int)
        The buffer, and the byte offset of the first element.
    out : Buffer
        The buffer for the sorted elements, or for their original indices as int64 if the sort is `numbered`.
    """

    device: Device
    source: tuple[Buffer, int]
    out: Buffer
    rows: int
    n: int
    order: BitOrder
    numbered: bool

    def run(self) -> None:
        """Launch the kernels that sort the rows."""
        items = block_items(self.order, self.n, self.numbered)
        if items:
            self._within_blocks(items)
        else:
            self._by_tiles(tile_items(self.order))

    def _array(self, buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype, start: int = 0) -> Any:
        """Return an array over part of a buffer, as a kernel argument."""
        nbytes = dtype.itemsize * prod(shape)
        part = Buffer(self.device, buffer.address + start, nbytes, buffer)
        return wrap(Storage(shape, dtype, self.device, part))

    def _within_blocks(self, items: int) -> None:
        per = min(DIGITS, THREADS * items // self.n)
        several = min(per, self.rows) > 1
        kernel = make_block_sort(self.order, items, several or self.numbered, self.numbered)
        shape = (self.rows * self.n,)
        source = self._array(self.source[0], shape, self.order.word, self.source[1])
        out = self._array(self.out, shape, _INT64 if self.numbered else self.order.word)
        kernel[-(-self.rows // per), THREADS](source, out, self.n, per, self.order.passes + several)

    def _by_tiles(self, items: int) -> None:
        order, rows, n = self.order, self.rows, self.n
        word, passes, shape = order.word, order.passes, (rows, n)
        tiles = -(-n // (THREADS * items))
        words = rows * tiles * DIGITS, -(-rows * passes * DIGITS // 2), -(-passes // 2), -(-passes // 2)
        held = self.device.allocate(8 * sum(words))
        descriptors = self._array(held, (rows * tiles, DIGITS), _UINT64)
        counts = self._array(held, (rows, passes * DIGITS), _UINT32, 8 * words[0])
        taken, moving = (self._array(held, (passes,), _UINT32, 8 * sum(words[:k])) for k in (2, 3))
        make_clear()[-(-sum(words) // THREADS), THREADS](self._array(held, (sum(words),), _UINT64))
        source = self._array(self.source[0], shape, word, self.source[1])
        blocks = -(-n // SPAN)
        make_count(order)[rows * blocks, THREADS](source, counts, blocks)
        make_find_moving(order)[rows, THREADS](counts, moving, n)
        kernel = make_radix_pass(order, items, self.numbered)
        stages = self._stages(shape)
        for number in range(passes):
            kernel[rows * tiles, THREADS](source, *stages, counts, descriptors, taken, moving, tiles, number)

    def _stages(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the arrays that hold elements and indices between the radix passes, and the result array.

        Arrays that no pass needs share the result's buffer.
        """
        passes, size = self.order.passes, self.rows * self.n

        def between(kind: np.dtype, least: int) -> Any:
            used = passes >= least
            return self._array(self.device.allocate(size * kind.itemsize) if used else self.out, shape, kind)

        word = self.order.word
        if self.numbered:
            moved = [between(kind, least) for kind in (word, _UINT32) for least in (3, 2)]
            return *moved, self._array(self.out, shape, _INT64)
        out = self._array(self.out, shape, word)
        return out, between(word, 2), out, out, out


@dataclass(frozen=True, slots=True)
class RadixSort:
    """A recorded sort of rows, which weft's radix sort kernels execute on a GPU.

    Attributes
    ----------
    descending : bool
        Whether the greatest elements come first. NaNs come last in both orders.
    numbered : bool
        Whether the result consists of the original indices, as int64, instead of the elements.
    """

    descending: bool
    numbered: bool

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """In interpreted plans, use NumPy to write the sorted elements of `values`, or their indices, to `out`."""
        out[...] = (
            host_argsort(values, -1, self.descending) if self.numbered else host_sort(values, -1, self.descending)
        )

    def enqueue(
        self, device: Device, out: Buffer, operand: tuple[Buffer, int], shape: tuple[int, ...], dtype: Any
    ) -> None:
        """Enqueue the kernels of the sort on the device. `operand` is a buffer and the byte offset of the first row."""
        rows, n = prod(shape[:-1]), shape[-1]
        Rows(device, operand, out, rows, n, order_of(dtype, self.descending), self.numbered).run()

    def describe(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        """Describe the kernels of a sort in a text that `weft.explain` shows."""
        sizes = measure(prod(shape[:-1]), shape[-1], dtype, self.numbered)
        how = (
            "rows within blocks"
            if sizes.tiles == 1
            else f"at most {dtype.itemsize} passes of 8 bits, {sizes.tiles} tiles a row"
        )
        kernels = "1 kernel that moves" if sizes.kernels == 1 else f"{sizes.kernels} kernels that move up to"
        return f"by radix, {how}: {kernels} {sizes.moved / 1e6:.3g} MB"
