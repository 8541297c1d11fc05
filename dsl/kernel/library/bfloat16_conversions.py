"""Conversions to and from bfloat16, under Numba CUDA's names.

In: numbers, which are first cast to the dtype at the start of a function's name. Out: numbers of the second dtype in
the name. Invariant: the conversion between these dtypes rounds once, in the direction at the end of the name (``rn`` to
nearest, ``rz`` to zero, ``rd`` down, ``ru`` up), or to nearest if the name has no direction. Functions with ``as`` in
their names keep the bits. Conversions to integers saturate, and NaN becomes 0. The module loads ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from weft.dsl.kernel.language import types
from weft.dsl.kernel.library.half_floats import float_to_bfloat16, round_to_odd

_INTEGERS = (types.int16, types.uint16, types.int32, types.uint32, types.int64, types.uint64)
_WAYS = ("rn", "rz", "rd", "ru")
_ROUNDED: dict[str, Callable[..., Any]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def _narrow(x: Any, way: str) -> Any:
    """Convert a float64 to bfloat16 with the rounding mode `way`: rn, rz, rd or ru."""
    odd = round_to_odd(x)  # inexact values stay inexact
    bits = np.uint16(0x7FFF)
    if way == "rn":
        bits = float_to_bfloat16(odd)
    elif x == x:
        held = odd.view(np.uint32)
        if (way == "rd" and x < 0) or (way == "ru" and x > 0):
            held += np.uint32(0xFFFF)
        bits = np.uint16(held >> 16)
    return bits.view(bfloat16)


def _exact(x: Any) -> Any:
    """Convert an integer to a float64 that rounds to the same bfloat16 as the integer itself.

    Beyond about 2**52 in magnitude, a sticky bit replaces the low 12 bits of the integer: it is set if any of them is.
    """
    found = np.float64(x)
    high = x >> 12
    if high > 1 << 40 or high < -(1 << 40):
        if x & 4095 != 0:
            high |= 1
        found = np.float64(high) * 4096.0
    return found


def _from_number(kind: types.ScalarType, way: str) -> Callable[..., Any]:
    widen = _exact if kind in (types.int64, types.uint64) else np.float64

    def convert(x: Any) -> Any:
        return _narrow(widen(kind(x)), way)

    return convert


def _to_integer(kind: types.ScalarType, way: str) -> Callable[..., Any]:
    rounded = _ROUNDED[way]

    def convert(x: Any) -> Any:
        return kind(rounded(np.float32(bfloat16(x))))

    return convert


def _reinterpreted(source: Any, target: Any) -> Callable[..., Any]:
    def convert(x: Any) -> Any:
        return source(x).view(target)

    return convert


def bfloat16_to_float32(x: Any) -> Any:
    """Convert a bfloat16 to float32."""
    return np.float32(bfloat16(x))


def _table() -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = {"bfloat16_to_float32": bfloat16_to_float32}
    for kind in (types.int16, types.uint16):
        made[f"bfloat16_as_{kind.name}"] = _reinterpreted(bfloat16, kind.dtype.type)
        made[f"{kind.name}_as_bfloat16"] = _reinterpreted(kind.dtype.type, bfloat16)
    made |= {f"bfloat16_to_{kind.name}_rz": _to_integer(kind, "rz") for kind in (types.int8, types.uint8)}
    for way in _WAYS:
        made[f"float32_to_bfloat16_{way}"] = _from_number(types.float32, way)
        for kind in _INTEGERS:
            made[f"{kind.name}_to_bfloat16_{way}"] = _from_number(kind, way)
            made[f"bfloat16_to_{kind.name}_{way}"] = _to_integer(kind, way)
    for kind in (types.float32, types.float64):
        made[f"{kind.name}_to_bfloat16"] = _from_number(kind, "rn")
    return made


CONVERSIONS = _table()
