"""Replace complex values by pairs of real ones.

Memory is interleaved: element i of a complex pointer is elements 2i and 2i+1 of a real one. Afterwards
no value, parameter or pointer of the kernel is complex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Parameter, Pointer, Value
from weft.codegen.ops import accumulators, find_op, pairs
from weft.codegen.passes.rewrite import Rewriter


def is_complex(value: Value) -> bool:
    """Whether a value is a complex number."""
    return isinstance(value.type, np.dtype) and value.type.kind == "c"


def expand_complex(kernel: Kernel) -> Kernel:
    """The kernel on real numbers; itself if it has no others."""
    values = [p.value for p in kernel.parameters] + [v for o in kernel.walk() for v in (*o.results, *o.operands)]
    if not any(is_complex(v) or (isinstance(v.type, Pointer) and v.type.dtype.kind == "c") for v in values):
        return kernel
    rewriter = Rewriter(kernel, _expand, is_complex)
    for parameter in kernel.parameters:
        kind = parameter.value.type
        new = parameter
        if isinstance(kind, Pointer) and kind.dtype.kind == "c":
            value = Value(parameter.value.name, Pointer(part_of(kind.dtype), kind.space))
            new = Parameter(value, parameter.writable, parameter.noalias, parameter.align)
        elif is_complex(parameter.value):
            raise AssertionError("complex numbers are passed as constants or through memory")
        rewriter.builder.kernel.parameters.append(new)
        rewriter.map[parameter.value] = new.value
    expanded = rewriter.run()
    for operation in expanded.walk():
        names = operation.attributes.get("combine", ())
        if names and sum(accumulators(name) for name in names) != len(operation.results):
            # a part by itself is no fold: how lanes combine stands in the loop's second region
            operation.attributes = {**operation.attributes, "role": "serial", "combine": ()}
    return expanded


def part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def _expand(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
    results = operation.results
    if results and isinstance(results[0].type, Pointer) and results[0].type.dtype.kind == "c":
        kind = Pointer(part_of(results[0].type.dtype), results[0].type.space)
        return list(b.emit(operation.opcode, (), (kind,), count=2 * operation.attributes["count"]))
    if not any(isinstance(v, tuple) for v in operands) and not any(is_complex(v) for v in results):
        old = operation.operands[0].type if operation.operands else None
        if not (isinstance(old, Pointer) and old.dtype.kind == "c"):
            return None
    match operation.opcode:
        case "constant":
            value, part = operation.attributes["value"], part_of(results[0].type)  # type: ignore[arg-type]
            return [(b.constant(value.real, part), b.constant(value.imag, part))]
        case "cast":
            return [_cast(b, operands[0], results[0].type)]
        case "load":
            first, second = _indices(b, operands[1])
            return [(b.load(operands[0], first), b.load(operands[0], second))]
        case "store":
            first, second = _indices(b, operands[1])
            b.store(operands[0], first, operands[2][0])
            b.store(operands[0], second, operands[2][1])
            return []
        case "shuffle_xor":
            parts = [b.emit("shuffle_xor", (part,), (part.type,), **operation.attributes)[0] for part in operands[0]]
            return [tuple(parts)]
        case "yield":
            return None
        case name:
            row = find_op(name)
            if row.on_pairs is None:
                raise TypeError(f"{name} cannot be computed on complex numbers")
            return [row.on_pairs(b, *operands)]


def _indices(b: KernelBuilder, index: Value) -> tuple[Value, Value]:
    first = b.op("multiply", index, b.constant(2))
    return first, b.op("add", first, b.constant(1))


def _cast(b: KernelBuilder, value: Any, target: Any) -> Any:
    if not isinstance(value, tuple):
        part = part_of(target)
        return b.cast(value, part), b.constant(0, part)
    if target.kind == "c":
        part = part_of(target)
        return b.cast(value[0], part), b.cast(value[1], part)
    if target.kind == "b":
        return pairs.nonzero(b, value)
    return b.cast(value[0], target)
