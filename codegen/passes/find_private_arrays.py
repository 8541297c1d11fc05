"""Search for arrays of which CPU threads can use private copies.

A kernel modifies such an array only by atomics. In: a user-written kernel. Out: for each atomic on such an array, a
description of the array. A private copy needs no atomic instructions, and is combined with the array at the end
(privatization). Invariants, if the arrays do not overlap: the order of the operations affects the result only for
floats, and the kernel does not read the array. Overlap can be tested only when the kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.reduction_identities import reduction_identities

_ALIKE = ("add", "bitwise_or", "bitwise_xor", "bitwise_and", "minimum", "maximum", "fmin", "fmax")
# Kind of atomic -> the kind that combines a private copy with the array.
COMBINED = {**{kind: kind for kind in _ALIKE}, "subtract": "add"}
# Operations with which a kernel may access an array other than through the array's pointer.
_OPAQUE = frozenset({"pointer", "call", "external", "assembly", "trace"})


@dataclass(frozen=True)
class ArrayBounds:
    """The memory of an array: its pointer, its item size, and the lengths of its axes.

    If the array is not C-contiguous, also its strides, and their unit in bytes.
    """

    pointer: Value
    itemsize: int
    lengths: tuple[Value, ...]
    strides: tuple[Value, ...] = ()
    unit: int = 0


@dataclass(frozen=True)
class PrivateArray:
    """An array that a kernel modifies by one kind of atomic and never reads.

    Attributes
    ----------
    bounds : ArrayBounds
    dtype : numpy.dtype
    combine : str
        Kind of the atomic that combines an element of a private copy with the array.
    identity : int
        Bits of the initial value of the elements of a private copy.
    others : tuple of ArrayBounds
        The other arrays of the kernel, which must not overlap with this array.
    """

    bounds: ArrayBounds
    dtype: np.dtype
    combine: str
    identity: int
    others: tuple[ArrayBounds, ...]


def find_private_arrays(kernel: Kernel) -> dict[Operation, PrivateArray]:
    """Find the atomics that could use a private copy of their array. Map each of them to a description of the array."""
    operations = list(program_order(kernel.body.operations))
    if kernel.functions or any(o.opcode in _OPAQUE for o in operations):
        return {}
    arrays = _known_arrays(kernel)
    uses: dict[Value, list[Operation]] = {}
    for o in operations:
        for value in o.operands:
            uses.setdefault(value, []).append(o)
    used = [p.value for p in kernel.parameters if isinstance(p.value.type, Pointer) and p.value in uses]
    if any(value not in arrays and value.type.space == "global" for value in used):  # type: ignore[union-attr]
        return {}
    found = {}
    for value in used:
        atomics = _atomics(value, uses)
        if atomics and not arrays[value].strides:
            others = tuple(arrays[other] for other in used if other is not value and other in arrays)
            made = _describe(arrays[value], atomics[0], others)
            found.update(dict.fromkeys(atomics, made))
    return found


def _known_arrays(kernel: Kernel) -> dict[Value, ArrayBounds]:
    """Return the bounds of the arrays whose lengths are kernel parameters."""
    parameters = {p.value.name: p.value for p in kernel.parameters}
    found = {}
    for text in kernel.attributes.get("arrays", ()):
        name, itemsize, *words = text.split()
        pointer, values = parameters[name], tuple(parameters[word] for word in words if not word.isdigit())
        (unit,) = [int(word) for word in words if word.isdigit()] or [0]
        axes = len(values) // 2 if unit else len(values)
        found[pointer] = ArrayBounds(pointer, int(itemsize), values[:axes], values[axes:], unit)
    return found


def _atomics(pointer: Value, uses: dict[Value, list[Operation]]) -> list[Operation]:
    """Return the atomics on an array, or an empty list if the array has other accesses.

    All atomics must be of one kind and element type, and their results must be unused.
    """
    found = []
    stack = [pointer]
    while stack:
        value = stack.pop()
        for o in uses.get(value, ()):
            if o.opcode == "offset":
                stack.append(o.results[0])
            elif o.opcode == "atomic" and o.operands[0] is value and not any(v in uses for v in o.results):
                found.append(o)
            else:
                return []
    kinds = {(o.attributes["kind"], o.attributes.get("order", "monotonic")) for o in found}
    dtype = pointer.element
    if len(kinds) != 1 or dtype.kind not in "iuf":
        return []
    kind, order = kinds.pop()
    return found if kind in COMBINED and order == "monotonic" else []


def _describe(bounds: ArrayBounds, atomic: Operation, others: tuple[ArrayBounds, ...]) -> PrivateArray:
    dtype = bounds.pointer.element
    combine = COMBINED[atomic.attributes["kind"]]
    (identity,) = reduction_identities((combine,), (dtype,))
    bits = identity.view(f"i{dtype.itemsize}") if dtype.kind == "f" else identity
    return PrivateArray(bounds, dtype, combine, int(bits), others)
