"""Array indexing and assignment by slices, integers, index arrays and masks.

In: an array and NumPy's index expressions. Out: views for slices and integers, copies for index arrays and masks, or
new versions of the storage. Indices are checked immediately (`positions.py`). The number of elements that a mask
selects depends on the mask's elements, so most uses of a mask evaluate it.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.codegen import EXTREMES, find_op, resolve_dtypes
from weft.dsl.arrays.array import (
    Array,
    ReadOnly,
    Scalar,
    View,
    as_operand,
    check_writable,
    convert,
    expr_of,
    is_writable,
    layout,
    record,
    start,
    user_location,
    without_sharing,
    wrap,
    wrap_view,
    write,
)
from weft.dsl.arrays.call_sites import (
    IN_PLACE,
    LEFT,
    SET,
    SHOW,
    check_devices,
    copy_operand,
    count_hit,
    on_operands_device,
)
from weft.dsl.arrays.masks import assign_masked, find_true, select
from weft.dsl.arrays.memoized import describe
from weft.dsl.arrays.numbers import note_constant, number_of
from weft.dsl.arrays.on_host import note_fallback, to_host
from weft.dsl.arrays.parts import Part
from weft.dsl.arrays.positions import Positions, flat_position, positions_of
from weft.dsl.arrays.results import value_operand
from weft.dsl.arrays.scatter import Terms, scatter_assign, scatter_reduce
from weft.dsl.arrays.validation import MOST_AXES, warn_of_lost_parts
from weft.dsl.arrays.windows import VIEWS, key_of, memoize_view, window
from weft.dsl.immediate.at_call import MISSED, implementation_of, show
from weft.dsl.immediate.index_at_call import SEQUENCES, pick, put, write_small
from weft.fusion import (
    INTERNED,
    Expr,
    Location,
    assign,
    broadcast_shapes,
    broadcast_to,
    cast,
    constant,
    current_epoch,
    end_small_run,
    gather,
    iota,
    keep_code,
    map_,
    operand,
    recording,
    reshape,
    scatter,
    shape_text,
    write_anew,
)
from weft.runtime import IMMEDIATE, DeviceMismatchError

_BOOLS = (bool, np.bool_)


class IndexedAxis(NamedTuple):
    """The elements that an index selects along one axis of an array (see `Index`)."""

    first: int = 0
    step: int = 0
    axis: int = -1  # the axis of the basic part, or -1 for an integer and for an index array
    array: int = -1  # the position of the index array in `Index.advanced`, or -1


class Index:
    """A parsed index: the layout of its basic part, and its index arrays."""

    __slots__ = ("advanced", "axes", "offset", "separated", "shape", "strides", "whole_axes")

    def __init__(self, offset: int, items: list[Any]) -> None:
        self.shape: list[int] = []  # of the basic part: the view that slices, None and integers select
        self.strides: list[int] = []
        self.offset = offset
        self.advanced: list[Positions] = []
        self.axes: list[IndexedAxis] = []  # one per axis of the array
        self.whole_axes = any(item is Ellipsis for item in items)
        basic = [item is None or item is Ellipsis or isinstance(item, slice) for item in items]
        inner = basic[basic.index(False) : len(basic) - basic[::-1].index(False)] if False in basic else []
        # Whether a slice, None or ``...`` (even of no axes) is between two index arrays or integers.
        self.separated = any(inner)

    @property
    def is_element(self) -> bool:
        """Whether the index selects a single element, which NumPy returns as a scalar."""
        return not (self.shape or self.advanced or self.whole_axes)


def _normalize(item: Any) -> Any:
    """Convert an item of an index: an integer-like object to an int, and a sequence to an array."""
    if item is None or item is Ellipsis or isinstance(item, (slice, int, np.integer, np.bool_, Array, np.ndarray)):
        return item
    if hasattr(item, "__index__") and not np.ndim(item):  # (tensors of other libraries have the method too)
        return operator.index(item)
    # (NumPy would iterate over a range)
    values = np.arange(item.start, item.stop, item.step) if type(item) is range else np.asarray(item)
    if not values.size:
        return values.astype(np.int64)
    if values.dtype.kind not in "iub":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
        )
    return values


def _axes_of(item: Any) -> int:
    """Return how many axes of an array are indexed by one item of an index. `_normalize` has converted the item."""
    if item is None or item is Ellipsis or isinstance(item, _BOOLS):
        return 0
    return item.ndim if isinstance(item, (Array, np.ndarray)) and item.dtype == bool else 1


def _expand(items: list[Any], ndim: int) -> list[Any]:
    """Complete the normalized items of an index with slices for the axes that the index omits."""
    used = sum(map(_axes_of, items))
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    at = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1 :]]


def resolve(array: Array, key: object) -> Index:
    """Parse the index `key` of an array, or raise NumPy's error for an invalid index."""
    shape, strides, offset = layout(array)
    items = [_normalize(item) for item in (key if isinstance(key, tuple) else (key,))]
    index = Index(offset, items)
    axis = 0
    for item in _expand(items, array.ndim):
        if item is None:
            index.shape.append(1)
            index.strides.append(0)
        elif isinstance(item, slice):
            begin, stop, step = slice(*map(_as_bound, (item.start, item.stop, item.step))).indices(shape[axis])
            length = len(range(begin, stop, step))
            index.offset += begin * strides[axis] if length else 0
            index.axes.append(IndexedAxis(begin, step, len(index.shape)))
            index.shape.append(length)
            index.strides.append(step * strides[axis])
            axis += 1
        elif _is_bool(item):
            positions = np.zeros(1 if item else 0, np.int64)
            index.advanced.append(Positions(len(index.shape), 1, 0, positions.shape, positions))
        elif isinstance(item, (int, np.integer)) or (not item.ndim and item.dtype.kind in "iu"):
            number = operator.index(item)
            if not -shape[axis] <= number < shape[axis]:
                raise IndexError(f"index {number} is out of bounds for axis {axis} with size {shape[axis]}")
            index.axes.append(IndexedAxis(number % shape[axis]))
            index.offset += number % shape[axis] * strides[axis]
            axis += 1
        else:
            axis = _advanced(index, item, shape, strides, axis)
    if len(index.shape) > MOST_AXES:
        raise IndexError(
            f"number of dimensions must be within [0, {MOST_AXES}], indexing result would have {len(index.shape)}"
        )
    if (count := len(index.advanced)) >= MOST_AXES and not index.shape:
        raise IndexError(
            f"when no subspace is given, the number of index arrays cannot be above {MOST_AXES - 1}, but {count} index "
            "arrays found"
        )
    return index


