"""Compilation of array accesses in kernels: elements, views, and fields of records.

In: an `ArrayValue` and an index. Out: an element (a `ScalarValue`, `DateValue` or `RecordValue`), or another
`ArrayValue` over the same memory. Invariant: index arithmetic uses the kernel's index dtype. Lengths known at compile
time stay known.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.date_values import stored_date
from weft.dsl.kernel.language.element_loops import aligned, any_of, broadcast_axes, each, safe_order
from weft.dsl.kernel.language.extents import add, contiguous, divide, extent_ir, multiply, product
from weft.dsl.kernel.language.text_values import store_text
from weft.dsl.kernel.language.values import (
    ArrayValue,
    BaseAxis,
    Constant,
    DateValue,
    Extent,
    RecordValue,
    ScalarValue,
    Sliced,
    TupleValue,
    base_of,
    describe,
    in_bytes,
    is_date_dtype,
    is_number,
    memory_dtype,
    window_of,
)
from weft.dsl.kernel.sanitizer.tracer import SiteKind
from weft.runtime import counted


def length(c: Compiler, extent: Extent) -> Constant | ScalarValue:
    """Return a length as a kernel integer that promotes like a Python int."""
    if isinstance(extent, int):
        return Constant(extent)
    return ScalarValue(c.builder.cast(extent, np.int64), weak=True, nonnegative=True)


def is_contiguous(array: ArrayValue) -> bool:
    """Return whether an array is known at compile time to be C-contiguous."""
    return array.packed or (array.ndim == 1 and array.strides[0] == unit(array.dtype))


def flatten(c: Compiler, array: ArrayValue) -> ArrayValue:
    """Return a 1-D array itself, or a 1-D view of a contiguous array."""
    if array.ndim == 1:
        return array
    if not is_contiguous(array):
        c.fail(f"{array.label or 'the array'} is not known to be contiguous: its elements cannot be seen as one axis")
    return replace(array, shape=(product(c, array.shape),), strides=(unit(array.dtype),), base=None)


def permuted(array: ArrayValue, order: Sequence[int], packed: bool = False) -> ArrayValue:
    """Return a view with permuted axes: axis k of the view is the axis ``order[k]`` of `array`."""
    moved = {old: new for new, old in enumerate(order)}
    return replace(
        array,
        shape=tuple(array.shape[k] for k in order),
        strides=tuple(array.strides[k] for k in order),
        packed=packed,
        base=base_of(array),
        window=tuple(part if part.axis is None else replace(part, axis=moved[part.axis]) for part in window_of(array)),
    )


def known_shape(value: object) -> tuple[int, ...] | None:
    """Return a shape as Python ints, or None if some length is not known at compile time."""
    items = value.items if isinstance(value, TupleValue) else (value,)
    found = []
    for item in items:
        held = item.value if isinstance(item, Constant) else None
        if isinstance(held, enum.Enum):
            held = held.value
        if isinstance(held, bool) or not isinstance(held, (int, np.integer)):
            return None
        found.append(int(held))
    return tuple(found)


# -- indexing --------------------------------------------------------------------------------------


def position(
    c: Compiler, index: Any, extent: Extent, what: str, array: ArrayValue | None = None, axis: int = 0
) -> Extent:
    """Convert an index, which may be negative, to a position along an axis of length `extent`.

    In kernels with `debug` or the `checked` setting, the position is checked against the bounds of the axis.
    """
    if isinstance(index, Constant):
        held = index.value.value if isinstance(index.value, enum.Enum) else index.value
        if not isinstance(held, (int, np.integer)) or isinstance(held, (bool, np.bool_)):
            c.fail(f"{what} is an integer, not {describe(index)}" + ("" if not is_number(held) else ": write int(...)"))
        held = int(held)
        if isinstance(extent, int) and not -extent <= held < extent:
            c.fail(f"index {held} is out of bounds for axis {axis} with size {extent}")
        at = add(c, extent, held) if held < 0 else held
        if c.checked and not isinstance(extent, int):
            _check(c, extent_ir(c, at), extent, array, axis, c.builder.constant(held))
        return at
    value = asked = c.index(index, what)
    if not (isinstance(index, ScalarValue) and (index.nonnegative or index.dtype.kind in "ub")):
        below = c.builder.op("less", value, c.builder.constant(0))
        wrapped = c.builder.op("add", value, extent_ir(c, extent))
        asked_dtype = index.dtype.name if isinstance(index, ScalarValue) else c.index_dtype.name
        (value,) = c.builder.emit("where", (below, wrapped, value), (value.type,), index=asked_dtype)
    if c.checked:
        _check(c, value, extent, array, axis, asked)
    return value


def _check(
    c: Compiler, value: Value, extent: Extent, array: ArrayValue | None, axis: int, asked: Value | None = None
) -> None:
    unsigned = np.dtype(f"u{c.index_dtype.itemsize}")
    b = c.builder
    outside = b.op("greater_equal", b.cast(value, unsigned), b.cast(extent_ir(c, extent), unsigned))
    name = array.label if array is not None and array.label else "array"
    c.report(
        outside,
        IndexError,
        f"index {{}} is out of bounds for axis {axis} of {name} with size {{}}",
        (b.cast(asked or value, np.int64), b.cast(extent_ir(c, extent), np.int64)),
    )


def select(c: Compiler, array: ArrayValue, index: Any) -> Any:
    """Compile ``array[index]`` to a single element or to a view."""
    view = view_of(c, array, index)
    parts = index.items if isinstance(index, TupleValue) else (index,)
    has_ellipsis = any(isinstance(p, Constant) and p.value is Ellipsis for p in parts)
    return view if view.ndim or has_ellipsis else element(c, view)


def view_of(c: Compiler, array: ArrayValue, index: Any) -> ArrayValue:
    """Compile ``array[index]`` to a view, which has no axes if the index selects a single element."""
    if isinstance(index, Constant) and isinstance(index.value, str) and array.dtype.names:
        return field_of(c, array, index.value)
    parts = _with_every_axis(c, array, list(index.items) if isinstance(index, TupleValue) else [index])
    shape: list[Extent] = []
    strides: list[Extent] = []
    offset: Extent = 0
    axis = 0
    asked: list[tuple[Any, Extent, Extent]] = []
    chosen: list[BaseAxis] = []  # the part of each axis of `array`
    for part in parts:
        if isinstance(part, Constant) and part.value is None:
            shape.append(1)
            strides.append(0)
            continue
        extent, stride = array.shape[axis], array.strides[axis]
        match part:
            case Sliced(start=None, stop=None, step=None):
                chosen.append(BaseAxis(0, 1, len(shape)))
                shape.append(extent)
                strides.append(stride)
            case Sliced():
                first, count, step = slice_of(c, part, extent)
                offset = add(c, offset, multiply(c, first, stride))
                chosen.append(BaseAxis(first, step, len(shape)))
                shape.append(count)
                strides.append(multiply(c, step, stride))
            case ArrayValue():
                c.fail(
                    "an array as an index (fancy indexing) is not part of the kernel language: loop over its elements"
                )
            case TupleValue():
                c.fail("a tuple inside an index is not part of the kernel language")
            case _:
                if isinstance(part, ScalarValue) and part.dtype.kind == "b":
                    c.fail("a bool as an index (a mask) is not part of the kernel language: use `if`")
                start = position(c, part, extent, "an index", array, axis)
                offset = add(c, offset, multiply(c, start, stride))
                chosen.append(BaseAxis(start))
                asked.append((part, start, extent))
        axis += 1
    if len(shape) == array.ndim and all(isinstance(p, Sliced) and p.start is p.stop is p.step is None for p in parts):
        return array
    label, index = (array.label, ()) if c.tracer is None else c.tracer.bounds(array, parts, asked)
    pointer = array.pointer
    if not (isinstance(offset, int) and offset == 0):
        pointer = c.builder.offset(pointer, extent_ir(c, offset))
    return replace(
        array,
        pointer=pointer,
        shape=tuple(shape),
        strides=tuple(strides),
        label=label,
        packed=False,
        index=index,
        base=base_of(array),
        window=tuple(_part_of(c, own, chosen) for own in window_of(array)),
    )


def _part_of(c: Compiler, own: BaseAxis, chosen: list[BaseAxis]) -> BaseAxis:
    """Along one axis, combine a view of the base array (`own`) with a view of that view (`chosen`) into a single view of the base array."""
    if own.axis is None:
        return own
    part = chosen[own.axis]
    return BaseAxis(add(c, own.start, multiply(c, part.start, own.step)), own.step * part.step, part.axis)


def _with_every_axis(c: Compiler, array: ArrayValue, parts: list[Any]) -> list[Any]:
    """Return the parts of an index, with full slices for omitted axes."""
    full = [p for p in parts if not (isinstance(p, Constant) and (p.value is None or p.value is Ellipsis))]
    if len(full) > array.ndim:
        axes = "axis" if array.ndim == 1 else "axes"
        c.fail(f"too many indices: {array.label or 'the array'} has {array.ndim} {axes}, but {len(full)} were indexed")
    dots = [k for k, p in enumerate(parts) if isinstance(p, Constant) and p.value is Ellipsis]
    if len(dots) > 1:
        c.fail("an index can have one ellipsis only")
    every = Sliced(None, None, None)
    missing = [every] * (array.ndim - len(full))
    return parts[: dots[0]] + missing + parts[dots[0] + 1 :] if dots else parts + missing


def slice_of(c: Compiler, part: Sliced, extent: Extent) -> tuple[Extent, Extent, int]:
    """Return the start, length and step of a slice of an axis of length `extent`. The step is a Python int."""
    step = 1
    if part.step is not None:
        known = known_shape(part.step)
        if known is None or known[0] == 0:
            c.fail("the step of a slice is a number known when compiling, and not 0")
        step = known[0]
    ends = [known_shape(p) if p is not None else () for p in (part.start, part.stop)]
    if isinstance(extent, int) and all(e is not None for e in ends):
        low_end, high_end = (e[0] if e else None for e in ends)
        known_range = range(*slice(low_end, high_end, step).indices(extent))
        return known_range.start, len(known_range), step
    b = c.builder
    whole = extent_ir(c, extent)
    low, high = (b.constant(0), whole) if step > 0 else (b.constant(-1), b.op("subtract", whole, b.constant(1)))

    def bound(value: object, default: Value) -> Value:
        if value is None:
            return default
        found = _saturated(c, value, "the end of a slice")
        if not (isinstance(value, ScalarValue) and value.nonnegative):
            below = b.op("less", found, b.constant(0))
            found = b.op("where", below, b.op("add", found, whole), found)
        return b.op("maximum", b.op("minimum", found, high), low)

    start = bound(part.start, low if step > 0 else high)
    stop = bound(part.stop, high if step > 0 else low)
    far = b.op("subtract", stop, start) if step > 0 else b.op("subtract", start, stop)
    wide = abs(step)
    count = b.op("floor_divide", b.op("add", far, b.constant(wide - 1)), b.constant(wide)) if wide > 1 else far
    return 0 if part.start is None and step > 0 else start, b.op("maximum", count, b.constant(0)), step


def _saturated(c: Compiler, value: object, what: str) -> Value:
    """Convert an integer to the index dtype, after clamping it to the range of this dtype."""
    number, limits = c.number(value, what), np.iinfo(c.index_dtype)
    if isinstance(number, Constant) and isinstance(number.value, (int, np.integer)):
        number = Constant(min(max(int(number.value), limits.min), limits.max))
    elif isinstance(number, ScalarValue) and number.dtype.kind in "iu" and not np.can_cast(number.dtype, c.index_dtype):
        b, dtype = c.builder, number.dtype
        limited = b.op("minimum", number.ir, b.constant(int(limits.max), dtype))
        if dtype.kind == "i":
            limited = b.op("maximum", limited, b.constant(int(limits.min), dtype))
        number = ScalarValue(limited)
    return c.index(number, what)


# -- elements --------------------------------------------------------------------------------------


def element(c: Compiler, view: ArrayValue, **attributes: Any) -> Any:
    """Return the single element of a view without axes: a loaded number or date, or a reference to a record or text."""
    if in_bytes(view.dtype):
        return _record(view)
    if c.tracer is not None:
        c.tracer.access(view, SiteKind.READ, attributes.get("align", 0))
    loaded = c.builder.load(view.pointer, c.builder.constant(0), **attributes)
    if is_date_dtype(view.dtype):
        return DateValue(ScalarValue(loaded), view.dtype)
    return ScalarValue(loaded, nonnegative=view.dtype.kind == "u")


def _record(view: ArrayValue) -> RecordValue:
    return RecordValue(view.pointer, view.dtype, view.writable, view.label, view.space, view.origin, view.index)


def store(c: Compiler, array: ArrayValue, index: Any, value: Any) -> None:
    """Compile ``array[index] = value``."""
    assign_view(c, view_of(c, array, index), value)


def assign_view(c: Compiler, view: ArrayValue, value: object, **attributes: Any) -> None:
    """Compile ``view[...] = value`` element by element, with broadcasting."""
    if not view.writable:
        c.fail(
            f"{view.label or 'the array'} is read-only here: read-only arguments, constant memory and arrays from outside cannot be written"
        )
    c.written.add(view.origin)
    if view.ndim == 0:
        _put(c, view, value, attributes)
        return
    items = value.items if isinstance(value, TupleValue) else None
    if items is not None and len(items) == 1:
        assign_view(c, view, items[0], **attributes)
        return
    if items is not None and view.ndim == 1:
        check_equal(c, len(items), view.shape[0], "{} values cannot be assigned to {} elements")
        for k, item in enumerate(items):
            assign_view(c, view_of(c, view, Constant(k)), item, **attributes)
        return
    for_each_element(
        c, view, [value], lambda index, items: assign_view(c, view_of(c, view, index), items[0], **attributes)
    )


def for_each_element(
    c: Compiler, view: ArrayValue, operands: Sequence[Any], body: Callable[[TupleValue, list[Any]], None]
) -> None:
    """Compile ``body(index, elements)`` for each index of the output `view`.

    `elements` contains the elements of the operands, which are broadcast to the shape of `view`, and the operands that
    are not arrays. If the length of an axis of an operand is known only at run time, the loops are compiled twice: for
    operands that are broadcast along such axes, and for all others.
    """
    b, whole = c.builder, [o for o in operands if isinstance(o, ArrayValue)]
    for operand in whole:
        check_fits(c, operand, view)

    def loops(single: bool) -> None:
        with each(c, view.shape, safe_order(c, view, whole, single), single) as index:
            elements = [
                select(c, o, TupleValue(aligned(c, o, view, index, single))) if isinstance(o, ArrayValue) else o
                for o in operands
            ]
            body(TupleValue(index), elements)

    lengths = {n: None for o in whole for n in broadcast_axes(o, view).values() if not isinstance(n, int)}
    if not lengths:
        loops(False)
        return
    with b.if_(any_of(c, [b.op("equal", n, b.constant(1)) for n in lengths]), likely=False):
        loops(True)
    with b.else_():
        loops(False)


def check_fits(c: Compiler, value: ArrayValue, view: ArrayValue) -> None:
    """Raise an error if the array `value` cannot be broadcast to the shape of the array `view`.

    Kernels with `debug` or the `checked` setting also compare the lengths at run time.
    """
    if value.ndim > view.ndim:
        c.fail(f"an array of {counted(value.ndim, 'axis', 'axes')} cannot be assigned to {view.ndim}")
    for extent, wanted in zip(reversed(value.shape), reversed(view.shape), strict=False):
        if isinstance(extent, int) and extent == 1:
            continue
        check_equal(c, extent, wanted, "an array of length {} cannot be assigned to {} elements", True)


def check_equal(c: Compiler, first: Extent, second: Extent, message: str, broadcast: bool = False) -> None:
    """Raise an error if two lengths differ. `message` has a ``{}`` for each length.

    Lengths that are not known at compile time are compared in kernels with `debug` or the `checked` setting only. If
    `broadcast` is true, such a first length may also be 1.
    """
    if isinstance(first, int) and isinstance(second, int):
        if first != second:
            c.fail(message.format(first, second))
    elif c.checked:
        b = c.builder
        lengths = [extent_ir(c, n) for n in (first, second)]
        different = b.op("not_equal", *lengths)
        if broadcast:
            different = b.op("bitwise_and", different, b.op("not_equal", lengths[0], b.constant(1)))
        c.report(different, ValueError, message, tuple(b.cast(n, np.int64) for n in lengths))


def _put(c: Compiler, view: ArrayValue, value: object, attributes: dict[str, Any]) -> None:
    if in_bytes(view.dtype):
        copy = store_text if view.dtype.names is None else copy_record
        copy(c, _record(view), value)
        return
    if isinstance(value, ArrayValue) and value.ndim == 0:
        value = element(c, value)
    if is_date_dtype(view.dtype):
        value = stored_date(c, value, view.dtype, view.label)
        view = replace(view, dtype=np.dtype(np.int64))
    number = c.number(value, f"a number to store in {view.label or 'an array'} of {view.dtype}")
    if np.dtype(c.kind(number)).kind == "c" and view.dtype.kind != "c":
        c.fail(f"{describe(number)} cannot be stored in an array of {view.dtype}: take its .real")
    stored = c.ir(number, view.dtype)
    if c.tracer is not None:
        c.tracer.access(view, SiteKind.WRITE, attributes.get("align", 0), stored)
    c.builder.store(view.pointer, c.builder.constant(0), stored, **attributes)


# -- records ---------------------------------------------------------------------------------------


def unit(dtype: np.dtype) -> int:
    """Return the stride of a contiguous 1-D array: in bytes for records and text, otherwise in elements."""
    return dtype.itemsize if in_bytes(dtype) else 1


def field_of(c: Compiler, array: ArrayValue, name: str) -> ArrayValue:
    """Return a field of a structured array as an array."""
    fields: Any = array.dtype.fields
    if name not in fields:
        c.fail(f"no field is called {name!r}; the fields are {', '.join(array.dtype.names or ())}", "attribute")
    dtype, offset = fields[name][:2]
    base = c.builder.offset(array.pointer, c.builder.constant(offset))
    kind, extra = dtype.base, dtype.shape
    strides = array.strides
    if not in_bytes(kind):
        if any(isinstance(s, int) and s % kind.itemsize for s in strides):
            c.fail(
                f"field {name!r} does not lie at whole multiples of its size: align the dtype (np.dtype(..., align=True))"
            )
        strides = tuple(divide(c, s, kind.itemsize) for s in strides)
        base = c.builder.reinterpret(base, memory_dtype(kind))
    return replace(
        array,
        pointer=base,
        dtype=kind,
        shape=array.shape + extra,
        strides=strides + contiguous(c, extra, unit(kind)),
        label=f"{array.label}.{name}",
        packed=False,
        base=None if extra else base_of(array),
        window=window_of(array),
    )


def get_field(c: Compiler, record: RecordValue, name: str) -> Any:
    """Return a field of a record: a view if the field has axes, otherwise its only element."""
    view = _record_field(c, record, name)
    return view if view.ndim else element(c, view, **_alignment(record.dtype, name, view.dtype))


def _record_field(c: Compiler, record: RecordValue, name: str) -> ArrayValue:
    """Return a view of a record's field, which has no axes if the field is a scalar."""
    r = record
    whole = ArrayValue(r.pointer, r.dtype, (), (), r.space, r.writable, r.label, origin=r.origin, index=r.index)
    return field_of(c, whole, name)


