"""Numba's promotion rules for numbers in kernels.

In: an op and the dtypes of its operands; Python numbers are int64, float64 and complex128. Out: the dtypes to which the
operands are converted before NumPy's promotion. Integer arithmetic uses 64 bits, signed if an operand is signed or a
bool. For shifts, only the first operand matters.

Numba describes its rules in https://numba.readthedocs.io/en/stable/proposals/integer-typing.html.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.codegen import OpDef, dtype_kind, resolve_dtypes

_SIGNED, _UNSIGNED = np.dtype(np.int64), np.dtype(np.uint64)
_DOUBLE = np.dtype(np.float64)
_SHIFTS = frozenset({"left_shift", "right_shift"})
_BITS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "invert"})
# Ops whose operands keep their integer dtypes. The result has one of these dtypes, or is a bool.
_KEPT = frozenset(
    "minimum maximum absolute equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not".split()
)
# Ops that Numba computes in the width of an unsigned operand, before it converts the result to 64 bits.
_IN_OWN_WIDTH = frozenset({"invert", "negative"})
_COMPUTED = frozenset(
    "add subtract multiply floor_divide remainder power negative positive square left_shift right_shift".split()
)


def numba_operands(op: OpDef, kinds: tuple[np.dtype, ...]) -> tuple[np.dtype, ...]:
    """Return the dtypes to which the operands of `op` are converted before NumPy's promotion."""
    name = op.name
    if name in _KEPT or (name in _IN_OWN_WIDTH and kinds[0].kind == "u"):
        return kinds
    integers = [k.kind in "biu" for k in kinds]
    if all(integers):
        if name in _BITS and all(k.kind == "b" for k in kinds):
            return kinds
        if name in _COMPUTED or name in _BITS:
            unsigned = (kinds[0] if name in _SHIFTS else min(kinds, key=lambda k: "biu".index(k.kind))).kind == "u"
            return (_UNSIGNED if unsigned else _SIGNED,) * len(kinds)
        # Float results of integer operands are float64, whereas NumPy uses smaller floats for small integers.
        small = dtype_kind(resolve_dtypes(op, (_SIGNED,) * len(kinds))[1]) == "f"
        return (_DOUBLE,) * len(kinds) if small else kinds
    if name == "power" and kinds[0].kind == "f" and integers[1]:
        return (kinds[0], kinds[0])
    if any(k.kind == "u" and k.itemsize == 2 for k in kinds):  # (with float32: float64 in Numba, float32 in NumPy)
        return tuple(np.dtype(np.uint32) if k.kind == "u" else k for k in kinds)
    return kinds


def numba_result(op: str, dtype: np.dtype) -> np.dtype:
    """Return the dtype that Numba gives the result of `op`, given the promoted dtype `dtype`."""
    return _UNSIGNED if op in _IN_OWN_WIDTH and dtype.kind == "u" else dtype


def promotes_to_double(kinds: Iterable[np.dtype]) -> bool:
    """Return whether promotion to a common dtype converts a float32 to float64."""
    kinds = tuple(kinds)
    return np.dtype(np.float32) in kinds and np.result_type(*kinds) == _DOUBLE