def _is_bool(item: object) -> bool:
    return isinstance(item, _BOOLS) or (isinstance(item, (Array, np.ndarray)) and not item.ndim and item.dtype == bool)


def _as_bound(value: object) -> Any:
    if value is not None and not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return None if value is None else operator.index(value)


def _is_array_number(item: object) -> bool:
    """Return whether an index item is a 0-d array other than a `Scalar`."""
    return isinstance(item, (Array, np.ndarray)) and type(item) is not Scalar and not item.ndim  # (NumPy copies)


def _advanced(
    index: Index, values: Array | np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], axis: int
) -> int:
    """Append an index array or a mask to a parsed index, and return the next axis to index."""
    if values.dtype == bool:
        for k, n in enumerate(values.shape):
            if n and n != shape[axis + k]:  # (NumPy accepts empty masks of any length)
                raise IndexError(
                    f"boolean index did not match indexed array along axis {axis + k}; size of axis is {shape[axis + k]} but size of corresponding boolean axis is {n}"
                )
        taken: tuple[Any, ...] = find_true(values) if isinstance(values, Array) else np.nonzero(values)
        for k, positions in enumerate(taken):
            index.axes.append(IndexedAxis(array=len(index.advanced)))
            where = len(index.shape), shape[axis + k], strides[axis + k], positions.shape
            if isinstance(positions, Array):
                index.advanced.append(Positions(*where, None, positions))
            else:
                index.advanced.append(Positions(*where, positions))
        return axis + values.ndim
    if values.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    index.axes.append(IndexedAxis(array=len(index.advanced)))
    index.advanced.append(positions_of(values, axis, shape[axis], strides[axis], len(index.shape)))
    return axis + 1