def set_field(c: Compiler, record: RecordValue, name: str, value: object) -> None:
    """Assign a field of a record."""
    view = _record_field(c, record, name)
    if not record.writable:
        c.fail(f"{record.label or 'the record'} is read-only here")
    assign_view(c, view, value, **(_alignment(record.dtype, name, view.dtype) if not view.ndim else {}))


def _alignment(dtype: np.dtype, name: str, kind: np.dtype) -> dict[str, int]:
    assert dtype.fields is not None
    if in_bytes(kind):
        return {}
    part = kind.itemsize // 2 if kind.kind == "c" else kind.itemsize
    known = math.gcd(part, dtype.fields[name][1], dtype.itemsize)  # (part is a power of two)
    return {} if known == part else {"align": known}


def copy_record(c: Compiler, target: RecordValue, value: object) -> None:
    """Assign the fields of a record, or the items of a tuple, to the fields of the record `target`."""
    names = target.dtype.names or ()
    if isinstance(value, TupleValue):
        if len(value.items) != len(names):
            c.fail(f"{counted(len(value.items), 'value')} for {counted(len(names), 'field')} of a record")
        for name, item in zip(names, value.items, strict=True):
            set_field(c, target, name, item)
        return
    if not isinstance(value, RecordValue) or value.dtype != target.dtype:
        c.fail(f"{describe(value)} cannot be stored as a record of {target.dtype}")
    for name in names:
        set_field(c, target, name, get_field(c, value, name))
