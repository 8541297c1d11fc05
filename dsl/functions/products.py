"""Matrix products that BLAS computes immediately.

In: matrices and vectors. Out: their product, or None if it should be recorded. If both operands are in host memory,
BLAS computes even large products immediately, since no other operation would fuse with them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, adopt_new, wrap
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.small_work import dot_whole
from weft.fusion import Storage, evaluate, recording
from weft.runtime import IMMEDIATE, Device, Listening

# Sums of at most `SHORT_SUM` products are bound by memory bandwidth, as are batches of matrices that have at most
# `SMALL_MATRIX` rows and columns.
SHORT_SUM = 8
SMALL_MATRIX = 8
# NumPy casts operands of at most ``MOST_CAST * IMMEDIATE[0]`` elements. Kernels cast larger ones on several threads.
MOST_CAST = 8
_NUMERIC = frozenset("biufc")


def is_fused(device: Device, kind: np.dtype, rows: int, columns: int, length: int, batch: int) -> bool:
    """Return whether a fused kernel, rather than BLAS, should compute a matrix product."""
    known = "efdFD" if device.name.startswith("cuda") else "fdFD"  # a GPU's BLAS supports half precision
    short = 1 if kind.kind == "c" else SHORT_SUM  # (kernels multiply complex numbers more slowly than BLAS)
    if kind.char not in known or length <= short or rows == columns == 1:
        return True
    if 1 in (rows, columns):
        # The product of a matrix and a vector: on the host, BLAS is 1.5 times as fast, and reads the operands in place.
        return device.name != "cpu"
    return batch > 1 and max(rows, columns, length) <= SMALL_MATRIX


def multiply_into(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Write the product of the matrices `a` and `b` to `out`."""
    np.matmul(a, b, out=out)


def multiply(a: Any, b: Any) -> Array | None:
    """Multiply matrices or vectors immediately, or return None if the product should be recorded.

    Also return None for unsupported operands, and for a large operand if the dtypes differ. Smaller operands are cast
    to a common dtype. Pending operands are evaluated if the product or all of these operands are small, since more
    small operations probably follow. While listeners are registered, products are recorded, so that they are reported
    to the listeners.
    """
    devices = [value.device for value in (a, b) if type(value) is Array]
    if not devices or devices[0] is not devices[-1] or Listening.listeners:
        return None
    if any(type(value) is not Array and type(value) is not np.ndarray for value in (a, b)):
        return None
    x, y, device = a.shape, b.shape, devices[0]
    if not 0 < len(x) <= 2 or not 0 < len(y) <= 2 or x[-1] != y[0] or not a.size or not b.size:
        return None
    kind = a.dtype
    if b.dtype != kind:
        if max(a.size, b.size) > MOST_CAST * IMMEDIATE[0] or not {kind.kind, b.dtype.kind} <= _NUMERIC:
            return None
        kind = np.result_type(kind, b.dtype)
    elif len(x) == len(y) == 1 and device.host_math and (number := dot_whole(a, b)) is not None:
        VALUE_READS[0] += 1
        return number  # type: ignore[no-any-return]
    if is_fused(device, kind, a.size // x[-1], b.size // x[-1], x[-1], 1):
        return None
    shape = x[:-1] + y[1:]
    few = prod(shape) <= IMMEDIATE[0]
    if not few and not device.memory_on_host:
        return None
    given = _in_memory((a, b), few)
    if given is None:
        return None
    VALUE_READS[0] += 1
    if a.dtype != b.dtype:
        given = [values.astype(kind, copy=False) for values in given]  # (`matmul` would cast in small pieces)
    if few:
        return adopt_new(np.matmul(*given), device)
    memory = device.allocate(prod(shape) * kind.itemsize)
    multiply_into(device.view_memory(memory, kind, shape), *given)
    return wrap(Storage(shape, kind, device, memory))


def _in_memory(operands: tuple[Any, ...], few: bool) -> list[np.ndarray] | None:
    """Return operands as NumPy arrays, or None if an operand is not in host memory.

    Pending operands are evaluated if they or the product are small.
    """
    given = [_elements(value) for value in operands]
    pending = [value for value, values in zip(operands, given, strict=True) if values is None]
    if pending:
        small = few or all(value.size <= IMMEDIATE[0] for value in pending)
        if not small or recording.held or pending[0].device.name != "cpu":
            return None
        evaluate([value._storage for value in pending])
        given = [_elements(value) for value in operands]
    found = [values for values in given if values is not None]
    return found if len(found) == len(given) else None


def _elements(value: Any) -> np.ndarray | None:
    return values_of(value) if type(value) is Array else value
