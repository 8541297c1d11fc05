"""Matrix decompositions, determinants, inverses, and solutions of linear equations.

In: arrays. Out: results of NumPy, or of cuSOLVER on a GPU that has it. Invariant: errors are those of NumPy, raised by
the call. cuSOLVER gets private copies, since it writes to its operands; recorded operations fuse with the copy.

cuSOLVER's matrices are column-major: it reads the transpose of a matrix in C order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from weft.dsl.arrays.array import Array, convert, wrap
from weft.dsl.arrays.memory_order import in_order
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.functions.creation import asarray, eye
from weft.dsl.functions.linear import matmul
from weft.dsl.functions.manipulation import broadcast_to, linalg_diagonal, swapaxes
from weft.dsl.functions.selection import where
from weft.dsl.functions.triangles import tril, triu
from weft.fusion import Storage, broadcast_shapes, realise
from weft.runtime import Buffer, Device, device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike

LinAlgError = np.linalg.LinAlgError


def _solver_of(*arrays: Any) -> Any | None:
    """Return cuSOLVER for matrices on a GPU, or None if NumPy must compute the result."""
    kinds = [a for a in arrays if isinstance(a, Array)]
    if not kinds or len(kinds) < len(arrays) or any(a.ndim < 2 or not a.size for a in kinds):
        return None
    solver = kinds[0].device.solver
    known = all(a.dtype.char in "?bBhHiIlLqQfdFD" and a.device is kinds[0].device for a in kinds)
    return solver if solver is not None and known and solver.is_available() else None


def _is_square(a: Array) -> bool:
    return a.shape[-1] == a.shape[-2]


def _common(*arrays: Array) -> np.dtype:
    """Return the common dtype of arrays if LAPACK and cuSOLVER support it, otherwise float64."""
    kind = np.result_type(*(a.dtype for a in arrays))
    return kind if kind.char in "fdFD" else np.dtype(np.float64)


class _Matrices:
    """A stack of matrices in a separate buffer, which a library may overwrite."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.device, self.shape, self.dtype = device, shape, np.dtype(dtype)
        self.count, self.size = prod(shape[:-2]), prod(shape[-2:])
        self.buffer: Buffer = device.allocate(max(prod(shape), 1) * self.dtype.itemsize)

    def at(self, number: int) -> int:
        """Return the address of matrix `number`."""
        return self.buffer.address + number * self.size * self.dtype.itemsize

    def array(self, shape: tuple[int, ...] | None = None) -> Array:
        """Return the matrices as an array over the buffer, which the library must no longer access."""
        return wrap(Storage(shape or self.shape, self.dtype, self.device, self.buffer))


def _copied(a: Array, dtype: np.dtype, turned: bool = False) -> _Matrices:
    """Copy matrices, transposed if `turned` is true, to a new buffer in C order."""
    source = in_order((swapaxes(a, -1, -2) if turned else a).astype(dtype, copy=False), "C")
    source = source.copy() if source._view is not None else source
    made = _Matrices(a.device, source.shape, dtype)
    a.device.copy(realise(source._storage), made.buffer, source.nbytes)  # type: ignore[attr-defined]
    return made


def _run(matrices: _Matrices, call: Callable[[int], int], message: str) -> None:
    """Call a library function for each matrix, and raise LinAlgError if a call reports a failure."""
    for number in range(matrices.count):
        if call(number):
            _fail(message)


def _fail(message: str) -> NoReturn:
    raise LinAlgError(message)


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Any:
    """Return the Cholesky factor of a Hermitian matrix, like `numpy.linalg.cholesky`.

    Examples
    --------
    >>> wf.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    solver = _solver_of(a)
    if solver is None or not _is_square(a):  # type: ignore[arg-type]
        return call_numpy(np.linalg.cholesky, (a,), {"upper": upper})
    x = asarray(a)
    with device(x.device):
        own, n = _copied(x, _common(x)), x.shape[-1]
        _run(own, lambda k: solver.cholesky(own.at(k), n, own.dtype, not upper), "Matrix is not positive definite")
        return triu(own.array()) if upper else tril(own.array())


def _factored(solver: Any, x: Array, dtype: np.dtype) -> tuple[_Matrices, Buffer, list[int]]:
    """Compute the LU factors of each matrix's transpose.

    Return the factors, the pivots and, for each matrix, a number that is nonzero if the matrix is singular.
    """
    own, n = _copied(x, dtype), x.shape[-1]
    pivots = x.device.allocate(own.count * n * 8)
    parts = [Buffer(x.device, pivots.address + k * n * 8, n * 8, pivots) for k in range(own.count)]
    return own, pivots, [solver.factor(own.at(k), n, dtype, parts[k]) for k in range(own.count)]


def _solved(solver: Any, x: Array, right: _Matrices, turned: bool) -> None:
    """Solve linear systems with the matrices `x`, overwriting the right-hand sides in the rows of `right`.

    Raises LinAlgError for a singular matrix.
    """
    own, pivots, failed = _factored(solver, x, right.dtype)
    n = x.shape[-1]
    if any(failed):
        _fail("Singular matrix")

    def solve(k: int) -> int:
        part = Buffer(x.device, pivots.address + k * n * 8, n * 8, pivots)
        return int(solver.solve(own.at(k), n, part, right.at(k), right.shape[-2], right.dtype, turned))

    _run(right, solve, "Singular matrix")


def inv(a: ArrayLike) -> Any:
    """Return the inverse of a matrix, like `numpy.linalg.inv`.

    Examples
    --------
    >>> wf.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    solver = _solver_of(a)
    if solver is None or not _is_square(a):  # type: ignore[arg-type]
        return call_numpy(np.linalg.inv, (a,), {})
    x = asarray(a)
    with device(x.device):
        # The inverse of the transpose, in column-major order, is the inverse in C order.
        right = _copied(broadcast_to(eye(x.shape[-1]), x.shape), _common(x))
        _solved(solver, x, right, False)
        return right.array()


