"""Indexing: views for basic indices, gathers and scatters for arrays of indices, masks.

In: an array and NumPy's index expressions. Out: views, gathered copies, or new versions of the storage. Indices
are checked at once: an array of indices that is still pending is evaluated for that.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.dsl.array import Array, as_operand, convert, expr_of, record, scalar, start, whole, write
from weft.dsl.manipulation import window
from weft.fusion import (
    Expr,
    Storage,
    assign,
    broadcast_shapes,
    broadcast_to,
    cast,
    constant,
    current_epoch,
    gather,
    map_,
    operand,
    reshape,
    scatter,
)

_BOOLS = (bool, np.bool_)


@dataclass(slots=True)
class Index:
    """An index taken apart: one entry an axis of the array."""

    shape: list[int]  # of the basic part, axis by axis
    strides: list[int]
    offset: int
    advanced: list[tuple[int, np.ndarray, int, int]]  # place among the result's axes, positions, axis length, stride


def _expand(key: Any, ndim: int) -> list[Any]:
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum(0 if item is None or item is Ellipsis else _axes_of(item) for item in items)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    at = next(k for k, item in enumerate(items) if item is Ellipsis)
    items[at : at + 1] = [slice(None)] * (ndim - used)
    return items


def _axes_of(item: Any) -> int:
    if isinstance(item, _BOOLS):
        return 0
    if isinstance(item, (Array, np.ndarray)) and item.dtype == bool:
        return item.ndim
    if isinstance(item, list) and item and np.asarray(_plain(item)).dtype == bool:
        return np.asarray(_plain(item)).ndim
    return 1


def _plain(item: Any) -> Any:
    return (
        [_plain(v) for v in item]
        if isinstance(item, (list, tuple))
        else item.numpy()
        if isinstance(item, Array)
        else item
    )


def resolve(array: Array, key: Any) -> Index:
    """Take an index apart. Raises IndexError as NumPy does."""
    shape, strides, offset = array._view or whole(array._storage)
    index = Index([], [], offset, [])
    axis = 0
    for item in _expand(key, array.ndim):
        if item is None:
            index.shape.append(1)
            index.strides.append(0)
        elif isinstance(item, slice):
            begin, stop, step = slice(*map(_as_bound, (item.start, item.stop, item.step))).indices(shape[axis])
            length = len(range(begin, stop, step))
            index.offset += begin * strides[axis] if length else 0
            index.shape.append(length)
            index.strides.append(step * strides[axis])
            axis += 1
        elif isinstance(item, _BOOLS):
            positions = np.zeros(1 if item else 0, np.int64)
            index.advanced.append((len(index.shape), positions, 1, 0))
        elif _is_integer(item):
            number = int(item.__index__())
            if not -shape[axis] <= number < shape[axis]:
                raise IndexError(f"index {number} is out of bounds for axis {axis} with size {shape[axis]}")
            index.offset += number % shape[axis] * strides[axis]
            axis += 1
        else:
            axis = _advanced(index, item, shape, strides, axis)
    return index


def _as_bound(value: Any) -> Any:
    return None if value is None else operator.index(value)


def _is_integer(item: Any) -> bool:
    if isinstance(item, (int, np.integer)):
        return True
    return isinstance(item, (Array, np.ndarray)) and item.ndim == 0 and item.dtype.kind in "iu"


def _advanced(index: Index, item: Any, shape: tuple[int, ...], strides: tuple[int, ...], axis: int) -> int:
    values = item.numpy() if isinstance(item, Array) else np.asarray(_plain(item))
    if values.size == 0 and not isinstance(item, (Array, np.ndarray)):
        values = values.astype(np.int64)
    if values.dtype == bool:
        for k, n in enumerate(values.shape):
            if n != shape[axis + k]:
                raise IndexError(
                    f"boolean index did not match indexed array along axis {axis + k}; size of axis is {shape[axis + k]} but size of corresponding boolean axis is {n}"
                )
        for k, positions in enumerate(np.nonzero(values)):
            index.advanced.append((len(index.shape), positions, shape[axis + k], strides[axis + k]))
        return axis + values.ndim
    if values.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
        )
    n = shape[axis]
    if values.size and (values.min() < -n or values.max() >= n):
        wrong = values[(values < -n) | (values >= n)].flat[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {n}")
    positions = np.where(values < 0, values + n, values).astype(np.int64)
    index.advanced.append((len(index.shape), positions, n, strides[axis]))
    return axis + 1


def getitem(array: Array, key: Any) -> Array:
    """``array[key]``: a view for a basic index, a copy else; an element is a copy, as NumPy's scalars are."""
    if type(key) is not tuple and isinstance(key, Array) and key.dtype == bool and key.ndim == 0:
        key = bool(key)
    index = resolve(array, key)
    if not index.advanced:
        shape = tuple(index.shape)
        if not shape and (array.ndim or not isinstance(key, tuple) or key):
            if key is Ellipsis or (isinstance(key, tuple) and any(k is Ellipsis for k in key)):
                return window(array, shape, (), index.offset)
            storage = array._storage
            if storage.buffer is not None and storage.device.name == "cpu":
                return _element(storage, index.offset)
            start()
            return record(expr_of(window(array, shape, (), index.offset)))
        return window(array, shape, tuple(index.strides), index.offset)
    start()
    plan = _places(index, key, array.ndim)
    base = operand(array._storage)
    positions = _positions(index, plan)
    return record(gather(base, [_index_expr(positions, plan.index_shape)], _terms(plan), plan.shape))


