"""Loops over the threads of a block that skip threads without work.

In: bounds of the thread indices of a run. Out: the first and last thread index along each axis. A guard such as
``if i < n`` then needs no mask in the loop. On x86, a masked access to an unmapped page takes hundreds of cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from weft.codegen.kernel_ir.operation import Value
from weft.codegen.llvm.emit import scalar_type
from weft.codegen.llvm.emit_text import Writer
from weft.codegen.passes.find_guards import Bound
from weft.codegen.passes.linear_index import LARGEST_BLOCK


def thread_range(
    emitter: Writer, bounds: Iterable[Bound], count: str, compute: Callable[[Value], str]
) -> tuple[str, str]:
    """Emit the first thread index along an axis that is within the bounds, and the index after the last one.

    Parameters
    ----------
    emitter : Writer
    bounds : iterable of Bound
    count : str
        Number of threads along the axis, in the index dtype.
    compute : callable
        Emits the computation of a value for thread 0 of the axis, and returns its text.
    """
    kind = scalar_type(emitter.kernel.index_dtype)
    start = "0"
    stop = total = count if kind == "i64" else ""
    for bound in bounds:
        total = total or emitter.line(f"zext nneg {kind} {count} to i64")
        sides = [_wide(emitter, value, compute(value)) for value in (bound.smaller, bound.larger)]
        holds = emitter.line(f"icmp {'slt' if bound.strict else 'sle'} i64 {sides[0]}, {sides[1]}")
        if bound.step < 0:
            first = _first(emitter, bound, sides, holds, total)
            start = first if start == "0" else emitter.call("llvm.umax.i64", "i64", [("i64", start), ("i64", first)])
        else:
            stop = _end(emitter, bound, sides, holds, stop or total)
    texts = [text if kind == "i64" or text == "0" else _narrow(emitter, text, kind) for text in (start, stop)]
    return texts[0], texts[1] or count


def _end(emitter: Writer, bound: Bound, sides: list[str], holds: str, stop: str) -> str:
    """Emit the number of threads below an upper bound, at most `stop`."""
    if bound.step == 0:
        return emitter.line(f"select i1 {holds}, i64 {stop}, i64 0")
    last = _quotient(emitter, sides[1], sides[0], bound.strict, bound.step)
    within = emitter.line(f"icmp ult i64 {last}, {stop}")
    end = emitter.line(f"select i1 {within}, i64 {emitter.line(f'add i64 {last}, 1')}, i64 {stop}")
    return _if_safe(emitter, bound, sides[0], emitter.line(f"select i1 {holds}, i64 {end}, i64 0"), stop)


def _first(emitter: Writer, bound: Bound, sides: list[str], holds: str, total: str) -> str:
    """Emit the first thread index above a lower bound, or `total` if there is none."""
    before = _quotient(emitter, sides[0], sides[1], not bound.strict, -bound.step)
    within = emitter.line(f"icmp ult i64 {before}, {total}")
    first = emitter.line(f"select i1 {within}, i64 {emitter.line(f'add i64 {before}, 1')}, i64 {total}")
    return _if_safe(emitter, bound, sides[1], emitter.line(f"select i1 {holds}, i64 0, i64 {first}"), "0")


def _quotient(emitter: Writer, larger: str, smaller: str, less_one: bool, step: int) -> str:
    """Emit the number of steps from a value to a larger one, as an unsigned number."""
    distance = emitter.line(f"sub i64 {larger}, {smaller}")
    if less_one:
        distance = emitter.line(f"add i64 {distance}, -1")
    return distance if step == 1 else emitter.line(f"udiv i64 {distance}, {step}")


def _if_safe(emitter: Writer, bound: Bound, text: str, bounded: str, whole: str) -> str:
    """Emit the selection of a bound if the value that depends on the axis cannot overflow."""
    if bound.exact:
        return bounded
    kind = (bound.smaller if bound.step > 0 else bound.larger).type
    assert isinstance(kind, np.dtype)
    safe = emitter.line(f"icmp sle i64 {text}, {np.iinfo(kind).max - LARGEST_BLOCK * abs(bound.step)}")
    return emitter.line(f"select i1 {safe}, i64 {bounded}, i64 {whole}")


def _wide(emitter: Writer, value: Value, text: str) -> str:
    assert isinstance(value.type, np.dtype)
    kind = scalar_type(value.type)
    if kind != "i64":
        text = emitter.line(f"sext {kind} {text} to i64")
    # a computation that the kernel would skip may be poison
    return emitter.line(f"freeze i64 {text}")


def _narrow(emitter: Writer, text: str, kind: str) -> str:
    return emitter.line(f"trunc nuw nsw i64 {text} to {kind}") if text else ""