def getitem(array: Array, key: Any) -> Array:
    """Return ``array[key]`` as a view for a basic index, and as a copy for other indices.

    Single elements are NumPy scalars if `array` is a plain `Array` in host memory, otherwise weft scalars.
    """
    if _is_large_mask(key):
        key = copy_operand(key, array.device) if type(key) is np.ndarray else key
        if (taken := select(array, key)) is not None:
            return taken
    elif type(array) is Array:
        at_once = show(array, key)
        if at_once is MISSED and _is_of_element(array, key) and end_small_run():
            at_once = show(array, key)
        if at_once is not MISSED:
            return at_once
        if IMMEDIATE[0]:
            at_once = pick(array, key)
            if at_once is not MISSED:
                return at_once
    shown = _view_or_offset(array, key)
    if type(shown) is int:
        return element(array, shown)
    if shown is not ...:
        return wrap(array._storage, shown, ReadOnly if type(array) is ReadOnly else Array)
    return _resolve_and_index(array, key)


@on_operands_device
def _resolve_and_index(array: Array, key: Any) -> Array:
    """Parse an index that is not in the memo, and return ``array[key]``."""
    if type(key) is Array and key.dtype == bool and (taken := select(array, key)) is not None:
        return taken
    index = resolve(array, key)
    if index.is_element:
        return element(array, index.offset)
    if not index.advanced:
        shown = _shown(array, index)
        return record(expr_of(shown)) if any(map(_is_array_number, key if type(key) is tuple else (key,))) else shown
    check_devices("indexing", (array, *key) if type(key) is tuple else (array, key))
    start()
    plan = _lay_out_axes(index)
    if array._storage.buffer is not None and all(p.numbers is not None for p in index.advanced):
        # If the array is in memory, one flat position per element suffices.
        base = operand(array._storage)
        positions, terms = _flatten(index, plan)
        return record(gather(base, [positions], terms, plan.shape))
    base, arrays = expr_of(array), [_shaped(p.expr(), plan) for p in index.advanced]
    terms = tuple(
        (first, ((plan.result_axes[axis], step),) if axis >= 0 else (), which)
        for first, step, axis, which in index.axes
    )
    return record(gather(base, arrays, terms, plan.shape))


_INTEGERS = frozenset({int, np.int64, np.int32})


def _is_of_element(array: Array, key: object) -> bool:
    """Return whether an index consists of exactly one integer for each axis."""
    items = key if type(key) is tuple else (key,)
    return len(items) == len(array.shape) and _INTEGERS.issuperset(map(type, items))


def _is_large_mask(key: object) -> bool:
    """Return whether an index is a boolean array that is too large for immediate execution."""
    return type(key) in (Array, np.ndarray) and key.dtype.kind == "b" and key.size > IMMEDIATE[0]  # type: ignore[attr-defined]


def _view_or_offset(array: Array, key: object) -> Any:
    """Return the view that a basic index selects, or the offset of a single selected element.

    The view is None if it covers the whole storage. Return ``...`` for other indices, and for 0-d arrays.
    """
    named = key_of(array, key) if array.shape else None
    if named is None:
        return ...
    found: Any = VIEWS.get(named, ...)
    if found is ...:
        index = resolve(array, key)
        found = index.offset if index.is_element else _shown(array, index)._view
        memoize_view(named, found)
    return found


def _shown(array: Array, index: Index) -> Array:
    """Return the view that the basic part of an index selects.

    For a `Part`, the view refers to the part's own storage, not to that of the complex array.
    """
    if isinstance(array, Part):
        return wrap_view(array._storage, (tuple(index.shape), tuple(index.strides), index.offset))
    return window(array, tuple(index.shape), tuple(index.strides), index.offset)


