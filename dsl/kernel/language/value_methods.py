"""Compilation of method calls in kernels, such as ``array.sum()``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, identity_of
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.handlers import dtype_of, truth_value
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.values import (
    INT,
    ArrayValue,
    Constant,
    ScalarValue,
    TupleValue,
    describe,
    is_number,
    memory_dtype,
)
from weft.runtime import counted


def call_method(call: Invocation, owner: object, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Compile ``owner.name(...)``."""
    c = call.c
    match owner:
        case ArrayValue():
            return _array_method(call, owner, name, arguments, keywords)
        case ScalarValue():
            return _number_method(call, owner, name, arguments, keywords)
        case Constant(value=held) if is_number(held):
            return _number_method(call, c.scalar(owner), name, arguments, keywords)
        case TupleValue() if name == "_replace" and owner.names:
            if arguments:
                c.fail("_replace() takes fields by name only")
            return replaced(c, owner, keywords)
        case TupleValue(maker=maker) if maker is not None:
            function = getattr(maker, name)
            if isinstance(function, FunctionType):
                bound = [] if isinstance(inspect.getattr_static(maker, name), staticmethod) else [owner]
                return c.call(call.frame, call.node, Constant(function), [*bound, *arguments], keywords)
    c.fail(f"method {name} of {describe(owner)} is not part of the kernel language")


def check_constructor(c: Compiler, maker: type) -> None:
    """Raise KernelTypeError if a named tuple or dataclass has a ``__post_init__`` method."""
    if hasattr(maker, "__post_init__"):
        c.fail(f"{maker.__name__} has a method __post_init__, which a kernel cannot run: make the object outside")


def replaced(c: Compiler, owner: TupleValue, keywords: dict[str, Any]) -> TupleValue:
    """Return a copy of a named tuple or dataclass with some fields replaced."""
    check_constructor(c, owner.maker)
    for name in keywords:
        if name not in owner.names:
            c.fail(f"{describe(owner)} has no field {name!r}")
    items = (keywords.get(name, item) for name, item in zip(owner.names, owner.items, strict=True))
    return TupleValue(tuple(items), owner.maker, owner.names)


# -- numbers -------------------------------------------------------------------------------------


def bit_cast(c: Compiler, value: ScalarValue, dtype: np.dtype) -> ScalarValue:
    """Reinterpret the bits of a scalar as another dtype of the same size."""
    if value.dtype.itemsize != dtype.itemsize:
        c.fail(f"the {value.dtype.itemsize} bytes of {value.dtype} cannot be seen as one {dtype}")
    with c.at_top():
        pointer = c.builder.local(value.dtype)
    c.builder.store(pointer, c.builder.constant(0), value.ir)
    return ScalarValue(c.builder.load(c.builder.reinterpret(pointer, dtype), c.builder.constant(0)))


