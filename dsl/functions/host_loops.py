"""Recorded operations that call NumPy functions on the CPU, block by block on all threads.

In: expressions. Out: opaque expressions. Invariant: the values do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.codegen as codegen  # (its names are loaded on first use)
import weft.runtime as runtime
from weft.fusion import Expr, Location, opaque

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike

# Minimum length of rows of bytes that are sorted by radix: 1,000,000 bytes take 1.1 ms instead of 26 ms.
COUNTED = 256


def sort_on_host(node: Expr, axis: int, kind: str | None, numbered: bool, location: Location) -> Expr:
    """Record a sort that NumPy computes on the host, or an argsort if `numbered` is true."""
    name, dtype = ("argsort", np.dtype(np.int64)) if numbered else ("sort", node.dtype)
    return opaque(HostSort(axis, kind, numbered), [node], node.shape, dtype, name, location)


@dataclass(frozen=True, slots=True)
class HostSort:
    """The host function that computes a recorded sort or argsort with NumPy."""

    axis: int
    kind: Any
    numbered: bool

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """Sort `values` in blocks on all threads, and write the elements or the indices to `out`."""
        axis, kind, numbered = self.axis, self.kind, self.numbered
        counted = not numbered and out.dtype.kind in "biu" and out.itemsize == 1 and out.shape[axis] >= COUNTED
        # (equal bytes are indistinguishable, and NumPy's stable sort is a radix sort)
        way: Any = "stable" if counted else kind

        def sort_block(index: Any) -> None:
            if numbered:
                out[index] = values[index].argsort(axis, kind)
            else:
                np.copyto(out[index], values[index])
                out[index].sort(axis, way)

        run_in_blocks(sort_block, out, axis)


def run_in_blocks(function: Callable[[Any], Any], values: np.ndarray, axis: int) -> None:
    """Call `function` on all threads, each time with the index of one block of an array.

    The array is not divided along `axis`.
    """
    other = max((k for k in range(values.ndim) if k != axis), key=lambda k: values.shape[k], default=axis)
    threads = codegen.resolve_target("host").threads
    # (per byte, these loops take longer than a copy)
    blocks = runtime.divide_axis(values.shape[other], 2 * values.nbytes, threads) if other != axis else [slice(None)]
    runtime.run_calls([partial(function, (slice(None),) * other + (block,)) for block in blocks], threads)


def opposite_of(values: ArrayLike) -> Callable[[Any], Any] | None:
    """Return a function, such as `numpy.negative`, that reverses the sort order of values but keeps NaNs last.

    The function is its own inverse. Return None if there is no such function, as for text.
    """
    kind = codegen.dtype_kind(np.asarray(values).dtype)
    return np.invert if kind in "bui" else np.negative if kind in "fc" else None


def host_sort(values: ArrayLike, axis: int, descending: bool) -> Any:
    """Return the elements in ascending or descending order, sorted by NumPy's stable sort."""
    if not descending:
        return np.sort(values, axis, "stable")
    opposite = opposite_of(values)
    if opposite is None:
        return np.flip(np.sort(np.flip(values, axis), axis, "stable"), axis)
    return opposite(np.sort(opposite(values), axis, "stable"))


def host_argsort(values: Any, axis: int, descending: bool) -> Any:
    """Return the indices that sort an array stably, in ascending or descending order."""
    opposite = opposite_of(values) if descending else np.asarray
    if opposite is not None:
        return np.argsort(opposite(values), axis, "stable")
    return values.shape[axis] - 1 - np.flip(np.argsort(np.flip(values, axis), axis, "stable"), axis)
