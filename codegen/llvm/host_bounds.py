"""Ranges of loops over the threads of a block. The ranges leave out threads that have no work.

In: bounds of the thread indices along an axis. Out: the first thread index within the bounds, and the index after the
last one. A guard such as ``if i < n`` then needs no mask in the loop. On x86, a masked access to an unmapped page takes
hundreds of cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from weft.codegen.kernel_ir.operation import Value
from weft.codegen.llvm.emit import scalar_type
from weft.codegen.llvm.emit_text import Writer
from weft.codegen.passes.find_guards import LARGEST_NUMBER, LARGEST_STEP, Bound, ThreadMultiples


def thread_range(
    emitter: Writer, bounds: Iterable[Bound], threads: tuple[str, str], compute: Callable[[Value], str], longest: int
) -> tuple[str, str]:
    """Emit code that intersects several bounds on the thread index along an axis. The result is a range of indices.

    Bounds that could overflow, or whose factor is out of range, do not limit the range.

    Parameters
    ----------
    emitter : Writer
    bounds : iterable of Bound
    threads : (str, str)
        The first thread index along the axis, and the index after the last one, in the index dtype.
    compute : callable
        Emits the computation of a value for thread 0 of the axis, and returns its text.
    longest : int
        Limit of the thread indices.

    Returns
    -------
    (str, str)
        The first thread index, and the index after the last one.
    """
    bounds = list(bounds)
    if not bounds:
        return threads
    start, stop = (emitter.widened(text, "zext nneg") for text in threads)
    total = stop
    for bound in bounds:
        sides = [_wide(emitter, value, compute(value)) for value in (bound.smaller, bound.larger)]
        step, usable = str(abs(bound.step)), "true"
        if bound.factor is not None:
            step = _wide(emitter, bound.factor, compute(bound.factor))
            usable = emitter.line(f"icmp ult i64 {emitter.line(f'add i64 {step}, -1')}, {LARGEST_STEP}")
            step = emitter.line(f"select i1 {usable}, i64 {step}, i64 1")
        holds = emitter.line(f"icmp {'slt' if bound.strict else 'sle'} i64 {sides[0]}, {sides[1]}")
        if bound.step < 0:
            first = _first(emitter, bound, sides, holds, total, step)
            first = _if_safe(emitter, bound, sides[1], (first, "0"), longest)
            start = first if start == "0" else emitter.call("llvm.umax.i64", "i64", [("i64", start), ("i64", first)])
        else:
            end = _end(emitter, bound, sides, holds, stop, step)
            end = _if_safe(emitter, bound, sides[0], (end, stop), longest)
            stop = end if usable == "true" else emitter.line(f"select i1 {usable}, i64 {end}, i64 {stop}")
    return emitter.narrowed(start), emitter.narrowed(stop)


def first_multiple(
    emitter: Writer, start: str, stop: str, multiples: ThreadMultiples, compute: Callable[[Value], str]
) -> tuple[str, str]:
    """Emit code that finds the threads for which a condition such as ``i % n == 0`` holds.

    Return the first such thread index from `start` on, and the distance between such indices, in the index dtype. If
    there is no such index before `stop`, the first result is `stop`. `compute` emits the computation of a value for
    thread 0 of the axis, and returns its text.
    """
    start, stop = (emitter.widened(text, "zext nneg") for text in (start, stop))
    number, divisor = (_wide(emitter, v, compute(v)) for v in (multiples.number, multiples.divisor))
    size = emitter.call("llvm.abs.i64", "i64", [("i64", divisor), ("i1", "false")])
    for word, limit in (("umax", 1), ("umin", LARGEST_NUMBER)):
        size = emitter.call(f"llvm.{word}.i64", "i64", [("i64", size), ("i64", str(limit))])
    before = emitter.line(f"sub i64 0, {emitter.line(f'add i64 {number}, {start}')}")
    rest = emitter.line(f"srem i64 {before}, {size}")
    positive = emitter.line(f"add i64 {rest}, {size}")
    distance = emitter.line(f"select i1 {emitter.line(f'icmp slt i64 {rest}, 0')}, i64 {positive}, i64 {rest}")
    first, step = (
        emitter.call("llvm.umin.i64", "i64", [("i64", text), ("i64", stop)])
        for text in (emitter.line(f"add i64 {start}, {distance}"), size)
    )
    step = emitter.call("llvm.umax.i64", "i64", [("i64", step), ("i64", "1")])
    return emitter.narrowed(first), emitter.narrowed(step)


def _end(emitter: Writer, bound: Bound, sides: list[str], holds: str, stop: str, step: str) -> str:
    """Emit code that computes the end of a range of thread indices i. For a guard such as ``i < n``, the end is the smaller of n and `stop`."""
    if bound.step == 0:
        return emitter.line(f"select i1 {holds}, i64 {stop}, i64 0")
    last = _quotient(emitter, sides[1], sides[0], bound.strict, step)
    within = emitter.line(f"icmp ult i64 {last}, {stop}")
    end = emitter.line(f"select i1 {within}, i64 {emitter.line(f'add i64 {last}, 1')}, i64 {stop}")
    return emitter.line(f"select i1 {holds}, i64 {end}, i64 0")


def _first(emitter: Writer, bound: Bound, sides: list[str], holds: str, total: str, step: str) -> str:
    """Emit code that computes the first thread index that satisfies a lower bound, or `total` if none does."""
    before = _quotient(emitter, sides[0], sides[1], not bound.strict, step)
    within = emitter.line(f"icmp ult i64 {before}, {total}")
    first = emitter.line(f"select i1 {within}, i64 {emitter.line(f'add i64 {before}, 1')}, i64 {total}")
    return emitter.line(f"select i1 {holds}, i64 0, i64 {first}")


def _quotient(emitter: Writer, larger: str, smaller: str, less_one: bool, step: str) -> str:
    """Emit code that computes ``(larger - smaller) / step`` by an unsigned division.

    If `less_one` is set, the difference is first reduced by 1.
    """
    distance = emitter.line(f"sub i64 {larger}, {smaller}")
    if less_one:
        distance = emitter.line(f"add i64 {distance}, -1")
    return distance if step == "1" else emitter.line(f"udiv i64 {distance}, {step}")


def _if_safe(emitter: Writer, bound: Bound, text: str, choices: tuple[str, str], longest: int) -> str:
    """Emit code that selects the first of two `choices` if a bound cannot overflow, otherwise the second."""
    if bound.exact:
        return choices[0]
    kind = (bound.smaller if bound.step > 0 else bound.larger).dtype
    safe = emitter.line(f"icmp sle i64 {text}, {np.iinfo(kind).max - longest * abs(bound.step)}")
    return emitter.line(f"select i1 {safe}, i64 {choices[0]}, i64 {choices[1]}")


def _wide(emitter: Writer, value: Value, text: str) -> str:
    kind = scalar_type(value.dtype)
    if kind != "i64":
        text = emitter.line(f"sext {kind} {text} to i64")
    # a computation that the kernel would skip may be poison
    return emitter.line(f"freeze i64 {text}")
