"""Dense linear algebra on a GPU with cuSOLVER, if nvmath-python is installed.

In: matrices on the device, by address, in column-major order. Out: factors and solutions, written to device memory.
Invariant: each call waits for the library's error report, and returns it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.libraries import DeviceLibrary
from weft.runtime.cuda.streams import StreamOrder
from weft.runtime.device import Buffer

LOWER, UPPER = 0, 1
PLAIN, TRANSPOSED = 0, 1
VECTORS, NO_VECTORS = 1, 0
# dtype -> cudaDataType, and the prefix of the names of older functions.
KINDS = {"f": (0, "s"), "d": (1, "d"), "F": (4, "c"), "D": (5, "z")}
ALL, SOME, NONE = ord("A"), ord("S"), ord("N")


class Solver(DeviceLibrary):
    """The cuSOLVER library for one device.

    Methods write to their operands, and return cuSOLVER's `info`: 0 on success, and otherwise a number that
    describes the failure. Matrices are given by address, in column-major order without gaps.

    Parameters
    ----------
    driver, order, allocate, library
        Those of `DeviceLibrary`.
    read : callable
        Copies device memory at an address to a NumPy array, after all work in the stream of the calling thread.
    """

    BINDINGS, TITLE = "cusolverDn", "cuSOLVER"

    def __init__(
        self,
        driver: Driver,
        order: StreamOrder,
        allocate: Callable[[int], Buffer],
        read: Callable[[int, np.ndarray], None],
        library: Any = None,
    ) -> None:
        super().__init__(driver, order, allocate, library)
        self._read = read
        self._handle: int | None = None
        self._options: int | None = None

    def cholesky(self, a: int, n: int, dtype: np.dtype, upper: bool) -> int:
        """Replace one triangle of a Hermitian matrix with the Cholesky factor of the matrix."""
        kind, _ = KINDS[dtype.char]
        given = (UPPER if upper else LOWER, n, kind, a, n, kind)
        return self._factor("xpotrf", given, given)

    def factor(self, a: int, n: int, dtype: np.dtype, pivots: Buffer) -> int:
        """Replace a square matrix with its LU factors, and write the pivots.

        The pivots are 64-bit integers, counted from 1.
        """
        kind, _ = KINDS[dtype.char]
        return self._factor("xgetrf", (n, n, kind, a, n, kind), (n, n, kind, a, n, pivots.address, kind))

    def solve(self, factors: int, n: int, pivots: Buffer, b: int, columns: int, dtype: np.dtype, turned: bool) -> int:
        """Replace the columns of `b` with the solutions of linear equations, given LU factors.

        With `turned`, the equations have the transposed matrix.
        """
        kind, _ = KINDS[dtype.char]
        way = TRANSPOSED if turned else PLAIN
        given = (way, n, columns, kind, factors, n, pivots.address, kind, b, n)
        with self._lock:
            report = self._allocate(4)
            self._enqueue("xgetrs", *given, report.address)
            return self._report(report)

    def eigenvalues(self, a: int, n: int, dtype: np.dtype, values: int, upper: bool, vectors: bool) -> int:
        """Compute the eigenvalues of a Hermitian matrix.

        The matrix is overwritten, with the eigenvectors if `vectors` is true.
        """
        kind, _ = KINDS[dtype.char]
        real = KINDS[dtype.char.lower()][0]
        mode = VECTORS if vectors else NO_VECTORS
        given = (mode, UPPER if upper else LOWER, n, kind, a, n, real, values, kind)
        return self._factor("xsyevd", given, given)

    def singular_values(
        self, a: int, rows: int, columns: int, dtype: np.dtype, values: int, left: int, right: int, full: bool
    ) -> int:
        """Compute the singular values of a matrix, and optionally the singular vectors.

        The matrix is overwritten. The matrix has at least as many rows as columns. `right` receives the conjugate
        transpose of the right vectors.
        """
        kind, _ = KINDS[dtype.char]
        real = KINDS[dtype.char.lower()][0]
        mode = (ALL if full else SOME) if left else NONE
        given = (mode, mode, rows, columns, kind, a, rows, real, values, kind, left, rows, kind, right, columns, kind)
        return self._factor("xgesvd", given, given)

    def triangular_factor(self, a: int, rows: int, columns: int, dtype: np.dtype, scales: Buffer) -> int:
        """Compute the QR factorization of a matrix in place.

        R replaces the upper triangle, and the reflectors of Q replace the elements below.
        """
        kind, _ = KINDS[dtype.char]
        given = (rows, columns, kind, a, rows, kind, scales.address, kind)
        return self._factor("xgeqrf", given, given)

    def orthogonal_factor(self, a: int, rows: int, columns: int, count: int, dtype: np.dtype, scales: Buffer) -> int:
        """Compute the leading columns of Q from the reflectors of a QR factorization, in place."""
        prefix = KINDS[dtype.char][1]
        name = f"{prefix}{'un' if dtype.kind == 'c' else 'or'}gqr"
        given = (rows, columns, count, a, rows, scales.address)
        with self._lock:
            elements = int(self._enqueue(f"{name}_buffer_size", *given))
            work, report = self._allocate(max(elements, 1) * dtype.itemsize), self._allocate(4)
            self._enqueue(name, *given, work.address, elements, report.address)
            return self._report(report)

    def _factor(self, name: str, sized: tuple[Any, ...], given: tuple[Any, ...]) -> int:
        """Call a cuSOLVER function that needs workspaces, and return its error report.

        The workspaces are on the device and on the host.
        """
        with self._lock:
            there, here = self._enqueue(f"{name}_buffer_size", *sized)
            work, report = self._allocate(max(there, 1)), self._allocate(4)
            host = np.empty(max(here, 1), np.uint8)  # (in use until the report is read)
            self._enqueue(name, *given, work.address, there, host.ctypes.data, here, report.address)
            return self._report(report)

    def _report(self, report: Buffer) -> int:
        value = np.empty(1, np.int32)
        self._read(report.address, value)
        return int(value[0])

    def _enqueue(self, name: str, *arguments: Any) -> Any:
        """Call a cuSOLVER function in the calling thread's stream. cuSOLVER's handle is created by the first call."""
        with self._order.lock:
            if self._handle is None:
                self._handle = int(self._call("create"))
            if self._options is None:
                self._options = int(self._call("create_params"))
            self._call("set_stream", self._handle, int(self._order.enter(None)))
            options = (self._options,) if name.startswith("x") else ()  # (older functions have none)
            return self._call(name, self._handle, *options, *arguments)

    def __del__(self) -> None:
        if getattr(self, "_options", None) is not None:
            self._release("destroy_params", self._options)
        if getattr(self, "_handle", None) is not None:
            self._release("destroy", self._handle)
