"""Draws of many random numbers, with the same bits as NumPy's generators.

In: a `numpy.random.Generator`, the name of a method, and its arguments. Out: the numbers as the method returns them, or
the description of a draw that someone else carries out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite, prod
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.random.random_streams import fill_from_stream, is_ready, take_stream
from weft.runtime.devices import get_device
from weft.runtime.listening import LaunchNote, Listening, launch_heard

_NUMBERS = frozenset({int, float, np.float64})


class Draw(NamedTuple):
    """A draw: the method that draws standard numbers, and the shape, the scale, the location and the dtype of the result.

    The result of "integers" has the `scale` integers from `place` on. `parameter` is that of a function of the standard
    numbers, such as the shape of a Weibull distribution.
    """

    method: str
    shape: tuple[int, ...]
    scale: float
    place: float
    dtype: np.dtype = np.dtype(np.float64)
    parameter: float = 0.0


def _standard(size: Any = None) -> tuple[Any, Any, Any]:
    return size, 1.0, -0.0


def _normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, scale, loc


def _uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, (high - low if type(low) in _NUMBERS and type(high) in _NUMBERS else None), low


def _exponential(scale: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, scale, -0.0


def _lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, sigma, mean


# A method that draws standard numbers, and a function that returns the shape, the scale and the location of the draws.
_DRAWS: dict[str, tuple[str, Callable[..., tuple[Any, Any, Any]]]] = {
    "random": ("random", _standard),
    "uniform": ("random", _uniform),
    "standard_normal": ("standard_normal", _standard),
    "normal": ("standard_normal", _normal),
    "standard_exponential": ("standard_exponential", _standard),
    "exponential": ("standard_exponential", _exponential),
    "lognormal": ("lognormal", _lognormal),
}
LEAST = 1 << 11  # number of elements below which no method is faster in native code
# Names of the parameter of a function of standard numbers, and whether the parameter may be 0.
_PARAMETERS = {"weibull": ("a", False), "pareto": ("a", False), "power": ("a", False), "rayleigh": ("scale", True)}
DRAWN = frozenset({*_DRAWS, *_PARAMETERS, "integers", "lognormal"})  # names of methods
_INTEGERS = frozenset({int, np.int64})


def read_draw(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Return the draw of many numbers that a method of a generator makes. Return None if only NumPy can make it.

    Parameters
    ----------
    name : str
        One of `DRAWN`.
    arguments : tuple
    options : dict
    """
    if name == "integers":
        return _read_integers(arguments, options)
    if name == "random" and (draw := _read_float32(arguments, options)) is not None:
        return draw
    if name in _PARAMETERS:
        return _read_parameter(name, arguments, options)
    method, read = _DRAWS[name]
    try:
        size, scale, place = read(*arguments, **options)
        count = prod(size) if type(size) is tuple else size
    except TypeError:  # (other or wrong arguments, for which NumPy raises an error)
        return None
    if type(count) is not int or count < LEAST or type(scale) not in _NUMBERS or type(place) not in _NUMBERS:
        return None
    if not (isfinite(scale) and isfinite(place) and scale >= 0):
        return None
    return Draw(method, size if type(size) is tuple else (count,), float(scale), float(place))


def _read_float32(arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Return the draw of float32 numbers by `random`. Return None for other calls."""
    given = {**dict(zip(("size", "dtype"), arguments, strict=False)), **options}
    if len(given) != 2 or len(arguments) + len(options) != 2 or given.get("dtype") not in (np.float32, "f4", "float32"):
        return None
    draw = read_draw("random", (given.get("size"),), {})
    return None if draw is None else draw._replace(method="random float32", dtype=np.dtype(np.float32))


def _read_parameter(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Return the draw of a method with one parameter. Return None if NumPy has to draw."""
    key, has_zero = _PARAMETERS[name]
    given = dict(zip((key, "size"), arguments, strict=False))
    if len(arguments) > 2 or given.keys() & options.keys():
        return None
    given |= options
    parameter, size = given.pop(key, 1.0 if name == "rayleigh" else None), given.pop("size", None)
    draw = None if given else read_draw("standard_exponential", (size,), {})
    if draw is None or type(parameter) not in _NUMBERS or not isfinite(parameter):
        return None
    if parameter < 0 or not (parameter or has_zero):
        return None
    return draw._replace(method=name, parameter=float(parameter))


def _read_integers(arguments: tuple[Any, ...], options: dict[str, Any]) -> Draw | None:
    """Return the draw of many integers from at most 2**32 - 1 consecutive ones. Return None if NumPy has to draw."""

    def read(low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: Any = False) -> Draw | None:
        low, high = (0, low) if high is None else (low, high)
        count = prod(size) if type(size) is tuple else size
        if type(count) is not int or count < LEAST or not {type(low), type(high)} <= _INTEGERS:
            return None
        if dtype not in (np.int64, int, "int64", "i8") or type(endpoint) is not bool:
            return None
        low, number = int(low), int(high) - int(low) + endpoint
        if not 2 <= number < 1 << 32 or not -(1 << 63) <= low <= (1 << 63) - number:
            return None
        return Draw("integers", size if type(size) is tuple else (count,), number, low, np.dtype(np.int64))

    try:
        return read(*arguments, **options)
    except TypeError:  # (wrong arguments, for which NumPy raises an error)
        return None


def draw_into(values: np.ndarray, generator: np.random.Generator, name: str, draw: Draw) -> bool:
    """Fill a C-contiguous array of the draw's dtype. Return False if NumPy has to draw. The generator is then unchanged."""
    fill = partial(fill_with_draw, values, generator, draw)
    if not Listening.listeners or not is_ready():
        return fill()
    filled: list[bool] = []
    note = LaunchNote(f"random.{name}", nbytes=values.nbytes)
    launch_heard(get_device("cpu"), note, lambda: filled.append(fill()))
    return filled[0]


def fill_with_draw(values: np.ndarray, generator: np.random.Generator, draw: Draw) -> bool:
    """Fill an array, as `draw_into` does, without a report to listeners."""
    words = take_stream(draw.method, generator.bit_generator, values.size, draw.scale, draw.place, draw.parameter)
    if words is None:
        return False
    fill_from_stream(values, words)
    return True


def draw_many(
    generator: np.random.Generator, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> np.ndarray | None:
    """Draw many numbers by native code, as a method of a generator does. Return None if NumPy has to draw them.

    The parameters are those of `read_draw`.
    """
    draw = read_draw(name, arguments, options)
    if draw is None:
        return None
    values = np.empty(draw.shape, draw.dtype)
    return values if draw_into(values, generator, name, draw) else None
