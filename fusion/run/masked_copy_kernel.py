"""The kernel that copies the elements that a mask selects.

In: the dtype of the elements. Out: the loaded kernel. Its slots are the addresses of the mask (twice), of the elements
and of the output, then the lengths of the mask and of the output. Invariant: the kernel writes only within the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import Kernel, KernelBuilder, obtain_function
from weft.runtime import get_device

_WORD = np.dtype(np.int64)
_ALL = int.from_bytes(b"\1" * 8)  # eight mask elements that are all true


def compile_masked_copy(kind: np.dtype) -> Any:
    """Return the loaded kernel that copies elements of dtype `kind`."""
    return obtain_function(get_device("cpu"), _kernel(kind))


def _kernel(kind: np.dtype) -> Kernel:
    """Return a kernel that copies selected elements, and reads eight elements of the mask at once.

    The kernel then copies all eight elements, none, or only the selected ones. It may write elements that are not
    selected. These elements are overwritten later, so the kernel stops before the last eight elements.
    """
    b = KernelBuilder(f"copy_masked_{kind.itemsize}", _WORD)
    mask, words = b.pointer("mask", np.uint8), b.pointer("words", _WORD)
    values = b.pointer("values", kind, noalias=True)
    out = b.pointer("out", kind, writable=True, noalias=True)
    length, room = b.scalar("length"), b.scalar("room")
    eight = b.constant(8)
    whole, last = b.op("right_shift", length, b.constant(3)), b.op("subtract", room, eight)

    def holds(position: Any) -> Any:
        # (a byte other than 0 and 1 is also true)
        return b.cast(b.op("not_equal", b.load(mask, position), b.constant(0, np.uint8), dtype=bool), _WORD)

    with b.loop(whole, "serial", initial=(b.constant(0),)) as loop:
        (count,) = loop.carried
        word, first = b.load(words, loop.index, align=1), b.op("multiply", loop.index, eight)
        with b.if_(b.op("equal", word, b.constant(0), dtype=bool), (_WORD,)) as none:
            none.yield_(count)
        with b.else_() as some:
            with b.if_(b.op("less_equal", count, last, dtype=bool), (_WORD,), likely=True) as free:
                with b.if_(b.op("equal", word, b.constant(_ALL), dtype=bool), (_WORD,)) as all_:
                    for k in range(8):
                        item = b.load(values, b.op("add", first, b.constant(k)))
                        b.store(out, b.op("add", count, b.constant(k)), item)
                    all_.yield_(b.op("add", count, eight))
                with b.else_() as each:
                    at = count
                    for k in range(8):
                        position = b.op("add", first, b.constant(k))
                        b.store(out, at, b.load(values, position))
                        at = b.op("add", at, holds(position))
                    each.yield_(at)
                free.yield_(*all_.results)
            with b.else_() as full:
                full.yield_(_taken_one_by_one(b, holds, values, out, first, b.op("add", first, eight), count, room))
            some.yield_(*free.results)
        loop.yield_(*none.results)
    _taken_one_by_one(b, holds, values, out, b.op("multiply", whole, eight), length, loop.results[0], room)
    return b.finish()


def _taken_one_by_one(
    b: KernelBuilder, holds: Any, values: Any, out: Any, begin: Any, end: Any, count: Any, room: Any
) -> Any:
    with b.loop(end, "serial", start=begin, initial=(count,)) as loop:
        (at,) = loop.carried
        one = holds(loop.index)
        # (another thread may write to the mask meanwhile)
        fits = b.op("less", at, room, dtype=bool)
        with b.if_(b.op("logical_and", b.op("not_equal", one, b.constant(0), dtype=bool), fits, dtype=bool)):
            b.store(out, at, b.load(values, loop.index))
        loop.yield_(b.op("add", at, one))
    return loop.results[0]
