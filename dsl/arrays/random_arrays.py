"""Arrays of random numbers, with the same bits as NumPy's generators.

In: a `numpy.random.Generator`, the name of a method, and its arguments. Out: an array, and the generator in the state
that NumPy's method leaves. Invariant: many numbers are drawn when they are needed. The state of the generator does not wait for
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.dsl.arrays.array import Array, convert, expr_of, record, start, user_location, wrap
from weft.fusion import Storage, current_epoch, opaque
from weft.runtime import IMMEDIATE

# Number of elements below which NumPy draws numbers in less time than recording takes.
RECORDED_FROM = 1 << 14


def draw_array(
    generator: np.random.Generator, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Array | None:
    """Return an array of many random numbers. Return None if NumPy has to draw them.

    Parameters
    ----------
    generator : numpy.random.Generator
    name : str
        One of `runtime.DRAWN`.
    arguments, options
        Those of the method.
    """
    draw = runtime.read_draw(name, arguments, options)
    if draw is None:
        return None
    device: Any = current_epoch().device
    count = int(np.prod(draw.shape))
    if count <= IMMEDIATE[0] and device.small_on_host:
        return None
    if not hasattr(device, "lend"):  # (memory that the host cannot write to)
        values = runtime.draw_many(generator, name, arguments, options)
        return None if values is None else convert(values)
    if device.name == "cpu" and count >= RECORDED_FROM:
        standard = draw.scale, draw.place, draw.parameter
        words = runtime.take_stream(draw.method, generator.bit_generator, count, *standard)
        return None if words is None else _record_stream(name, words, draw.shape, draw.dtype)
    memory = device.allocate(count * draw.dtype.itemsize)
    memory.origin = user_location()
    if not runtime.draw_into(device.lend(memory, draw.dtype, draw.shape), generator, name, draw):
        return None
    return wrap(Storage(draw.shape, draw.dtype, device, memory))


def _record_stream(name: str, words: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    location = start()
    stream = expr_of(convert(words))
    return record(opaque(runtime.fill_from_stream, [stream], shape, dtype, name, location))


def drawing(generator: np.random.Generator, name: str, other: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a generator for weft arrays. `other` draws where NumPy has to draw."""

    @wraps(getattr(generator, name))
    def method(*arguments: Any, **options: Any) -> Any:
        found = draw_array(generator, name, arguments, options)
        return other(*arguments, **options) if found is None else found

    return method
