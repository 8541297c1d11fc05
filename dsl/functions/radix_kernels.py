"""Kernels for radix sort on a GPU: one for short rows, and four for longer rows.

In: the order of the elements' bits (`BitOrder`). Out: kernels in the kernel language, which are cached. Invariant:
equal elements keep their order. The elements' own bits are moved, so that zeros keep their signs and NaNs keep their
payloads.

The elements of a row are sorted by their least significant eight-bit digit first, then by each next digit. The
positions of the elements of a tile follow from digit counts: a lane finds the lanes of its warp with the same digit,
and each warp adds the counts of the previous warps. Tiles obtain the counts of previous tiles by decoupled look-back
(Merrill and Garland, 2016). All digits are counted in advance, as in Adinets and Merrill, "Onesweep: A Faster Least
Significant Digit Radix Sort for GPUs" (2022). A pass in which all elements of each row share the digit moves nothing:
its blocks detect this from the counts and end, and the next pass reads the elements that the previous pass wrote.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.codegen import dtype_kind, is_bfloat16
from weft.dsl.kernel.language.device_function import device
from weft.dsl.kernel.language.names import (
    atomic,
    blockIdx,
    laneid,
    lanemask_lt,
    local,
    match_any_sync,
    popc,
    selp,
    shared,
    shfl_up_sync,
    syncthreads,
    syncthreads_or,
    syncwarp,
    threadIdx,
)
from weft.dsl.kernel.language.specialize import Options
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher

THREADS = 256
WARPS = THREADS // 32
DIGITS = 256  # equal to the number of threads, so that each thread counts one digit
FULL = 0xFFFFFFFF
# The upper half of a word in `ranks` is an element's digit, and the lower half is the number of earlier elements of the
# warp with this digit.
SHIFT, LOW = np.uint32(16), np.uint32(0xFFFF)
# Maximum number of elements that a block counts.
SPAN = 1 << 16


class BitOrder(NamedTuple):
    """Mapping from an element's bits to an unsigned integer. Elements are sorted in the order of these integers.

    Attributes
    ----------
    word : numpy.dtype
        Unsigned integers as wide as an element.
    kind : str
        Interpretation of the bits: "u" (unsigned), "i" (signed) or "f" (float).
    infinity : int
        The bits of a float's infinity. After the sign bit is cleared, greater values are NaNs.
    descending : bool
        Whether the greatest elements come first. NaNs come last in both orders.
    """

    word: np.dtype
    kind: str
    infinity: int
    descending: bool

    @property
    def passes(self) -> int:
        """Return the number of radix passes, one per byte of an element."""
        return self.word.itemsize


def order_of(dtype: np.dtype, descending: bool) -> BitOrder:
    """Return the `BitOrder` of a real dtype."""
    kind = dtype_kind(dtype)
    word = np.dtype(f"u{dtype.itemsize}")
    infinity = 0
    if kind == "f":
        infinity = 0x7F80 if is_bfloat16(dtype) else int(np.array(np.inf, dtype).view(word))
    return BitOrder(word, "u" if kind == "b" else kind, infinity, descending)


def _kernel(function: Any) -> KernelDispatcher:
    # Limit the registers so that a multiprocessor can run two blocks.
    return KernelDispatcher(function, options=Options(launch_bounds=(THREADS, 2)))


@cache
def digit_of(order: BitOrder) -> Any:
    """Return a device function that extracts an 8-bit digit of an element's sort key."""
    wide = np.uint64 if order.word.itemsize == 8 else np.uint32
    sign = wide(1 << (8 * order.word.itemsize - 1))
    low = wide(int(sign) - 1)
    infinity, largest, none = wide(order.infinity), wide(int(sign) * 2 - 1), wide(0)
    is_float, signed, descending = order.kind == "f", order.kind == "i", order.descending

    @device
    def digit(bits: Any, shift: Any) -> Any:
        raw = wide(bits)
        if is_float:
            size = raw & low
            ordered = selp((raw & sign) != none, raw ^ largest, raw | sign)
            key = selp(size == none, sign, ordered)
        elif signed:
            key = raw ^ sign
        else:
            key = raw
        key = selp(descending, ~key, key)
        if is_float:
            key = selp((raw & low) > infinity, largest, key)
        return np.uint32((key >> wide(shift)) & wide(DIGITS - 1))

    return digit


