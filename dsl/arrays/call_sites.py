"""Recording of operations, with a memo of expressions by call site.

In: an op, arrays and scalars, and a call site. Out: the recorded result. Invariant: a memoized expression is the same
object that a new recording would produce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from math import prod
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from weft.codegen import is_supported
from weft.dsl.arrays.array import Array, ReadOnly, Scalar, View, as_operand, convert, record, user_location, wrap
from weft.dsl.arrays.memory_order import Order, memory_order, permuted, unpermuted
from weft.dsl.arrays.numbers import (
    SLOT_TYPES,
    SlotKey,
    bind_numbers,
    is_argument,
    look_up_slotted,
    memoize_slotted,
    note_constant,
    within_64_bits,
)
from weft.dsl.arrays.parts import Part, ReadOnlyPart
from weft.dsl.immediate.at_call import COMMON, call_counter
from weft.dsl.immediate.host_values import adopt
from weft.fusion import (
    INTERNED,
    Epoch,
    Expr,
    Location,
    Storage,
    bind,
    contiguous_strides,
    current_epoch,
    cut,
    find_shared,
    keep_code,
    map_,
    operand,
    recording,
)
from weft.runtime import IMMEDIATE, SEVERAL_DEVICES, Device, DeviceMismatchError, device, limit_on

Operation = TypeVar("Operation", bound=Callable[..., Any])

# Forms of an operation: an operator or a ufunc, a reflected operator, an in-place operator or an assignment, or a call
# of another function. The form is a part of the memo key.
PLAIN, REFLECTED, IN_PLACE, CALLED = range(4)
# Position of the first operand's expression in a memo key.
LEFT = 5
# Actions of native code for a key that is in the memo: record the expression; write it to the first operand, and return
# that operand (`ASSIGN`) or None (`SET`); return a view; record the expression unless the only operand is a small array
# in CPU memory; or record it unless the first operand is a small array in CPU memory.
RECORD, ASSIGN, SET, SHOW, RECORD_PENDING, RECORD_FUNCTION = range(6)

# Memo hits after which native recorders on disk are loaded. After twice as many hits, they have saved the time of
# loading.
ENOUGH = 3_000
# Counts a memo hit in Python.
count_hit = call_counter("weft.dsl.arrays.native_operators", ENOUGH)


def look_up(
    op: str, way: int, first: Array, second: Any, code: CodeType, at: int, *caller: Any
) -> tuple[Any, Expr | None]:
    """Return the memo key of an operation, and the memoized expression for this key.

    The key is None if the operation cannot be memoized, and the expression is None on a miss. If the result is a view
    of the expression, the second value is a pair of both. This function is the hot path of recording. `second` is the
    second operand, or ``...`` for a unary operation. `code` and `at` are the call site of the operation. If the call
    site is in weft's code, `caller` is the user's call site.
    """
    epoch = recording.epoch
    if epoch is None:
        return None, None
    if len(epoch.pending) >= epoch.limit:
        epoch = cut(epoch, (code, at))
    # (Native code does not know the caller, and does not find keys that contain the caller.)
    caller_key = (id(caller[0]), caller[1]) if caller else ()
    storage = first._storage
    # (Read each attribute once: between two reads, another thread may make the storage a leaf of its own epoch.)
    left = storage.expr if storage.epoch is epoch else bind_memory(storage, epoch, code, at)
    if left is None:
        return None, None
    kind = type(second)
    if kind is Array or kind is Scalar or kind is Part:
        other = second._storage
        right = other.expr if other.epoch is epoch else bind_memory(other, epoch, code, at)
        if right is None:
            return None, None
        key: Any = (op, way, id(code), at, type(first), left, first._view, kind, right, second._view, *caller_key)
        return key, _look_up(key, epoch)
    if second is ...:
        key = (op, way, id(code), at, type(first), left, first._view, *caller_key)
        return key, _look_up(key, epoch)
    if kind is float or kind is int:
        key = (op, way, id(code), at, type(first), left, first._view, kind, second or zero_key(second), *caller_key)
        node = _look_up(key, epoch)
        if node is not None or not is_argument(code, at, op, 0 if way == REFLECTED else 1):
            return key, node
    elif kind is bool:
        key = (op, way, id(code), at, type(first), left, first._view, kind, second, *caller_key)
        return key, _look_up(key, epoch)
    elif kind not in SLOT_TYPES:
        return None, None
    slotted = SlotKey((op, way, id(code), at, type(first), left, first._view, kind, len(epoch.slots), *caller_key))
    return slotted, look_up_slotted(slotted, second, epoch)


def zero_key(zero: float) -> float | str:
    """Return a part of a memo key that distinguishes the zeros 0.0 and -0.0."""
    return zero if str(zero)[0] != "-" else "-0.0"


def _look_up(key: object, epoch: Epoch) -> Any:
    found: Any = INTERNED.get(key)
    if found is not None:
        epoch.taken.add(found if type(found) is Expr else found[0])
        count_hit()
    return found


def memoize(key: Any, node: Expr, where: Location, epoch: Epoch, view: View | None = None) -> None:
    """Memoize an operation's expression, and the view that it returned, if any.

    An expression that was first recorded at another call site than `where` is not memoized, unless it is a constant.
    """
    code = where[0]
    if key is None or recording.epoch is not epoch:
        return
    kept: Expr | None = node
    for _ in range(3):
        if kept is not None and kept.location is None and kept.operands:
            kept = kept.operands[-1]
    if kept is None:
        return
    if kept.location is None:
        if kept.kind != "constant" or not keep_code(code):  # (isnan of integers is a constant)
            return
    elif kept.location[::2] != where[::2]:  # (the node keeps its own code objects alive)
        return
    found: Any = node if view is None else (node, view)
    if type(key) is SlotKey:
        memoize_slotted(key, found, epoch)
    elif all(operand.kind != "scalar" for operand in kept.operands):
        # (Otherwise the key contains the number, which has just turned out to change.)
        INTERNED[key] = found
        if len(key) > 7 and key[7] in (float, int):  # (the key contains a Python number)
            note_constant(key, code, key[3], key[0], 0 if key[1] == REFLECTED else 1)


def copy_operand(values: np.ndarray, device: Device | None = None) -> Array | np.ndarray:
    """Copy a NumPy operand to a new weft array.

    The new array is on the device `device`, by default the device of the current epoch. Operations on the new array are
    memoized by call site, like all operations. An array of a dtype that weft does not support is returned unchanged. If
    the array is large, elements that `np.broadcast_to` repeats are stored once.
    """
    once = [n if step else 1 for n, step in zip(values.shape, values.strides, strict=True)]
    if values.size > max(IMMEDIATE[0], prod(once)):
        own = copy_operand(values[tuple(map(slice, once))], device)
        strides = [n and step for n, step in zip(values.strides, contiguous_strides(own.shape), strict=True)]
        return wrap(own._storage, (values.shape, tuple(strides), 0)) if isinstance(own, Array) else values
    if values.size <= IMMEDIATE[0] and values.dtype.isnative and (COMMON >> values.dtype.num) & 1:
        target = device or (recording.epoch or current_epoch()).device
        if target.small_on_host and values.size <= limit_on(target.name):
            return wrap(adopt(values.copy(), target))
    return convert(values, device) if is_supported(values.dtype) else values


def on_operands_device(operation: Operation, name: str = "") -> Operation:
    """Decorate an operation so that it runs on the device of its arrays.

    NumPy arrays and numbers among the operands are copied to that device, and new arrays are created there. If a `name`
    is given, the operation raises DeviceMismatchError for arrays on different devices. Operations without a `name`
    check their operands themselves.
    """

    @wraps(operation)
    def placed(*arguments: Any, **options: Any) -> Any:
        if SEVERAL_DEVICES[0] and (target := device_of((*arguments, *options.values()), name)) is not None:
            with device(target):
                current_epoch(target)
                return operation(*arguments, **options)
        return operation(*arguments, **options)

    return placed  # type: ignore[return-value]


_ARRAYS_AND_SEQUENCES = {Array, Part, ReadOnly, ReadOnlyPart, Scalar, list, tuple}


def device_of(operands: Iterable[Any], op: str = "") -> Device | None:
    """Return the device of the first weft array among the operands, or None if there is none.

    Lists and tuples are searched, too. A `Scalar` counts as a number: the device of a `Scalar` is returned only if
    there are no other arrays. Raises DeviceMismatchError for arrays on different devices if `op`, the name of an
    operation, is given.
    """
    arrays = list(arrays_in(operands))
    devices = dict.fromkeys([each.device for each in arrays if type(each) is not Scalar])
    if op and len(devices) > 1:
        check_devices(op, tuple(arrays))
    return next(iter(devices), None) or (arrays[0].device if arrays else None)


def arrays_in(operands: Iterable[Any]) -> Iterator[Array]:
    """Yield the weft arrays among operands, including those in lists and tuples."""
    for value in operands:
        if isinstance(value, Array):
            yield value
        elif type(value) in (list, tuple) and not _ARRAYS_AND_SEQUENCES.isdisjoint(map(type, value)):
            yield from arrays_in(value)


def apply(op: str, *operands: Any, location: Location | None = None) -> Array:
    """Return a new pending array for an op on arrays and scalars."""
    where = location or user_location(2)
    key = node = None
    if np.ndarray in map(type, operands):
        device = device_of(operands)
        operands = tuple([copy_operand(value, device) if type(value) is np.ndarray else value for value in operands])
    if len(operands) <= 2:
        first, second = operands if len(operands) == 2 else (operands[0], ...)
        if isinstance(first, Array):
            key, node = look_up(op, PLAIN, first, second, *where)
        elif isinstance(second, Array):
            key, node = look_up(op, REFLECTED, second, first, *where)
    return record(node) if node is not None else record_and_memoize(op, operands, where, key)


@on_operands_device
def record_and_memoize(op: str, operands: tuple[Any, ...], where: Location, key: Any) -> Array:
    """Record an op that is not in the memo, and memoize its expression under `key` if possible."""
    before = recording.epoch or current_epoch()
    epoch = cut(before, where)
    if epoch is not before:
        key = None  # the key refers to objects bound in the previous epoch
    check_devices(op, operands)
    order = memory_order([value for value in operands if isinstance(value, Array)])
    if order is not None:
        operands = tuple([transposed(value, order) for value in operands])
    numbers = not {int, float}.isdisjoint(map(type, operands))
    given = [within_64_bits(op, value, operands) for value in operands] if numbers else operands
    expressions, weak = zip(*map(as_operand, given), strict=True)
    node = map_(op, expressions, weak, location=where)
    if numbers and recording.epoch is epoch:
        node = bind_numbers(node, operands, where, epoch)
    result = record(node) if order is None else unpermuted(record(node), order)
    if key is not None and recording.epoch is epoch:
        if all(_whole_expression(value, epoch) in key for value in operands if isinstance(value, Array)):
            memoize(key, node, where, epoch, result._view)  # (unless another thread has written to an operand since)
    return result


def transposed(value: object, order: Order) -> Any:
    """Return an operand with its axes permuted by `order`, or unchanged if it has no axes."""
    if isinstance(value, (list, tuple, np.ndarray)):
        value = convert(value)
    return permuted(value, order) if isinstance(value, Array) and value.shape else value


def _whole_expression(array: Array, epoch: Epoch) -> Expr | None:
    """Return the current expression for the whole storage of an array, or None if there is none."""
    storage = array._storage
    value = storage.value if storage.host is not None else None
    return storage.expr if value is None else epoch.bind(value, storage.shape, storage.dtype)


def check_devices(op: str, operands: tuple[Any, ...]) -> None:
    """Raise DeviceMismatchError if the arrays among the operands are on different devices.

    A `Scalar` may be on any device, like the NumPy scalars that small reductions return.
    """
    if not SEVERAL_DEVICES[0]:
        return
    devices = {value.device.name for value in operands if isinstance(value, Array) and type(value) is not Scalar}
    if len(devices) > 1:
        first, *others = sorted(devices)
        raise DeviceMismatchError(
            f"{op} of arrays on {first} and {', '.join(others)}: move one, for example with .to({first!r})"
        )


def bind_memory(storage: Storage, epoch: Any, code: Any, at: int) -> Expr | None:
    """Return the expression that reads a storage's memory, or None if the operation cannot be memoized.

    The operation cannot be memoized if the epoch is on another device, or if other code shares the memory. In the
    latter case, each operation reads its own copy. A storage that is pending in another epoch is evaluated.
    """
    if storage.device is not epoch.device:
        return None
    if epoch.first is None:
        epoch.begin((code, at))
    buffer = storage.buffer
    if buffer is None:
        return operand(storage, epoch) if find_shared(storage) is None else None
    return bind(storage, buffer, epoch)


def accepts(value: object) -> bool:
    """Return whether weft's operators support values of the type of `value`.

    Operations with values of other types are left to NumPy, or to the operators of these types.
    """
    kinds = (Array, bool, int, float, complex, np.generic, list, tuple)
    return type(value) is np.ndarray or isinstance(value, kinds) or isinstance(value, np.memmap)
