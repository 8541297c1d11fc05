"""NumPy's sorting functions, computed by radix sort kernels on a GPU and by NumPy on the CPU.

In: arrays. Out: recorded arrays. Invariant: sorts are stable on a GPU for every requested kind, and NaNs come last.
NumPy handles arrays in host memory, with the machine's widest vector instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import dtype_kind
from weft.dsl.arrays.array import Array, as_operand, expr_of, record, start, write
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.memory_order import memory_order, permuted, unpermuted
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.host_loops import host_argsort, host_sort, sort_on_host
from weft.dsl.functions.manipulation import moveaxis, ravel
from weft.dsl.immediate.index_at_call import write_small
from weft.fusion import Expr, Location, cast, contiguous_strides, gather, map_, opaque
from weft.runtime import device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Function, ShapeLike

# Maximum length of an axis that kernels can sort.
MOST = 2**31 - 1
_INT64 = np.dtype(np.int64)
# NumPy's names of sorting algorithms.
_KINDS = frozenset({"quicksort", "heapsort", "mergesort", "stable"})
_SORTED = """

The array API standard defines the `descending` option.

On a GPU, a stable radix sort is used. NaNs are last in ascending and in descending order."""


def is_sorted_here(a: ArrayLike, axis: int | None, kinds: str = "biufc") -> bool:
    """Return whether weft should sort an array with its own kernels instead of NumPy. The result is False unless the array is on a GPU."""
    if not isinstance(a, Array) or not is_gpu(a.device) or not a.size or dtype_kind(a.dtype) not in kinds:
        return False
    if axis is None:
        return a.size <= MOST
    return a.ndim > 0 and a.shape[normalize_axis(axis, a.ndim)] <= MOST


def on_host(function: Function, *arguments: Any, **options: Any) -> Any:
    """Call a NumPy function on the host."""
    return call_numpy(function, arguments, options)


# -- recording ----------------------------------------------------------------------------------


def _ordered(node: Expr, descending: bool, numbered: bool, location: Location) -> Expr:
    """Record a sort along the last axis, or an argsort if `numbered` is true."""
    if dtype_kind(node.dtype) == "c":
        # NaNs divide complex numbers into four classes, which have the same order in both directions. Within a class,
        # the real part is compared first.
        real, imag = (map_(name, [node], location=location) for name in ("real", "imag"))
        bits = [cast(map_("isnan", [part]), np.uint8) for part in (real, imag)]
        kinds = map_("add", [map_("add", [bits[0], bits[0]]), bits[1]])
        within = _lexical([imag, real], descending, location)
        classes = _ordered(_along_rows(kinds, within), False, True, location)
        order = _along_rows(within, classes)
        return order if numbered else _along_rows(node, order)
    # (This import loads the kernel language and all modules that it needs.)
    call = import_module("weft.dsl.functions.radix_sort").RadixSort(descending, numbered)
    name, kind = ("argsort", _INT64) if numbered else ("sort", node.dtype)
    return opaque(call, [packed(node)], node.shape, kind, name, location)


def packed(node: Expr) -> Expr:
    """Return `node`, or a contiguous copy if `node` is a view that is not contiguous."""
    if node.kind != "view" or node.attrs[0] == contiguous_strides(node.shape):
        return node
    return map_("bitwise_or", [node, node]) if node.dtype.kind == "b" else map_("positive", [node])


def _along_rows(node: Expr, order: Expr) -> Expr:
    """Reorder each row of `node` by the indices in the same row of `order`, like `numpy.take_along_axis` for the last axis."""
    steps = contiguous_strides(node.shape)
    before = tuple((axis, step) for axis, step in enumerate(steps[:-1]))
    return gather(node, [order], ((0, before, 0),), order.shape)


def _lexical(keys: list[Expr], descending: bool, location: Location) -> Expr:
    """Return the indices that sort each row by several keys, like `numpy.lexsort`. The last key is the primary key."""
    order = _ordered(keys[0], descending, True, location)
    for key in keys[1:]:
        nearer = _ordered(_along_rows(key, order), descending, True, location)
        order = _along_rows(order, nearer)
    return order


def order_along(a: Array, axis: Any, descending: bool, numbered: bool) -> Array:
    """Sort along an axis, or sort the flattened array if the axis is None.

    If `numbered` is true, return the sorting indices.
    """
    location = start()
    flat = ravel(a) if axis is None else a
    which = 0 if axis is None else normalize_axis(axis, a.ndim)
    with device(a.device):
        rows = moveaxis(flat, which, -1)
        return moveaxis(record(_ordered(expr_of(rows), descending, numbered, location)), -1, which)


# -- order ------------------------------------------------------------------------------------------


def _sort_or_argsort(numbered: bool, a: Any, axis: Any, kind: Any, order: Any, stable: Any, descending: Any) -> Any:
    """Sort an array, or return the sorting indices if `numbered` is true."""
    if order is None and is_sorted_here(a, axis):
        if (kind is not None or stable is not None) and not descending:
            np.empty(0).sort(0, kind, stable=stable)  # raises NumPy's error for an unknown or a second algorithm
        return order_along(a, axis, bool(descending), numbered)
    if not descending:
        known = order is None and stable is None and (kind is None or kind in _KINDS)
        # (For a single row, NumPy computes the sorting indices immediately.)
        rows = isinstance(a, Array) and (a.ndim > 1 and axis is not None if numbered else a.ndim)
        if known and rows and a.size and dtype_kind(a.dtype) in "biufc":
            location = start()
            flat = ravel(a) if axis is None else a
            which = normalize_axis(-1 if axis is None else axis, flat.ndim)
            if not numbered and (turned := memory_order([flat])) is not None:
                return unpermuted(sort(permuted(flat, turned), turned.index(which), kind), turned)
            with device(a.device):
                return record(sort_on_host(expr_of(flat), which, kind, numbered, location))
        return on_host(np.argsort if numbered else np.sort, a, axis, kind, order, stable=stable)
    backward = host_argsort if numbered else host_sort
    return on_host(backward, a if axis is not None else ravel(a), -1 if axis is None else axis, True)


def _make_sort(name: str) -> Callable[..., Any]:
    def function(
        a: ArrayLike,
        axis: int = -1,
        kind: str | None = None,
        order: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
    ) -> Any:
        return _sort_or_argsort(name == "argsort", a, axis, kind, order, stable, descending)

    return named(name, function, _SORTED)  # type: ignore[no-any-return]


sort, argsort = map(_make_sort, ("sort", "argsort"))


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the indices that sort a sequence of keys, like `numpy.lexsort`.

    The last key is the primary key.

    Examples
    --------
    >>> wf.lexsort([[1, 0, 1], [5, 5, 4]])
    array([2, 1, 0])
    """
    separable = isinstance(keys, (Array, tuple, list))
    several: list[Any] = [keys[k] for k in range(len(keys))] if separable else []
    alike = several and all(isinstance(key, Array) and key.shape == several[0].shape for key in several)
    if not alike or not all(is_sorted_here(key, axis) and key.device is several[0].device for key in several):
        return on_host(np.lexsort, keys, axis)
    location = start()
    which = normalize_axis(axis, several[0].ndim)
    with device(several[0].device):
        nodes = [expr_of(moveaxis(key, which, -1)) for key in several]
        return moveaxis(record(_lexical(nodes, False, location)), -1, which)


