"""Memoization of functions that return recorded arrays, by call site and arguments.

In: a function of arrays, scalars and options that records a new array. Out: a function that needs one lookup for a
repeated call. Invariant: a memoized expression is the one that the function would record. Calls that evaluate, read
values, write to an argument, return views, or use slots for scalars are not memoized.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import EllipsisType, NoneType
from typing import Any, TypeVar

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, Scalar, record, user_location
from weft.dsl.arrays.call_sites import CALLED, RECORD, bind_memory, count_hit, zero_key
from weft.dsl.arrays.parts import Part
from weft.fusion import INTERNED, Epoch, Location, cut, keep_code, recording, uncut

Function = TypeVar("Function", bound=Callable[..., Any])

# Maximum length of a list of arrays in a memo key.
LONGEST = 32
# (NumPy integers are results of functions such as `unravel_index`, and are passed as shifts, axes and lengths.)
_NAMED_BY_THEMSELVES = frozenset({int, str, bool, type, NoneType, EllipsisType, np.int64, np.int32})


def memoized(function: Function) -> Function:
    """Memoize the recorded results of a function by call site and arguments."""
    name = function.__name__
    function = uncut(function)

    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        epoch, where = recording.epoch, user_location(2)
        if epoch is not None and len(epoch.pending) >= epoch.limit:
            epoch = cut(epoch, where)
        if epoch is None or options.get("out") is not None:
            return function(*arguments, **options)
        named = [name, CALLED, id(where[0]), where[1]]
        if options:
            named.append(tuple(options))
        for value in (*arguments, *options.values()):
            if not describe(value, named, epoch, where):
                return function(*arguments, **options)
        key = tuple(named)
        node = INTERNED.get(key)
        if node is not None:
            epoch.taken.add(node)
            count_hit()
            return record(node)
        slots, pending, looks = len(epoch.slots), len(epoch.pending), VALUE_READS[0]
        result = function(*arguments, **options)
        if (
            (kind := type(result)) in (Array, Scalar)
            and (kind is Scalar) == (not result._storage.shape)
            and result._view is None
            and recording.epoch is epoch
            and len(epoch.slots) == slots
            and VALUE_READS[0] == looks  # (a value was read, such as an axis or a number of elements: calls may differ)
            and any(made is result._storage for made in epoch.pending[pending:])
            and all(value is not result for value in arguments)  # (`out` may be passed by position)
            and keep_code(where[0])
        ):
            INTERNED[key] = result._storage.expr
            epoch.drop_unreferenced(pending)
        return result

    wrapper.records = name, CALLED, RECORD  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def describe(value: Any, named: list[Any], epoch: Epoch, where: Location) -> bool:
    """Append the parts that identify a value to a memo key, or return False if the value cannot be part of a key."""
    kind = type(value)
    if kind is Array or kind is Scalar or kind is Part:
        storage = value._storage
        expr = storage.expr if storage.epoch is epoch else bind_memory(storage, epoch, *where)
        named += (kind, expr, value._view)
        return expr is not None
    if kind in _NAMED_BY_THEMSELVES:
        named += (kind, value)
        return True
    if kind is float:
        named += (kind, value or zero_key(value))
        return value == value  # (NaN does not equal itself)
    if kind is slice:
        named += (kind, value.start, value.stop, value.step)
        return all(part is None or type(part) is int for part in named[-3:])
    if kind is tuple or kind is list:
        named += (kind, len(value))
        return len(value) <= LONGEST and all(describe(item, named, epoch, where) for item in value)
    if isinstance(value, np.dtype):
        named.append(value)
        return True
    return False
