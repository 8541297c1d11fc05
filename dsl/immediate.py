"""Tier 0: small work on host memory, done at the call by NumPy's own functions on views of the arrays' memory.

In: a NumPy function and operands. Out: its result, an array of weft's where NumPy makes an array, or `MISSED` where the
work is too large, or an operand is pending, on another device, or of a kind that NumPy computes differently. Invariant: a result has the bits
that recording the operation would give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from itertools import count, pairwise
from math import prod
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from weft.codegen import OpDef
from weft.dsl.array import LOOKS, Array, ReadOnly, Scalar, born, realise
from weft.dsl.host_values import is_free, values_of
from weft.runtime import IMMEDIATE, Device, default_device

MISSED: Any = object()

# Kinds of operands that NumPy takes as they are.
_CODES = "?bBhHiIlLqQfdFD"
NUMBERS = frozenset({bool, int, float, complex, *(np.dtype(code).type for code in _CODES)})
PLAIN = NUMBERS | {NoneType, EllipsisType, slice, str, type, *(type(np.dtype(code)) for code in _CODES)}


def types_of(codes: str) -> int:
    """Return a set of dtypes as a word: bit k stands for NumPy's type number k."""
    return sum(1 << np.dtype(code).num for code in set(codes))


COMMON = types_of(_CODES)  # dtypes with which NumPy's functions do what weft's do
_REAL = types_of("?bBhHiIlLqQfd")
# Rows whose complex loops, or integer ones, have other bits in NumPy, though their real ones have the same.
_OTHER_BITS = {"reciprocal": types_of("fd"), **dict.fromkeys(("absolute", "multiply", "sign", "sqrt", "square"), _REAL)}


def types_like_numpy(op: OpDef) -> int:
    """Return the dtypes in which an op has the bits of the NumPy ufunc that it is named after."""
    return 0 if op.ulp or not op.ufunc else _OTHER_BITS.get(op.name, COMMON)


def attempt(
    function: Callable[..., Any], operands: Iterable[Any], types: int = COMMON, home: Device | None = None
) -> Any:
    """Return `function` of the operands, or `MISSED`.

    Parameters
    ----------
    function : callable
        It takes NumPy arrays and numbers, and neither writes to its arguments nor returns views of them.
    operands : iterable
    types : int
        The dtypes that arrays may have, as `types_of` gives them.
    home : Device, optional
        Where the result goes if no operand is a weft array.
    """
    place: Device | None = None
    limit, given, shape = IMMEDIATE[0], [], None
    for value in operands:
        kind = type(value)
        if kind is Array or kind is np.ndarray:
            values = values_of(value) if kind is Array else value
            if values is None or values.size > limit or not (types >> values.dtype.num) & 1:
                return MISSED
            if kind is Array:
                own = value._home or value._storage.device
                if place is not None and own is not place:
                    return MISSED
                place = own
            if shape is not None and shape != values.shape and not _stays_small(shape, values.shape, limit):
                return MISSED
            shape = values.shape
            given.append(values)
        elif kind in NUMBERS:
            given.append(value)
        else:
            return MISSED
    place = place or home
    if place is None or not types:
        return MISSED
    LOOKS[0] += 1
    _note()
    return hand_out(function(*given), place)


# Calls after which native code takes over: where it is in the disk cache, and where it has to be compiled (some 0.1 s).
ENOUGH, MANY = 100, 20_000
_calls = count(1)


def _note() -> None:
    """Count what is done in Python."""
    number = next(_calls)
    if number == ENOUGH or number == MANY:
        import_module("weft.dsl.native_immediate").quicken(compiling=number == MANY)


def attempt_here(function: Callable[..., Any], operands: Iterable[Any], types: int) -> Any:
    """Return `function` of operands of which none needs to be a weft array, or `MISSED`."""
    home = default_device()
    return attempt(function, operands, types, home) if home.name == "cpu" else MISSED


