"""The kernel that copies the elements that a mask selects, or their positions.

In: the dtype of the elements. Out: a function that runs the kernel on several threads. Invariant: the kernel writes
only within the output.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from weft.codegen import Kernel, KernelBuilder, kernel_digest, obtain_function
from weft.fusion.run.stored_loops import find_function, store_function
from weft.runtime import address_of, get_device, workers

_WORD = np.dtype(np.int64)
_ALL = int.from_bytes(b"\1" * 8)  # eight mask elements that are all true
# Number of blocks of the mask per thread.
BLOCKS = 4

# arguments: the items (None for a kernel that writes positions), the mask, the output, and the number of threads
MaskedCopy = Callable[[np.ndarray | None, np.ndarray, np.ndarray, int], None]


def compile_masked_copy(kind: np.dtype | None) -> MaskedCopy:
    """Compile the masked copy kernel, and store it on disk.

    The kernel copies items of dtype `kind`, or writes positions if `kind` is None.

    Returns
    -------
    callable
        A function that writes to a C-contiguous array the items that a C-contiguous 1-D mask selects, or their
        positions. The output should have one element per true element of the mask. A shorter output is filled, and
        the remaining items are not written.
    """
    device, kernel = get_device("cpu"), _kernel(kind)
    digest = kernel_digest(device.target, kernel)
    function = obtain_function(device, kernel, digest)
    store_function(_name_of(kind), digest)
    return _make_copy(function)


def find_masked_copy(kind: np.dtype | None) -> MaskedCopy | None:
    """Return the result of `compile_masked_copy` from the disk cache, or None if the cache lacks the code."""
    found = find_function(_name_of(kind))
    return None if found is None else _make_copy(found[0])


def _name_of(kind: np.dtype | None) -> str:
    return f"masked copy {'of positions' if kind is None else kind.itemsize}"


def _make_copy(function: Any) -> MaskedCopy:
    def copy(values: np.ndarray | None, mask: np.ndarray, out: np.ndarray, threads: int) -> None:
        length, parts = len(mask), BLOCKS * threads if threads > 1 else 1
        each = -(-length // (8 * parts)) * 8  # (a multiple of eight, which the kernel reads at once)
        edges = range(0, length, each) if parts > 1 else [0]
        counts = [int(np.count_nonzero(mask[k : k + each])) for k in edges[:-1]]
        # (another thread may have written to the mask)
        starts = array("q", [min(start, len(out)) for start in accumulate(counts, initial=0)] + [len(out)])
        given = [mask, mask, out] if values is None else [mask, mask, values, out]
        words = array("q", [*map(address_of, given), starts.buffer_info()[0], length, each, len(edges)])
        if threads > 1:
            workers().split(function, words.buffer_info()[0], len(edges), threads, 1)
        else:
            function.call(words.buffer_info()[0], 0, 1)

    return copy


def _kernel(kind: np.dtype | None) -> Kernel:
    b = KernelBuilder("find_masked" if kind is None else f"copy_masked_{kind.itemsize}", _WORD)
    mask, words = b.pointer("mask", np.uint8), b.pointer("words", _WORD)
    values = None if kind is None else b.pointer("values", kind, noalias=True)
    out = b.pointer("out", kind or _WORD, writable=True, noalias=True)
    starts, length, each = b.pointer("starts", _WORD), b.scalar("length"), b.scalar("each")

    def store(at: Any, position: Any) -> None:
        b.store(out, at, position if values is None else b.load(values, position))

    def holds(position: Any) -> Any:
        # (a byte other than 0 and 1 is also true)
        return b.cast(b.op("not_equal", b.load(mask, position), b.constant(0, np.uint8)), _WORD)

    with b.loop(b.scalar("blocks"), "parallel") as block:
        begin = b.op("multiply", block.index, each)
        end = b.op("minimum", b.op("add", begin, each), length)
        count, room = (b.load(starts, b.op("add", block.index, b.constant(k))) for k in range(2))
        _copy_block(b, words, store, holds, (begin, end), count, room)
    return b.finish()


def _copy_block(
    b: KernelBuilder, words: Any, store: Any, holds: Any, bounds: tuple[Any, Any], count: Any, room: Any
) -> None:
    """Emit code that stores the selected elements of a block.

    The code reads eight elements of the mask at once. If all eight are 0 or all are 1, it stores no or all elements.
    Otherwise it writes one element after another, including those that are not selected, which the next selected
    element overwrites. If fewer than eight elements of the block's output are left, the code writes only selected
    elements.
    """
    eight, three = b.constant(8), b.constant(3)
    whole, last = b.op("right_shift", bounds[1], three), b.op("subtract", room, eight)
    with b.loop(whole, "serial", start=b.op("right_shift", bounds[0], three), initial=(count,)) as loop:
        (count,) = loop.carried
        word, first = b.load(words, loop.index, align=1), b.op("multiply", loop.index, eight)
        with b.if_(b.op("equal", word, b.constant(0)), (_WORD,)) as none:
            none.yield_(count)
        with b.else_() as some:
            with b.if_(b.op("less_equal", count, last), (_WORD,), likely=True) as free:
                with b.if_(b.op("equal", word, b.constant(_ALL)), (_WORD,)) as all_:
                    for k in range(8):
                        store(b.op("add", count, b.constant(k)), b.op("add", first, b.constant(k)))
                    all_.yield_(b.op("add", count, eight))
                with b.else_() as each:
                    at = count
                    for k in range(8):
                        position = b.op("add", first, b.constant(k))
                        store(at, position)
                        at = b.op("add", at, holds(position))
                    each.yield_(at)
                free.yield_(*all_.results)
            with b.else_() as full:
                full.yield_(_taken_one_by_one(b, store, holds, first, b.op("add", first, eight), count, room))
            some.yield_(*free.results)
        loop.yield_(*none.results)
    _taken_one_by_one(b, store, holds, b.op("multiply", whole, eight), bounds[1], loop.results[0], room)


def _taken_one_by_one(b: KernelBuilder, store: Any, holds: Any, begin: Any, end: Any, count: Any, room: Any) -> Any:
    with b.loop(end, "serial", start=begin, initial=(count,)) as loop:
        (at,) = loop.carried
        one = holds(loop.index)
        # (another thread may write to the mask meanwhile)
        fits = b.op("less", at, room)
        with b.if_(b.op("logical_and", b.op("not_equal", one, b.constant(0)), fits)):
            store(at, loop.index)
        loop.yield_(b.op("add", at, one))
    return loop.results[0]
