"""The op table: all scalar operations and their properties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.kernel_ir.dtypes import dtype_kind, is_bfloat16, is_supported, native_dtype
from weft.codegen.ops import arithmetic, elementary, logic, machine, random_bits
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value

OPS: dict[str, OpDef] = {}
_ALIASES: dict[str, OpDef] = {}

Kind = np.dtype | type  # a dtype, or bool, int, float, complex for a Python scalar


# Number of lanes of a reduction whose result depends on the order. It is constant, so that neither the machine nor
# other reductions in the same loop change a bit of the result.
SUM_LANES = 32
# Minima and maxima, which return one of their operands.
EXTREMES = frozenset({"maximum", "minimum", "fmax", "fmin"})
# Ops whose result is a bool -> the dtype of the result.
TESTS = dict.fromkeys(
    "equal not_equal less less_equal greater greater_equal isnan isinf isfinite signbit "
    "logical_not logical_and logical_or logical_xor".split(),
    np.dtype(bool),
)
# Reductions with two accumulators: the extreme that the named op finds, and its index.
POSITIONS = {"argmin": "minimum", "argmax": "maximum"}


class NoLoopError(TypeError):
    """Raised if an op has no loop for the dtypes of its operands."""


def add_op(definition: OpDef) -> OpDef:
    """Add an op to the table.

    Raises ValueError if the name or an alias is taken, or if the op has `loops` but no `reference`.
    """
    for name in (definition.name, *definition.aliases):
        if name in _ALIASES:
            raise ValueError(f"op {name!r} is already in the table")
    if definition.loops and definition.reference is None:
        raise ValueError(f"op {definition.name!r} has `loops`: give its `reference`, a function of NumPy arrays")
    OPS[definition.name] = definition
    for name in (definition.name, *definition.aliases):
        _ALIASES[name] = definition
    return definition


def add_user_op(definition: OpDef) -> OpDef:
    """Add a user function's op unless its name is taken, and return the table's op of that name."""
    return _ALIASES.setdefault(definition.name, definition)


for _family in (arithmetic, logic, elementary, machine, random_bits):
    for _row in _family.ROWS:
        add_op(_row)


def find_op(name: str) -> OpDef:
    """Return the op with the name or alias `name`. Raises KeyError if the name is unknown."""
    return _ALIASES[name]


@cache
def resolve_dtypes(
    op: OpDef, operands: tuple[Kind, ...], dtype: np.dtype | None = None
) -> tuple[tuple[np.dtype, ...], np.dtype]:
    """Return the dtypes to which an op's operands are converted, and the dtype of the result.

    The dtypes follow NumPy 2's rules. `dtype` forces the result dtype, and thereby the loop. Raises TypeError if an
    operand's dtype is unsupported, or if there is no such loop.
    """
    for kind in operands:
        if isinstance(kind, np.dtype) and not is_supported(kind):
            raise TypeError(f"{op.name}: weft computes with bool, integers, floats and complex numbers, not {kind}")
    if op.body is None and all(isinstance(kind, type) for kind in operands):
        operands = tuple(map(np.dtype, operands))
    if op.ufunc:
        ufunc = getattr(np, op.ufunc)
        operands = tuple(np.dtype(bool) if k is bool else k for k in operands)
        forced = {} if dtype is None else {"signature": (None,) * op.arity + (dtype,)}
        found = ufunc.resolve_dtypes((*operands, None), **forced)
        chosen = tuple(map(native_dtype, found))
        if not all(map(is_supported, chosen)):
            raise NoLoopError(f"{op.name}: no loop for {', '.join(map(str, operands))}")
        return chosen[:-1], chosen[-1]
    return _resolve_loops(op, operands, dtype)


def fits_dtype(kind: Kind, dtype: np.dtype) -> bool:
    """Return whether a parameter of dtype `dtype` accepts an operand of type `kind`.

    NumPy dtypes need a safe cast. A Python number needs a dtype of the same or a higher kind.
    """
    if not isinstance(kind, type):
        return bool(np.can_cast(kind, dtype, "safe"))
    return dtype_kind(dtype) in {bool: "biufc", int: "iufc", float: "fc", complex: "c"}[kind]


def _resolve_loops(
    op: OpDef, operands: tuple[Kind, ...], dtype: np.dtype | None
) -> tuple[tuple[np.dtype, ...], np.dtype]:
    if op.name in ("where", "clip"):
        # one dtype for all values; the condition is converted to bool
        values = operands[1:] if op.name == "where" else operands
        if op.name == "clip":  # NumPy's clip has no loop for bfloat16
            values = tuple(np.dtype(np.float32) if isinstance(k, np.dtype) and is_bfloat16(k) else k for k in values)
        common = dtype or np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in values))
        kinds = (common,) * len(values)
        return ((np.dtype(bool), *kinds) if op.name == "where" else kinds), np.dtype(common)
    bfloat16 = next((k for k in (*operands, dtype) if isinstance(k, np.dtype) and is_bfloat16(k)), None)
    codes = {} if bfloat16 is None else {"E": bfloat16}
    if bfloat16 is not None and op.body is None:
        codes["e"] = bfloat16  # bfloat16 uses the loops of float16
    for loop in op.loops:
        if bfloat16 is None and "E" in loop:
            continue
        own, (result,) = ([codes[c] if c in codes else np.dtype(c) for c in side] for side in loop.split("->"))
        # (the loop of a user function was selected by its signature, and takes all Python numbers)
        fits = all((op.body and isinstance(k, type)) or fits_dtype(k, d) for k, d in zip(operands, own, strict=True))
        if fits and (dtype is None or result == dtype):
            return tuple(own), result
    raise NoLoopError(f"{op.name}: no loop for {', '.join(map(str, operands))}")


def identity_of(op: str | OpDef, dtype: Any) -> Any:
    """Return the identity element of a reduction with `op` in `dtype`.

    For argmin and argmax, return the identity of the value, without an index.

    Raises TypeError if there is no identity.
    """
    definition = find_op(POSITIONS.get(op, op)) if isinstance(op, str) else op
    dtype = np.dtype(dtype)
    start = definition.identity
    if start is None:
        raise TypeError(f"{definition.name} has no identity")
    if definition.name in ("fmin", "fmax") and dtype_kind(dtype) not in "biu":
        start = np.nan  # the result if there are no numbers
    elif start in ("highest", "lowest"):
        low = start == "lowest"
        match dtype_kind(dtype):
            case "b":
                start = not low
            case "i" | "u":
                start = np.iinfo(dtype).min if low else np.iinfo(dtype).max
            case "c":
                start = complex(-np.inf, -np.inf) if low else complex(np.inf, np.inf)
            case _:
                start = -np.inf if low else np.inf
    elif start == -1 and dtype.kind == "u":
        start = np.iinfo(dtype).max
    return dtype.type(start)


def is_reduction(name: str) -> bool:
    """Return whether arrays can be reduced with the op `name`. This is possible with argmin, argmax, and each op that has an identity element."""
    op = _ALIASES.get(POSITIONS.get(name, name))
    return op is not None and op.identity is not None


def combine_accumulators(
    b: KernelBuilder, name: str, first: tuple[Value, ...], second: tuple[Value, ...], *, ascending: bool = False
) -> tuple[Value, ...]:
    """Combine two sets of accumulators of the reduction with op `name`.

    Most ops have one accumulator. argmin and argmax have two, a value and its index: NaN wins, then the extreme,
    then the lower index.

    With `ascending`, all indices of the second set are larger than those of the first, so that less code is needed. The
    initial index must then be 0, because an element that equals the identity never replaces the initial value.
    """
    if name not in POSITIONS:
        return (b.op(name, first[0], second[0], dtype=first[0].type),)
    value, index = first
    other, other_index = second
    strict, weak = ("less", "greater_equal") if name == "argmin" else ("greater", "less_equal")
    has_nan = dtype_kind(value.type) in "fc"  # type: ignore[arg-type]
    if ascending and has_nan:
        # (`worse` is false if `other` is NaN, which replaces any value except another NaN)
        worse = b.op(weak, other, value)
        number = b.op("equal", value, value)
        take = b.op("bitwise_and", number, b.op("bitwise_xor", worse, b.constant(True, np.bool_)))
    else:
        take = b.op(strict, other, value)
    if not ascending:
        same = b.op("equal", other, value)
        if has_nan:
            mine = b.op("isnan", value)
            theirs = b.op("isnan", other)
            neither = b.op("bitwise_xor", mine, b.constant(True, np.bool_))
            take = b.op("bitwise_and", neither, b.op("bitwise_or", take, theirs))
            same = b.op("bitwise_or", same, b.op("bitwise_and", mine, theirs))
        lower = b.op("less", other_index, index)
        take = b.op("bitwise_or", take, b.op("bitwise_and", same, lower))
    return b.op("where", take, other, value), b.op("where", take, other_index, index)


def combine_all(b: KernelBuilder, names: Sequence[str], first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Combine the accumulators in `first` with those in `second`. The list `names` contains each reduction's op."""
    results: list[Value] = []
    for name in names:
        own = slice(len(results), len(results) + accumulators(name))
        results += combine_accumulators(b, name, tuple(first[own]), tuple(second[own]))
    return results


def accumulators(name: str) -> int:
    """Return the number of accumulators of the reduction with op `name`."""
    return 2 if name in POSITIONS else 1