def element(array: Array, offset: int) -> Array:
    """Return the element at position `offset` of an array's storage as a `Scalar`."""
    start()
    return record(expr_of(window(array, (), (), offset)))


class AxisLayout(NamedTuple):
    """The layout of an indexing result: its shape, and which of its axes come from slices and which from index arrays."""

    shape: tuple[int, ...]
    result_axes: tuple[int, ...]  # the position in the result of each axis of the basic part
    at: int  # the position in the result of the first axis that the index arrays produce


def _lay_out_axes(index: Index) -> AxisLayout:
    try:
        common = broadcast_shapes(*(p.shape for p in index.advanced))
    except ValueError:
        shapes = " ".join(str(p.shape).replace(" ", "") for p in index.advanced)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes} "
        ) from None
    at = 0 if index.separated else index.advanced[0].position
    shape = (*index.shape[:at], *common, *index.shape[at:])
    axes = tuple(k if k < at else k + len(common) for k in range(len(index.shape)))
    return AxisLayout(shape, axes, at)


def _shaped(node: Expr, plan: AxisLayout) -> Expr:
    """Reshape an expression of indices so that it broadcasts to the shape of the indexing result."""
    common = len(plan.shape) - len(plan.result_axes)
    own = (1,) * (common - len(node.shape)) + node.shape
    return reshape(node, (1,) * plan.at + own + (1,) * (len(plan.result_axes) - plan.at))


def _flatten(index: Index, plan: AxisLayout) -> tuple[Expr, Terms]:
    """Return the positions that an index selects, as two summands: one for its index arrays, and one for its slices and integers."""
    pairs = zip(plan.result_axes, index.strides, strict=True)
    terms = ((index.offset, tuple((axis, stride) for axis, stride in pairs if stride), 0),)
    return _shaped(flat_position(index.advanced), plan), terms


def setitem(array: Array, key: object, value: object) -> None:
    """Assign ``array[key] = value`` with NumPy's broadcasting and casting."""
    if _is_large_mask(key) or not put(array, key, value):
        assign_recorded(array, key, value)


@on_operands_device
def assign_recorded(array: Array, key: object, value: object) -> None:
    """Record ``array[key] = value``. Some assignments whose key is a mask are executed immediately instead."""
    check_devices("indexing", (array, *key) if type(key) is tuple else (array, key))
    if isinstance(value, Array) and value.device is not array.device:
        if type(value) is Scalar:
            return assign_recorded(array, key, value.numpy()[()])
        here, there = array.device.name, value.device.name
        raise DeviceMismatchError(f"an array on {there} is assigned to one on {here}: move it with .to({here!r})")
    shown = _view_or_offset(array, key)
    fits = shown is not ... and (type(shown) is not int or not getattr(value, "shape", ()))
    if fits and type(value) in (Array, Scalar, int, float) and (array._view is None or all(array._view[1])):
        if type(shown) is int or not isinstance(value, Array) or value._storage is not array._storage:
            _write_memoized(array, key, ((), (), shown) if type(shown) is int else shown, value)
            return
        if value._view == shown and is_writable(array):
            _memoize_no_change(array, key, value)
            return  # the last step of ``x[key] += y``: the view has already been written
    location = start()
    check_writable(array)
    given = value
    if type(value) in SEQUENCES:
        value = without_sharing(value, array.dtype)
    if _assign_by_mask(array, key[0] if type(key) is tuple and len(key) == 1 else key, value, location):
        return
    index = resolve(array, key)
    if not index.advanced:
        value = _checked_value(given, value, index, array.dtype)
        target = _shown(array, index)
        if isinstance(value, Array) and value._storage is target._storage and value._view == target._view:
            return  # (the view has already been written)
    node, weak = value_operand(value, array.dtype)
    epoch = current_epoch(array.device)
    node = number_of(value, array.dtype, location, "set", epoch) if weak is not None else node
    warn_of_lost_parts(node.dtype, array.dtype)
    if not index.advanced:
        write(target, _fitted(node, target.shape, target.dtype))
        return
    plan = _lay_out_axes(index)
    node = _fitted(node, plan.shape, array.dtype)
    storage = array._storage
    arguments = node, *_flatten(index, plan), plan.shape, storage.device, location
    write_anew(storage, current_epoch(storage.device), lambda previous: scatter_assign(previous, *arguments))