def _element(storage: Storage, offset: int) -> Array:
    """An element of memory on the host: copied at once, which costs less than planning to copy it."""
    assert storage.buffer is not None
    values = storage.device.download(storage.buffer, storage.dtype, (offset + 1,))
    return scalar(Storage((), storage.dtype, storage.device, storage.device.upload(values[offset])))


@dataclass(slots=True)
class Places:
    """Where the axes of an indexing result come from."""

    shape: tuple[int, ...]
    index_shape: tuple[int, ...]  # shape of the index operand: broadcastable to shape
    steps: tuple[tuple[int, int], ...]  # result axis and stride in the storage
    broadcast: tuple[int, ...]


def _places(index: Index, key: Any, ndim: int) -> Places:
    try:
        common = broadcast_shapes(*(positions.shape for _, positions, _, _ in index.advanced))
    except ValueError:
        shapes = " ".join(str(p.shape).replace(" ", "") for _, p, _, _ in index.advanced)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes} "
        ) from None
    places = [place for place, _, _, _ in index.advanced]
    together = places[0] == places[-1] and not _separated(key, ndim)
    at = places[0] if together else 0
    basic = list(zip(index.shape, index.strides, strict=True))
    shape = tuple([n for n, _ in basic[:at]] + list(common) + [n for n, _ in basic[at:]])
    steps = tuple((k if k < at else k + len(common), stride) for k, (_, stride) in enumerate(basic) if stride)
    index_shape = (1,) * at + common + (1,) * (len(basic) - at)
    return Places(shape, index_shape, steps, common)


def _separated(key: Any, ndim: int) -> bool:
    """Whether slices stand between the advanced indices, integers counted among these."""
    kinds = [not (item is None or isinstance(item, slice)) for item in _expand(key, ndim)]
    inside = False
    ended = False
    for advanced in kinds:
        if advanced and ended:
            return True
        inside = inside or advanced
        ended = inside and not advanced
    return False


def _positions(index: Index, plan: Places) -> np.ndarray:
    total = np.full(plan.broadcast, index.offset, np.int64)
    for _, positions, _, stride in index.advanced:
        total = total + positions * stride
    return total


def _index_expr(positions: np.ndarray, shape: tuple[int, ...]) -> Expr:
    return reshape(expr_of(convert(positions)), shape)


def _terms(plan: Places) -> tuple[tuple[int, tuple[tuple[int, int], ...], int], ...]:
    return ((0, plan.steps, 0),)