def _number_method(
    call: Invocation, number: ScalarValue, name: str, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    c = call.c
    if keywords:
        c.fail(f"{name}() of a number takes no keyword arguments in a kernel (such as {next(iter(keywords))})")
    wanted = int(name in ("astype", "view"))
    if len(arguments) != wanted:
        c.fail(f"{name}() of a number takes {counted(wanted, 'argument')}, but {len(arguments)} were given")
    if name in ("bit_length", "bit_count") and number.dtype.kind not in "iub":
        c.fail(f"{name}() is for integers, not for {describe(number)}")
    match name:
        case "conjugate":
            return c.apply("conjugate", number) if number.dtype.kind == "c" else number
        case "item":
            return ScalarValue(c.builder.cast(number.ir, _python_dtype(number.dtype)), True, number.nonnegative)
        case "astype":
            return c.cast(number, dtype_of(c, arguments[0]))
        case "view":
            return bit_cast(c, number, dtype_of(c, arguments[0]))
        case "is_integer":
            rest = c.apply("subtract", number, c.apply("trunc", number))  # NaN for an infinite number
            return c.apply("equal", rest, Constant(0))
        case "bit_length":
            zeros = c.apply("clz", c.cast(c.apply("absolute", number), np.int64))
            return c.cast(c.apply("subtract", Constant(64), zeros), INT, weak=True)
        case "bit_count":
            return c.cast(c.apply("bitwise_count", number), INT, weak=True)
    c.fail(f"method {name} of {describe(number)} is not part of the kernel language")


def _python_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype({"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}[dtype_kind(dtype)])


# -- arrays --------------------------------------------------------------------------------------


def _array_method(
    call: Invocation, array: ArrayValue, name: str, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    c, handler = call.c, ARRAY_METHODS[name]
    if keywords:
        c.fail(f"{name}() of an array takes no keyword arguments in a kernel (such as {next(iter(keywords))})")
    try:
        inspect.signature(handler).bind(call, array, *arguments)
    except TypeError as error:
        c.fail(f"{name}() of an array: {error}")
    return handler(call, array, *arguments)


def _variable_of(call: Invocation) -> Any:
    """Return the variable for the result of a reduction."""
    return call.c.result((*call.frame.path, "reduction"), call.node, "the result")


def _fold(call: Invocation, operands: list[ArrayValue], start: ScalarValue, combine: Callable[..., Any]) -> Any:
    """Compile a loop that executes ``result = combine(result, *elements)`` for the elements at each index of arrays."""
    c = call.c
    total = _variable_of(call)
    c.assign(total, start)
    with arrays.each(c, operands[0].shape) as index:
        before = c.load(total)
        c.assign(total, combine(before, *(arrays.select(c, array, TupleValue(index)) for array in operands)))
    return c.load(total)


def _reduce_elements(call: Invocation, array: ArrayValue, op: str, start: ScalarValue) -> Any:
    """Compile a reduction of all elements of an array in order, with the named op."""
    c = call.c
    return _fold(call, [array], start, lambda total, item: c.cast(c.apply(op, total, item), start.dtype))


def _accumulated(op: str, start: int, call: Invocation, array: ArrayValue) -> Any:
    dtype = np.dtype(np.int64 if array.dtype.kind in "bi" else np.uint64 if array.dtype.kind == "u" else array.dtype)
    return _reduce_elements(call, array, op, _start(call, start, dtype))


def _start(call: Invocation, value: object, dtype: np.dtype) -> ScalarValue:
    return ScalarValue(call.c.builder.constant(dtype.type(value), dtype))


def _extreme(op: str, call: Invocation, array: ArrayValue) -> Any:
    return _reduce_elements(call, array, op, _start(call, identity_of(op, array.dtype), array.dtype))


def _mean(call: Invocation, array: ArrayValue) -> Any:
    c = call.c
    return c.apply("divide", _accumulated("add", 0, call, array), arrays.length(c, extents.product(c, array.shape)))


def _quantified(call: Invocation, array: ArrayValue, op: str, start: bool) -> Any:
    c = call.c

    def combine(total: Any, item: Any) -> ScalarValue:
        return ScalarValue(c.builder.op(op, c.ir(total), truth_value(c, item)), True)

    return _fold(call, [array], ScalarValue(c.builder.constant(start, np.bool_), True), combine)


def _arg(strict: str, call: Invocation, array: ArrayValue) -> Any:
    c = call.c
    flat = arrays.flatten(c, array)
    best, where = _variable_of(call), _variable_of(call)
    c.assign(best, arrays.select(c, flat, Constant(0)))
    c.assign(where, ScalarValue(c.ir(Constant(0), INT), nonnegative=True))
    with arrays.each(c, flat.shape) as (index,):
        item, before = arrays.select(c, flat, index), c.load(best)
        better = c.apply(strict, item, before)
        if array.dtype.kind in "fc":  # the first NaN is the result
            nan = c.apply("bitwise_and", c.apply("not_equal", item, item), c.apply("equal", before, before))
            better = c.apply("bitwise_or", better, nan)
        with c.builder.if_(c.ir(better)):
            c.assign(best, item)
            c.assign(where, index)
    return c.load(where)


def _fill(call: Invocation, array: ArrayValue, value: object) -> Any:
    arrays.assign_view(call.c, array, value)
    return Constant(None)


def _reshape(call: Invocation, array: ArrayValue, *shape: Any) -> ArrayValue:
    c = call.c
    items = shape[0].items if len(shape) == 1 and isinstance(shape[0], TupleValue) else shape
    if not arrays.is_contiguous(array):
        c.fail(f"{array.label or 'the array'} is not known to be contiguous: it cannot be reshaped in a kernel")
    known = [arrays.known_shape(item) for item in items]
    lengths: list[Any] = [
        n[0] if n is not None else c.index(item, "a length") for n, item in zip(known, items, strict=True)
    ]
    free = [k for k, length in enumerate(lengths) if isinstance(length, int) and length < 0]
    if len(free) > 1:
        c.fail("reshape() can leave one length open only")
    total = extents.product(c, array.shape)
    product = extents.product(c, (length for k, length in enumerate(lengths) if k not in free))
    if not free:
        _fill_in(c, items, lengths, total, product)
    elif isinstance(total, int) and isinstance(product, int) and not product:
        c.fail("reshape() cannot compute a length of -1 beside a length of 0")
    else:
        lengths[free[0]] = extents.divide(c, total, product)
    shown = str(tuple(lengths)) if all(isinstance(length, int) for length in lengths) else "{}"
    message = f"an array of {{}} elements cannot be reshaped to {shown}"
    arrays.check_equal(c, total, extents.product(c, lengths), message)
    strides = extents.contiguous(c, tuple(lengths), arrays.unit(array.dtype))
    return dataclasses.replace(array, shape=tuple(lengths), strides=strides, packed=True, base=None)


def _fill_in(c: Compiler, items: Any, lengths: list[Any], total: Any, product: Any) -> None:
    """Emit code for a reshape with run-time lengths: a negative length is replaced by the length that fits the array's size."""
    b = c.builder
    unknown = [k for k, item in enumerate(items) if isinstance(item, ScalarValue) and not item.nonnegative]
    if not unknown:
        return
    missing = b.op("floor_divide", extents.extent_ir(c, total), b.op("negative", extents.extent_ir(c, product)))
    for k in unknown:
        below = b.op("less", lengths[k], b.constant(0))
        lengths[k] = b.op("where", below, missing, lengths[k])


def _transpose(call: Invocation, array: ArrayValue, *axes: Any) -> ArrayValue:
    items = axes[0].items if len(axes) == 1 and isinstance(axes[0], TupleValue) else axes
    order = arrays.known_shape(TupleValue(tuple(items))) if items else tuple(range(array.ndim))[::-1]
    if order is None:
        call.c.fail("the order of axes has to be known when the kernel is compiled")
    order = tuple(k + array.ndim if k < 0 else k for k in order)
    if sorted(order) != list(range(array.ndim)):
        call.c.fail(f"axes {order} are no order of {array.ndim} axes")
    return arrays.permuted(array, order)


def _view(call: Invocation, array: ArrayValue, dtype: Any) -> ArrayValue:
    c = call.c
    kind = dtype_of(c, dtype)
    if not arrays.is_contiguous(array) or any(memory_dtype(d) != d for d in (kind, array.dtype)):
        c.fail("only contiguous arrays of numbers can be seen in another dtype in a kernel")
    pointer = c.builder.reinterpret(array.pointer, kind)
    shape = list(array.shape)
    old, new = array.dtype.itemsize, kind.itemsize
    if old != new and not shape:
        c.fail(f"an array without axes cannot be seen as {kind}, which has another size")
    last = shape[-1] if shape else 1
    if old > new:
        shape[-1:] = [extents.multiply(c, last, old // new)]
    elif new > old:
        part = new // old
        if isinstance(last, int) and last % part:
            c.fail(f"the {last * old} bytes of the last axis cannot be divided into elements of {kind}")
        if not isinstance(last, int) and c.checked:
            rest = c.builder.op("remainder", last, c.builder.constant(part))
            odd = c.builder.op("not_equal", rest, c.builder.constant(0))
            text = f"a last axis of {{}} elements cannot be seen as {kind}, of which each takes {part}"
            c.report(odd, ValueError, text, (c.builder.cast(last, np.int64),))
        shape[-1:] = [extents.divide(c, last, part)]
    strides = extents.contiguous(c, tuple(shape))
    return dataclasses.replace(
        array, pointer=pointer, dtype=kind, shape=tuple(shape), strides=strides, packed=True, base=None
    )


def _item(call: Invocation, array: ArrayValue, *index: Any) -> Any:
    if not index:
        if array.ndim and any(extent != 1 for extent in array.shape if isinstance(extent, int)):
            call.c.fail("item() without an index is for arrays of one element")
        index = (Constant(0),) * array.ndim
    elif len(index) == 1:  # a position in C order
        array = arrays.flatten(call.c, array)
    elif len(index) != array.ndim:
        axes = counted(array.ndim, "axis", "axes")
        call.c.fail(f"item() of an array of {axes} takes one index or one for each axis")
    found = arrays.select(call.c, array, TupleValue(tuple(index)))
    if not isinstance(found, ScalarValue):
        call.c.fail(f"item() is for arrays of numbers, not of {array.dtype}: index the array")
    return _number_method(call, found, "item", [], {})


def _dot(call: Invocation, array: ArrayValue, other: object) -> Any:
    c = call.c
    if not isinstance(other, ArrayValue) or array.ndim != 1 or other.ndim != 1:
        c.fail("dot in a kernel takes two 1-d arrays: write the loops for matrices")
    arrays.check_equal(c, array.shape[0], other.shape[0], "arrays of length {} and {} have no dot product")
    dtype = np.result_type(array.dtype, other.dtype)

    def combine(total: Any, x: Any, y: Any) -> Any:
        return c.cast(c.apply("add", total, c.apply("multiply", x, y)), dtype)

    return _fold(call, [array, other], _start(call, 0, dtype), combine)


ARRAY_METHODS: dict[str, Callable[..., Any]] = {
    "sum": partial(_accumulated, "add", 0),
    "prod": partial(_accumulated, "multiply", 1),
    "min": partial(_extreme, "minimum"),
    "max": partial(_extreme, "maximum"),
    "mean": _mean,
    "any": lambda call, array: _quantified(call, array, "bitwise_or", False),
    "all": lambda call, array: _quantified(call, array, "bitwise_and", True),
    "argmin": partial(_arg, "less"),
    "argmax": partial(_arg, "greater"),
    "fill": _fill,
    "reshape": _reshape,
    "ravel": lambda call, array: arrays.flatten(call.c, array),
    "transpose": _transpose,
    "view": _view,
    "item": _item,
    "dot": _dot,
}