def solve(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the solution of a system of linear equations, like `numpy.linalg.solve`.

    Examples
    --------
    >>> wf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    array([1. , 0.5])
    """
    vector = isinstance(b, Array) and b.ndim == 1
    columns = b[:, None] if vector else b  # type: ignore[call-overload, index]
    solver = _solver_of(a, columns)
    if solver is None or not _is_square(a) or columns.shape[-2] != a.shape[-1]:  # type: ignore[arg-type, union-attr]
        return call_numpy(np.linalg.solve, (a, b), {})
    x, y = asarray(a), asarray(columns)
    with device(x.device):
        lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = broadcast_to(x, lead + x.shape[-2:]), broadcast_to(y, lead + y.shape[-2:])
        right = _copied(y, _common(x, y), turned=True)
        _solved(solver, x, right, True)
        found = swapaxes(right.array(), -1, -2)
        return found[..., 0] if vector else in_order(found, "C")


def _signed_diagonal(solver: Any, x: Array) -> tuple[Array, Array]:
    """Return U's diagonal in the LU factorization of each matrix's transpose, and the permutation's sign."""
    own, pivots, _ = _factored(solver, x, _common(x))
    n = x.shape[-1]
    host = np.empty((own.count, n), np.int64)
    x.device.read(pivots.address, host)  # type: ignore[attr-defined]
    moved = (host != np.arange(1, n + 1)).sum(axis=-1) % 2
    real = np.dtype(own.dtype.char.lower())
    return linalg_diagonal(own.array()), convert((1 - 2 * moved).astype(real).reshape(x.shape[:-2]))


def det(a: ArrayLike) -> Any:
    """Return the determinant of a matrix, like `numpy.linalg.det`.

    Examples
    --------
    >>> wf.linalg.det([[2.0, 0.0], [0.0, 4.0]])
    np.float64(8.0)
    """
    solver = _solver_of(a)
    if solver is None or not _is_square(a):  # type: ignore[arg-type]
        return call_numpy(np.linalg.det, (a,), {})
    x = asarray(a)
    with device(x.device):
        diagonal, sign = _signed_diagonal(solver, x)
        return diagonal.prod(axis=-1) * sign


def slogdet(a: ArrayLike) -> Any:
    """Return the sign and the logarithm of the absolute value of the determinant, like `numpy.linalg.slogdet`.

    Examples
    --------
    >>> sign, logarithm = wf.linalg.slogdet([[2.0, 0.0], [0.0, 0.5]])
    >>> float(sign), float(logarithm)
    (1.0, 0.0)
    """
    solver = _solver_of(a)
    if solver is None or not _is_square(a):  # type: ignore[arg-type]
        return call_numpy(np.linalg.slogdet, (a,), {})
    x = asarray(a)
    with device(x.device):
        diagonal, sign = _signed_diagonal(solver, x)
        size = UFUNCS["absolute"](diagonal)
        signs = where(size == 0, 0, diagonal / where(size == 0, 1, size)).prod(axis=-1) * sign
        return _kind_of_result("slogdet")(signs, UFUNCS["log"](size).sum(axis=-1))


def _kind_of_result(name: str) -> Callable[..., Any]:
    """Return the class of the named tuples that a function in `numpy.linalg` returns."""
    return type(getattr(np.linalg, name)(np.eye(1)))


def _eigen(a: Any, rule: str, vectors: bool) -> Any:
    solver = _solver_of(a)
    name = "eigh" if vectors else "eigvalsh"
    if solver is None or not _is_square(a) or str(rule).upper() not in ("L", "U"):
        return call_numpy(getattr(np.linalg, name), (a, rule), {})
    x = asarray(a)
    with device(x.device):
        own, n = _copied(x, _common(x)), x.shape[-1]
        values = _Matrices(x.device, (*x.shape[:-2], 1, n), np.dtype(own.dtype.char.lower()))
        upper = str(rule).upper() == "L"  # (of the transpose)

        def call(k: int) -> int:
            return int(solver.eigenvalues(own.at(k), n, own.dtype, values.at(k), upper, vectors))

        _run(own, call, "Eigenvalues did not converge")
        found = values.array((*x.shape[:-2], n))
        if not vectors:
            return found
        # the transpose of a Hermitian matrix has the conjugate eigenvectors, which are the rows in C order
        rows = own.array().conj() if own.dtype.kind == "c" else own.array()
        return _kind_of_result("eigh")(found, swapaxes(rows, -1, -2))


def eigh(a: ArrayLike, UPLO: str = "L") -> Any:
    """Return the eigenvalues and eigenvectors of a Hermitian matrix, like `numpy.linalg.eigh`.

    Examples
    --------
    >>> wf.linalg.eigh([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
    array([2., 3.])
    """
    return _eigen(a, UPLO, True)


def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Any:
    """Return the eigenvalues of a Hermitian matrix, like `numpy.linalg.eigvalsh`.

    Examples
    --------
    >>> wf.linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]])
    array([2., 3.])
    """
    return _eigen(a, UPLO, False)


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Return the QR factorization of a matrix, like `numpy.linalg.qr`.

    Examples
    --------
    >>> abs(wf.linalg.qr([[3.0, 0.0], [4.0, 5.0]]).R).round(6)
    array([[5., 4.],
           [0., 3.]])
    """
    solver = _solver_of(a)
    if solver is None or mode not in ("reduced", "complete", "r"):
        return call_numpy(np.linalg.qr, (a, mode), {})
    x = asarray(a)
    with device(x.device):
        m, n = x.shape[-2:]
        k = min(m, n)
        own = _copied(x, _common(x), turned=True)
        scales = [x.device.allocate(k * own.dtype.itemsize) for _ in range(own.count)]
        failure = "Incorrect argument found while performing QR factorization"
        _run(own, lambda i: solver.triangular_factor(own.at(i), m, n, own.dtype, scales[i]), failure)
        count = m if mode == "complete" else k
        upper = triu(swapaxes(own.array(), -1, -2)[..., :count, :])
        if mode == "r":
            return upper
        left = _Matrices(x.device, (*x.shape[:-2], count, m), own.dtype)
        nbytes = m * min(n, count) * own.dtype.itemsize
        for i in range(own.count):
            source, target = (Buffer(x.device, each.at(i), nbytes, each.buffer) for each in (own, left))
            x.device.copy(source, target, nbytes)  # type: ignore[attr-defined]
        _run(left, lambda i: solver.orthogonal_factor(left.at(i), m, count, k, own.dtype, scales[i]), failure)
        return _kind_of_result("qr")(swapaxes(left.array(), -1, -2), upper)


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition of a matrix, like `numpy.linalg.svd`.

    Examples
    --------
    >>> wf.linalg.svd([[3.0, 0.0], [0.0, 2.0]]).S
    array([3., 2.])
    """
    solver = _solver_of(a)
    if solver is None or hermitian:
        return call_numpy(np.linalg.svd, (a, full_matrices, compute_uv, hermitian), {})
    x = asarray(a)
    with device(x.device):
        lead, (m, n) = x.shape[:-2], x.shape[-2:]
        tall = m >= n  # (the library requires at least as many rows as columns)
        rows, columns = max(m, n), min(m, n)
        own = _copied(x, _common(x), turned=tall)
        values = _Matrices(x.device, (*lead, 1, columns), np.dtype(own.dtype.char.lower()))
        sides = (
            [
                _Matrices(x.device, (*lead, rows if full_matrices else columns, rows), own.dtype),
                _Matrices(x.device, (*lead, columns, columns), own.dtype),
            ]
            if compute_uv
            else []
        )

        def call(k: int) -> int:
            left, right = (side.at(k) for side in sides) if sides else (0, 0)
            given = own.at(k), rows, columns, own.dtype, values.at(k), left, right, bool(full_matrices)
            return int(solver.singular_values(*given))

        _run(own, call, "SVD did not converge")
        found = values.array((*lead, columns))
        if not compute_uv:
            return found
        left, right = (side.array() for side in sides)
        if tall:
            return _kind_of_result("svd")(swapaxes(left, -1, -2), found, swapaxes(right, -1, -2))
        return _kind_of_result("svd")(right, found, left)


def cond(x: ArrayLike, p: Any = None) -> Any:
    """Return the condition number of a matrix, like `numpy.linalg.cond`.

    Examples
    --------
    >>> float(wf.linalg.cond([[4.0, 0.0], [0.0, 2.0]]))
    2.0
    """
    if _solver_of(x) is None or p not in (None, 2, -2) or not x.size:  # type: ignore[union-attr]
        return call_numpy(np.linalg.cond, (x, p), {})
    x = asarray(x)
    with device(x.device), np.errstate(all="ignore"):
        size = svd(x, compute_uv=False)
        first, last = size[..., 0], size[..., -1]
        found: Any = last / first if p == -2 else first / last
        isnan = UFUNCS["isnan"]
        return where(isnan(found) & ~isnan(x).any(axis=(-2, -1)), np.inf, found)  # (0 / 0 for a matrix of zeros)


def pinv(a: ArrayLike, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Return the pseudo-inverse of a matrix, like `numpy.linalg.pinv`.

    Examples
    --------
    >>> wf.linalg.pinv([[2.0, 0.0], [0.0, 4.0]]).round(6)
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    if _solver_of(a) is None or hermitian or (rcond is not None and rtol is not None):
        tolerances = {name: value for name, value in (("rcond", rcond), ("rtol", rtol)) if value is not None}
        return call_numpy(np.linalg.pinv, (a,), {"hermitian": hermitian, **tolerances})
    x = asarray(a)
    with device(x.device):
        left, size, right = svd(x.conj() if x.dtype.kind == "c" else x, full_matrices=False)
        share = rcond if rtol is None else rtol
        share = max(x.shape[-2:]) * np.finfo(size.dtype).eps if share is None else share
        kept = size > asarray(share).astype(size.dtype)[..., None] * size.max(axis=-1, keepdims=True)
        inverse = where(kept, 1 / where(kept, size, 1), 0).astype(size.dtype)
        return matmul(swapaxes(right, -1, -2), inverse[..., None] * swapaxes(left, -1, -2))


def lstsq(a: ArrayLike, b: ArrayLike, rcond: Any = None) -> Any:
    """Return the least-squares solution of a system of linear equations, like `numpy.linalg.lstsq`.

    Examples
    --------
    >>> wf.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])[0].round(6)
    array([1., 2.])
    """
    vector = isinstance(b, Array) and b.ndim == 1
    columns = b[:, None] if vector else b  # type: ignore[call-overload, index]
    fits = _solver_of(a, columns) is not None and a.ndim == columns.ndim == 2  # type: ignore[union-attr]
    if not fits or a.shape[0] != columns.shape[0] or np.ndim(rcond):  # type: ignore[union-attr]
        return call_numpy(np.linalg.lstsq, (a, b, rcond), {})
    kind = _common(asarray(a), asarray(columns))
    x, y = (asarray(each).astype(kind, copy=False) for each in (a, columns))
    with device(x.device):
        m, n = x.shape
        left, size, right = svd(x, full_matrices=False)
        least = np.finfo(size.dtype).eps
        share = least * max(m, n) if rcond is None else least if rcond < 0 else rcond
        kept = size > size.dtype.type(share) * size.max()
        inverse = where(kept, 1 / where(kept, size, 1), 0).astype(size.dtype)
        found: Any = matmul(_adjoint(right), inverse[:, None] * matmul(_adjoint(left), y))
        rank = np.int32(kept.sum())
        rests = asarray(np.empty(0, size.dtype))
        if rank == n < m:
            rests = (abs(y - matmul(x, found)) ** 2).sum(axis=0)
        return found[:, 0] if vector else found, rests, rank, size


def _adjoint(x: Any) -> Any:
    turned = swapaxes(x, -1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Any:
    """Return the solution of a tensor equation, like `numpy.linalg.tensorsolve`.

    Examples
    --------
    >>> wf.linalg.tensorsolve(np.eye(4).reshape(4, 2, 2), [1.0, 2.0, 3.0, 4.0])
    array([[1., 2.],
           [3., 4.]])
    """
    if not isinstance(a, Array) or not isinstance(b, Array) or axes is not None or a.ndim < b.ndim:
        return call_numpy(np.linalg.tensorsolve, (a, b, axes), {})
    shape = a.shape[b.ndim :]
    if prod(shape) != b.size or a.shape[: b.ndim] != b.shape or _solver_of(a.reshape(b.size, -1)) is None:
        return call_numpy(np.linalg.tensorsolve, (a, b), {})
    return solve(a.reshape(b.size, b.size), b.reshape(-1)).reshape(shape)


__all__ = [
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "tensorsolve",
]
