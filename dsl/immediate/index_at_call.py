"""Immediate execution (tier 0) of reads with index arrays or masks, and of writes with any kind of index.

In: an array, an index, and a value to write. Out: for a read, the selected elements as a weft array, or `MISSED`; for a
write, whether it was executed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from math import prod
from typing import Any

import numpy as np

from weft import fusion
from weft.dsl.arrays.array import VALUE_READS, Array, Scalar, realise
from weft.dsl.arrays.validation import warn_of_lost_parts
from weft.dsl.immediate.at_call import COMMON, MISSED, NUMBERS, from_numpy_result, is_basic, note_call, to_host_if_small
from weft.dsl.immediate.host_values import is_free, values_after_small_run, values_of, writable_values, write_back
from weft.dsl.immediate.small_work import is_alone, most_moved_alone
from weft.fusion import Storage, end_small_run, evaluate, fill_memory, recording
from weft.runtime import FIXED, IMMEDIATE

_NO_VALUES = np.empty(0)
# Types of sequences that an assignment accepts in place of an array.
SEQUENCES = frozenset({list, tuple, range})
# Assigning a number to this many bytes takes about as long as an operation on one element.
_NUMBER_BYTES = 8


def put(array: Array, key: Any, value: Any) -> bool:
    """Execute ``array[key] = value`` immediately, or return False if it must be recorded."""
    limit, kind = IMMEDIATE[0], type(value)
    if not limit or type(array) is not Array:
        return False
    values = array._values
    if array._device is not None and values is not None and kind in NUMBERS and is_basic(key) and values.size <= limit:
        if _casts(value, values.dtype):
            note_call()
            values[key] = value
            return True
    if type(key) is Scalar and (seen := to_host_if_small(key, [], limit)) is not MISSED:
        key = seen[()]  # (such as the result of `argmax`)
    values = values_of(array)
    most = max(limit, IMMEDIATE[FIXED] * _NUMBER_BYTES // array.dtype.itemsize) if kind in NUMBERS else limit
    if values is None and array._view is None and _is_uniform(array._storage):
        key = key if is_basic(key) else to_host_if_small(key, [(_NO_VALUES, array)], limit)
        if key is MISSED or _picked(array.shape, key) > most:
            return False
        fill_memory(array._storage)
        values = values_of(array)
    storage = array._storage
    if values is None and storage.epoch is not recording.epoch and storage.device.name == "cpu" and not recording.held:
        realise(storage)  # (no operation that is now recorded would fuse with it)
        values = values_of(array)
    if values is None or not is_free(array):
        key = key if is_basic(key) else to_host_if_small(key, [(_NO_VALUES, array)], limit)
        if key is MISSED or _picked(array.shape, key) > most or not end_small_run():
            return False
        values = values_of(array)
        if values is None or not is_free(array):
            return False
    if values.size > limit and is_basic(key) and storage.device.name == "cpu" and is_alone(values.nbytes):
        limit = most = values.size
    if (value := _convert_assigned(array, value, limit)) is MISSED:
        return False
    if isinstance(value, np.complexfloating) and values.dtype.kind == "f" and is_basic(key):
        if values.size > limit and _picked(values.shape, key) > limit:
            return False
        warn_of_lost_parts(value.dtype, values.dtype)
        value = value.real
    if kind not in SEQUENCES and not _casts(value, values.dtype):
        return False
    if not is_basic(key):
        key = to_host_if_small(key, [(values, array)], limit)
        if key is MISSED or (values.size > limit and _picked(values.shape, key) > limit):
            return False
    elif values.size > limit:
        part = values[key]
        # (a recorded write to shared memory would copy all of it twice)
        shared = kind in NUMBERS and storage.host is not None and fusion.find_shared(storage) is not None
        if type(part) is np.ndarray and part.size > most and not shared:
            return False
    note_call()
    values[key] = value
    write_back(array, values)
    return True


def _convert_assigned(array: Array, value: Any, limit: int) -> Any:
    """Convert an assigned value to a number, a small NumPy array or a short sequence, or return `MISSED`.

    A sequence whose cast may differ from NumPy's is not converted.
    """
    kind = type(value)
    if kind in NUMBERS:
        return value
    if kind is Scalar:
        settled = values_after_small_run(value)  # (a run of small operations may just have computed it)
        return MISSED if settled is None else settled[()]
    if kind in SEQUENCES:
        items = to_host_if_small(value, [(_NO_VALUES, array)], limit)
        if items is MISSED or not _casts(made := np.asarray(items), array.dtype):
            return MISSED
        # (Unlike an array, a sequence must not have surplus axes of length 1, or integers that are out of range.)
        strict = made.ndim > 1 or made.size == 1 or (array.dtype.kind in "iu" and made.dtype != array.dtype)
        return items if strict else made
    if kind is Array:
        if (array._device or array._storage.device) is not (value._device or value._storage.device):
            return MISSED
        value = values_after_small_run(value)
        return MISSED if value is None or value.size > limit else value
    # (NumPy writes the data of arrays of subclasses, such as masked arrays)
    part = kind is np.ndarray or (isinstance(value, np.ndarray) and value.ndim > 0)
    if part and value.size <= limit and (COMMON >> value.dtype.num) & 1:
        return np.asarray(value)
    return MISSED


def pick(array: Array, key: object) -> Any:
    """Return ``array[key]`` for an index array or mask that selects few elements, otherwise `MISSED`."""
    limit = IMMEDIATE[0]
    values = values_of(array)
    if values is None and array.size <= limit:
        values = to_host_if_small(array, [], limit)
    elif values is None and type(array) is Array:
        few = to_host_if_small(key, [(_NO_VALUES, array)], limit)
        if few is not MISSED and _picked(array.shape, few) <= limit and end_small_run():
            values = values_of(array)
    if values is None or values is MISSED or not (COMMON >> values.dtype.num) & 1:
        return MISSED
    most = most_moved_alone([array])
    taken = values_of(key) if type(key) is Array and key.size <= most and key.device is array.device else None
    if taken is None:
        taken = to_host_if_small(key, [(values, array)], limit)
    if taken is MISSED or (values.size > most and _picked(values.shape, taken) > most):
        return MISSED
    VALUE_READS[0] += 1
    note_call()
    return from_numpy_result(values[taken], array.device, ((values, array),))


def _picked(shape: tuple[int, ...], key: Any) -> int:
    """Return the number of elements that an index selects."""
    if type(key) is np.ndarray and key.dtype.kind == "b" and key.shape == shape[: key.ndim]:
        return int(np.count_nonzero(key)) * prod(shape[key.ndim :])
    parts = key if type(key) is tuple else (key,)
    left, size, given = list(shape), 1, list[tuple[int, ...]]()
    if len(parts) <= len(left):
        for part in parts:
            if type(part) is np.ndarray and part.dtype.kind in "iu":
                given.append(part.shape)
                del left[0]
            elif type(part) is slice:
                size *= len(range(*part.indices(left.pop(0))))
            else:
                break
        else:
            with suppress(ValueError):  # (indexing raises IndexError)
                return size * prod(left) * prod(given[0] if len(given) == 1 else np.broadcast_shapes(*given))
    # (index an array whose elements have no bytes)
    return int(np.ndarray(shape, "V0")[key].size)


def put_masked(array: Array, mask: Array | np.ndarray, value: Any) -> bool:
    """Execute ``array[mask] = value`` immediately, or return False if it must be recorded.

    A pending mask or value is evaluated first.
    """
    if not IMMEDIATE[0] or recording.held or type(array) is not Array:
        return False
    if mask.shape != array.shape or array.device.name != "cpu":
        return False
    if any(isinstance(each, Array) and each.device is not array.device for each in (mask, value)):
        return False
    kind = type(value)
    if kind not in NUMBERS and (kind not in (Array, np.ndarray) or value.ndim != 1):
        return False
    if not _casts(value if kind in NUMBERS else value.dtype, array.dtype):
        return False
    values = values_of(array)
    if values is None and array._view is None and fill_memory(array._storage):
        values = values_of(array)
    if values is None:
        return False
    evaluate([each._storage for each in (mask, value) if type(each) is Array and each._device is None])
    given = [values_of(each) if type(each) is Array else each for each in (mask, value)]
    if not is_free(array) or not values.flags.writeable or given[0] is None or given[1] is None:
        return False
    values[given[0]] = given[1]
    return True


# Functions that write only to the given indices or to the diagonal.
_WRITE_FEW = frozenset({"at", "fill_diagonal", "put"})


def write_small(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Try to call a NumPy function that writes to its first argument, instead of recording the operation. Return whether it was called.

    The first argument must be small, unless the function writes only to few elements.
    """
    target, limit = arguments[0] if arguments else None, IMMEDIATE[0]
    if type(target) is not Array or not target.size or not (COMMON >> target.dtype.num) & 1:
        return False
    name = getattr(function, "__name__", "")
    if target.size > limit and name not in _WRITE_FEW:
        return False
    if (values := writable_values(target)) is None:
        values = writable_values(target) if end_small_run() else None
        if values is None:
            return False
    found = [(values, target)]
    others = (*arguments[1:], *options.values())
    if (given := to_host_if_small(others, found, limit)) is MISSED:
        return False
    # (NumPy casts scalars, unlike 0-d arrays, by any rule)
    given = [each[()] if type(other) is Scalar else each for each, other in zip(given, others, strict=True)]
    if name == "at" and target.size > limit and _picked(target.shape, given[0]) > limit:
        return False
    if any(type(each) in (list, tuple) for each in given) and values.dtype.kind not in "fc":
        return False
    for each in given:
        if type(each) in NUMBERS or type(each) is np.ndarray:
            if not _casts(each, values.dtype):
                return False
    note_call()
    few = len(arguments) - 1
    function(values, *given[:few], **dict(zip(options, given[few:], strict=True)))
    write_back(target, values)
    return True


