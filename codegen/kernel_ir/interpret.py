"""The slow reference interpreter: runs a kernel one operation at a time with NumPy's scalars.

In: a kernel and one argument a parameter: a (1-D array, start) pair for a pointer, a NumPy scalar else. Out:
the arrays, written in place. Accesses are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value
from weft.codegen.ops import find_op


def cast_scalar(value: Any, dtype: np.dtype) -> Any:
    """A NumPy scalar in another dtype: float to integer saturates, NaN gives 0; complex to real drops the
    imaginary part."""
    source = value.dtype
    if source.kind == "c" and dtype.kind not in "cb":
        value, source = value.real, value.real.dtype
    if source.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if np.isnan(value):
            return dtype.type(0)
        return dtype.type(
            min(
                max(int(value) if np.isfinite(value) else (limits.max if value > 0 else limits.min), limits.min),
                limits.max,
            )
        )
    return value.astype(dtype)


def interpret_kernel(kernel: Kernel, arguments: Sequence[Any]) -> None:
    """Run a logical kernel. Raises IndexError where an access leaves its array."""
    values: dict[Value, Any] = {p.value: a for p, a in zip(kernel.parameters, arguments, strict=True)}
    with np.errstate(all="ignore"):
        _run(kernel.body, values, kernel)


def _run(block: Block, values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    for operation in block.operations:
        operands = [values[v] for v in operation.operands]
        if operation.opcode == "yield":
            return operands
        special = _SPECIAL.get(operation.opcode)
        if special is not None:
            results = special(operation, operands, values, kernel)
        else:
            row = find_op(operation.opcode)
            function = getattr(np, row.ufunc) if row.ufunc else row.reference
            assert function is not None
            result = operation.results[0].type
            assert isinstance(result, np.dtype)
            results = [np.asarray(function(*operands)).astype(result)[()]]
        for value, result in zip(operation.results, results, strict=True):
            values[value] = result
    return []


def _access(operation: Operation, operands: list[Any]) -> tuple[np.ndarray, int]:
    (array, start), index = operands[:2]
    position = int(index) + start
    if not 0 <= position < len(array):
        raise IndexError(
            f"{operation.opcode} of element {position} of %{operation.operands[0].name}, which has {len(array)}"
        )
    return array, position


def _load(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    array, position = _access(operation, operands)
    return [array[position]]


def _store(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    array, position = _access(operation, operands)
    array[position] = operands[2]
    return []


def _for(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    region = operation.regions[0]
    carried = operands[2 : 2 + len(operation.results)]
    for index in range(int(operands[0]), int(operands[1]), operation.attributes.get("step", 1)):
        values[region.parameters[0]] = kernel.index_dtype.type(index)
        for parameter, value in zip(region.parameters[1:], carried, strict=True):
            values[parameter] = value
        carried = _run(region, values, kernel)
    return carried


def _if(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    return _run(operation.regions[0 if operands[0] else 1], values, kernel)


def _constant(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    return [operation.attributes["value"]]


def _cast(operation: Operation, operands: list[Any], values: dict[Value, Any], kernel: Kernel) -> list[Any]:
    target = operation.results[0].type
    assert isinstance(target, np.dtype)
    return [cast_scalar(operands[0], target)]


_SPECIAL: dict[str, Callable[[Operation, list[Any], dict[Value, Any], Kernel], list[Any]]] = {
    "load": _load,
    "store": _store,
    "for": _for,
    "if": _if,
    "constant": _constant,
    "cast": _cast,
}