def _assign_by_mask(array: Array, mask: Any, value: Any, location: Location) -> bool:
    """Call `assign_masked` and return its result, or return False if `mask` does not mask the leading axes."""
    if not isinstance(mask, (Array, np.ndarray)) or mask.dtype != bool or not mask.ndim:
        return False
    if mask.ndim == array.ndim and isinstance(value, (Array, np.ndarray)) and value.ndim > 1:
        raise TypeError(
            f"NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has {value.ndim} dimensions"
        )
    return mask.shape == array.shape[: mask.ndim] and assign_masked(array, mask, value, location)


def _checked_value(given: Any, value: Any, index: Index, dtype: np.dtype) -> Any:
    """Return the value of an assignment to a view, or raise NumPy's error if it does not fit.

    `value` is `given` or, if `given` is a sequence, an array. A sequence must not have surplus axes, even of length 1.
    """
    rank, axes = len(index.shape), getattr(value, "ndim", 0)
    if index.is_element and axes:
        made = np.empty(1, dtype)
        made[0] = given.numpy() if isinstance(given, Array) else given  # (raises an error, except for some bools)
        return made[0]
    if isinstance(value, np.generic) and value.dtype.kind != "c":
        np.empty(1, dtype)[0] = value  # (raises an error for a NaN, a date or an integer that is out of range)
    if axes > rank and type(given) in SEQUENCES:
        raise ValueError(
            f"setting an array element with a sequence. The requested array would exceed the maximum number of "
            f"dimension of {rank}."
        )
    return value


def _write_memoized(array: Array, key: object, view: View | None, value: object) -> None:
    """Record a write to a view, or repeat the memoized write of this call site."""
    where = user_location(3)
    found = _set_key(array, key, value, where)
    storage, epoch = array._storage, recording.epoch  # (in this order: a `Part` may have a new storage at each use)
    assert epoch is not None
    version = INTERNED.get(found)
    if version is not None and assign(storage, version, found[LEFT], epoch):
        count_hit()
        return
    slots = len(epoch.slots)
    start()
    now = current_epoch(storage.device)
    node = expr_of(value) if isinstance(value, Array) else number_of(value, storage.dtype, where, "set", now)
    target = wrap(storage, view)
    warn_of_lost_parts(node.dtype, storage.dtype)
    previous, version = write(target, _fitted(node, target.shape, target.dtype))
    # (Do not memoize if another thread has written to the array since, if the number has become a slot, or if each write
    # must warn of lost imaginary parts.)
    if found is None or previous is not found[LEFT] or recording.epoch is not epoch or len(epoch.slots) != slots:
        return
    if node.dtype.kind == "c" and storage.dtype.kind != "c":
        return
    INTERNED[found] = version
    if type(value) in (int, float):
        note_constant(found, *where, "set", 0)


def _memoize_no_change(array: Array, key: object, value: object) -> None:
    """Let native code skip an assignment of a view to itself. Such an assignment is the last step of ``x[key] += y``."""
    found = _set_key(array, key, value, user_location(3))
    if found is not None:
        INTERNED[found] = found[LEFT]


def _set_key(array: Array, key: object, value: object, where: Location) -> Any:
    """Return the memo key of ``array[key] = value``, or None if the assignment cannot be memoized."""
    epoch = current_epoch(array._storage.device)
    named: list[Any] = ["set", IN_PLACE, id(where[0]), where[1]]
    plain = (
        len(epoch.pending) < epoch.limit
        and type(array) is Array
        and all(describe(given, named, epoch, where) for given in (array, key, value))
        and keep_code(where[0])
    )
    return tuple(named) if plain else None