@device
def count_in_warp(counters: Any, warp: Any, digit: Any) -> Any:
    """Increment the counter of this lane's digit. Each warp has its own counters, one per digit.

    Return the number of the warp's earlier elements with this lane's digit.
    """
    peers = match_any_sync(FULL, digit)
    before = np.uint32(popc(peers & lanemask_lt()))
    counter = warp * DIGITS + digit
    old = counters[counter]
    syncwarp()
    if before == 0:
        counters[counter] = old + np.uint32(popc(peers))
    syncwarp()
    return old + before


@device
def sum_before(sums: Any, value: Any) -> Any:
    """Return the sum of `value` over the preceding threads of the block.

    `sums` is shared memory with one element per warp.
    """
    warp = np.uint32(threadIdx.x) // np.uint32(32)
    total = value
    for step in (1, 2, 4, 8, 16):
        other = shfl_up_sync(FULL, total, step)
        total += selp(laneid >= step, other, np.uint32(0))
    if laneid == 31:
        sums[warp] = total
    syncthreads()
    before = np.uint32(0)
    for k in range(WARPS):
        before += selp(k < warp, sums[k], np.uint32(0))
    syncthreads()
    return before + total - value


@device
def clear_counters(counters: Any) -> None:
    """Set the digit counters of all warps to zero."""
    for k in range(WARPS):
        counters[k * DIGITS + threadIdx.x] = np.uint32(0)


@device
def sum_of_warps(counters: Any) -> Any:
    """Return how many elements of the tile have the digit `threadIdx.x`, by adding the counts of all warps."""
    total = np.uint32(0)
    for k in range(WARPS):
        total += counters[k * DIGITS + threadIdx.x]
    return total


@device
def position_warps(counters: Any, first: Any) -> None:
    """For the digit of this thread, turn the counts of warps in `counters` into start positions:

    `first` plus the counts of all earlier warps.

    The result for a warp is the position, in the sorted tile, of the warp's first element with this digit.
    """
    position = first
    for k in range(WARPS):
        count = counters[k * DIGITS + threadIdx.x]
        counters[k * DIGITS + threadIdx.x] = position
        position += count


@cache
def make_block_sort(order: BitOrder, items: int, carries: bool, numbered: bool) -> KernelDispatcher:
    """Return a kernel in which each block sorts adjacent rows of up to ``THREADS * items`` elements in total.

    The kernel's parameters are ``(source, out, n, per, passes)``: each block sorts `per` rows of `n` elements in
    `passes` passes, one per digit and, for several rows, a last one by row. If `carries` is true, indices move with the
    elements. If `numbered` is true, the kernel writes the elements' indices in their rows instead of the elements.
    """
    word, digit, own_passes = order.word, digit_of(order), order.passes
    exchange_tile, _ = parts_that_write(order, items, carries)
    size, each, moved = THREADS * items, tuple(range(items)), THREADS * items if carries else 1

    def block_sort(source: Any, out: Any, n: Any, per: Any, passes: Any) -> None:
        counters = shared.array(WARPS * DIGITS, np.uint32)
        sums = shared.array(WARPS, np.uint32)
        exchange = shared.array(size, word)
        carried = shared.array(moved, np.uint32)
        bits, came = local.array(items, word), local.array(items, np.uint32)
        ranks = local.array(items, np.uint32)
        base = blockIdx.x * per * n
        length = np.uint32(min(per * n, source.size - base))
        warp = np.uint32(threadIdx.x) // np.uint32(32)
        first = warp * np.uint32(32 * items) + np.uint32(laneid)
        for k in range(items):
            position = first + np.uint32(32 * k)
            bits[k] = word.type(0)
            came[k] = position
            if position < length:
                bits[k] = source[base + position]
        for number in range(passes):
            clear_counters(counters)
            syncthreads()
            for k in each:
                found = digit(bits[k], 8 * number)
                if carries:
                    if number == own_passes:
                        found = came[k] // np.uint32(n)
                # Positions beyond the end get the largest digit, so that they stay at the end.
                own = selp(first + np.uint32(32 * k) < length, found, np.uint32(DIGITS - 1))
                ranks[k] = own << SHIFT | count_in_warp(counters, warp, own)
            syncthreads()
            position_warps(counters, sum_before(sums, sum_of_warps(counters)))
            syncthreads()
            exchange_tile(bits, came, ranks, counters, exchange, carried)
            syncthreads()
            for k in each:
                bits[k] = exchange[first + np.uint32(32 * k)]
                if carries:
                    came[k] = carried[first + np.uint32(32 * k)]
        for k in each:
            position = first + np.uint32(32 * k)
            if position < length:
                if numbered:
                    out[base + position] = np.int64(came[k] % np.uint32(n))
                else:
                    out[base + position] = bits[k]

    return _kernel(block_sort)


