"""Python scalars as operands: constants, or kernel arguments if they change at a call site.

In: a number, and the call site of its operation. Out: an expression. Invariant: a number is a constant at first, so
that the optimizer can use it. If the call site provides different numbers in several evaluations, as in a loop over
time steps, the number becomes a kernel argument, whose value is in a slot of the epoch. The recorded program is then
the same in each iteration, and its plan is cached.
"""

from __future__ import annotations

import math
from types import CodeType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, find_op
from weft.fusion import INTERNED, Epoch, Expr, Location, constant, to_number, with_operand

# Number of evaluations with a new number after which a call site is expected to see further new numbers.
CHANGES = 2
# Maximum number of constants of a call site that are dropped from the memo when its numbers turn out to change.
MOST_KEYS = 64
# Maximum number of call sites, and of entries in `SLOTTED`.
LIMIT = 50_000

# NumPy scalar types that kernels take as arguments.
SLOT_TYPES = frozenset(np.dtype(code).type for code in "bBhHiIlLqQefd")

CallSiteKey = tuple[int, int, str, int]  # id of a code object, instruction offset, op, operand number


class _CallSite:
    """The latest Python scalar at a call site, and the number of evaluations in which the scalar differed from the one before."""

    __slots__ = ("changes", "code", "epoch", "keys", "number")

    def __init__(self, code: CodeType, number: Any, epoch: int) -> None:
        self.code = code  # kept alive so that its id is not reused
        self.number = number
        self.epoch = epoch
        self.changes = 0
        self.keys: list[Any] = []  # memo keys of its constants


_call_sites: dict[CallSiteKey, _CallSite] = {}


class SlotKey(tuple[Any, ...]):
    """The memo key of an operation. It identifies a scalar by the number of a kernel argument, not by its value."""

    __slots__ = ()
    slot = property(lambda self: self[8])


# Memoized expressions of operations with slots, and the NumPy types of the numbers in the slots.
SLOTTED: dict[SlotKey, tuple[Any, Any]] = {}


def look_up_slotted(key: SlotKey, number: Any, epoch: Epoch) -> Any:
    """Return the memoized result of an operation with a Python scalar that is passed to the kernel as an argument, or
    None on a miss.

    The result is an expression, or a pair of an expression and a view.

    On a hit, `number` is appended to the epoch's slots.
    """
    found = SLOTTED.get(key)
    if found is None:
        return None
    node, kind = found
    try:
        value = to_number(number, kind)
    except OverflowError:  # the integer would select another loop
        return None
    epoch.slots.append(value)
    if epoch.slots[key.slot] is not value:  # (another thread that evaluates this epoch may append, too)
        return None
    epoch.taken.add(node if type(node) is Expr else node[0])
    return node


def memoize_slotted(key: SlotKey, node: Any, epoch: Epoch) -> None:
    """Memoize an operation that has just been recorded, if recording it added exactly one kernel argument, its scalar."""
    if len(epoch.slots) == key.slot + 1:
        if len(SLOTTED) >= LIMIT:
            SLOTTED.clear()
        SLOTTED[key] = node, type(epoch.slots[-1])


def is_argument(code: CodeType, at: int, op: str, which: int) -> bool:
    """Return whether the scalar at a call site has changed often enough to be a kernel argument."""
    call_site = _call_sites.get((id(code), at, op, which))
    return call_site is not None and call_site.changes >= CHANGES and call_site.code is code


def changes(number: Any, location: Location, op: str, which: int, epoch: Epoch) -> bool:
    """Store a call site's scalar, and return whether the scalar changes often enough to be a kernel argument."""
    code, at = location[:2]
    key = (id(code), at, op, which)
    call_site = _call_sites.get(key)
    if call_site is None or call_site.code is not code:
        if len(_call_sites) >= LIMIT:
            _call_sites.clear()
        _call_sites[key] = _CallSite(code, number, epoch.number)
        return CHANGES == 0
    if call_site.number != number and call_site.epoch != epoch.number:
        call_site.number, call_site.epoch = number, epoch.number
        call_site.changes += 1
        if call_site.changes == CHANGES:
            # From now on all numbers at this call site are slots, including those seen before.
            for found in call_site.keys:
                INTERNED.pop(found, None)
            call_site.keys.clear()
    return call_site.changes >= CHANGES


