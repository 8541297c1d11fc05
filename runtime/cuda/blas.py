"""Matrix products on a GPU with cuBLAS, if cuBLAS is installed.

In: matrices on the device, by address and strides. Out: their product, enqueued in the calling thread's stream.
Invariant: computation has the full precision of the dtype (float16 sums in float32, no TensorFloat-32). Operands that
cuBLAS does not support are rejected, not copied.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import StreamOrder
from weft.runtime.cuda.toolkit import find_library
from weft.runtime.device import Operand
from weft.runtime.errors import CudaError, PerformanceWarning, WeftError, warn_user
from weft.runtime.fork_locks import renew_in_children

NAMES = ("libcublas.so.13", "libcublas.so.12")
PLAIN, TRANSPOSED = 0, 1
DEFAULT_ALGORITHM = -1
INVALID, UNSUPPORTED = 7, 15
FULL_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums of float16 are not rounded to float16
MOST = 2**31 - 1
MISSING = "matrix products run on the host: cuBLAS is not installed (pip install 'weft[cuda13]' or nvidia-cublas)"
BROKEN = "matrix products run on the host: {} failed with status {}; cuBLAS may need a newer driver"
# dtype name -> cudaDataType, cublasComputeType, and the dtype of the scaling factors.
KINDS: dict[str, tuple[int, int, np.dtype]] = {
    "float16": (2, 68, np.dtype(np.float32)),
    "bfloat16": (14, 68, np.dtype(np.float32)),
    "float32": (0, 68, np.dtype(np.float32)),
    "float64": (1, 70, np.dtype(np.float64)),
    "complex64": (4, 68, np.dtype(np.complex64)),
    "complex128": (5, 70, np.dtype(np.complex128)),
}

_Layout = tuple[tuple[int, ...], tuple[int, ...]]  # the shape and the strides of an operand

# The types of the parameters of cublasGemmStridedBatchedEx.
_INT, _POINTER, _LONG = ctypes.c_int, ctypes.c_void_p, ctypes.c_longlong
PARAMETERS = (
    _POINTER,
    *(_INT, _INT, _INT, _INT, _INT, _POINTER),
    *(_POINTER, _INT, _INT, _LONG) * 2,
    *(_POINTER, _POINTER, _INT, _INT, _LONG, _INT, _INT, _INT),
)
# The factors 1 and 0 in each dtype, which cuBLAS reads from host memory, and their addresses.
_NUMBERS = {kind.char: np.array([1, 0], kind) for _, _, kind in KINDS.values()}
_FACTORS = {char: (pair.ctypes.data, pair.ctypes.data + pair.itemsize) for char, pair in _NUMBERS.items()}


class Blas:
    """The cuBLAS library for one device. By default, it is searched for on this machine. Tests pass a stand-in."""

    def __init__(self, driver: Driver, order: StreamOrder, library: Any = None) -> None:
        self._driver = driver
        self._order = order
        self._library = library
        self._handle: Any = None
        self._missing = False
        self._lock = threading.Lock()
        renew_in_children(self, threading.Lock)

    def multiply(self, out: int, left: Operand, right: Operand, dtype: np.dtype) -> bool:
        """Compute a product like `numpy.matmul`, and write it to the address `out` in C order.

        An operand is a vector, or a stack of matrices whose rows and columns are the last two axes. It is given by the
        address of the first element, the shape, and the strides in elements.

        Return False if cuBLAS is missing, cannot be initialized or does not support the operands. Raises CudaError if
        the product fails.
        """
        found = _plan_product(left[1:], right[1:])
        if found is not None and not found.count:
            return True
        kind = KINDS.get(dtype.name)
        if found is None or kind is None or not self._ready():
            return False
        (one, zero), size = _FACTORS[kind[2].char], dtype.itemsize
        (first, first_row, first_step), (second, second_row, second_step) = found.layouts
        n, k, m = found.extents
        for number, (here, there) in enumerate(found.offsets):
            # cuBLAS is column-major: its m x n matrix is an n x m matrix in C order
            code = self._call(
                *(second, first, m, n, k, one),
                *(right[0] + size * there, kind[0], second_row, second_step),
                *(left[0] + size * here, kind[0], first_row, first_step),
                *(zero, out + size * n * m * found.count * number, kind[0], m, n * m),
                *(found.count, kind[1], DEFAULT_ALGORITHM),
            )
            if code in (INVALID, UNSUPPORTED) and not number:
                return False
            _check("cublasGemmStridedBatchedEx", code)
        return True

    def _ready(self) -> bool:
        """Load cuBLAS and create a handle on first use, and return whether cuBLAS can be used.

        The handle cannot be created if, for example, the installed cuBLAS needs a newer driver.
        """
        with self._lock:
            if self._handle is not None or self._missing:
                return not self._missing
            if self._library is None:
                self._library = find_library(NAMES)
                if self._library is None:
                    warn_user(MISSING, PerformanceWarning)
                    self._missing = True
                    return False
                self._library.cublasGemmStridedBatchedEx.argtypes = PARAMETERS
            handle = ctypes.c_void_p()
            name, code = self._driver.within(self._create, handle)
            if code:
                warn_user(BROKEN.format(name, code), PerformanceWarning)
                self._missing = True
                return False
            self._handle = handle
            return True

    def _create(self, handle: ctypes.c_void_p) -> tuple[str, int]:
        """Create a cuBLAS handle.

        Return the name and the status of the failed function, or of the last function if none failed.
        """
        if code := self._library.cublasCreate_v2(ctypes.byref(handle)):
            return "cublasCreate_v2", code
        if code := self._library.cublasSetMathMode(handle, FULL_SUMS):
            self._library.cublasDestroy_v2(handle)
        return "cublasSetMathMode", code

    def _call(self, *arguments: Any) -> int:
        """Enqueue a product in the calling thread's stream, and return cuBLAS's status."""
        with self._order.lock:
            queue = ctypes.c_void_p(int(self._order.enter(None)))

            def call() -> int:
                _check("cublasSetStream_v2", self._library.cublasSetStream_v2(self._handle, queue))
                return int(self._library.cublasGemmStridedBatchedEx(self._handle, *arguments))

            return self._driver.within(call)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and not (self._driver.lost or self._driver.silent):
            with suppress(WeftError):
                self._driver.within(self._library.cublasDestroy_v2, self._handle)


@dataclass(frozen=True, slots=True)
class _Product:
    """The cuBLAS calls that compute a matrix product.

    Attributes
    ----------
    extents : (int, int, int)
        Rows of the left matrices, columns of the left matrices, and columns of the right matrices.
    layouts : tuple of (int, int, int)
        For each operand, the operation, the leading dimension, and the number of elements from one matrix of a call to
        the next.
    count : int
        Matrices of a call; 0 if the product has no elements.
    offsets : tuple
        For each call, the number of elements before the first matrix of each operand.
    """

    extents: tuple[int, int, int]
    layouts: tuple[tuple[int, int, int], ...]
    count: int
    offsets: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=1024)
def _plan_product(left: _Layout, right: _Layout) -> _Product | None:
    """Return the cuBLAS calls for a matrix product, or None if cuBLAS does not support it."""
    (a, a_steps), (b, b_steps) = _as_matrix(*left, row=True), _as_matrix(*right, row=False)
    n, k, m = a[-2], a[-1], b[-1]
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    if not (n * m * prod(lead)):
        return _Product((n, k, m), (), 0, ())
    first, second = _layout(a, a_steps), _layout(b, b_steps)
    if first is None or second is None or not k or max(n, m, k, first[1], second[1]) > MOST:
        return None
    *outer, (count, *steps) = _merge_axes(lead, _lead_strides(a, a_steps, lead), _lead_strides(b, b_steps, lead))
    if count > MOST:
        return None
    layouts = tuple((*layout, step) for layout, step in zip((first, second), steps, strict=True))
    indices = product(*(range(extent) for extent, _, _ in outer))
    offsets = tuple(
        tuple(sum(i * axis[side] for i, axis in zip(index, outer, strict=True)) for side in (1, 2)) for index in indices
    )
    return _Product((n, k, m), layouts, count, offsets)


def _merge_axes(lead: tuple[int, ...], left: list[int], right: list[int]) -> list[tuple[int, int, int]]:
    """Return the leading axes as (extent, left stride, right stride), merged where possible.

    Axes of length 1 are dropped, and adjacent axes are merged if both operands allow it.
    """
    axes: list[tuple[int, int, int]] = []
    for extent, first, second in zip(lead, left, right, strict=True):
        if axes and axes[-1][1:] == (first * extent, second * extent):
            axes[-1] = axes[-1][0] * extent, first, second
        elif extent > 1:
            axes.append((extent, first, second))
    return axes or [(1, 0, 0)]


def _check(name: str, code: int) -> None:
    if code:
        raise CudaError(name, int(code), f"cuBLAS status {code}")


def _as_matrix(shape: tuple[int, ...], strides: tuple[int, ...], row: bool) -> _Layout:
    """Return the shape and the strides of an operand as a matrix: a vector becomes one row or one column."""
    if len(shape) > 1:
        return shape, strides
    (length,), (step,) = shape, strides
    return ((1, length), (length * max(step, 1), step)) if row else ((length, 1), (step, 1))


def _layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int] | None:
    """Return cuBLAS's operation and leading dimension for the transpose of a matrix.

    The operation is plain or transposed. Return None if cuBLAS cannot read the matrix.
    """
    rows, columns = shape[-2:]
    down, right = strides[-2:]
    if columns == 1:
        right = 1
    if rows == 1 and right == 1:
        down = max(columns, 1)
    if right == 1 and down >= columns:
        return PLAIN, down
    if rows == 1:
        down = 1
    if down == 1 and right >= rows:
        return TRANSPOSED, right
    return None


def _lead_strides(shape: tuple[int, ...], strides: tuple[int, ...], lead: tuple[int, ...]) -> list[int]:
    """Return an operand's strides along the leading axes of a product.

    The stride is 0 for axes that the operand does not have, and for axes of length 1.
    """
    own = len(shape) - 2
    missing = len(lead) - own
    return [0] * missing + [strides[axis] if shape[axis] == lead[missing + axis] != 1 else 0 for axis in range(own)]