@cache
def make_clear() -> KernelDispatcher:
    """Return a kernel that sets all elements of its only argument, an array of uint64, to zero."""

    def clear(words: Any) -> None:
        position = blockIdx.x * THREADS + threadIdx.x
        if position < words.size:
            words[position] = np.uint64(0)

    return _kernel(clear)


@cache
def make_count(order: BitOrder) -> KernelDispatcher:
    """Return a kernel that counts the digits of each row for all radix passes.

    The kernel's parameters are ``(source, counts, blocks)``. For pass `number`, the kernel adds the counts of a row's
    digits to ``counts[row, number * DIGITS + digit]``. Each row has `blocks` thread blocks, which count up to `SPAN`
    elements each.
    """
    digit, passes = digit_of(order), order.passes

    def count(source: Any, counts: Any, blocks: Any) -> None:
        found = shared.array(passes * DIGITS, np.uint32)
        t = np.uint32(threadIdx.x)
        row = np.uint32(blockIdx.x) // np.uint32(blocks)
        begin = (np.uint32(blockIdx.x) - row * np.uint32(blocks)) * np.uint32(SPAN)
        end = np.uint32(min(source.shape[1] - begin, SPAN))
        for k in range(passes):
            found[k * DIGITS + t] = np.uint32(0)
        syncthreads()
        for k in range(t, end, THREADS):
            bits = source[row, begin + k]
            for number in range(passes):
                atomic.add(found, number * DIGITS + digit(bits, 8 * number), 1)
        syncthreads()
        for k in range(passes):
            if found[k * DIGITS + t] != 0:
                atomic.add(counts, (row, k * DIGITS + t), found[k * DIGITS + t])

    return _kernel(count)


@cache
def make_find_moving(order: BitOrder) -> KernelDispatcher:
    """Return a kernel that marks the radix passes that move elements.

    The kernel's parameters are ``(counts, moving, n)``. It has one block per row, and sets ``moving[number]`` to 1 if
    the row's `n` elements differ in digit `number`.
    """
    passes = order.passes

    def find_moving(counts: Any, moving: Any, n: Any) -> None:
        t = np.uint32(threadIdx.x)
        for number in range(passes):
            alike = syncthreads_or(counts[blockIdx.x, number * DIGITS + t] == np.uint32(n))
            if t == 0 and not alike:
                atomic.exch(moving, number, 1)

    return _kernel(find_moving)


@device
def look_back(descriptors: Any, tile: Any, within: Any, number: Any) -> Any:
    """Return the position in the sorted row at which this tile's elements with a given digit begin. Earlier tiles provide their digit counts.

    The digit is the thread's index in the block. For a row's first tile, return 0: its positions follow from the digit counts of the row.
    """
    seen = np.uint32(0)
    other = tile
    looking = within > 0
    while looking:
        word = atomic.load(descriptors, (other - np.uint32(1), threadIdx.x))
        state = np.uint32(word >> np.uint64(32))
        if state > np.uint32(2 * number):  # (otherwise the state is that of an earlier pass)
            seen += np.uint32(word & np.uint64(FULL))
            looking = state == np.uint32(2 * number + 1)
            other -= np.uint32(1)
    return seen


