"""Expressions: the graph of operations that a program records and the planner reads.

In: operands, attributes and shapes from `dsl`. Out: interned, immutable `Expr` nodes. Invariant: while `INTERNED` holds
a node, a node with equal fields is the same object. Identity is thus equality, and the roots alone are the key of a
cached plan. A node never refers to array data: leaves and bound scalars name a *slot* of the recording epoch.

The constructors that broadcast operands or select a loop raise errors of shapes and dtypes at the user's line. The
others do not check their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import weft.runtime as runtime
from weft.codegen import EXTREMES, find_op, resolve_dtypes
from weft.fusion.graph.sizes import Size, convert, to_bytes

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Kind = Literal[
    "leaf",  # slot: the whole buffer that is bound to it, in C order
    "scalar",  # slot: the Python scalar that is bound to it, 0-d
    "constant",  # value: the same scalar in every element
    "empty",  # uninitialized memory
    "iota",  # axis: the index along an axis
    "map",  # op: an op of the op table, operands broadcast, computed in `loop`
    "view",  # strides, offset: elements of the operand in C order, with another shape
    "reduce",  # op, axes (sorted), keepdims; computed in dtype
    "scan",  # op, axis: scan along an axis
    "gather",  # base and index operands: see `gather`
    "update",  # previous and value: previous with the elements of a view replaced
    "scatter",  # previous, value and index operands: see `scatter`
    "opaque",  # call: a host function on whole arrays
]

# Code object and instruction offset; the line is computed on demand. For an operator in one of weft's own functions, the
# code object and the offset of the user's call follow.
Location = tuple[CodeType, int] | tuple[CodeType, int, CodeType, int]


class Expr:
    """A node of the expression graph, usually created and interned by one of the functions below."""

    __slots__ = ("attrs", "dtype", "kind", "location", "op", "operands", "shape")

    def __init__(
        self,
        kind: Kind,
        op: str,
        operands: tuple[Expr, ...],
        attrs: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.dtype,
        location: Location | None,
    ) -> None:
        self.kind = kind
        self.op = op
        self.operands = operands
        self.attrs = attrs
        self.shape = shape
        self.dtype = dtype
        self.location = location

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The total size of all elements in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"<Expr {self.kind} {self.op} {self.dtype}{list(self.shape)}>"


# The only table of interned nodes. When it is full, the older half is dropped, which only causes later misses.
INTERNED: dict[Any, Expr] = {}
INTERNED_LIMIT = 200_000


def intern(
    kind: Kind,
    op: str,
    operands: tuple[Expr, ...],
    attrs: tuple[Any, ...],
    shape: tuple[int, ...],
    dtype: np.dtype,
    location: Location | None = None,
) -> Expr:
    """Return the interned node with the given fields, after creating the node if there is none."""
    place: tuple[int, ...] = ()
    if location is not None:
        location, place = _identify(location)
    key = (kind, op, operands, attrs, shape, dtype, place)
    found = INTERNED.get(key)
    if found is None:
        if len(INTERNED) >= INTERNED_LIMIT:
            for old in list(INTERNED)[: INTERNED_LIMIT // 2]:
                INTERNED.pop(old, None)  # (another thread may be dropping the same nodes)
        found = INTERNED.setdefault(key, Expr(kind, op, operands, attrs, shape, dtype, location))
    return found


# By id, code objects that are kept alive because keys contain their ids, each with the first code object that equals it.
# A code object equals another one, for example, if a notebook cell is run again. (To hash a code object takes longer the
# more instructions it has.)
_codes: dict[int, tuple[CodeType, CodeType]] = {}
_first_codes: dict[CodeType, CodeType] = {}
CODES_LIMIT = 20_000


def keep_code(code: CodeType) -> CodeType | None:
    """Keep a code object alive, so that its id is not reused.

    Return the first code object that equals it. Return None without keeping it if `CODES_LIMIT` others are kept.
    """
    known = _codes.get(id(code))
    if known is None:
        if len(_codes) >= CODES_LIMIT:
            return None
        known = _codes[id(code)] = code, _first_codes.setdefault(code, code)
    return known[1]


def _identify(location: Location) -> tuple[Location, tuple[int, ...]]:
    """Replace the code objects of a source location, so that equal ones become identical. Return the new location and its hashable key."""
    code, at, *caller = location
    # (the node keeps a code object alive that `keep_code` does not)
    first = keep_code(code) or _first_codes.get(code, code)
    if caller:
        outer = keep_code(caller[0]) or _first_codes.get(caller[0], caller[0])  # type: ignore[arg-type,call-overload]
        return (first, at, outer, caller[1]), (id(first), at, id(outer), caller[1])  # type: ignore[return-value]
    return (location if first is code else (first, at)), (id(first), at)


def leaf(slot: int, shape: tuple[int, ...], dtype: np.dtype, device: str = "", by_value: int = 0) -> Expr:
    """Return a node that reads the array in slot `slot` of the recording's buffer table.

    `by_value` is the number of parameter bytes if kernels may take the buffer by value, otherwise 0.
    """
    more = (by_value,) if by_value else ()
    key = (slot, device, shape, dtype, *more)
    found = INTERNED.get(key)
    if found is None:
        found = INTERNED.setdefault(key, intern("leaf", "", (), (slot, device, *more), shape, dtype))
    return found


def value_bytes(node: Expr) -> int:
    """Return the size in bytes of an input that kernels can take as a parameter by value, or 0 for any other node."""
    return node.attrs[2] if node.kind == "leaf" and len(node.attrs) > 2 else 0


def scalar(slot: int, dtype: np.dtype) -> Expr:
    """Return a node for a scalar kernel argument in slot `slot` of the recording's buffer table.

    New values therefore need no compilation.
    """
    return intern("scalar", "", (), (slot,), (), dtype)


# Calls a function that may call user functions. Recording replaces this lambda with a function that prevents user
# functions from evaluating pending work.
_call_user: Callable[..., Any] = lambda function, *arguments: function(*arguments)  # noqa: E731


def call_user_with(function: Callable[..., Any]) -> None:
    """Set the wrapper that calls functions that may run user code."""
    global _call_user
    _call_user = function


_PYTHON_NUMBERS = frozenset({bool, int, float})
# Conversions of Python numbers to these types may overflow. An overflow calls the user's handler (`numpy.seterrcall`)
# or shows a warning.
_NARROW = frozenset({np.float16, np.float32})
_MOST = 65504  # the largest number of float16


def to_number(value: Any, kind: Any) -> Any:
    """Convert a number to a NumPy scalar of the type `kind`.

    Handlers of floating-point errors, which may be user functions, cannot end the recording.

    Raises OverflowError if a Python integer is out of the dtype's range.
    """
    if type(value) in _PYTHON_NUMBERS and (kind not in _NARROW or -_MOST <= value <= _MOST):
        return kind(value)
    return _call_user(kind, value)


def constant(value: Any, dtype: DTypeLike, shape: tuple[int, ...] = ()) -> Expr:
    """Return a constant: an array in which every element is `value`.

    Raises OverflowError if a Python integer is out of the dtype's range.
    """
    dtype = np.dtype(dtype)
    number = to_number(value, dtype.type)
    # the key contains the bits, because 0.0 and -0.0 are equal but not the same constant
    return intern("constant", "", (), (number.tobytes(),), shape, dtype)


def constant_value(node: Expr) -> Any:
    """Return the value of a constant as a NumPy scalar."""
    bits = node.attrs[0]
    return np.frombuffer(to_bytes(bits, node.dtype.itemsize) if type(bits) is Size else bits, node.dtype)[0]


def is_number(node: Expr, value: int) -> bool:
    """Return whether the constant `node` is the number `value`."""
    bits = node.attrs[0]
    if type(bits) is Size:
        return bool(bits == convert(value, node.dtype))
    return bool(constant_value(node) == node.dtype.type(value))


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> Expr:
    """Return a node for uninitialized memory, to which an update can write.

    The node may only be used as the previous version of an update.
    """
    return intern("empty", "", (), (), shape, np.dtype(dtype))


def iota(shape: tuple[int, ...], axis: int, dtype: DTypeLike) -> Expr:
    """Return an array of dtype `dtype` in which each element is its own index along `axis`."""
    return intern("iota", "", (), (axis,), shape, np.dtype(dtype))


# The six comparisons, whose results are bool.
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
# Results of these ops for every integer.
_OF_FLOATS = {"isnan": False, "isinf": False, "isfinite": True}


def map_(
    op: str,
    operands: Sequence[Expr],
    weak: Sequence[type | None] | None = None,
    dtype: np.dtype | None = None,
    location: Location | None = None,
) -> Expr:
    """Return the elementwise application of op `op` to operands, which are broadcast as in NumPy.

    `weak` contains ``int``, ``float`` or ``complex`` for each operand that is a Python scalar, and None for other
    operands. Python scalars are promoted as in NumPy 2. `dtype` selects the loop, as for a ufunc. As in NumPy,
    incompatible shapes raise ValueError, unsupported dtypes raise TypeError, and Python integers out of the loop's
    range raise OverflowError.
    """
    kinds: tuple[Any, ...] = tuple([operand.dtype for operand in operands])
    shape = broadcast_shapes(*[operand.shape for operand in operands])
    definition = find_op(op)
    if weak is not None and any(weak):
        kinds = tuple([number or kind for number, kind in zip(weak, kinds, strict=True)])
        if int in weak and definition.name in COMPARISONS:
            # a Python int that the dtype of the other operand cannot represent is still compared by value
            kinds = tuple(_fitting(k, operand, kinds) for k, operand in zip(kinds, operands, strict=True))
    if definition.name in _OF_FLOATS and dtype is None and operands[0].dtype.kind in "biu":
        return constant(_OF_FLOATS[definition.name], np.bool_, shape)
    loop, result = resolve_dtypes(definition, kinds, dtype)
    typed = tuple(operands)
    if weak is not None and any(weak):
        typed = tuple(
            constant(constant_value(operand).item(), kind)
            if number is not None and operand.kind == "constant" and operand.dtype != kind and not operand.shape
            else operand
            for number, operand, kind in zip(weak, operands, loop, strict=False)
        )
    return intern("map", definition.name, typed, loop, shape, result, location)


def with_operand(node: Expr, which: int, operand: Expr) -> Expr:
    """Return a copy of an elementwise operation with one operand replaced. `which` is the position of this operand.

    The new operand, `operand`, must have the shape of the operand that it replaces, and the dtype that the loop takes.
    """
    operands = (*node.operands[:which], operand, *node.operands[which + 1 :])
    return intern("map", node.op, operands, node.attrs, node.shape, node.dtype, node.location)


def _fitting(kind: np.dtype | type, operand: Expr, kinds: tuple[np.dtype | type, ...]) -> np.dtype | type:
    others = [k for k in kinds if isinstance(k, np.dtype) and k.kind in "iu"]
    if kind is int and others and operand.kind == "constant":
        limits = np.iinfo(others[0])
        if not limits.min <= int(constant_value(operand)) <= limits.max:
            return operand.dtype
    return kind


def cast(operand: Expr, dtype: DTypeLike, location: Location | None = None) -> Expr:
    """Return `operand` converted to `dtype`.

    In a cast to an integer dtype, out-of-range floats saturate, NaN becomes 0, and integers wrap around.
    """
    dtype = np.dtype(dtype)
    if operand.dtype == dtype:
        return operand
    return intern("map", "cast", (operand,), (operand.dtype,), operand.shape, dtype, location)


def view(operand: Expr, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Expr:
    """Return a strided view of the operand's elements.

    The elements of the operand are counted in C order. `offset` and `strides` count elements.
    """
    if not offset and shape == operand.shape and strides == contiguous_strides(shape):
        return operand
    if operand.kind == "constant":
        return intern("constant", "", (), operand.attrs, shape, operand.dtype)
    return intern("view", "", (operand,), (strides, offset), shape, operand.dtype)


def reshape(operand: Expr, shape: tuple[int, ...]) -> Expr:
    """Return `operand` reshaped, in C order, to another shape of the same size."""
    return view(operand, shape, contiguous_strides(shape), 0)


def broadcast_to(operand: Expr, shape: tuple[int, ...]) -> Expr:
    """Return `operand` broadcast to a shape, or raise ValueError if the shapes are incompatible."""
    if operand.shape == shape:
        return operand
    if broadcast_shapes(operand.shape, shape) != shape:
        raise ValueError(
            f"could not broadcast input array from shape {shape_text(operand.shape)} into shape {shape_text(shape)}"
        )
    own = contiguous_strides(operand.shape)
    lead = len(shape) - len(operand.shape)
    strides = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(operand.shape, own, strict=True))
    return view(operand, shape, strides, 0)


def reduce_(
    op: str,
    operand: Expr,
    axes: tuple[int, ...],
    dtype: DTypeLike,
    keepdims: bool = False,
    location: Location | None = None,
) -> Expr:
    """Return `operand` reduced with op `op` over `axes`.

    `dtype` is the dtype of the accumulators and of the result.

    `op` is an op with an identity (add, multiply, minimum, maximum, logical_and, ...) or
    ``"argmin"``/``"argmax"``: the C-order index of the extreme element over `axes`.
    """
    axes = tuple(sorted(axes))
    if op in _IDEMPOTENT or (op in ("argmax", "argmin") and len(axes) == 1):
        operand = _without_repeats(operand, axes)
    shape = tuple(1 if k in axes else n for k, n in enumerate(operand.shape) if keepdims or k not in axes)
    return intern("reduce", op, (operand,), (axes, keepdims), shape, np.dtype(dtype), location)


# Ops for which an element and its copies have the same result as the element alone.
_IDEMPOTENT = EXTREMES | {"bitwise_and", "bitwise_or", "logical_and", "logical_or"}


def _without_repeats(operand: Expr, axes: tuple[int, ...]) -> Expr:
    """Remove repeated elements of a broadcast operand. An axis in `axes` along which the stride is 0 gets length 1 in the returned view."""
    if operand.kind != "view" or 0 in operand.shape or all(operand.attrs[0][k] for k in axes):
        return operand
    (strides, offset), (base,) = operand.attrs, operand.operands
    shape = tuple(1 if k in axes and not strides[k] else n for k, n in enumerate(operand.shape))
    return view(base, shape, strides, offset)


def scan(op: str, operand: Expr, axis: int, dtype: DTypeLike, location: Location | None = None) -> Expr:
    """Return a scan along `axis`: result[i] = result[i-1] op operand[i].

    The CPU computes the elements in order of increasing i, except in long rows that threads share
    (`lowering.scan_length`).
    """
    return intern("scan", op, (operand,), (axis,), operand.shape, np.dtype(dtype), location)


def gather(
    base: Expr,
    indices: Sequence[Expr],
    terms: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...],
    shape: tuple[int, ...],
) -> Expr:
    """Return the elements of `base` at computed indices.

    `terms` has an entry ``(constant, ((axis, step), ...), which)`` for each dimension of `base`, or a single entry for
    its flat C order. The position along that dimension at result index i is ``constant + sum(i[axis] * step) +
    indices[which][i]``, without the last term if `which` is -1. Each index operand is an integer expression that
    broadcasts to `shape`. The indices must be in range and not negative. If `shape` has no elements, the result is a
    constant, because there is no valid index, and a kernel may load an element before the loop that uses it.
    """
    if 0 in shape:
        return constant(0, base.dtype, shape)
    return intern("gather", "", (base, *indices), (terms,), shape, base.dtype)


def update(
    previous: Expr,
    value: Expr,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    location: Location | None = None,
) -> Expr:
    """Return `previous` with the elements of a view replaced by `value`.

    The elements of the view must not overlap. `value` is cast to the dtype of `previous` and broadcast to `shape`.
    """
    value = broadcast_to(cast(value, previous.dtype), shape)
    if not prod(shape):
        return previous
    if not offset and shape == previous.shape and strides == contiguous_strides(shape):
        return value
    if not offset and len(shape) > 1 and (order := dense_order(shape, strides)) and prod(shape) == previous.size:
        # all elements are replaced, and the axes are in another order
        own = contiguous_strides(shape)
        value = view(value, tuple([shape[k] for k in order]), tuple([own[k] for k in order]), 0)
        return reshape(value, previous.shape)
    return intern("update", "", (previous, value), (shape, strides, offset), previous.shape, previous.dtype, location)


@lru_cache(maxsize=4096)
def dense_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the axes in order of decreasing stride, or None if the elements are not dense in this order."""
    order = tuple(sorted(range(len(shape)), key=lambda k: (-strides[k], shape[k] == 1)))
    wanted = contiguous_strides(tuple([shape[k] for k in order]))
    dense = all(shape[k] == 1 or strides[k] == step for k, step in zip(order, wanted, strict=True))
    return order if dense else None


