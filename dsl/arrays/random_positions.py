"""Arrays of random numbers as functions of the position, which kernels compute wherever they read them.

In: a draw that rejects nothing, and a bit generator. Out: an array, and the generator in the state that NumPy's method
leaves. Invariant: the state is a kernel argument, so that another state needs no other plan.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.dsl.arrays.array import Array, convert, expr_of, record, start
from weft.fusion import Expr, cast, constant, current_epoch, gather, iota, map_, reshape

_WORD, _INDEX = np.dtype(np.uint64), np.dtype(np.int64)
# Output functions, in the order of the algorithms in a `Position`. Philox computes an output from the position itself.
_OUTPUTS = ("_pcg64", "_pcg64dxsm", "_philox")


def record_positions(draw: runtime.Draw, bit_generator: Any) -> Array | None:
    """Return an array of random numbers that kernels compute. Return None if the draw may reject words."""
    width = _width_of(draw)
    count = prod(draw.shape)
    if width == 0 or not count:
        return None
    position = runtime.take_position(bit_generator, count, width)
    if position is None:
        return None
    location = start()
    index = reshape(iota((count,), 0, _WORD), draw.shape)
    word = map_("add", [index, _word(position.offset)])
    step = map_("right_shift", [word, constant((64 // width).bit_length() - 1, _WORD)])
    bits = _bits_of(position, step)
    if width < 64:
        half = _word(position.half or 0)
        bits = map_("where", [map_("equal", [step, constant(0, _WORD)]), half, bits])
    if draw.dtype.kind in "iu":
        limit = width - (int(draw.scale) + 1).bit_length() + 1
        operands = [bits, word, _word(limit), _word(int(draw.place))]
        return record(map_(f"_random_{draw.dtype}_{width}", operands, location=location))
    if width == 32:
        return record(map_("_random_float32", [bits, word], location=location))
    epoch = current_epoch()
    scaling = [epoch.bind_scalar(number, draw.dtype) for number in (draw.scale, draw.place)]
    return record(map_("_random_float64", [bits, *scaling], location=location))


def _width_of(draw: runtime.Draw) -> int:
    """Return the number of bits of a draw's words, or 0 if it is not a function of the position."""
    if draw.dtype.kind in "iu":
        size = int(draw.scale) + 1
        return int(draw.method.split()[1].split("/")[0]) if size & (size - 1) == 0 else 0
    return {"random": 64, "random float32": 32}.get(draw.method, 0)


def _word(value: int) -> Expr:
    return current_epoch().bind_scalar(value & (1 << 64) - 1, _WORD)


def _bits_of(position: runtime.Position, step: Expr) -> Expr:
    """Return the outputs after a number of steps."""
    low, high, *second = map(_word, position.words)
    if not (table := _table(current_epoch().device, position.engine)):
        there = map_("add", [step, low]), map_("_wide_sum", [step, constant(0, _WORD), low, high])
        return map_(_OUTPUTS[position.engine], [*there, *second])
    rows = expr_of(table[0])
    stride = rows.shape[1]
    near = cast(map_("bitwise_and", [step, constant(stride - 1, _WORD)]), _INDEX)
    far = cast(map_("right_shift", [step, constant(stride.bit_length() - 1, _WORD)]), _INDEX)
    entries = [
        gather(rows, [near if k < 2 else far], ((k, (), -1), (0, (), 0)), step.shape) for k in range(rows.shape[0])
    ]
    distance = _sum(_product(entries[2:4], entries[:2]), entries[4:])
    return map_(_OUTPUTS[position.engine], _sum(_product(distance, second), [low, high]))


@lru_cache(maxsize=8)
def _table(device: Any, engine: int) -> tuple[Array, ...]:
    """Return the tables of an algorithm on the current device, or nothing if it has none."""
    words = runtime.position_tables(engine)
    return (convert(words),) if words.size else ()


def _product(x: list[Expr], y: list[Expr]) -> list[Expr]:
    return [map_("multiply", [x[0], y[0]]), map_("_wide_product", [*x, *y])]


def _sum(x: list[Expr], y: list[Expr]) -> list[Expr]:
    return [map_("add", [x[0], y[0]]), map_("_wide_sum", [*x, *y])]