def _fitted(node: Expr, shape: tuple[int, ...], dtype: np.dtype) -> Expr:
    """Cast and broadcast an assigned value, after removing surplus leading axes of length 1."""
    own = node.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own, shape[len(shape) - len(own) :], strict=True)):
        given, wanted = shape_text(node.shape), shape_text(shape)
        raise ValueError(f"could not broadcast input array from shape {given} into shape {wanted}")
    return broadcast_to(cast(reshape(node, own) if own != node.shape else node, dtype), shape)


def apply_at(op: str, array: Array, key: object, values: Any) -> None:
    """Apply an op in place to the indexed elements, once for each occurrence of an index."""
    ufunc, operands = getattr(np, find_op(op).ufunc or "", None), () if values is None else (values,)
    kinds = implementation_of(find_op(op)).types
    if ufunc is not None and ((kinds >> array.dtype.num) & 1 or op in EXTREMES):
        if write_small(ufunc.at, (array, key, *operands), {}):
            return
    if values is None:
        _apply_at_on_host(op, array, key, values)
        return
    location = start()
    check_writable(array)
    index = resolve(array, key)
    node, weak = as_operand(values)
    kind = values if weak is not None else node.dtype
    if (
        np.result_type(array.dtype, kind) != array.dtype
        or resolve_dtypes(find_op(op), (array.dtype, array.dtype))[1] != array.dtype
    ):
        _apply_at_on_host(op, array, key, values)  # (NumPy casts the result back after each step)
        return
    node = constant(values, array.dtype) if weak is not None else node
    if not index.advanced:
        target = _shown(array, index)
        write(target, cast(map_(op, [expr_of(target), broadcast_to(node, target.shape)]), array.dtype))
        array._after_write()
        return
    plan = _lay_out_axes(index)
    storage = array._storage
    positions, terms = _flatten(index, plan)
    fitted = broadcast_to(cast(node, array.dtype), plan.shape)  # (unlike an assignment, without surplus axes)
    size = prod(plan.shape)
    value, flat = (reshape(each, (size,)) for each in (fitted, _flat_positions(positions, terms, plan.shape)))

    def update(previous: Expr) -> Expr:
        after = scatter_reduce(op, previous, value, flat, storage.device)
        return after or scatter(previous, fitted, [positions], terms, plan.shape, op, location)

    write_anew(storage, current_epoch(storage.device), update)
    array._after_write()


def _flat_positions(positions: Expr, terms: Terms, shape: tuple[int, ...]) -> Expr:
    """Return the positions of the selected elements in the flattened storage."""
    ((start, steps, _),) = terms
    kind = positions.dtype
    for axis, step in steps:
        along = map_("multiply", [iota(shape, axis, kind), constant(step, kind)])
        positions = map_("add", [positions, along])
    if start:
        positions = map_("add", [positions, constant(start, kind)])
    return broadcast_to(positions, shape)


def _apply_at_on_host(op: str, array: Array, key: object, values: Any) -> None:
    note_fallback(f"{op}.at", array, values)
    host = np.array(array.numpy())
    getattr(np, find_op(op).ufunc).at(host, to_host(key), *(() if values is None else (to_host(values),)))
    write(array, expr_of(convert(host)))


def nonzero(a: Any) -> tuple[Array, ...]:
    """Return the indices of the nonzero elements.

    The array is evaluated, because the number of indices depends on its elements.

    Examples
    --------
    >>> wf.nonzero([3, 0, 5])
    (array([0, 2]),)
    """
    if not isinstance(a, Array):
        return tuple(convert(k) for k in np.nonzero(a))
    mask = a if a.dtype == bool else record(cast(expr_of(a), np.dtype(bool)))
    return tuple(k if isinstance(k, Array) else convert(k) for k in find_true(mask))


getitem.records = "", 0, SHOW  # type: ignore[attr-defined]
setitem.records = "set", IN_PLACE, SET  # type: ignore[attr-defined]
