"""A language probe: a small kernel that tests one construct, with an oracle for its result.

Invariant: `Probe.oracle` works on copies of the arguments, and writes the expected result to their arrays. By default,
the oracle is the kernel itself, called as a plain Python function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Probe:
    """A kernel, its arguments, its launch configuration, and its oracle.

    Arrays are copied for every run. `ulps` is the permitted error of floats in units in the last place; 0 requires
    equal numbers. `printed` is the expected output of the kernel. `keywords` are arguments passed by name, and
    `options` are options of the decorator. `ahead` is whether the kernel can be compiled without a launch.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    launch: tuple[Any, ...] = (1, 1)
    oracle: Callable[..., Any] | None = None
    ulps: int = 0
    printed: str = ""
    keywords: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    ahead: bool = True

    def copies(self) -> tuple[Any, ...]:
        """Return the arguments for one run, with a copy of each array."""
        return tuple(copied(a) if owns_elements(a) else a for a in self.arguments)

    def wanted(self) -> tuple[Any, ...]:
        """Run the oracle on copies of the kernel's arguments. Return these copies, which then contain the expected results."""
        arguments = self.copies()
        with np.errstate(all="ignore"):
            (self.oracle or self.function)(*arguments, **self.keywords)
        return arguments


def owns_elements(value: Any) -> bool:
    """Return whether a kernel argument must be copied for each run, because it is a NumPy array, whose elements a
    kernel may overwrite.
    """
    return isinstance(value, np.ndarray)


def copied(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array with the same strides."""
    if array.base is None:
        return array.copy(order="K")
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = bytearray(ctypes.string_at(low, high - low))
    return np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - low, array.strides)


PROBES: list[Probe] = []


def probe(
    *arguments: Any,
    launch: tuple[Any, ...] = (1, 1),
    want: Callable[..., Any] | None = None,
    into: list[Probe] = PROBES,
    name: str = "",
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that appends a test kernel, with the arguments given here, to the list `into` as a `Probe`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        into.append(Probe(name or function.__name__, function, arguments, launch, want, **options))
        return function

    return enter


def same(found: Any, wanted: Any, ulps: int) -> None:
    """Assert that an array argument has the expected dtype, shape and elements.

    Arguments that are not arrays are ignored. Floats may differ by `ulps` units in the last place, and complex numbers
    by `ulps` times the machine epsilon, relative to the largest magnitude. NaN equals NaN, except where complex numbers
    may differ.
    """
    if not owns_elements(wanted):
        return
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if ulps and wanted.dtype.kind == "f":
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(found[~finite], wanted[~finite])
        np.testing.assert_array_max_ulp(found[finite], wanted[finite], ulps)
    elif ulps and wanted.dtype.kind == "c":
        scale = np.abs(wanted).max() * np.finfo(wanted.dtype).eps
        assert np.abs(found - wanted).max() <= ulps * scale
    else:
        np.testing.assert_array_equal(found, wanted)


FLOATS = np.array([0.5, -1.25, 3.0, 7.75, -0.0, 2.0, 1e10, -9.5])
INTS = np.array([5, -3, 12, 0, 7, -8, 100, 1])
OUT = np.zeros(8)
IOUT = np.zeros(8, np.int64)
