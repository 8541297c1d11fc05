"""Primitives: callables that compute ops on arrays. Their results have the same bits as those of compiled plans.

In: the name of an op and its dtypes. Out: a callable like a NumPy ufunc. Invariant: NumPy's own loop is used only if it
computes the same bits as a kernel. Otherwise the op's expansion into such loops is used, and later a loop that the code
generation of plans compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, find_op, is_bfloat16, is_half
from weft.fusion.run.expanded_ops import ExpandedOp, can_expand, stored_loops
from weft.fusion.run.reduce_arrays import NeedsKernelError, reduce_values, sum_of_products

Primitive = Callable[..., Any]

__all__ = ["NeedsKernelError", "Primitive", "primitive", "reduce_values", "substitute", "sum_of_products", "uses_numpy"]

# Ops whose NumPy loops compute the same bits as kernels, by the kind of their first operand.
_ANY = "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite"
_BITS = "bitwise_and bitwise_or bitwise_xor invert"
_SUMS = "add subtract multiply negative positive conjugate absolute square"
_FLOATS = "divide sqrt fabs rint floor ceil trunc copysign signbit sign"
_SAME = {
    "b": f"{_ANY} {_BITS} add multiply positive conjugate absolute square minimum maximum fmin fmax",
    "i": f"{_ANY} {_BITS} {_SUMS} sign minimum maximum fmin fmax left_shift right_shift bitwise_count gcd lcm fmod remainder floor_divide",
    "u": f"{_ANY} {_BITS} {_SUMS} sign minimum maximum fmin fmax left_shift right_shift bitwise_count gcd lcm fmod remainder floor_divide",
    "f": f"{_ANY} {_SUMS} {_FLOATS} fmod",
    "c": "equal not_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite add subtract negative positive conjugate",
}
_NUMPY = {kind: frozenset(names.split()) for kind, names in _SAME.items()}


def primitive(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype | None = None) -> Primitive:
    """Return the primitive that computes an op. The tuple `loop` contains the dtypes of its operands.

    The op "cast" converts to `dtype`.

    The primitive is a NumPy function, or a callable that computes the op by simpler ops or by compiled code. It takes
    arrays or NumPy scalars of exactly these dtypes, and broadcasts them. It also takes ``out=``, which may be one of
    the operands.

    Parameters
    ----------
    op : str
    loop : tuple of dtype
    dtype : dtype, optional
        The dtype of the result. `dtype` is required for "cast", and if it differs from the dtype of the last operand
        and NumPy has no such loop.
    """
    kind = dtype if dtype is not None else loop[-1]
    found = _numpy_function(op, loop, kind)
    if found is not None:
        return found
    return _made.get((op, loop, kind)) or _expanded(op, loop, kind) or _compiled(op, loop, kind)


@cache
def _expanded(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> ExpandedOp | None:
    if not can_expand(op, loop, dtype, _numpy_function):
        return None
    return ExpandedOp(op, loop, dtype, _numpy_function, partial(_compiled, op, loop, dtype))


@cache
def _numpy_function(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Primitive | None:
    """Return NumPy's function for an op, or None if its results may differ from those of a kernel."""
    if not uses_numpy(op, loop, dtype):
        return None
    if op == "cast":
        return partial(_cast, dtype)
    return _where if op == "where" else getattr(np, find_op(op).ufunc)


def uses_numpy(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype | None = None) -> bool:
    """Return whether NumPy's own function may compute an op, because its results are bit-identical to those of a compiled kernel."""
    if any(map(is_bfloat16, loop)):
        return False
    if op == "cast":
        assert dtype is not None
        return _casts_alike(loop[0], dtype)
    if op == "where":
        return True
    kind = dtype_kind(loop[0])
    return op in _NUMPY[kind] and not (op == "fmod" and is_half(loop[0]))


def is_ready(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> bool:
    """Return whether the primitive that computes an op can be called without a compilation."""
    return uses_numpy(op, loop, dtype) or (op, loop, dtype) in _made or _expanded(op, loop, dtype) is not None


def substitute(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Primitive:
    """Return the reference function of an op, for programs that cannot be compiled.

    The bits of its results may differ from those of compiled plans.
    """
    definition = None if op == "cast" else find_op(op)
    if definition is not None and definition.reference is None and not definition.ufunc:
        raise NeedsKernelError

    def call(*operands: Any, out: Any = None) -> Any:
        if definition is not None:
            found = (definition.reference or getattr(np, definition.ufunc))(*operands)
        elif dtype.kind in "iu" and loop[0].kind == "f":
            limits = np.iinfo(dtype)
            number = np.nan_to_num(operands[0].astype(np.longdouble), nan=0, posinf=limits.max, neginf=limits.min)
            found = np.clip(number, limits.min, limits.max)
        else:
            found = operands[0]
        found = np.asarray(found).astype(dtype)
        if out is None:
            return found
        out[...] = found
        return out

    return call


# -- NumPy's functions --------------------------------------------------------------------------


def _casts_alike(own: np.dtype, dtype: np.dtype) -> bool:
    if is_bfloat16(own) or is_bfloat16(dtype) or dtype.kind == "b":
        return not is_bfloat16(own) and not is_bfloat16(dtype)
    if own.kind in "biu":
        return not (is_half(dtype) and own.itemsize > 1)
    if dtype.kind in "iu":
        return False  # out of range: kernels saturate
    return (own.kind != "c" and not (is_half(dtype) and own != dtype)) or (own.kind == dtype.kind == "c")


def _cast(dtype: np.dtype, x: Any, out: Any = None) -> Any:
    if out is None:
        return x.astype(dtype)
    np.copyto(out, x, casting="unsafe")
    return out


def _where(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    found = np.where(condition, x, y)  # (a fifth of the time of copyto with a mask, including the copy below)
    if out is None:
        return found
    out[...] = found
    return out


def _compiled(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Primitive:
    # (modules that read the disk or generate code are loaded for the first op that needs them)
    made: Primitive = stored_loops().obtain_loop(op, loop, dtype)
    _made[op, loop, dtype] = made
    return made


# Loops that this process has compiled or loaded.
_made: dict[tuple[str, tuple[np.dtype, ...], np.dtype], Primitive] = {}
