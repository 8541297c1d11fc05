"""Conversion of operands and results, with NumPy's casts and errors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from weft.codegen import find_op
from weft.dsl.arrays.array import Array, Scalar, as_operand, convert, expr_of, record, without_sharing, write
from weft.dsl.arrays.validation import UnsupportedDtypeError, warn_of_lost_parts
from weft.dsl.immediate.index_at_call import SEQUENCES, put
from weft.fusion import Expr, broadcast_shapes, cast, constant, map_


def to_python(value: Any) -> Any:
    """Convert each weft array in `value` to a Python scalar or nested lists."""
    if isinstance(value, Array):
        return value.item() if not value.ndim else value.tolist()
    if type(value) in (tuple, list):
        return type(value)(map(to_python, value))
    return value


def as_array(value: object) -> Array:
    """Return `value` if it is a weft array, otherwise convert `value` to a weft array."""
    return value if isinstance(value, Array) else convert(value)


def as_mask(where: Any) -> Any:
    """Return the mask `where` of a call, or raise NumPy's TypeError if it is an array that is not boolean.

    Lists and tuples are converted to an array of bools.
    """
    if isinstance(where, (list, tuple)):
        return np.asarray(where, bool)
    if isinstance(where, (Array, np.ndarray)) and where.dtype.kind != "b":
        raise TypeError(f"Cannot cast array data from {where.dtype!r} to dtype('bool') according to the rule 'safe'")
    return where


def single_output(out: Any, reduces: bool = False) -> Any:
    """Return the argument `out` of a ufunc with one output or, if `out` is a tuple, its only element.

    For reductions and scans, the element must not be None.
    """
    if not isinstance(out, tuple):
        return out
    if len(out) != 1:
        raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
    if reduces and out[0] is None:
        raise TypeError("return arrays must be of ArrayType")
    return out[0]


def array_output(out: Any, message: str = "return arrays must be of ArrayType") -> Any:
    """Return the argument `out` of a function, or raise NumPy's TypeError with `message` if it is not an array."""
    if out is not None and not hasattr(out, "dtype"):
        raise TypeError(message)
    return out


def copy_to_out(name: str, found: Any, out: Any, casting: str) -> Any:
    """Copy the result `found` to the array `out`, and return `out`."""
    if type(out) is Array and out.shape == found.shape and np.can_cast(found.dtype, out.dtype, casting):  # type: ignore[arg-type]
        if put(out, ..., found):
            return out
    return return_result(name, as_operand(found)[0], out, True, casting)


def return_result(name: str, node: Expr, out: Any, where: Any = True, casting: str = "same_kind") -> Any:
    """Return a result as a new array, or write it to `out` where the mask `where` is true, and return `out`."""
    where = as_mask(where)
    if out is None:
        # (NumPy leaves the elements without a result uninitialized)
        return record(node if where is True else map_("where", [as_operand(where)[0], node, constant(0, node.dtype)]))
    if isinstance(out, np.ndarray):
        np.copyto(out, record(node).numpy(), casting, where if where is True else np.asarray(where))  # type: ignore[arg-type]
        return out
    if not isinstance(out, Array) and hasattr(out, "__cuda_array_interface__"):
        from weft.dsl.cuda.array_creation import copy_to_device

        found = return_result(name, node, convert(out), where, casting)
        copy_to_device(convert(out), found.numpy())  # `out` is memory of another library
        return out
    if not isinstance(out, Array) or type(out) is Scalar:
        raise TypeError("return arrays must be of ArrayType")
    check_cast(name, node.dtype, out.dtype, casting)
    warn_of_lost_parts(node.dtype, out.dtype)
    if broadcast_shapes(node.shape, out.shape) != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {node.shape}"
        )
    value = cast(node, out.dtype)
    if where is not True:
        value = map_("where", [as_operand(where)[0], value, expr_of(out)])
    write(out, value)
    return out


def value_operand(value: object, dtype: np.dtype) -> tuple[Expr, type | None]:
    """Return the value of an assignment as an operand, like `as_operand`.

    Sequences, text, objects, and integers beyond 64 bits are first converted to `dtype` by NumPy.
    """
    if type(value) in SEQUENCES:
        return as_operand(without_sharing(value, dtype))
    with suppress(UnsupportedDtypeError, OverflowError):
        node, weak = as_operand(value)
        if weak is complex and dtype.kind != "c":
            raise TypeError("float() argument must be a string or a real number, not 'complex'")
        return node, weak
    return as_operand(np.array(value, dtype))  # (outside the block, so that NumPy's error has no context)


def check_cast(name: str, source: np.dtype, target: np.dtype, casting: str = "same_kind") -> None:
    """Raise NumPy's UFuncTypeError if the rule `casting` does not allow a cast from `source` to `target`."""
    if not np.can_cast(source, target, casting):  # type: ignore[arg-type]
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc):
            ufunc = getattr(np, find_op(name).ufunc or "add")
        raise np._core._exceptions._UFuncOutputCastingError(ufunc, casting, source, target, 0)  # type: ignore[attr-defined]
