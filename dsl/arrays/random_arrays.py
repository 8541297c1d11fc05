"""Arrays of random numbers that are bit-identical to those of NumPy's generators.

In: a `numpy.random.Generator`, the name of a method, and its arguments. Out: an array, and the generator in the state
that NumPy's method leaves. Invariant: the generator's state changes at the call, even if the numbers of a large array
are drawn later.

On the CPU, a large array is recorded as a stream (`weft.runtime.cpu.random.random_streams`), which is drawn when the
array is evaluated. On a GPU, if few random words are rejected, each number is a function of its position, and kernels
compute the numbers that they read. The state is a kernel argument, so one plan serves all states.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import lru_cache, wraps
from math import prod
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.dsl.arrays.array import Array, convert, expr_of, record, start, user_location, wrap
from weft.fusion import Expr, Storage, cast, constant, current_epoch, gather, iota, map_, opaque, reshape

# Number of elements below which random numbers are drawn in less time than recording takes.
RECORDED_FROM = 1 << 14
_WORD, _INDEX = np.dtype(np.uint64), np.dtype(np.int64)
# Output functions, in the order of the algorithms in a `Position`. Philox computes an output from the position itself.
_OUTPUTS = ("_pcg64", "_pcg64dxsm", "_philox")


def draw_array(
    generator: np.random.Generator, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Array | None:
    """Draw random numbers as a generator's method does, or return None if NumPy must draw them."""
    draw = runtime.read_draw(name, arguments, options)
    if draw is None:
        return None
    device: Any = current_epoch().device
    count = prod(draw.shape)
    if count <= runtime.limit_on(device.name) and device.small_on_host:
        return None
    if runtime.is_gpu(device):
        if (made := _record_positions(draw, generator.bit_generator)) is not None:
            return made
        note_draw(device, name, count * draw.dtype.itemsize)
    if not device.memory_on_host:
        values = runtime.draw_many(generator, name, arguments, options)
        return None if values is None else convert(values)
    if device.name == "cpu" and count >= RECORDED_FROM:
        standard = draw.scale, draw.loc, draw.parameters
        words = runtime.take_stream(draw.method, generator.bit_generator, count, *standard)
        if words is None:
            return None
        location = start()
        return record(
            opaque(runtime.fill_from_stream, [expr_of(convert(words))], draw.shape, draw.dtype, name, location)
        )
    memory = device.allocate(count * draw.dtype.itemsize)
    memory.origin = user_location()
    values = device.view_memory(memory, draw.dtype, draw.shape)
    if not runtime.draw_into(values, generator, name, draw, memory.origin):
        return None
    return wrap(Storage(draw.shape, draw.dtype, device, memory))


def note_draw(device: Any, name: str, nbytes: int) -> None:
    """Report that the host draws random numbers for an array on a GPU."""
    if runtime.is_gpu(device):
        runtime.report_fallback(device, f"random.{name}", nbytes, user_location(), draws=True)


def drawing(generator: np.random.Generator, name: str, other: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a random number generator. It calls `draw_array`, or `other` if `draw_array` returns None."""

    @wraps(getattr(generator, name))
    def method(*arguments: Any, **options: Any) -> Any:
        found = draw_array(generator, name, arguments, options)
        return other(*arguments, **options) if found is None else found

    return method


def _record_positions(draw: runtime.Draw, bit_generator: Any) -> Array | None:
    """Record random numbers as functions of their positions, or return None if this is not possible."""
    width, count = _width_of(draw), prod(draw.shape)
    if width == 0 or not count:
        return None
    if draw.dtype.kind == "f":
        position = runtime.take_position(bit_generator, count, width)
    else:
        position = runtime.take_integers(bit_generator, draw.method, count, int(draw.scale), int(draw.loc))
    if position is None:
        return None
    location = start()
    index = reshape(iota((count,), 0, _WORD), draw.shape)
    word = map_("add", [index, _word(position.offset)])
    if position.rejected:
        for k in range(runtime.MOST_REJECTED):
            first = position.rejected[k] if k < len(position.rejected) else -1
            word = map_("_skip", [word, index, _word(first)])
    words = (64 // width).bit_length() - 1  # (the binary logarithm of the number of words per step)
    step = map_("right_shift", [word, constant(words, _WORD)]) if words else word
    bits = _bits_of(position, step)
    if width < 64:
        half = _word(position.half or 0)
        bits = map_("where", [map_("equal", [step, constant(0, _WORD)]), half, bits])
    if draw.dtype.kind != "f":
        operands = [bits, word, _word(int(draw.scale)), _word(int(draw.loc))]
        return record(map_(f"_random_{draw.dtype}_{width}", operands, location=location))
    if width == 32:
        return record(map_("_random_float32", [bits, word], location=location))
    op = "_random_triangular" if draw.parameters else "_random_float64"
    parameters = draw.parameters or (draw.scale, draw.loc)
    scalars = [current_epoch().bind_scalar(number, draw.dtype) for number in parameters]
    return record(map_(op, [bits, *scalars], location=location))


def _width_of(draw: runtime.Draw) -> int:
    """Return the number of random bits that determine an element, or 0 if this number is not known in advance."""
    if draw.dtype.kind in "iu":
        return int(draw.method.split()[1].split("/")[0])
    return {"random": 64, "random float32": 32, "triangular": 64}.get(draw.method, 0)


def _word(value: int) -> Expr:
    return current_epoch().bind_scalar(value & (1 << 64) - 1, _WORD)


def _bits_of(position: runtime.Position, step: Expr) -> Expr:
    """Return an expression for the random words that a generator outputs `step` steps after its current state."""
    device: Any = current_epoch().device
    low, high, *second = map(_word, position.words)
    if not (table := _table(device, position.engine)):
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
    """Return a tuple with a generator's lookup table, or () if the generator needs no table."""
    words = runtime.position_tables(engine)
    return (convert(words),) if words.size else ()


atexit.register(_table.cache_clear)  # (releases device memory before the runtime's modules are unloaded)


def _product(x: list[Expr], y: list[Expr]) -> list[Expr]:
    return [map_("multiply", [x[0], y[0]]), map_("_wide_product", [*x, *y])]


def _sum(x: list[Expr], y: list[Expr]) -> list[Expr]:
    return [map_("add", [x[0], y[0]]), map_("_wide_sum", [*x, *y])]