def attempt_in_place(function: Callable[..., Any], target: Array, other: Any, types: int = COMMON) -> bool:
    """Apply an in-place operator to an array in host memory; whether that could be done."""
    if type(target) is not Array or not IMMEDIATE[0]:
        return False
    values = values_of(target)
    if values is None or values.size > IMMEDIATE[0] or not (types >> values.dtype.num) & 1 or not is_free(target):
        return False
    kind = type(other)
    if kind is Array:
        if (target._home or target._storage.device) is not (other._home or other._storage.device):
            return False
        other = values_of(other)
        if other is None:
            return False
    elif kind is not np.ndarray and kind not in NUMBERS:
        return False
    if kind is Array or kind is np.ndarray:
        if other.size > IMMEDIATE[0] or not (types >> other.dtype.num) & 1:
            return False
    function(values, other)
    return True


def number_of_scalar(scalar: Scalar) -> Any:
    """Return the value of a 0-d result as NumPy's scalar, once it is there; else None."""
    values = values_of(scalar) if IMMEDIATE[0] else None
    if values is None:
        return None
    LOOKS[0] += 1
    return values[()]


def _stays_small(one: tuple[int, ...], other: tuple[int, ...], limit: int) -> bool:
    """Whether two shapes broadcast to few elements, or not at all."""
    size = 1
    for n, m in zip((1,) * (len(other) - len(one)) + one, (1,) * (len(one) - len(other)) + other, strict=True):
        size *= max(n, m) if n and m else 0
    return size <= limit