def note_constant(key: object, code: CodeType, at: int, op: str, which: int) -> None:
    """Store the memo key of an operation that has a Python scalar operand. If the scalar turns out to change, `changes` deletes the memo entry."""
    call_site = _call_sites.get((id(code), at, op, which))
    if call_site is not None and len(call_site.keys) < MOST_KEYS:
        call_site.keys.append(key)


def number_of(number: Any, dtype: np.dtype, location: Location, op: str, epoch: Epoch) -> Expr:
    """Return a constant for a Python scalar, or a kernel argument if the scalars at this call site change."""
    if dtype_kind(dtype) in "iuf" and type(number) in (int, float) and changes(number, location, op, 0, epoch):
        return epoch.bind_scalar(number, dtype)
    return constant(number, dtype)


def bind_numbers(node: Expr, operands: tuple[Any, ...], location: Location, epoch: Epoch) -> Expr:
    """Replace the Python scalars that change between calls by kernel arguments in the expression `node`, and return the new expression."""
    if len(node.operands) != len(operands):  # (the operation was simplified)
        return node
    for which, number in enumerate(operands):
        if (
            type(number) in (int, float)
            and node.operands[which].kind == "constant"
            and can_change(node, which, type(number))
            and changes(number, location, node.op, which, epoch)
        ):
            node = with_operand(node, which, epoch.bind_scalar(number, node.attrs[which]))
    return node


def can_change(node: Expr, which: int, kind: type) -> bool:
    """Return whether a scalar operand can be a kernel argument, so that its value can change without a new kernel.

    The scalar is operand number `which` of `node`. Its value must not select the loop, and no value may raise an error.
    """
    if dtype_kind(node.attrs[which]) not in "iuf":
        return False
    if node.op == "power" and dtype_kind(node.attrs[which]) != "f":
        return False  # (negative exponents are errors)
    # The loop of a comparison depends on whether the other operand's dtype can hold the integer.
    others = {operand.dtype for operand in node.operands if operand is not node.operands[which]}
    return kind is not int or node.dtype.kind != "b" or others == {node.attrs[which]}


_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


def within_64_bits(op: str, value: object, operands: tuple[Any, ...]) -> Any:
    """Convert a Python int beyond 64 bits to a float if NumPy would, and return other operands unchanged.

    In loops of floats, the int becomes a float. In comparisons with integers, the int becomes an infinity. In other
    cases, NumPy's error is raised.
    """
    if type(value) is not int or -(2**63) <= value < 2**63:
        return value
    if op.startswith("logical"):
        raise OverflowError("Python int too large to convert to C long")  # (as in NumPy, for any dtype)
    if 0 <= value < 2**64 or not any(map(_kind, operands)):
        return value  # (numbers alone are left to NumPy)
    kinds = [np.dtype(type(v)).kind if type(v) in (float, complex) else _kind(v) for v in operands]
    if op in _COMPARISONS and ("i" in kinds or "u" in kinds):
        return math.inf if value > 0 else -math.inf
    if (function := getattr(np, find_op(op).ufunc or "", None)) is not None:
        with np.errstate(all="ignore"):  # (an array without elements: for the error or the dtype only)
            found = function(*[np.empty(0, v.dtype) if _kind(v) else v for v in operands])
        if "f" not in kinds and "c" not in kinds:
            return found.dtype.type(value)
    return float(value) if "f" in kinds or "c" in kinds else value


def _kind(value: object) -> str:
    """Return the kind character of an array's dtype, or an empty string for a value without a dtype."""
    return getattr(getattr(value, "dtype", None), "kind", "")
