"""Matrix decompositions, determinants, inverses, and solutions of linear equations.

In: arrays. Out: results of NumPy or, for arrays on a GPU, of cuSOLVER if it is installed. Invariant: errors are those
of NumPy, raised by the call. cuSOLVER gets private copies, since it writes to its operands. Pending operations fuse
with the copy.

cuSOLVER's matrices are column-major, so cuSOLVER interprets a matrix in C order as the transposed matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, convert, wrap
from weft.dsl.arrays.memory_order import in_order
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.functions.creation import asarray, eye
from weft.dsl.functions.linear import matmul
from weft.dsl.functions.manipulation import broadcast_to, diagonal, swapaxes
from weft.dsl.functions.selection import where
from weft.dsl.functions.triangles import tril, triu
from weft.fusion import Storage, broadcast_shapes, realise
from weft.runtime import Buffer, Device, device


def _solver_of(*arrays: Any) -> Any | None:
    """Return cuSOLVER for matrices on a GPU, or None if NumPy must compute the result."""
    kinds = [a for a in arrays if isinstance(a, Array)]
    if not kinds or len(kinds) < len(arrays) or any(a.ndim < 2 or not a.size for a in kinds):
        return None
    solver = kinds[0].device.solver
    known = all(a.dtype.char in "?bBhHiIlLqQfdFD" and a.device is kinds[0].device for a in kinds)
    return solver if solver is not None and known and solver.is_available() else None


def _by_solver(square: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for functions that pass a matrix on a GPU to cuSOLVER.

    The matrix is the first argument. NumPy's function of the same name handles all other arguments, matrices that are
    not square if `square` is true, and arguments for which the function returns NotImplemented.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        numpys = getattr(np.linalg, function.__name__)

        @wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            first: Any = next(iter((*arguments, *options.values())), None)
            if _solver_of(first) is not None and (first.shape[-1] == first.shape[-2] or not square):
                with device(first.device):
                    found = function(*arguments, **options)
                if found is not NotImplemented:
                    return found
            return call_numpy(numpys, arguments, options)

        return called

    return decorate


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
        """Return the matrices as an array that shares their buffer. No function of LAPACK or cuSOLVER may access the buffer afterwards."""
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
    if any(call(number) for number in range(matrices.count)):
        raise np.linalg.LinAlgError(message)


@_by_solver(square=True)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the Cholesky factor of a Hermitian matrix, like `numpy.linalg.cholesky`.

    Examples
    --------
    >>> wf.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    own, n, solver = _copied(a, _common(a)), a.shape[-1], a.device.solver
    _run(own, lambda k: solver.cholesky(own.at(k), n, own.dtype, not upper), "Matrix is not positive definite")
    return triu(own.array()) if upper else tril(own.array())


def _factored(x: Array, dtype: np.dtype) -> tuple[_Matrices, list[Buffer], list[int]]:
    """Compute the LU factors of each matrix's transpose.

    Return the factors and, for each matrix, the pivots and a number that is nonzero if the matrix is singular. The
    pivots of all matrices are contiguous.
    """
    own, n = _copied(x, dtype), x.shape[-1]
    whole = x.device.allocate(own.count * n * 8)
    pivots = [Buffer(x.device, whole.address + k * n * 8, n * 8, whole) for k in range(own.count)]
    return own, pivots, [x.device.solver.factor(own.at(k), n, dtype, part) for k, part in enumerate(pivots)]


def _solved(x: Array, right: _Matrices, turned: bool) -> None:
    """Solve systems of linear equations. In the array `right`, the solutions replace the right-hand sides.

    Each row of `right` is a right-hand side. The array `x` contains the coefficient matrices. If `turned` is false, solve
    the systems with the transposed matrices instead. Raises LinAlgError for a singular matrix.
    """
    own, pivots, failed = _factored(x, right.dtype)
    n, rows, solver = x.shape[-1], right.shape[-2], x.device.solver

    def solve(k: int) -> int:
        return failed[k] or int(solver.solve(own.at(k), n, pivots[k], right.at(k), rows, right.dtype, turned))

    _run(right, solve, "Singular matrix")


@_by_solver(square=True)
def inv(a: Any) -> Any:
    """Return the inverse of a matrix, like `numpy.linalg.inv`.

    Examples
    --------
    >>> wf.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    # The inverse of the transpose, in column-major order, is the inverse in C order.
    right = _copied(broadcast_to(eye(a.shape[-1]), a.shape), _common(a))
    _solved(a, right, False)
    return right.array()