def write_at_once(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a weft function that writes to an array. If the array is small, the wrapper calls NumPy's function of the same name instead."""

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        return None if write_small(numpys, arguments, options) else own(*arguments, **options)

    return called


def _is_uniform(storage: Storage) -> bool:
    """Return whether a storage on the CPU is constant or uninitialized, so that it needs no memory yet."""
    node = storage.expr
    return node is not None and node.kind in ("constant", "empty") and storage.device.name == "cpu"


def _casts(value: Any, dtype: np.dtype) -> bool:
    """Return whether NumPy and weft cast a number or an array to `dtype` with the same result.

    Casts from floats to integers may differ, since weft saturates. Floats within the integers' range are truncated.
    """
    kind = np.result_type(value).kind
    if dtype.kind in "cb" or kind in "biu" or (dtype.kind == "f" and (kind == "f" or type(value) is int)):
        return True
    if kind != "f" or dtype.kind not in "iu":
        return False
    least, most = _range_of(dtype)
    if type(value) in NUMBERS:
        return least - 1 < float(value) < most + 1
    if type(value) is not np.ndarray or not value.size:
        return False
    return least - 1 < float(value.min()) and float(value.max()) < most + 1  # (False for NaN)


@cache
def _range_of(dtype: np.dtype) -> tuple[int, int]:
    """Return the smallest and the largest integer of a dtype as Python ints.

    Comparisons of floats with Python ints are exact.
    """
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)
