"""Recorded operations that call NumPy functions on the CPU, block by block on all threads.

In: expressions. Out: opaque expressions. Invariant: the values do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def reduce_on_host(op: str, node: Expr, axes: tuple[int, ...], keepdims: bool, location: Location) -> Expr:
    """Record a reduction that NumPy computes on the host: a maximum, minimum, `argmax` or `argmin`."""
    shape = tuple(1 if k in axes else n for k, n in enumerate(node.shape) if keepdims or k not in axes)
    dtype = np.dtype(np.int64) if op[:3] == "arg" else node.dtype
    return opaque(HostReduction(op, axes), [node], shape, dtype, op, location)


def sort_on_host(node: Expr, axis: int, kind: str | None, numbered: bool, location: Location) -> Expr:
    """Record a sort that NumPy computes on the host, or an argsort if `numbered` is true."""
    name, dtype = ("argsort", np.dtype(np.int64)) if numbered else ("sort", node.dtype)
    return opaque(HostSort(axis, kind, numbered), [node], node.shape, dtype, name, location)


@dataclass(frozen=True, slots=True)
class HostReduction:
    """The host function that computes a recorded reduction with NumPy."""

    op: str
    axes: tuple[int, ...]

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """Reduce `values` in blocks on all threads, and write the result to `out`."""
        op, axes = self.op, self.axes
        function: Any = getattr(np, op) if op[:3] == "arg" else getattr(np, op).reduce
        if len(axes) == values.ndim:
            out[...] = _reduce_all(function, op, values)
            return
        kept = [k for k in range(values.ndim) if k not in axes]
        found = out.reshape([values.shape[k] for k in kept])
        along = max(range(len(kept)), key=lambda k: values.shape[kept[k]])
        axis: Any = axes[0] if op[:3] == "arg" else axes
        calls = []
        # (a block with short rows takes as long as one with long rows)
        for block in _blocks(values, kept[along], 4 if axes[-1] > kept[along] else 1):
            target = found[(slice(None),) * along + (block,)]
            own = values[(slice(None),) * kept[along] + (block,)]
            calls.append(partial(function, own, axis=axis, out=target))
        _run(calls)


def _reduce_all(function: Callable[..., Any], op: str, values: np.ndarray) -> Any:
    """Reduce an array to one value, in blocks on all threads."""
    flat = values.reshape(-1)
    blocks = _blocks(flat, 0)
    found = np.empty(len(blocks), np.int64 if op[:3] == "arg" else values.dtype)

    def reduce(k: int) -> None:
        found[k] = function(flat[blocks[k]])

    _run([partial(reduce, k) for k in range(len(blocks))])
    if op[:3] != "arg":
        return function(found)
    found += [block.start or 0 for block in blocks]
    return found[function(flat[found])]


@dataclass(frozen=True, slots=True)
class HostSort:
    """The host function that computes a recorded sort or argsort with NumPy."""

    axis: int
    kind: Any
    numbered: bool

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """Sort `values` along the axis in blocks on all threads, and write the result to `out`."""
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

    A block contains whole rows along `axis`.
    """
    other = max((k for k in range(values.ndim) if k != axis), key=lambda k: values.shape[k], default=axis)
    blocks = _blocks(values, other) if other != axis else [slice(None)]
    _run([partial(function, (slice(None),) * other + (block,)) for block in blocks])


def _run(calls: Sequence[Callable[[], Any]]) -> None:
    runtime.run_calls(calls, codegen.resolve_target("host").threads)


def _blocks(values: np.ndarray, axis: int, each: int = 4) -> list[slice]:
    # (these loops take several times as long per byte as a copy)
    return runtime.divide_axis(values.shape[axis], 8 * values.nbytes, codegen.resolve_target("host").threads, each)


def opposite_of(values: ArrayLike) -> Callable[[Any], Any] | None:
    """Return a function, such as `numpy.negative`, that reverses the sort order of values but keeps NaNs last.

    The function is its own inverse. Return None if there is no such function, as for text.
    """
    kind = codegen.dtype_kind(np.asarray(values).dtype)
    return np.invert if kind in "bui" else np.negative if kind in "fc" else None


def host_sort(values: ArrayLike, axis: int, descending: bool) -> Any:
    """Return the sorted elements, computed by NumPy's stable sort."""
    if not descending:
        return np.sort(values, axis, "stable")
    opposite = opposite_of(values)
    if opposite is None:
        return np.flip(np.sort(np.flip(values, axis), axis, "stable"), axis)
    return opposite(np.sort(opposite(values), axis, "stable"))


def host_argsort(values: Any, axis: int, descending: bool) -> Any:
    """Return the indices that sort the elements, computed by NumPy's stable argsort."""
    opposite = opposite_of(values) if descending else np.asarray
    if opposite is not None:
        return np.argsort(opposite(values), axis, "stable")
    return values.shape[axis] - 1 - np.flip(np.argsort(np.flip(values, axis), axis, "stable"), axis)
