"""Replacement of complex64 by 64-bit integers in kernels that only copy.

Vector code for pairs of floats separates the real and the imaginary parts, which doubles the time of a copy, and is not
needed to concatenate, pad, repeat, flip or roll. In: a kernel for a CPU. Out: the kernel with 64-bit integers in place
of complex64 values, if it only loads, chooses and stores them. Invariant: the bits of all values are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Type, Value
from weft.codegen.passes.rewrite import Rewriter

_COMPLEX, _WORD = np.dtype(np.complex64), np.dtype(np.uint64)
_ACCESSES = frozenset({"load", "store"})
_MOVES = frozenset({*_ACCESSES, "constant", "where", "yield"})


def move_complex(kernel: Kernel) -> Kernel:
    """Return the kernel with complex64 values replaced by integers, or unchanged if that is impossible."""
    accesses = [o for o in kernel.walk() if _points_to_complex(o)]
    if not accesses or kernel.functions or any(o.opcode not in _ACCESSES for o in accesses):
        return kernel
    if any(not (o.regions or o.opcode in _MOVES) for o in kernel.walk() if _COMPLEX in _types_of(o)):
        return kernel
    return Rewriter(kernel, _rewrite, _retype).run()


def _types_of(operation: Operation) -> list[Type]:
    return [value.type for value in (*operation.operands, *operation.results)]


def _points_to_complex(operation: Operation) -> bool:
    return any(isinstance(type, Pointer) and type.dtype == _COMPLEX for type in _types_of(operation))


def _retype(type: Type) -> tuple[Type]:
    if isinstance(type, Pointer):
        return (Pointer(_WORD, type.space) if type.dtype == _COMPLEX else type,)
    return (_WORD if type == _COMPLEX else type,)


def _rewrite(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Value] | None:
    if operation.opcode != "constant" or operation.results[0].type != _COMPLEX:
        return None
    return [b.constant(np.asarray(operation.attributes["value"], _COMPLEX).view(_WORD)[()], _WORD)]