@_by_solver(square=True)
def solve(a: Any, b: Any) -> Any:
    """Return the solution of a system of linear equations, like `numpy.linalg.solve`.

    Examples
    --------
    >>> wf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    array([1. , 0.5])
    """
    vector = isinstance(b, Array) and b.ndim == 1
    columns = b[:, None] if vector else b
    if _solver_of(a, columns) is None or columns.shape[-2] != a.shape[-1]:
        return NotImplemented
    lead = broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    x, y = (broadcast_to(each, lead + each.shape[-2:]) for each in (a, columns))
    right = _copied(y, _common(x, y), turned=True)
    _solved(x, right, True)
    found = swapaxes(right.array(), -1, -2)
    return found[..., 0] if vector else in_order(found, "C")


def _signed_diagonal(x: Array) -> tuple[Array, Array]:
    """Factor the transpose of each matrix as P L U, and return the diagonal of U and the determinant of P."""
    own, pivots, _ = _factored(x, _common(x))
    n = x.shape[-1]
    host = np.empty((own.count, n), np.int64)
    x.device.read(pivots[0].address, host)  # type: ignore[attr-defined]
    moved = (host != np.arange(1, n + 1)).sum(axis=-1) % 2
    real = np.dtype(own.dtype.char.lower())
    return diagonal(own.array(), axis1=-2, axis2=-1), convert((1 - 2 * moved).astype(real).reshape(x.shape[:-2]))


@_by_solver(square=True)
def det(a: Any) -> Any:
    """Return the determinant of a matrix, like `numpy.linalg.det`.

    Examples
    --------
    >>> wf.linalg.det([[2.0, 0.0], [0.0, 4.0]])
    np.float64(8.0)
    """
    factors, sign = _signed_diagonal(a)
    return factors.prod(axis=-1) * sign


@_by_solver(square=True)
def slogdet(a: Any) -> Any:
    """Return the sign and the logarithm of a determinant, like `numpy.linalg.slogdet`.

    The logarithm is that of the absolute value.

    Examples
    --------
    >>> sign, logarithm = wf.linalg.slogdet([[2.0, 0.0], [0.0, 0.5]])
    >>> float(sign), float(logarithm)
    (1.0, 0.0)
    """
    factors, sign = _signed_diagonal(a)
    size = UFUNCS["absolute"](factors)
    signs = where(size == 0, 0, factors / where(size == 0, 1, size)).prod(axis=-1) * sign
    return _kind_of_result("slogdet")(signs, UFUNCS["log"](size).sum(axis=-1))


def _kind_of_result(name: str) -> Callable[..., Any]:
    """Return the class of the named tuples that a function in `numpy.linalg` returns."""
    return type(getattr(np.linalg, name)(np.eye(1)))


def _eigen(x: Array, rule: str, vectors: bool) -> Any:
    rule = str(rule).upper()
    if rule not in ("L", "U"):
        return NotImplemented
    own, n, solver = _copied(x, _common(x)), x.shape[-1], x.device.solver
    values = _Matrices(x.device, (*x.shape[:-2], 1, n), np.dtype(own.dtype.char.lower()))
    upper = rule == "L"  # (of the transpose)

    def call(k: int) -> int:
        return int(solver.eigenvalues(own.at(k), n, own.dtype, values.at(k), upper, vectors))

    _run(own, call, "Eigenvalues did not converge")
    found = values.array((*x.shape[:-2], n))
    if not vectors:
        return found
    # the transpose of a Hermitian matrix has the conjugate eigenvectors, which are the rows in C order
    return _kind_of_result("eigh")(found, _adjoint(own.array()))