@device
def note(descriptors: Any, tile: Any, state: Any, count: Any) -> None:
    """Make `state` and `count` of this thread's digit visible to the blocks that process later tiles.

    `count` is the tile's count of the digit or the next tile's offset, as `state` indicates (see `make_radix_pass`).
    """
    atomic.exch(descriptors, (tile, threadIdx.x), np.uint64(state) << np.uint64(32) | np.uint64(count))


@cache
def parts_of_pass(order: BitOrder, items: int) -> tuple[Any, ...]:
    """Return the device functions that load a tile and rank its elements in a radix pass.

    The first function counts the earlier and the later passes that move elements. Elements are ranked among those of
    their warp with the same digit.
    """
    digit, passes, each = digit_of(order), order.passes, tuple(range(items))

    @device
    def count_moving(moving: Any, number: Any) -> Any:
        earlier, later = np.uint32(0), np.uint32(0)
        for k in range(passes):
            earlier += selp(k < number, moving[k], np.uint32(0))
            later += selp(k > number, moving[k], np.uint32(0))
        return earlier, later

    @device
    def read(found: Any, rows: Any, where: Any) -> None:
        row, begin, first, length = where
        for k in each:
            position = first + np.uint32(32 * k)
            found[k] = found.dtype.type(0)
            if position < length:
                found[k] = rows[row, begin + position]

    @device
    def count_tile(bits: Any, ranks: Any, counters: Any, first: Any, length: Any, number: Any) -> None:
        warp = np.uint32(threadIdx.x) // np.uint32(32)
        for k in each:
            # Positions beyond the end get the largest digit, so that they stay at the end.
            inside = first + np.uint32(32 * k) < length
            own = selp(inside, digit(bits[k], 8 * number), np.uint32(DIGITS - 1))
            ranks[k] = own << SHIFT | count_in_warp(counters, warp, own)

    @device
    def read_tile(found: Any, arrays: Any, begins: Any, to_even: Any, where: Any) -> None:
        source, even, odd = arrays
        if begins:
            read(found, source, where)
        elif to_even:
            read(found, odd, where)
        else:
            read(found, even, where)

    return count_moving, read_tile, count_tile


@cache
def parts_that_write(order: BitOrder, items: int, numbered: bool) -> tuple[Any, ...]:
    """Return two device functions of a radix sort. One sorts a tile's elements in shared memory, the other writes the tile to global memory."""
    digit, each = digit_of(order), tuple(range(items))

    @device
    def exchange_tile(bits: Any, came: Any, ranks: Any, counters: Any, exchange: Any, carried: Any) -> None:
        warp = np.uint32(threadIdx.x) // np.uint32(32)
        for k in each:
            rank = (ranks[k] & LOW) + counters[warp * DIGITS + (ranks[k] >> SHIFT)]
            exchange[rank] = bits[k]
            if numbered:
                carried[rank] = came[k]

    @device
    def write_tile(
        moved: Any, offsets: Any, into: Any, ends: Any, to_even: Any, row: Any, length: Any, number: Any
    ) -> None:
        exchange, carried = moved
        even, odd, even_indices, odd_indices, out = into
        t = np.uint32(threadIdx.x)
        for k in range(items):
            position = t + np.uint32(THREADS * k)
            if position < length:
                there = offsets[digit(exchange[position], 8 * number)] + position
                if numbered and ends:
                    out[row, there] = np.int64(carried[position])
                elif to_even:
                    even[row, there] = exchange[position]
                    if numbered:
                        even_indices[row, there] = carried[position]
                else:
                    odd[row, there] = exchange[position]
                    if numbered:
                        odd_indices[row, there] = carried[position]

    return exchange_tile, write_tile


@device
def take_tile(taken: Any, begun: Any, number: Any) -> Any:
    """Reserve the next unprocessed tile of a radix pass for the block, and return the tile's number.

    Tiles are numbered in the order in which blocks start them. Thus a block waits only for tiles that have started.
    """
    if threadIdx.x == 0:
        begun[0] = atomic.add(taken, number, 1)
    syncthreads()
    return begun[0]