def scatter(
    previous: Expr,
    value: Expr,
    indices: Sequence[Expr],
    terms: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...],
    shape: tuple[int, ...],
    op: str = "",
    location: Location | None = None,
) -> Expr:
    """Return an expression for an updated array: the array `previous`, with the elements of `value` written at computed indices.

    `value` is broadcast to `shape`, and is written in C order: the last write to an index wins. With `op` (such as "add"),
    each write is combined with the element. If `op` is "same", all writes to an index have the same value, so their order is irrelevant.
    """
    value = broadcast_to(cast(value, previous.dtype), shape)
    if not prod(shape):
        return previous
    return intern("scatter", op, (previous, value, *indices), (terms, shape), previous.shape, previous.dtype, location)


def opaque(
    call: Callable[..., None],
    operands: Sequence[Expr],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    name: str = "",
    location: Location | None = None,
) -> Expr:
    """Return the array that ``call(out, *operands)`` writes to `out`.

    All arguments of the call are NumPy arrays.

    `call` has to be the same object each time for a plan to be reused: a module-level
    function, or one cached by its parameters. `call` must not keep or write its operands.

    A `call` with an ``enqueue(device, out, (operand, byte), shape, dtype)`` method starts its own kernels. These
    kernels read one operand. Its elements are contiguous and begin at byte `byte` of the operand's memory. The method
    ``describe(shape, dtype)`` describes these kernels.
    """
    return intern("opaque", name or call.__name__, tuple(operands), (call,), shape, np.dtype(dtype), location)