def hand_out(result: Any, home: Device, given: Sequence[tuple[np.ndarray, Array]] = ()) -> Any:
    """Return what a NumPy function gave, its arrays as weft's; views of the `given` arrays share their storages."""
    kind = type(result)
    if kind is np.ndarray:
        if not (COMMON >> result.dtype.num) & 1:
            return result
        base = result.base
        if base is not None:
            for values, array in given:
                if result is values:
                    return array
                if base is values or base is values.base:
                    return seen(array, result)
        elif given and any(result is values for values, _ in given):
            return next(array for values, array in given if result is values)
        if base is not None or not result.flags.c_contiguous:
            result = np.array(result, order="C")
        return born(result, home)
    if kind is tuple or kind is list:
        return kind([hand_out(each, home, given) for each in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[hand_out(each, home, given) for each in result])
    return result


def take_host(value: Any, found: list[tuple[np.ndarray, Array]], left: int) -> Any:
    """Return an argument as NumPy takes it; `MISSED` where it is no small one.

    What is pending of few elements is evaluated. `found` gets the arrays; `left` elements are few.
    """
    kind = type(value)
    if kind in PLAIN:
        return value if kind is not type or _is_common(value) else MISSED
    if kind is Array or kind is Scalar:
        if value.size > left or not (COMMON >> value.dtype.num) & 1:
            return MISSED
        if value._home is None:
            if value._storage.device.name != "cpu":
                return MISSED
            realise(value._storage)
        values = values_of(value)
        if values is None:
            return MISSED
        found.append((values, value))
        return values if kind is Array else values[()]
    if kind is np.ndarray:
        return value if value.size <= left and (COMMON >> value.dtype.num) & 1 else MISSED
    if kind is tuple or kind is list:
        if len(value) > left:
            return MISSED
        taken = [take_host(each, found, left) for each in value]
        return MISSED if any(each is MISSED for each in taken) else kind(taken)
    return MISSED


def _is_common(dtype: Any) -> bool:
    """Whether what stands for a dtype is one with which NumPy's functions do what weft's do."""
    try:
        return bool((COMMON >> np.dtype(dtype).num) & 1)
    except TypeError:
        return False


def call_small(function: Callable[..., Any], arguments: Any, options: dict[str, Any], name: str = "") -> Any:
    """Return a NumPy function of small arrays, whatever they hold; `MISSED` where they are not small."""
    limit = GROWN if name in GROWING else IMMEDIATE[0]
    found: list[tuple[np.ndarray, Array]] = []
    given = take_host(arguments, found, limit)
    if given is MISSED:
        return MISSED
    named = {}
    for key, value in options.items():
        if key == "out" and type(value) is Array:
            values = values_of(value)
            if values is None or not is_free(value) or values.size > limit:
                return MISSED
            named[key] = values
            found.append((values, value))
            continue
        taken = named[key] = take_host(value, found, limit)
        if taken is MISSED or (key == "dtype" and value is not None and not _is_common(value)) or key in ("device", "like", "where", "subok"):
            return MISSED
    if not found or not _is_little(name, [values.shape for values, _ in found], limit):
        return MISSED
    LOOKS[0] += 1
    return hand_out(function(*given, **named), found[0][1].device, found)


# Functions whose results can have many more elements than their arguments, and the elements up to which they are done at once.
GROWING = frozenset({"kron", "meshgrid", "outer", "pad", "repeat", "tile", "tensordot", "einsum", "vander", "resize"})
GROWN = 128
# Functions of arrays that broadcast, and products of matrices.
_BROADCASTING = frozenset({"allclose", "array_equal", "clip", "isclose", "where"})
_PRODUCTS = frozenset({"dot", "inner", "matmul", "vdot"})
MOST_PRODUCTS = 64  # for each element up to which an operation is done at once


def _is_little(name: str, shapes: list[tuple[int, ...]], limit: int) -> bool:
    """Whether a function of arrays of these shapes is little work."""
    if name in _BROADCASTING:
        return all(_stays_small(one, other, limit) for one, other in pairwise(shapes))
    if name in _PRODUCTS and len(shapes) == 2 and all(shapes):
        return prod(shapes[0]) * prod(shapes[1]) <= MOST_PRODUCTS * limit * max(1, shapes[0][-1])
    return sum(map(prod, shapes)) <= limit


def at_once(own: Callable[..., Any], numpys: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of weft's that lets NumPy's do what is little work."""

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        if IMMEDIATE[0]:
            found = call_small(numpys, arguments, options, name)
            if found is not MISSED:
                return found
        return own(*arguments, **options)

    return called


def show(array: Array, key: Any) -> Any:
    """Return ``array[key]`` of an array in host memory; `MISSED` where that takes more."""
    values = values_of(array)
    if values is None or not _is_basic(key):
        return MISSED
    return seen(array, values[key])


def _is_basic(key: Any) -> bool:
    """Whether an index is one of integers, slices, None and an ellipsis."""
    kind = type(key)
    if kind is tuple:
        return all(type(item) in BASIC for item in key)
    return kind in BASIC


BASIC = frozenset({int, slice, NoneType, EllipsisType, np.int64, np.int32, np.intp})


def seen(array: Array, result: Any) -> Any:
    """Return a NumPy view of an array's memory as an array that shares its storage; anything else as it is."""
    _note()
    if type(result) is not np.ndarray:
        LOOKS[0] += 1
        return result
    view = object.__new__(Array if result.flags.writeable else ReadOnly)
    view._storage, view._values, view._home = array._storage, result, None
    return view


def put(array: Array, key: Any, value: Any) -> bool:
    """Set elements of an array in host memory at once; whether that could be done."""
    values = values_of(array)
    if values is None or type(array) is not Array or not is_free(array) or not IMMEDIATE[0]:
        return False
    limit, kind = IMMEDIATE[0], type(value)
    if kind is Array:
        if (array._home or array._storage.device) is not (value._home or value._storage.device):
            return False
        value = values_of(value)
        if value is None or value.size > limit:
            return False
    elif kind is np.ndarray:
        if value.size > limit or not (COMMON >> value.dtype.num) & 1:
            return False
    elif kind not in NUMBERS:
        return False
    if not _casts(value, values.dtype):
        return False
    if values.size > limit:
        if not _is_basic(key):
            return False
        part = values[key]
        if type(part) is np.ndarray:
            if part.size > limit:
                return False
            part[...] = value
            return True
    elif not _is_basic(key):
        key = take_host(key, [], limit)
        if key is MISSED:
            return False
    values[key] = value
    return True


def _casts(value: Any, dtype: np.dtype) -> bool:
    """Whether NumPy casts a value that is assigned as weft does: not floats to integers, which saturate."""
    if dtype.kind in "fc" or dtype.kind == "b":
        return True
    return np.result_type(value).kind in "biu"


def make_small(function: Callable[..., Any], size: int, *arguments: Any) -> Array | None:
    """Return a new array that a NumPy function makes, if it is a small one in host memory; else None."""
    home = default_device()
    if size > IMMEDIATE[0] or home.name != "cpu":
        return None
    return born(function(*arguments), home)