@device
def offset_of_digit(
    counters: Any, sums: Any, counts: Any, descriptors: Any, tile: Any, row: Any, within: Any, number: Any
) -> Any:
    """Return the number to add to a position in the sorted tile to get the position in the sorted row, for elements
    with a given digit.

    The digit is the index of the thread in the block. The tile's counts are published, and `counters`
    receives, for each warp and digit, the position of the first element in the sorted tile.
    """
    total = sum_of_warps(counters)
    if within > 0:
        note(descriptors, tile, 2 * number + 1, total)
    here = sum_before(sums, total)
    position_warps(counters, here)
    of_row = selp(within == 0, counts[row, number * DIGITS + threadIdx.x], np.uint32(0))
    before = sum_before(sums, of_row) + look_back(descriptors, tile, within, number)
    note(descriptors, tile, 2 * number + 2, before + total)
    return before - here


@cache
def make_radix_pass(order: BitOrder, items: int, numbered: bool) -> KernelDispatcher:
    """Return a kernel that sorts rows by one digit, with one block per tile of ``THREADS * items`` elements.

    Of the passes that move elements, the first reads from `source`, the last writes to `even`, the one before the last
    to `odd`, and so on. If `numbered` is true, the indices of elements are moved too (`even_indices`, `odd_indices`), and
    the last pass writes only the indices, as int64, to `out`. `make_count` and `make_find_moving` compute `counts` and
    `moving`. `taken` counts the tiles started in each pass. A row has `tiles` tiles. In `descriptors`, a tile publishes
    its count of a digit in state ``2 * number + 1``, then the next tile's offset in state ``2 * number + 2``.
    """
    word, size, kept = order.word, THREADS * items, THREADS * items if numbered else 1
    count_moving, read_tile, count_tile = parts_of_pass(order, items)
    exchange_tile, write_tile = parts_that_write(order, items, numbered)

    def radix_pass(
        source: Any,
        even: Any,
        odd: Any,
        even_indices: Any,
        odd_indices: Any,
        out: Any,
        counts: Any,
        descriptors: Any,
        taken: Any,
        moving: Any,
        tiles: Any,
        number: Any,
    ) -> None:
        earlier, later = count_moving(moving, number)
        if moving[number] == 0 and (number > 0 or later > 0):
            return  # (if no pass moves elements, the first pass copies them)
        begins, ends, to_even = earlier == 0, later == 0, later % 2 == 0
        counters = shared.array(WARPS * DIGITS, np.uint32)
        sums, begun = shared.array(WARPS, np.uint32), shared.array(1, np.uint32)
        offsets = shared.array(DIGITS, np.uint32)
        exchange, carried = shared.array(size, word), shared.array(kept, np.uint32)
        bits, ranks, came = local.array(items, word), local.array(items, np.uint32), local.array(items, np.uint32)
        clear_counters(counters)
        tile = take_tile(taken, begun, number)
        row = tile // np.uint32(tiles)
        within = tile - row * np.uint32(tiles)
        begin = within * np.uint32(size)
        length = np.uint32(min(source.shape[1] - begin, size))
        t = np.uint32(threadIdx.x)
        first = t // np.uint32(32) * np.uint32(32 * items) + np.uint32(laneid)
        read_tile(bits, (source, even, odd), begins, to_even, (row, begin, first, length))
        count_tile(bits, ranks, counters, first, length, number)
        syncthreads()
        offsets[t] = offset_of_digit(counters, sums, counts, descriptors, tile, row, within, number)
        syncthreads()
        if numbered and begins:
            for k in range(items):
                came[k] = begin + first + np.uint32(32 * k)
        elif numbered:
            read_tile(came, (even_indices, even_indices, odd_indices), begins, to_even, (row, begin, first, length))
        exchange_tile(bits, came, ranks, counters, exchange, carried)
        syncthreads()
        into = (even, odd, even_indices, odd_indices, out)
        write_tile((exchange, carried), offsets, into, ends, to_even, row, length, number)

    return _kernel(radix_pass)