def is_stream(node: Expr) -> bool:
    """Return whether an expression is a random number stream, which kernels can generate."""
    return node.kind == "opaque" and node.attrs[0] is runtime.fill_from_stream


def is_draw(node: Expr) -> bool:
    """Return whether an expression draws random numbers. It does so by a call that fills a whole array, or by an elementwise random op."""
    return is_stream(node) or (node.kind == "map" and node.op.startswith("_random_"))


# Kinds whose values are materialized, except updates that only concatenate parts and streams that kernels generate.
ALWAYS_STORED = frozenset({"leaf", "empty", "reduce", "scan", "update", "scatter", "opaque"})


def is_window(node: Expr) -> bool:
    """Return whether `node` is a view of memory that host functions can use without a copy."""
    return node.kind == "view" and node.operands[0].kind in ALWAYS_STORED


# -- shapes -------------------------------------------------------------------------------


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array, counted in elements."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def shape_text(shape: tuple[int, ...]) -> str:
    """Format a shape as NumPy's error messages do."""
    lengths = ["newaxis" if n < 0 else str(n) for n in shape]
    return f"({','.join(lengths)}{',' if len(lengths) == 1 else ''})"


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast. Raises ValueError if they are incompatible, as NumPy does."""
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return first
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        lead = len(result) - len(shape)
        for k, n in enumerate(shape):
            if n != 1:
                if result[lead + k] not in (1, n):
                    listed = " ".join(map(shape_text, shapes))
                    raise ValueError(f"operands could not be broadcast together with shapes {listed} ")
                result[lead + k] = n
    return tuple(result)


def topological(roots: Iterable[Expr], stop: Callable[[Expr], bool] = lambda node: False) -> list[Expr]:
    """Return `roots` and all nodes on which they depend, in topological order.

    Operands of nodes for which `stop` is true are left out.
    """
    order: list[Expr] = []
    seen: set[Expr] = set()
    begun: list[Expr] = []  # open nodes: their operands come first
    for root in roots:
        stack: list[Expr | None] = [root]  # None: all operands of the last open node are in `order`
        while stack:
            node = stack.pop()
            if node is None:
                order.append(begun.pop())
            elif node not in seen:
                seen.add(node)
                if node.operands and not stop(node):
                    begun.append(node)
                    stack.append(None)
                    stack += [child for child in reversed(node.operands) if child not in seen]
                else:
                    order.append(node)
    return order
