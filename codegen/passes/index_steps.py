"""Differences of values between successive iterations of a loop."""

from __future__ import annotations

from collections.abc import Iterable

from weft.codegen.kernel_ir.operation import Operation, Pointer, Value, program_order

_LINEAR = ("add", "subtract", "multiply", "cast", "constant")


def index_steps(operations: Iterable[Operation], index: Value) -> dict[Value, int | None]:
    """Return the amount by which each value grows if `index` grows by 1.

    Values that do not depend on `index` are left out. None means that the amount is not known at compile time.
    """
    steps: dict[Value, int | None] = {index: 1}
    constants: dict[Value, int] = {}
    for operation in program_order(operations):
        if operation.opcode == "constant" and operation.results[0].dtype.kind in "iu":
            constants[operation.results[0]] = int(operation.attributes["value"])
        if operation.opcode in ("if", "for"):
            # the results of the regions may also depend on the index
            steps |= dict.fromkeys(operation.results)
        known = [steps.get(v, 0) for v in operation.operands]
        if operation.opcode == "for":
            # carried values may come to depend on the index during the loop
            steps |= dict.fromkeys(operation.regions[0].parameters[1:])
        if all(step == 0 for step in known):
            continue
        steps |= dict.fromkeys(operation.results, _result_step(operation, known, constants))
        if operation.opcode == "for":
            # the bounds or the initial values depend on the index
            steps[operation.regions[0].parameters[0]] = None if any(s != 0 for s in known[:2]) else 0
    return {value: step for value, step in steps.items() if step != 0}


def _result_step(operation: Operation, known: list[int | None], constants: dict[Value, int]) -> int | None:
    if None in known or len(known) != 2:
        return None
    first, second = known
    assert first is not None
    assert second is not None
    match operation.opcode:
        case "add":
            return first + second
        case "subtract":
            return first - second
        case "multiply" if operation.operands[1] in constants:
            return first * constants[operation.operands[1]]
        case "multiply" if operation.operands[0] in constants:
            return second * constants[operation.operands[0]]
    return None


def constant_offsets(operations: Iterable[Operation]) -> dict[Value, tuple[Value, int]]:
    """Map each sum of an index and a constant to the index and the constant."""
    constants: dict[Value, int] = {}
    found: dict[Value, tuple[Value, int]] = {}
    for operation in operations:
        if operation.opcode == "constant" and operation.results[0].dtype.kind in "iu":
            constants[operation.results[0]] = int(operation.attributes["value"])
        elif operation.opcode == "add":
            for base, offset in (operation.operands, operation.operands[::-1]):
                if offset in constants and base not in constants:
                    before, other = found.get(base, (base, 0))
                    found[operation.results[0]] = before, other + constants[offset]
    return found


def is_linear(value: Value, index: Value, made: dict[Value, Operation]) -> bool:
    """Return whether a value is linear in an index.

    The value must be computed in integers that are at least as wide as the index.
    """
    maker = made.get(value)
    kind, width = value.type, index.dtype.itemsize
    if isinstance(kind, Pointer) or kind.kind not in "iu" or kind.itemsize < width:
        return False
    if maker is None:
        return True
    if maker.opcode not in _LINEAR or not all(is_linear(v, index, made) for v in maker.operands):
        return False
    depending = [v for v in maker.operands if _depends(v, index, made)]
    return maker.opcode != "multiply" or len(depending) < 2


def _depends(value: Value, index: Value, made: dict[Value, Operation]) -> bool:
    if value is index:
        return True
    return value in made and any(_depends(v, index, made) for v in made[value].operands)
