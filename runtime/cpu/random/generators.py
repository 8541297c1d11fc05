"""Draws of many random numbers by native code, with the same results as NumPy.

In: a `numpy.random.Generator`, the name of a method, and its arguments. Out: the numbers as the method returns them, or
the description of a draw that other code carries out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import copysign, isfinite, prod
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.allocation_report import show_location, source_line
from weft.runtime.cpu.random.bit_generators import engine_of
from weft.runtime.cpu.random.methods import METHODS, integers_of
from weft.runtime.cpu.random.random_streams import fill_from_stream, is_ready, take_stream
from weft.runtime.devices import get_device
from weft.runtime.listening import LaunchNote, Listening, launch_heard
from weft.runtime.settings import LEAST

_NUMBERS = frozenset({int, float, np.float64})


class Draw(NamedTuple):
    """A request for random numbers: the method, shape, scale, location, dtype and parameters.

    A draw of integers returns integers from `loc` to ``loc + scale``, inclusive. `parameters` are those of a
    `Transform`, such as the shape of a Weibull distribution.
    """

    method: str
    shape: tuple[int, ...]
    scale: float = 1.0
    loc: float = -0.0
    dtype: np.dtype = np.dtype(np.float64)
    parameters: tuple[float, ...] = ()


def _scale(scale: Any) -> float | None:
    return 1.0 if type(scale) in _NUMBERS and copysign(1.0, scale) > 0 else None


def _width(low: Any, high: Any) -> Any:
    return high - low if type(low) in _NUMBERS and type(high) in _NUMBERS else None


# Functions with the parameters of a method. They return the size, the scale, the location and the parameters of the draw.
_Read = tuple[Any, Any, Any, tuple[Any, ...]]


def _standard(size: Any = None) -> _Read:
    return size, 1.0, -0.0, ()


def _shape(a: Any, size: Any = None) -> _Read:
    # (a shape has to be positive; a scale of the draw may be 0)
    return size, 1.0 if type(a) in _NUMBERS and a > 0 else None, -0.0, (a,)


def _location(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> _Read:
    return size, _scale(scale), -0.0, (loc, scale)


def _triangular(left: Any, mode: Any, right: Any, size: Any = None) -> _Read:
    ordered = {type(left), type(mode), type(right)} <= _NUMBERS and left <= mode <= right and left < right
    return size, 1.0 if ordered else None, -0.0, (left, mode, right)


# For each generator method, the key of `METHODS` or `FUNCTIONS` that draws its numbers, and a function that reads its
# arguments.
_DRAWS: dict[str, tuple[str, Callable[..., _Read]]] = {
    "random": ("random", _standard),
    "uniform": ("random", lambda low=0.0, high=1.0, size=None: (size, _width(low, high), low, ())),
    "standard_normal": ("standard_normal", _standard),
    "normal": ("standard_normal", lambda loc=0.0, scale=1.0, size=None: (size, scale, loc, ())),
    "standard_exponential": ("standard_exponential", _standard),
    "exponential": ("standard_exponential", lambda scale=1.0, size=None: (size, scale, -0.0, ())),
    "lognormal": ("lognormal", lambda mean=0.0, sigma=1.0, size=None: (size, sigma, mean, ())),
    "weibull": ("weibull", _shape),
    "pareto": ("pareto", _shape),
    "power": ("power", _shape),
    "rayleigh": ("rayleigh", lambda scale=1.0, size=None: (size, _scale(scale), -0.0, (scale,))),
    "laplace": ("laplace", _location),
    "gumbel": ("gumbel", _location),
    "logistic": ("logistic", _location),
    "triangular": ("triangular", _triangular),
}
_FLOAT32 = frozenset({"random", "standard_normal", "standard_exponential"})  # methods with a dtype
DRAWN = frozenset({*_DRAWS, "integers", "choice"})  # methods that `read_draw` supports


def read_draw(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Convert a call of a generator's method to a `Draw`. Return None if the method is not in `DRAWN` or NumPy must execute the call."""
    if name == "integers":
        return _read_integers(arguments, options)
    if name == "choice":
        return _read_choice(arguments, options)
    if name in _FLOAT32 and (draw := _read_float32(name, arguments, options)) is not None:
        return draw
    method, read = _DRAWS[name]
    try:
        size, scale, loc, parameters = read(*arguments, **options)
        count = prod(size) if type(size) is tuple else size
    except TypeError:  # (other or wrong arguments, for which NumPy raises an error)
        return None
    if type(count) is not int or count < LEAST or not {type(x) for x in (scale, loc, *parameters)} <= _NUMBERS:
        return None
    if not all(map(isfinite, (scale, loc, *parameters))) or copysign(1.0, scale) < 0:
        return None
    numbers = tuple(map(float, parameters))
    return Draw(method, size if type(size) is tuple else (count,), float(scale), float(loc), parameters=numbers)