def setitem(array: Array, key: Any, value: Any) -> None:
    """``array[key] = value`` with NumPy's broadcasting and casting."""
    location = start()
    shape, strides, _ = array._view or whole(array._storage)
    if array.size and any(s == 0 and n > 1 for n, s in zip(shape, strides, strict=True)):
        raise ValueError("assignment destination is read-only")
    if (isinstance(key, Array) and key.dtype == bool) or (isinstance(key, np.ndarray) and key.dtype == bool):
        if key.shape == array.shape[: key.ndim] and _masked_set(array, key, value):
            return
    index = resolve(array, key)
    target = window(array, tuple(index.shape), tuple(index.strides), index.offset)
    if (
        not index.advanced
        and isinstance(value, Array)
        and value._storage is array._storage
        and value._view == target._view
    ):
        return  # the last step of ``x[key] += y``: the view has been written through already
    node, weak = as_operand(value)
    if weak is complex and array.dtype.kind != "c":
        raise TypeError(f"float() argument must be a string or a real number, not '{type(value).__name__}'")
    node = constant(value, array.dtype) if weak is not None else node
    if not index.advanced:
        write(target, _fitted(node, target.shape, target.dtype))
        return
    plan = _places(index, key, array.ndim)
    node = _fitted(node, plan.shape, array.dtype)
    storage = array._storage
    epoch = current_epoch(storage.device)
    previous = operand(storage, epoch)
    positions = _index_expr(_positions(index, plan), plan.index_shape)
    assign(storage, scatter(previous, node, [positions], _terms(plan), plan.shape, location=location), epoch)


def _fitted(node: Expr, shape: tuple[int, ...], dtype: np.dtype) -> Expr:
    """A value for a destination: leading axes of length 1 that it has too many are left out."""
    own = node.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own, shape[len(shape) - len(own) :], strict=True)):
        raise ValueError(f"could not broadcast input array from shape {node.shape} into shape {shape}")
    return broadcast_to(cast(reshape(node, own) if own != node.shape else node, dtype), shape)


def _masked_set(array: Array, mask: Any, value: Any) -> bool:
    """``array[mask] = value`` without looking at the mask, where the value is one for all."""
    node, weak = as_operand(value)
    if node.size != 1 or len(node.shape) > 1:
        return False
    if weak is not None:
        node = constant(value, array.dtype)
    test = as_operand(mask)[0]
    test = reshape(test, test.shape + (1,) * (array.ndim - len(test.shape)))
    write(array, map_("where", [test, cast(reshape(node, ()), array.dtype), expr_of(array)]))
    return True


def fold_at(op: str, array: Array, key: Any, values: Any) -> None:
    """``ufunc.at``: fold values into elements, each index in turn."""
    location = start()
    index = resolve(array, key)
    node, weak = as_operand(values)
    node = constant(values, array.dtype) if weak is not None else node
    if not index.advanced:
        target = window(array, tuple(index.shape), tuple(index.strides), index.offset)
        write(target, cast(map_(op, [expr_of(target), node]), array.dtype))
        return
    plan = _places(index, key, array.ndim)
    storage = array._storage
    epoch = current_epoch(storage.device)
    previous = operand(storage, epoch)
    positions = _index_expr(_positions(index, plan), plan.index_shape)
    fitted = _fitted(node, plan.shape, array.dtype)
    assign(storage, scatter(previous, fitted, [positions], _terms(plan), plan.shape, op, location), epoch)


def nonzero(a: Any) -> tuple[Array, ...]:
    """Indices of the elements that are not 0 (evaluates the array: their number is data)."""
    values = a.numpy() if isinstance(a, Array) else np.asarray(a)
    return tuple(convert(k) for k in np.nonzero(values))


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Elements at indices along an axis."""
    from weft.dsl.manipulation import ravel
    from weft.dsl.reductions import normalize_axis
    from weft.dsl.ufunc import as_array, deliver

    array = as_array(a)
    if axis is None:
        array, axis = ravel(array), 0
    place = normalize_axis(axis, array.ndim)
    which = indices.numpy() if isinstance(indices, Array) else np.asarray(indices)
    if mode == "wrap":
        which = which % array.shape[place]
    elif mode == "clip":
        which = np.clip(which, 0, array.shape[place] - 1)
    if which.ndim == 0:
        which = int(which)  # type: ignore[assignment]
    result = getitem(array, (slice(None),) * place + (which,))
    if isinstance(which, int):
        result = result.copy()  # type: ignore[attr-defined]
    return result if out is None else deliver("positive", expr_of(result), out)


__all__ = ["fold_at", "getitem", "nonzero", "resolve", "setitem", "take"]