def _partition(numbered: bool, a: Any, kth: Any, axis: Any, kind: str, order: str | None) -> Any:
    """Partition an array, or return the partitioning indices if `numbered` is true.

    On a GPU, the whole array is sorted.
    """
    if order is not None or not is_sorted_here(a, axis):
        return on_host(np.argpartition if numbered else np.partition, a, kth, axis, kind, order)
    n = a.size if axis is None else a.shape[normalize_axis(axis, a.ndim)]
    for index in np.atleast_1d(np.asarray(kth)).ravel():
        if index.dtype.kind in "iu" and not -n <= index < n:
            raise ValueError(f"kth(={index + n if index < 0 else index}) out of bounds ({n})")
    np.empty(1).partition(np.zeros_like(np.asarray(kth)), 0, kind)  # type: ignore[arg-type]  # raises NumPy's error for other indices or kinds
    return order_along(a, axis, False, numbered)


def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None) -> Any:
    """Return a copy of an array, partitioned at the indices `kth`, like `numpy.partition`.

    The elements at these indices are in their sorted positions. On a GPU, the whole copy is sorted.

    Examples
    --------
    >>> wf.partition([7, 1, 5], 1)[1]
    np.int64(5)
    """
    return _partition(False, a, kth, axis, kind, order)


def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None) -> Any:
    """Return the indices that partition an array around its `kth` elements, like `numpy.argpartition`.

    On a GPU, the returned indices sort the whole array.

    Examples
    --------
    >>> x = wf.asarray([7, 1, 5])
    >>> x[wf.argpartition(x, 0)][0]
    np.int64(1)
    """
    return _partition(True, a, kth, axis, kind, order)


# -- methods -------------------------------------------------------------------------------------------


def sort_in_place(
    self: Array, axis: int = -1, kind: str | None = None, order: str | None = None, **options: Any
) -> None:
    """Sort the array in place along an axis."""
    if not options and write_small(np.ndarray.sort, (self, axis, kind, order), {}):
        return
    normalize_axis(axis, self.ndim)
    write(self, as_operand(sort(self, axis, kind, order, **options))[0])


def partition_in_place(
    self: Array, kth: ShapeLike, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> None:
    """Partition the array in place along an axis, like `numpy.ndarray.partition`."""
    if write_small(np.ndarray.partition, (self, kth, axis, kind, order), {}):
        return
    normalize_axis(axis, self.ndim)
    write(self, as_operand(partition(self, kth, axis, kind, order))[0])
