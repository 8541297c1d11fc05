"""Assignment and selection through boolean masks.

In: an array, a mask of its first axes, and for an assignment the value. Out: a new version of the storage, the selected
elements, or the positions of the true elements. Recorded assignments of several values (except those of pending
selections), and positions on a GPU, use a scan that counts the mask's true elements: the k-th true element gets the
k-th value, and its index is the k-th position. On the CPU, positions, and selections that do not stay pending
(`pending_selections.py`), are computed immediately, by NumPy or by a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate, pairwise
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft import fusion
from weft.dsl.arrays.array import Array, adopt_new, as_operand, expr_of, record, wrap, write
from weft.dsl.arrays.numbers import number_of
from weft.dsl.arrays.pending_selections import SPARSE, assign_selection, elements_of, select_later
from weft.dsl.arrays.positions import rank
from weft.dsl.arrays.results import value_operand
from weft.dsl.arrays.validation import warn_of_lost_parts
from weft.dsl.immediate.index_at_call import put_masked
from weft.fusion import (
    Expr,
    Location,
    Storage,
    cast,
    compile_price,
    constant,
    current_epoch,
    evaluate,
    gather,
    iota,
    map_,
    recording,
    reduce_,
    reshape,
    scan,
)
from weft.runtime import FIXED, IMMEDIATE, Device

_INT64 = np.dtype(np.int64)

_KINDS = {np.dtype(code).itemsize: np.dtype(code) for code in "BHILD"}  # a dtype by item size, to copy items

# On the CPU, NumPy finds the true elements of masks with at most this many elements: `SMALL` for masks with several
# axes, `SMALL_ROW` for masks with one axis.
SMALL, SMALL_ROW = 1 << 14, 1 << 17
# Maximum number of mask elements for assignments that run immediately, unless few values are assigned.
BLOCK = 1 << 16
# If few values are assigned, factor by which a mask may exceed the usual limit of immediate execution: NumPy reads 64
# mask elements in the time of one element of another dtype.
MOST_LOOKED_AT = 64


def assign_masked(array: Array, mask: Any, value: Any, where: Location) -> bool:
    """Execute or record ``array[mask] = value``, and return whether this was possible."""
    if type(value) is Array and type(mask) is Array and mask.shape == array.shape and value.size > 1:
        node = assign_selection(array, mask, value)
        if node is not None:
            warn_of_lost_parts(node.dtype, array.dtype)
            write(array, map_("where", [expr_of(mask), cast(node, array.dtype), expr_of(array)]))
            return True
    several = isinstance(value, (Array, np.ndarray)) and value.ndim == 1 and value.size > 1
    few = several and value.size <= IMMEDIATE[0] and mask.size <= MOST_LOOKED_AT * IMMEDIATE[FIXED]
    if (few or mask.size <= BLOCK) and (several or not _is_recorded(mask)) and put_masked(array, mask, value):
        return True
    # Evaluate the mask first: recorded expressions are valid only until something is evaluated.
    if several and (mask.ndim != array.ndim or not mask.size or not _justifies_scan(array, mask, value.size)):
        return False
    node, weak = value_operand(value, array.dtype)
    if not several and (node.size != 1 or len(node.shape) > 1):
        return False
    if weak is not None:
        node = number_of(value, array.dtype, where, "set", current_epoch())
    warn_of_lost_parts(node.dtype, array.dtype)
    test = _test(mask, array.ndim)
    node = _distribute(test, node) if several else reshape(node, ())
    write(array, map_("where", [test, cast(node, array.dtype), expr_of(array)]))
    return True


def _is_recorded(mask: Any) -> bool:
    """Return whether a mask is pending in the current recording."""
    return type(mask) is Array and mask._storage.buffer is None and mask._storage.epoch is recording.epoch


def _test(mask: Any, ndim: int) -> Expr:
    test = as_operand(mask)[0]
    return reshape(test, test.shape + (1,) * (ndim - len(test.shape)))


def _justifies_scan(array: Array, mask: Any, values: int) -> bool:
    """Return whether ``array[mask] = x`` should use a scan (prefix sum) of the mask. The scan gives each selected element its index in `x`.

    The mask must select `values` elements, the length of `x`. On the CPU, it must also select at least one element in `SPARSE`.
    """
    taken = _count(mask) if isinstance(mask, Array) else int(np.count_nonzero(mask))
    return taken == values and (array._storage.device.name != "cpu" or taken * SPARSE >= mask.size)


def _distribute(test: Expr, values: Expr) -> Expr:
    """Return an expression with the given values, in order, at the true elements of a mask.

    The other elements of the expression are arbitrary.
    """
    counts = _counts(test)
    kind = counts.dtype
    first = map_("subtract", [counts, constant(1, kind)])
    position = reshape(map_("maximum", [first, constant(0, kind)]), test.shape)
    return gather(values, [position], ((0, (), 0),), test.shape)


def _counts(test: Expr) -> Expr:
    kind = np.dtype(np.int32 if test.size < 2**31 else np.int64)
    return scan("add", cast(reshape(test, (test.size,)), kind), 0, kind)


def _count(mask: Array) -> int:
    """Evaluate a mask and return the number of its true elements."""
    if mask._storage.device.name == "cpu":
        evaluate([mask._storage], aside=True)
        return int(np.count_nonzero(mask.numpy()))
    count = record(reduce_("add", cast(expr_of(mask), _INT64), tuple(range(mask.ndim)), _INT64))
    evaluate([count._storage, mask._storage], aside=True)
    return int(count)


def select(array: Array, mask: Array) -> Array | None:
    """Return ``array[mask]`` on the CPU, as a pending selection or computed immediately.

    Return None for arrays and masks on other devices, for 0-d masks, and for masks whose shape does not match the
    array's leading axes.
    """
    device, own = array.device, mask.shape
    if device.name != "cpu" or mask.device is not device or not own or own != array.shape[: len(own)]:
        return None
    if prod(own) > IMMEDIATE[0] and (later := select_later(array, mask)) is not None:
        return later
    if (mask._device is None and mask._storage.buffer is None) or (
        array._device is None and array._storage.buffer is None
    ):
        evaluate([mask._storage, array._storage], aside=recording.held)
    values, test = elements_of(array), elements_of(mask)
    if len(own) > 1 and values.flags.c_contiguous and test.flags.c_contiguous:
        values, test = values.reshape(test.size, *values.shape[len(own) :]), test.reshape(-1)
    return _collect(values, test, device)


@cache
class MaskCopier:
    """A callable that copies the items that a mask selects.

    If the item size is None, it writes the positions of the items instead. NumPy finds the items until this has taken
    as much time as the compilation of a kernel. Then a kernel is compiled, if kernels support the item size.
    """

    def __init__(self, width: int | None) -> None:
        self._kind = None if width is None else _KINDS.get(width)
        self._has_kernel = width is None or width in _KINDS
        self._spent = 0.0
        self.run: Callable[..., None] | None = fusion.find_masked_copy(self._kind) if self._has_kernel else None

    def __call__(self, values: np.ndarray, mask: np.ndarray, out: np.ndarray, threads: int) -> None:
        """Fill the array `out` with the items of `values` that a 1-D mask selects. The mask must select exactly ``len(out)`` items."""
        if self.run is not None:
            self.run(values, mask, out, threads)
        else:  # (Only "clip" writes into memory of this dtype without a copy. All positions are in range.)
            values.take(self.find(mask), axis=0, out=out, mode="clip")

    def find(self, mask: np.ndarray) -> np.ndarray:
        """Return the positions of the true elements, found by NumPy.

        Compile the kernel once these searches have taken longer than the compilation is expected to take.
        """
        begin = perf_counter()
        found = np.flatnonzero(mask)
        self._spent += perf_counter() - begin
        if self._spent > compile_price() and self._has_kernel:
            self._spent = 0.0
            form = f"the compilation of selections by masks of {'positions' if self._kind is None else self._kind}"
            kernel = partial(fusion.compile_masked_copy, self._kind)
            self.run = runtime.try_compiling(form, "NumPy copies them, which is slower", kernel)
        return found


def _collect(values: Any, test: np.ndarray, device: Device) -> Array:
    """Return an array of the items that a mask selects, or of their flat positions if `values` is None."""
    rest, dtype = ((), _INT64) if values is None else (values.shape[test.ndim :], values.dtype)
    count, width = int(np.count_nonzero(test)), prod(rest) * dtype.itemsize
    copier = MaskCopier(None if values is None else width)
    if values is None and copier.run is None:  # (on several threads, NumPy finds them no faster)
        return adopt_new(copier.find(test), device)
    # (A quarter of the work, because one thread nearly saturates the memory bandwidth.)
    threads = runtime.thread_count()
    blocks = runtime.divide_axis(len(test), (test.size + 2 * count * width) // 4, threads)
    if len(blocks) == 1:
        found = adopt_new(out := np.empty((count, *rest), dtype), device)
    else:  # (memory that the device has used before is already mapped)
        memory = device.allocate(count * width)
        found = wrap(Storage((count, *rest), dtype, device, memory))
        out = device.view_memory(memory, dtype, found.shape)
    if copier.run and test.ndim == 1 and test.flags.c_contiguous and (values is None or values.flags.c_contiguous):
        copier.run(values, test, out, min(len(blocks), threads))
        return found

    def copy(block: slice, out: np.ndarray) -> None:  # (of one block, so that copies of it stay in the cache)
        part, taken = (np.ascontiguousarray(x[block]) for x in (values, test))
        copier(part.reshape(taken.size, *rest), taken.reshape(-1), out, 1)

    ends = [0, *accumulate([int(np.count_nonzero(test[block])) for block in blocks[:-1]]), count]
    calls = [partial(copy, block, out[begin:end]) for block, (begin, end) in zip(blocks, pairwise(ends), strict=True)]
    runtime.run_calls(calls, len(blocks))
    return found


def find_true(mask: Array) -> tuple[np.ndarray | Array, ...]:
    """Return the indices of the true elements of a mask, as one array per axis.

    On a GPU, the flat position of each true element is found by a binary search in the scan of the mask.
    """
    device = mask._storage.device
    if device.name == "cpu" or not mask.ndim or not mask.size:
        evaluate([mask._storage], aside=True)
        values = mask.numpy()
        if values.size <= (SMALL_ROW if values.ndim == 1 else SMALL):
            return np.nonzero(values)
        flat_positions = _collect(None, np.ascontiguousarray(values).reshape(-1), device)
        return _along_axes(expr_of(flat_positions), mask.shape) if mask.ndim > 1 else (flat_positions,)
    shape = (_count(mask),)
    if not shape[0]:
        return (np.empty(0, np.int64),) * mask.ndim
    counts = _counts(expr_of(mask))
    kind = counts.dtype
    wanted = map_("add", [iota(shape, 0, kind), constant(1, kind)])
    return _along_axes(cast(rank(counts, wanted, "left", kind), _INT64), mask.shape)


def _along_axes(flat: Expr, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Convert positions in a flattened array to one index array for each axis."""
    found = []
    for axis, n in enumerate(shape):
        step = prod(shape[axis + 1 :])
        along = map_("floor_divide", [flat, constant(step, _INT64)]) if step > 1 else flat
        found.append(record(map_("remainder", [along, constant(n, _INT64)]) if axis else along))
    return tuple(found)