@_by_solver(square=True)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues and eigenvectors of a Hermitian matrix, like `numpy.linalg.eigh`.

    Examples
    --------
    >>> wf.linalg.eigh([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
    array([2., 3.])
    """
    return _eigen(a, UPLO, True)


@_by_solver(square=True)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of a Hermitian matrix, like `numpy.linalg.eigvalsh`.

    Examples
    --------
    >>> wf.linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]])
    array([2., 3.])
    """
    return _eigen(a, UPLO, False)


@_by_solver()
def qr(a: Any, mode: str = "reduced") -> Any:
    """Return the QR factorization of a matrix, like `numpy.linalg.qr`.

    Examples
    --------
    >>> abs(wf.linalg.qr([[3.0, 0.0], [4.0, 5.0]]).R).round(6)
    array([[5., 4.],
           [0., 3.]])
    """
    if mode not in ("reduced", "complete", "r"):
        return NotImplemented
    m, n = a.shape[-2:]
    k, solver = min(m, n), a.device.solver
    own = _copied(a, _common(a), turned=True)
    scales = [a.device.allocate(k * own.dtype.itemsize) for _ in range(own.count)]
    failure = "Incorrect argument found while performing QR factorization"
    _run(own, lambda i: solver.triangular_factor(own.at(i), m, n, own.dtype, scales[i]), failure)
    count = m if mode == "complete" else k
    upper = triu(swapaxes(own.array(), -1, -2)[..., :count, :])
    if mode == "r":
        return upper
    left = _Matrices(a.device, (*a.shape[:-2], count, m), own.dtype)
    nbytes = m * min(n, count) * own.dtype.itemsize
    for i in range(own.count):
        source, target = (Buffer(a.device, each.at(i), nbytes, each.buffer) for each in (own, left))
        a.device.copy(source, target, nbytes)
    _run(left, lambda i: solver.orthogonal_factor(left.at(i), m, count, k, own.dtype, scales[i]), failure)
    return _kind_of_result("qr")(swapaxes(left.array(), -1, -2), upper)


@_by_solver()
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition of a matrix, like `numpy.linalg.svd`.

    Examples
    --------
    >>> wf.linalg.svd([[3.0, 0.0], [0.0, 2.0]]).S
    array([3., 2.])
    """
    if hermitian:
        return NotImplemented
    lead, (m, n), solver = a.shape[:-2], a.shape[-2:], a.device.solver
    tall = m >= n  # (the library requires at least as many rows as columns)
    rows, columns = max(m, n), min(m, n)
    own = _copied(a, _common(a), turned=tall)
    values = _Matrices(a.device, (*lead, 1, columns), np.dtype(own.dtype.char.lower()))
    shapes = ((rows if full_matrices else columns, rows), (columns, columns)) if compute_uv else ()
    sides = [_Matrices(a.device, (*lead, *shape), own.dtype) for shape in shapes]

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


@_by_solver()
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number of a matrix, like `numpy.linalg.cond`.

    Examples
    --------
    >>> float(wf.linalg.cond([[4.0, 0.0], [0.0, 2.0]]))
    2.0
    """
    if p not in (None, 2, -2):
        return NotImplemented
    with np.errstate(all="ignore"):
        size = svd(x, compute_uv=False)
        first, last = size[..., 0], size[..., -1]
        found: Any = last / first if p == -2 else first / last
        isnan = UFUNCS["isnan"]
        return where(isnan(found) & ~isnan(x).any(axis=(-2, -1)), np.inf, found)  # (0 / 0 for a matrix of zeros)


@_by_solver()
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:  # type: ignore[attr-defined]
    """Return the pseudo-inverse of a matrix, like `numpy.linalg.pinv`.

    Examples
    --------
    >>> wf.linalg.pinv([[2.0, 0.0], [0.0, 4.0]]).round(6)
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    given = rtol is not np._NoValue  # type: ignore[attr-defined]
    if hermitian or (rcond is not None and given):
        return NotImplemented
    left, size, right = svd(a.conj() if a.dtype.kind == "c" else a, full_matrices=False)
    share = rtol if given else 1e-15 if rcond is None else rcond
    share = max(a.shape[-2:]) * np.finfo(size.dtype).eps if share is None else share
    kept = size > asarray(share).astype(size.dtype)[..., None] * size.max(axis=-1, keepdims=True)
    inverse = where(kept, 1 / where(kept, size, 1), 0).astype(size.dtype)
    return matmul(swapaxes(right, -1, -2), inverse[..., None] * swapaxes(left, -1, -2))


@_by_solver()
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the least-squares solution of linear equations, like `numpy.linalg.lstsq`.

    Examples
    --------
    >>> wf.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])[0].round(6)
    array([1., 2.])
    """
    vector = isinstance(b, Array) and b.ndim == 1
    columns = b[:, None] if vector else b
    fits = _solver_of(a, columns) is not None and a.ndim == columns.ndim == 2
    if not fits or a.shape[0] != columns.shape[0] or np.ndim(rcond):
        return NotImplemented
    kind = _common(a, columns)
    x, y = (each.astype(kind, copy=False) for each in (a, columns))
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


@_by_solver()
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Return the solution of a tensor equation, like `numpy.linalg.tensorsolve`.

    Examples
    --------
    >>> wf.linalg.tensorsolve(np.eye(4).reshape(4, 2, 2), [1.0, 2.0, 3.0, 4.0])
    array([[1., 2.],
           [3., 4.]])
    """
    if not isinstance(b, Array) or axes is not None or a.ndim < b.ndim or a.shape[: b.ndim] != b.shape:
        return NotImplemented
    shape = a.shape[b.ndim :]
    if prod(shape) != b.size:
        return NotImplemented
    return solve(a.reshape(b.size, b.size), b.reshape(-1)).reshape(shape)
