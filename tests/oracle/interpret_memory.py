"""The memory of the reference interpreter.

A pointer is a 1-D array and an element index. Invariant: every out-of-bounds access is an error. Uninitialized shared
and local memory holds garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Pointer, Type
from weft.codegen.ops.op_table import find_op

_GARBAGE = 0xA5

PointerValue = tuple[np.ndarray, int]


def access(operation: Operation, operands: list[Any]) -> PointerValue:
    """Return the array that an operation reads or writes, and the index of the element.

    Raises IndexError if the element is out of bounds.
    """
    (array, start), index = operands[:2]
    position = int(index) + start
    if not 0 <= position < len(array):
        raise IndexError(
            f"{operation.opcode} of element {position} of %{operation.operands[0].name}, which has {len(array)}"
        )
    return array, position


def new_array(dtype: np.dtype, count: int) -> np.ndarray:
    """Return an array that stands for uninitialized memory. It is filled with garbage."""
    filler = np.full(count * dtype.itemsize, _GARBAGE if dtype.kind != "b" else 1, np.uint8)
    return filler.view(dtype)


def reinterpreted(pointer: PointerValue, type: Type) -> PointerValue:
    """Return a pointer to the same address with another dtype.

    Elements that do not fit entirely into the array are out of bounds.
    """
    assert isinstance(type, Pointer)
    array, start = pointer
    size = type.dtype.itemsize
    at = start * array.itemsize
    first = at % size
    memory = array.view(np.uint8)
    whole = (len(memory) - first) // size * size
    return memory[first : first + whole].view(type.dtype), (at - first) // size


_addresses: list[PointerValue] = []


def address_of(pointer: PointerValue) -> np.int64:
    """Return a new number for a pointer. `pointer_at` returns the pointer for the number."""
    _addresses.append(pointer)
    return np.int64(len(_addresses) - 1)


def pointer_at(address: np.int64) -> PointerValue:
    """Return the pointer for a number that `address_of` returned."""
    return _addresses[int(address)]


def _row(name: str) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any] = getattr(np, find_op(name).ufunc)
    return function


def changed(kind: str, old: Any, value: Any) -> Any:
    """Return the value that an atomic operation stores."""
    match kind:
        case "exchange":
            return value
        case "increment":
            return old.dtype.type(0) if old >= value else old + old.dtype.type(1)
        case "decrement":
            return value if old == 0 or old > value else old - old.dtype.type(1)
        case _:
            return _row(kind)(old, value)


def atomic(operation: Operation, operands: list[Any]) -> Any:
    """Execute an atomic operation, and return the old element."""
    array, position = access(operation, operands)
    old = array[position]
    array[position] = changed(operation.attributes["kind"], old, operands[2])
    return old


def atomic_cas(operation: Operation, operands: list[Any]) -> Any:
    """Execute a compare-and-swap, and return the old element. Elements are compared by their bits."""
    array, position = access(operation, operands)
    old = array[position]
    if old.tobytes() == operands[2].tobytes():
        array[position] = operands[3]
    return old
