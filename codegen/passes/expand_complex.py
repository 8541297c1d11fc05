"""Replacement of complex values by pairs of real values.

Memory is interleaved: element i of a complex pointer is elements 2i and 2i+1 of a real pointer. Afterwards no value,
parameter or pointer of the kernel is complex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Type, Value
from weft.codegen.ops import pairs
from weft.codegen.ops.op_table import accumulators, find_op
from weft.codegen.passes.rewrite import Rewriter, changes


def is_complex(value: Value) -> bool:
    """Return whether a value is complex."""
    return isinstance(value.type, np.dtype) and value.type.kind == "c"


def retype(type: Type) -> tuple[Type, ...]:
    """Return the types that replace `type` in expanded kernels.

    A complex type becomes two real types. A pointer to complex numbers becomes a pointer to real numbers.
    """
    if isinstance(type, Pointer):
        return (Pointer(part_of(type.dtype), type.space) if type.dtype.kind == "c" else type,)
    return (part_of(type),) * 2 if type.kind == "c" else (type,)


def expand_complex(kernel: Kernel) -> Kernel:
    """Return the kernel with complex values replaced by pairs, or the kernel itself if it has none."""
    if not changes(kernel, retype):
        return kernel
    expanded = Rewriter(kernel, _expand, retype).run()
    for operation in expanded.walk():
        names = operation.attributes.get("combine", ())
        if names and sum(accumulators(name) for name in names) != len(operation.results):
            # a part by itself is not a reduction: the loop's second region defines how lanes combine
            operation.attributes = {**operation.attributes, "role": "serial", "combine": ()}
    return expanded


def part_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the real and imaginary parts of a complex dtype."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def _expand(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
    types = [v.type for v in (*operation.operands, *operation.results)]
    if all(retype(type) == (type,) for type in types):
        return None
    attributes, results = operation.attributes, operation.results
    match operation.opcode:
        case "constant":
            value, part = attributes["value"], part_of(results[0].dtype)
            return [(b.constant(value.real, part), b.constant(value.imag, part))]
        case "cast":
            return [_cast(b, operands[0], results[0].type)]
        case "load" if is_complex(results[0]):
            notes = _of_parts(attributes, part_of(results[0].dtype))
            indices = zip(_indices(b, operands[1]), notes, strict=True)
            return [tuple(b.load(operands[0], at, **note) for at, note in indices)]
        case "store" if isinstance(operands[2], tuple):
            notes = _of_parts(attributes, operands[2][0].type)
            for at, part, note in zip(_indices(b, operands[1]), operands[2], notes, strict=True):
                b.store(operands[0], at, part, **note)
            return []
        case "atomic":
            first, second = _indices(b, operands[1])
            parts = ((operands[0], at, part) for at, part in zip((first, second), operands[2], strict=True))
            return [tuple(b.emit("atomic", access, (access[2].type,), **attributes)[0] for access in parts)]
        case "shared" | "local" | "table":
            kind = retype(results[0].type)
            if "count" in attributes:
                return list(b.emit(operation.opcode, (), kind, count=2 * attributes["count"]))
            return list(b.emit("table", (), kind, values=attributes["values"].view(kind[0].dtype)))  # type: ignore[union-attr]
        case "offset":
            return [b.offset(operands[0], _indices(b, operands[1])[0])]
        case "fetch":
            b.emit("fetch", (operands[0], _indices(b, operands[1])[0]), ())
            return []
        case "shuffle_xor" | "shuffle" | "warp_reduce":
            k = 0 if operation.opcode == "shuffle_xor" else 1
            split = [(*operands[:k], part, *operands[k + 1 :]) for part in operands[k]]
            return [tuple(b.emit(operation.opcode, part, (part[k].type,), **attributes)[0] for part in split)]
        case "print":
            return _print(b, operation, operands)
        case "yield" | "call" | "reinterpret" | "address" | "pointer":
            return None
        case name:
            definition = find_op(name)
            if definition.on_pairs is None:
                raise TypeError(f"{name} cannot be computed on complex numbers")
            return [definition.on_pairs(b, *operands)]


def _of_parts(attributes: dict[str, Any], part: np.dtype) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes of the accesses to the real part and to the imaginary part."""
    second = {**attributes, "align": min(attributes["align"], part.itemsize)} if attributes.get("align") else attributes
    return attributes, second


def _print(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any]:
    """Emit a `print` that shows complex numbers as ``(1+2j)``. A number's format, such as ``.2f``, applies to its real and imaginary parts."""
    pieces, formats = [operation.attributes["pieces"][0]], []
    given = operation.attributes.get("formats", ()) or ("",) * len(operands)
    for text, form, value in zip(operation.attributes["pieces"][1:], given, operands, strict=True):
        if isinstance(value, tuple):
            pieces[-1] += "("
            pieces += ["", "j)" + text]
            formats += [form, "+" + (form or "g")]
        else:
            pieces.append(text)
            formats.append(form)
    flat = [part for value in operands for part in (value if isinstance(value, tuple) else (value,))]
    b.emit("print", flat, pieces=tuple(pieces), formats=tuple(formats))
    return []


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
