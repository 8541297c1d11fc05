"""Draws of many random numbers, with the same bits as NumPy's generators.

In: a `numpy.random.Generator`, the name of a method, and its arguments. Out: a NumPy array as the method returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import isfinite, prod
from typing import Any

import numpy as np

from weft.runtime.cpu.random.draws import fill_with_draws, has_code
from weft.runtime.devices import get_device
from weft.runtime.listening import LaunchNote, Listening, launch_heard

_NUMBERS = frozenset({int, float, np.float64})


def _standard(size: Any = None) -> tuple[Any, Any, Any]:
    return size, 1.0, -0.0


def _normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, scale, loc


def _uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, (high - low if type(low) in _NUMBERS and type(high) in _NUMBERS else None), low


def _exponential(scale: Any = 1.0, size: Any = None) -> tuple[Any, Any, Any]:
    return size, scale, -0.0


# A method that draws standard numbers, and a function that returns the shape, the scale and the location of the draws.
_DRAWS: dict[str, tuple[str, Callable[..., tuple[Any, Any, Any]]]] = {
    "random": ("random", _standard),
    "uniform": ("random", _uniform),
    "standard_normal": ("standard_normal", _standard),
    "normal": ("standard_normal", _normal),
    "standard_exponential": ("standard_exponential", _standard),
    "exponential": ("standard_exponential", _exponential),
}
LEAST = 1 << 11  # number of elements below which no method is faster in native code
DRAWN = frozenset(_DRAWS)  # names of methods


def draw_many(
    generator: np.random.Generator, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> np.ndarray | None:
    """Draw many numbers by native code, as a method of a generator does. Return None if NumPy has to draw them.

    Parameters
    ----------
    generator : numpy.random.Generator
    name : str
        One of `DRAWN`.
    arguments : tuple
    options : dict
    """
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
    values = np.empty(size)
    fill = partial(fill_with_draws, method, generator.bit_generator, values, float(scale), float(place))
    if not Listening.listeners or not has_code(method):
        return values if fill() else None
    filled: list[bool] = []
    note = LaunchNote(f"random.{name}", nbytes=values.nbytes)
    launch_heard(get_device("cpu"), note, lambda: filled.append(fill()))
    return values if filled[0] else None


def drawing(generator: np.random.Generator, name: str) -> Callable[..., Any]:
    """Return a method of a generator by its name. The methods in `DRAWN` draw many numbers by native code."""
    draw: Callable[..., Any] = getattr(generator, name)
    if name not in DRAWN:
        return draw

    @wraps(draw)
    def method(*arguments: Any, **options: Any) -> Any:
        found = draw_many(generator, name, arguments, options)
        return draw(*arguments, **options) if found is None else found

    return method