def _read_float32(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Convert a supported call for float32 numbers to a `Draw`, or return None for other calls."""
    given = {**dict(zip(("size", "dtype"), arguments, strict=False)), **options}
    if len(given) != 2 or len(arguments) + len(options) != 2 or given.get("dtype") not in (np.float32, "f4", "float32"):
        return None
    draw = read_draw(name, (given.get("size"),), {})
    return None if draw is None else draw._replace(method=f"{name} float32", dtype=np.dtype(np.float32))


_DTYPES = {x.type: x for x in map(np.dtype, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))}


def _dtype_of_integers(dtype: Any) -> np.dtype | None:
    if dtype is int:
        return np.dtype(np.int64)
    if type(dtype) is str or isinstance(dtype, np.dtype):
        found = np.dtype(dtype)
        return _DTYPES.get(found.type) if found.isnative else None
    return _DTYPES.get(dtype) if isinstance(dtype, type) else None


def _read_integers(arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Convert a call of ``integers`` to a `Draw`, or return None if NumPy must execute the call."""

    def read(low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: Any = False) -> Draw | None:
        low, high = (0, low) if high is None else (low, high)
        count = prod(size) if type(size) is tuple else size
        if type(count) is not int or count < LEAST or type(endpoint) is not bool:
            return None
        if not all(type(x) is int or isinstance(x, np.integer) for x in (low, high)):
            return None
        if (kind := _dtype_of_integers(dtype)) is None:
            return None
        low, most = int(low), int(high) - int(low) - (not endpoint)
        limits = np.iinfo(kind)
        if most < 1 or low < limits.min or low + most > limits.max:
            return None  # (a range of one number takes no step; for invalid ranges, NumPy raises an error)
        bits = min(8 * kind.itemsize, 32 if most < 1 << 32 else 64)
        method = integers_of(bits, kind)
        return Draw(method, size if type(size) is tuple else (count,), most, low, kind)

    try:
        return read(*arguments, **options)
    except TypeError:  # (wrong arguments, for which NumPy raises an error)
        return None


def _read_choice(arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Convert a call of ``choice`` to a draw of integers.

    The call must draw from a range, with replacement. Return None if NumPy must execute the call.
    """
    given = {**dict(zip(("a", "size"), arguments, strict=False)), **options}
    if len(arguments) > 2 or given.keys() != {"a", "size"} or type(given["a"]) is not int or given["a"] < 1:
        return None
    return _read_integers((0, given["a"], given["size"]), {})


def draw_bytes(generator: np.random.Generator, length: int) -> bytes:
    """Return the same random bytes as ``generator.bytes(length)``."""
    if type(length) is int and length >= 4 * METHODS["integers 32/32"].least:
        words = draw_many(generator, "integers", (0, 1 << 32, (length + 3) // 4, np.uint32), {})
        if words is not None:
            return words.astype("<u4", copy=False).tobytes()[:length]
    return np.random.Generator.bytes(generator, length)


def draw_into(values: np.ndarray, generator: np.random.Generator, name: str, draw: Draw, location: Any = None) -> bool:
    """Fill a C-contiguous array with random numbers, or return False if NumPy must draw them.

    If the result is False, the generator is unchanged. `location` is the user's call site, for profiles.
    """
    if engine_of(generator.bit_generator) is None:
        return False
    fill = partial(fill_with_draw, values, generator, draw)
    if not Listening.listeners or not is_ready():
        return fill()
    filled: list[bool] = []
    sources = ((*source_line(location), 1.0),) if location is not None else ()
    note = LaunchNote(f"random.{name}", nbytes=values.nbytes, location=show_location(location), sources=sources)
    launch_heard(get_device("cpu"), note, lambda: filled.append(fill()))
    return filled[0]


def fill_with_draw(values: np.ndarray, generator: np.random.Generator, draw: Draw) -> bool:
    """Fill an array with random numbers, or return False if NumPy must draw them.

    The launch listeners are not notified.
    """
    words = take_stream(draw.method, generator.bit_generator, values.size, draw.scale, draw.loc, draw.parameters)
    if words is None:
        return False
    fill_from_stream(values, words)
    return True


def draw_many(
    generator: np.random.Generator, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> np.ndarray | None:
    """Return the result of a generator's method, or None if NumPy must execute the call.

    The parameters are as in `read_draw`.
    """
    draw = read_draw(name, arguments, options)
    if draw is None:
        return None
    values = np.empty(draw.shape, draw.dtype)
    return values if draw_into(values, generator, name, draw) else None
