"""Products of matrices by BLAS, and which products are left to it.

In: matrices and vectors. Out: their product, computed at the call where both are in host memory, of any size: no other
operation would fuse with it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dsl.array import LOOKS, Array, born, realise, wrap
from weft.dsl.host_values import values_of
from weft.fusion import Storage, recording
from weft.runtime import IMMEDIATE, Device, Listening

# A sum of so few products moves more bytes than it computes with; so do matrices this small, many at once.
SHORT_SUM = 8
SMALL_MATRIX = 8


def is_fused(device: Device, kind: np.dtype, rows: int, columns: int, length: int, batch: int) -> bool:
    """Whether a product of matrices, on a device, is a sum of products in a kernel."""
    known = "efdFD" if device.name.startswith("cuda") else "fdFD"  # a GPU's library has half precision
    if kind.char not in known or length <= SHORT_SUM or rows == columns == 1:
        return True
    if 1 in (rows, columns):
        # a matrix and a vector: on the host BLAS is faster by half, and is handed them where they lie
        return device.name != "cpu"
    return batch > 1 and max(rows, columns, length) <= SMALL_MATRIX


def multiply_into(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Write the product of two matrices."""
    np.matmul(a, b, out=out)


def multiply(a: Any, b: Any) -> Array | None:
    """Return the product of matrices and vectors in host memory; None where it is recorded, or none of BLAS's.

    Small pending operands are evaluated. Listeners hear of products, so they are recorded then.
    """
    given: list[np.ndarray] = []
    home: Device | None = None
    for value in (a, b):
        values = value
        if type(value) is Array:
            if home is not None and value.device is not home:
                return None
            home = value.device
            values = values_of(value)
            if values is None and home.name == "cpu" and value.size <= IMMEDIATE[0] and not recording.held:
                realise(value._storage)
                values = values_of(value)
        if type(values) is not np.ndarray or not 0 < values.ndim <= 2:
            return None
        given.append(values)
    x, y = given
    length = x.shape[-1]
    if home is None or x.dtype != y.dtype or length != y.shape[0] or not x.size or not y.size or Listening.listeners:
        return None
    if is_fused(home, x.dtype, x.size // length, y.size // length, length, 1):
        return None
    LOOKS[0] += 1
    shape = x.shape[:-1] + y.shape[1:]
    if prod(shape) <= IMMEDIATE[0]:
        return born(np.matmul(x, y), home)
    storage = Storage(shape, x.dtype, home, home.allocate(prod(shape) * x.itemsize))
    multiply_into(home.lend(storage.buffer, x.dtype, shape), x, y)  # type: ignore[attr-defined]
    return wrap(storage)
