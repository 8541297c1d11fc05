"""Tests of linear algebra on a CUDA device.

A stand-in for cuSOLVER delays work as long as possible.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.cuda.library_error import LibraryError
from tests.stand_in import RunningDevice, RunningStandIn
from weft.runtime import CudaError
from weft.runtime.cuda.solver import Solver

DTYPES = {0: "f", 1: "d", 4: "F", 5: "D"}
LinAlgError = np.linalg.LinAlgError
source = np.random.default_rng(11)


class Library:
    """A stand-in for the functions of cuSOLVER's bindings that weft uses. It computes in host memory."""

    def __init__(self, driver: RunningStandIn) -> None:
        self.driver = driver
        self.stream = 0
        self.handles = self.options = 0
        self.calls: list[str] = []
        self.failing = ""
        self.info = 0

    def _enter(self, name: str) -> None:
        if name == self.failing:
            raise LibraryError(7)
        self.calls.append(name)

    def create(self) -> int:
        self._enter("create")
        self.handles += 1
        return 77

    def destroy(self, handle: int) -> None:
        self.handles -= 1

    def create_params(self) -> int:
        self._enter("create_params")
        self.options += 1
        return 78

    def destroy_params(self, options: int) -> None:
        self.options -= 1

    def set_stream(self, handle: int, stream: int) -> None:
        self._enter("set_stream")
        assert handle == 77
        self.stream = stream

    def array(self, at: int, kind: int | str, *shape: int) -> np.ndarray:
        """Return the array in column-major order at an address in memory."""
        dtype = np.dtype(DTYPES[kind] if isinstance(kind, int) else kind)
        span = int(np.prod(shape)) * dtype.itemsize
        assert self.driver.memory.covers(at, span), "outside the memory"
        return np.frombuffer((ctypes.c_char * span).from_address(at), dtype).reshape(shape[::-1]).T

    def _later(self, work: Callable[[], Any], at: int, nbytes: int, report: int) -> None:
        info = self.info

        def run() -> int:
            assert self.driver.memory.covers(at, nbytes), "the workspace was freed"
            (ctypes.c_char * nbytes).from_address(at)[:] = b"\xff" * nbytes
            self.array(report, "i4", 1)[0] = work() or info
            return 0

        self.driver.queues.give(self.stream, run)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("x") and name.endswith("_buffer_size"):
            return lambda *given: (self._enter(name), (1024, 64))[1]
        if name.endswith("gqr_buffer_size"):
            return lambda *given: (self._enter(name), 32)[1]
        if name == "xgetrs":
            return self._solve
        if name.endswith("gqr"):
            return self._orthogonal
        work = getattr(self, f"do_{name}")

        def call(handle: int, options: int, *given: Any) -> None:
            self._enter(name)
            assert handle == 77 and options == 78
            *own, there, nbytes, here, host, report = given
            assert nbytes == 1024 and host == 64 and here
            self._later(lambda: work(*own), there, nbytes, report)

        return call

    def do_xpotrf(self, upper: int, n: int, kind: int, a: int, lead: int, compute: int) -> int:
        assert lead == n and kind == compute
        own = self.array(a, kind, n, n)
        full = np.triu(own) + np.triu(own, 1).conj().T if upper else np.tril(own) + np.tril(own, -1).conj().T
        try:
            found = np.linalg.cholesky(full)
        except LinAlgError:
            return 1
        mask = np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool))
        own[mask] = (found.conj().T if upper else found)[mask]
        return 0

    def do_xgetrf(self, m: int, n: int, kind: int, a: int, lead: int, pivots: int, compute: int) -> int:
        own, pivot_rows, failed = self.array(a, kind, n, n), self.array(pivots, "i8", n), 0
        for k in range(n):
            pivot = k + int(np.argmax(np.abs(own[k:, k])))
            pivot_rows[k] = pivot + 1
            own[[k, pivot]] = own[[pivot, k]]
            if own[k, k] == 0:
                failed = failed or k + 1
                continue
            own[k + 1 :, k] /= own[k, k]
            own[k + 1 :, k + 1 :] -= np.outer(own[k + 1 :, k], own[k, k + 1 :])
        return failed

    def _solve(self, handle: int, options: int, *given: Any) -> None:
        self._enter("xgetrs")
        way, n, columns, kind, a, lead, pivots, kind_b, b, lead_b, report = given
        assert handle == 77 and options == 78 and lead == lead_b == n and kind == kind_b and way in (0, 1)

        def work() -> int:
            own, right, pivot_rows = (
                self.array(a, kind, n, n),
                self.array(b, kind, n, columns),
                self.array(pivots, "i8", n),
            )
            order = np.arange(n)
            for k in range(n):
                order[[k, pivot_rows[k] - 1]] = order[[pivot_rows[k] - 1, k]]
            matrix = np.zeros_like(own)
            matrix[order] = (np.tril(own, -1) + np.eye(n)) @ np.triu(own)
            right[...] = np.linalg.solve(matrix.T if way else matrix, right)
            return 0

        self._later(work, report, 4, report)

    def do_xsyevd(self, mode: int, upper: int, n: int, kind: int, a: int, *rest: int) -> int:
        _, real, values, _ = rest
        own = self.array(a, kind, n, n)
        found, vectors = np.linalg.eigh(own, "U" if upper else "L")
        self.array(values, real, n)[...] = found
        own[...] = vectors if mode else np.nan
        return 0

    def do_xgesvd(self, left: int, right: int, m: int, n: int, kind: int, a: int, *rest: int) -> int:
        lead, real, values, _, u, lead_u, _, v, lead_v, _ = rest
        assert m >= n and lead == lead_u == m and lead_v == n and left == right
        u_found, s, v_found = np.linalg.svd(self.array(a, kind, m, n), full_matrices=left == ord("A"))
        self.array(values, real, n)[...] = s
        if left != ord("N"):
            self.array(u, kind, *u_found.shape)[...] = u_found
            self.array(v, kind, n, n)[...] = v_found
        self.array(a, kind, m, n)[...] = np.nan
        return 0

    def do_xgeqrf(self, m: int, n: int, kind: int, a: int, lead: int, _: int, scales: int, compute: int) -> int:
        own = self.array(a, kind, m, n)
        reflectors, found = np.linalg.qr(own.copy(), mode="raw")
        own[...] = reflectors.T
        self.array(scales, kind, min(m, n))[...] = found
        return 0

    def _orthogonal(self, handle: int, m: int, n: int, k: int, a: int, lead: int, *rest: int) -> None:
        self._enter("gqr")
        scales, work, elements, report = rest
        assert handle == 77 and elements == 32 and lead == m and m >= n >= k
        kind = self.kind

        def run() -> int:
            own, tau = self.array(a, kind, m, n), self.array(scales, kind, k)
            found = np.eye(m, n, dtype=own.dtype)
            for i in reversed(range(k)):
                vector = own[:, i].copy()
                vector[:i], vector[i] = 0, 1
                found -= tau[i] * np.outer(vector, vector.conj() @ found)
            own[...] = found
            return 0

        self._later(run, work, 32 * np.dtype(kind).itemsize, report)

    kind = "d"


@pytest.fixture
def library(driver: RunningStandIn, device: RunningDevice) -> Iterator[Library]:
    found = Library(driver)
    device.solver = Solver(device._driver, device._order, device.allocate, device.read, found)
    yield found
    device.solver = None
    gc.collect()
    assert found.handles == found.options == 0, "a handle was not destroyed"


def values(*shape: int, dtype: Any = "d") -> np.ndarray:
    found = source.normal(size=shape)
    return (found + 1j * source.normal(size=shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def positive(*shape: int, dtype: Any = "d") -> np.ndarray:
    found = values(*shape, dtype=dtype)
    return (found @ found.conj().swapaxes(-1, -2) + np.eye(shape[-1]) * 3).astype(dtype)


def close(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    tolerance = 1e-10 if expected.dtype.char in "dD" else 2e-4
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


ON_DEVICE = pytest.mark.filterwarnings("error::weft.HostFallbackWarning")
EVERY = pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
SQUARE = [(4, 4), (1, 1), (3, 5, 5), (2, 1, 3, 3)]
SHAPES = pytest.mark.parametrize("shape", SQUARE)


def alternate(name: str, shapes: list[Any]) -> Any:
    """Parametrize a test by dtype, shape and a flag. Every dtype and every shape occurs with both values of the flag."""
    rows = [(dtype, shape, (i + j) % 2 == 0) for i, dtype in enumerate("fdFD") for j, shape in enumerate(shapes)]
    return pytest.mark.parametrize(("dtype", "shape", name), rows)


@ON_DEVICE
@EVERY
@SHAPES
def test_solutions(library: Library, dtype: str, shape: tuple[int, ...]) -> None:
    a, b = values(*shape, dtype=dtype), values(*shape[:-1], 2, dtype=dtype)
    x = wf.asarray(a)
    close(wf.linalg.inv(x), np.linalg.inv(a))
    close(wf.linalg.solve(x, wf.asarray(b)), np.linalg.solve(a, b))
    close(
        wf.linalg.solve(x, wf.asarray(b[..., 0].reshape(-1)[: shape[-1]])),
        np.linalg.solve(a, b[..., 0].reshape(-1)[: shape[-1]]),
    )
    close(wf.linalg.det(x), np.linalg.det(a))
    for found, expected in zip(wf.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        close(found, expected)
    np.testing.assert_array_equal(x.numpy(), a)


@ON_DEVICE
@alternate("upper", SQUARE)
def test_hermitian_matrices(library: Library, dtype: str, shape: tuple[int, ...], upper: bool) -> None:
    a = positive(*shape, dtype=dtype)
    close(wf.linalg.cholesky(wf.asarray(a), upper=upper), np.linalg.cholesky(a, upper=upper))
    a = (np.triu(a) if upper else np.tril(a)).astype(dtype)  # (the other triangle is not read)
    rule = "U" if upper else "L"
    found, expected = wf.linalg.eigh(wf.asarray(a), rule), np.linalg.eigh(a, rule)
    close(found.eigenvalues, expected.eigenvalues)
    close(wf.linalg.eigvalsh(wf.asarray(a), rule), expected.eigenvalues)
    v = np.asarray(found.eigenvectors)
    assert v.dtype == a.dtype
    full = (
        np.triu(a) + np.triu(a, 1).conj().swapaxes(-1, -2)
        if upper
        else np.tril(a) + np.tril(a, -1).conj().swapaxes(-1, -2)
    )
    np.testing.assert_allclose(
        full @ v, v * np.asarray(found.eigenvalues)[..., None, :], atol=1e-8 if dtype in "dD" else 1e-2
    )


@ON_DEVICE
@alternate("full", [(5, 3), (3, 5), (4, 4), (2, 5, 3), (2, 3, 5)])
def test_factors(library: Library, dtype: str, shape: tuple[int, ...], full: bool) -> None:
    a = values(*shape, dtype=dtype)
    library.kind = dtype
    left, size, right = wf.linalg.svd(wf.asarray(a), full)
    expected = np.linalg.svd(a, full)
    close(size, expected.S)
    close(wf.linalg.svdvals(wf.asarray(a)), expected.S)
    u, v = np.asarray(left), np.asarray(right)
    assert (u.shape, v.shape, u.dtype, v.dtype) == (expected.U.shape, expected.Vh.shape, a.dtype, a.dtype)
    k = min(shape[-2:])
    tolerance = 1e-10 if dtype in "dD" else 1e-4
    np.testing.assert_allclose((u[..., :k] * np.asarray(size)[..., None, :]) @ v[..., :k, :], a, atol=tolerance)
    np.testing.assert_allclose(
        u.conj().swapaxes(-1, -2) @ u,
        np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *u.shape[-1:] * 2)),
        atol=tolerance,
    )
    mode: Any = "complete" if full else "reduced"
    for found, wanted in zip(wf.linalg.qr(wf.asarray(a), mode), np.linalg.qr(a, mode), strict=True):
        close(found, wanted)
    close(wf.linalg.qr(wf.asarray(a), "r"), np.linalg.qr(a, "r"))


@ON_DEVICE
def test_integers_and_views(library: Library) -> None:
    a = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
    close(wf.linalg.inv(wf.asarray(a)), np.linalg.inv(a))
    b = values(6, 6)
    close(wf.linalg.inv(wf.asarray(b)[::2, 1:4].T), np.linalg.inv(b[::2, 1:4].T))
    close(wf.linalg.inv(wf.asarray(b) * 2 + 1), np.linalg.inv(b * 2 + 1))
    close(wf.linalg.cholesky(wf.asarray(a)), np.linalg.cholesky(a))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, x: n.inv(x * 0), "Singular matrix"),
        (lambda n, x: n.solve(x * 0, x), "Singular matrix"),
        (lambda n, x: n.cholesky(-x), "Matrix is not positive definite"),
        (lambda n, x: n.inv(x[:2]), "must be square"),
        (lambda n, x: n.eigh(x[:2]), "must be square"),
        (lambda n, x: n.cholesky(x[0]), "at least two-dimensional|two-dimensional"),
    ],
)
def test_errors_are_numpys(library: Library, call: Any, message: str) -> None:
    a = positive(3, 3)
    for module, x in ((np.linalg, a), (wf.linalg, wf.asarray(a))):
        with pytest.raises(LinAlgError, match=message):
            call(module, x)
    close(wf.linalg.inv(wf.asarray(a)), np.linalg.inv(a))


def test_a_singular_matrix_has_the_determinant_0(library: Library) -> None:
    a = np.ones((2, 3, 3))
    close(wf.linalg.det(wf.asarray(a)), np.zeros(2))
    sign, logarithm = wf.linalg.slogdet(wf.asarray(a))
    assert sign.tolist() == [0, 0] and logarithm.tolist() == [-np.inf] * 2


@pytest.mark.parametrize("name", ["svd", "eigh", "svdvals", "eigvalsh"])
def test_no_convergence(library: Library, name: str) -> None:
    library.info = 3
    with pytest.raises(LinAlgError, match="did not converge"):
        getattr(wf.linalg, name)(wf.asarray(positive(3, 3)))


FAULTS = {
    "create": "inv", "create_params": "inv", "set_stream": "inv", "xgetrf_buffer_size": "inv", "xgetrf": "inv", "xgetrs": "inv",
    "xpotrf": "cholesky", "xsyevd": "eigh", "xgesvd": "svd", "xgeqrf": "qr", "dorgqr_buffer_size": "qr", "gqr": "qr",
}  # fmt: skip


@pytest.mark.parametrize("call", FAULTS)
def test_failures_of_the_library(library: Library, call: str) -> None:
    x = wf.asarray(positive(4, 4))
    library.failing = call
    with pytest.raises(CudaError, match=r"cuSOLVER's \w+ failed with STATUS_7 \(7\)") as caught:
        getattr(wf.linalg, FAULTS[call])(x)
    assert caught.value.code == 7
    library.failing = ""
    close(wf.linalg.inv(x), np.linalg.inv(x.numpy()))


def test_in_streams(library: Library) -> None:
    a = values(6, 6)
    with wf.stream():
        x = wf.linalg.inv(wf.asarray(a) + 1)
        with wf.stream():
            y = (x * 2).sum(axis=0)
    np.testing.assert_allclose(y.numpy(), (np.linalg.inv(a + 1) * 2).sum(axis=0), atol=1e-10)


def test_without_the_library(device: RunningDevice) -> None:
    a = values(3, 3)
    with pytest.warns(wf.PerformanceWarning, match="NumPy computes cuSOLVER's functions on the host"):
        np.testing.assert_array_equal(wf.linalg.inv(wf.asarray(a)).numpy(), np.linalg.inv(a))


@ON_DEVICE
@alternate("full", [(6, 3), (3, 6), (4, 4)])
def test_least_squares(library: Library, dtype: str, shape: tuple[int, int], full: bool) -> None:
    a, b = values(*shape, dtype=dtype), values(shape[0], 2, dtype=dtype)
    if not full:
        a[-1], a[:, -1] = a[0], 2 * a[:, 0]
    for right in (b, b[:, 0]):
        for rcond in (None, 1e-3, -1) if full else (None, 1e-3):
            found = wf.linalg.lstsq(wf.asarray(a), wf.asarray(right), rcond)
            wanted = np.linalg.lstsq(a, right, rcond)
            assert found[2] == wanted[2] and type(found[2]) is type(wanted[2])
            for ours, theirs in zip(found, wanted, strict=True):
                close(ours, theirs)
    if full and dtype == "d":
        whole = (a * 100).astype(int)
        close(wf.linalg.lstsq(wf.asarray(whole), wf.asarray(b))[0], np.linalg.lstsq(whole, b)[0])


def test_least_squares_of_what_does_not_fit(library: Library) -> None:
    for b in (values(4, 2), values(5, 2, 1)):
        with pytest.raises(LinAlgError):
            wf.linalg.lstsq(wf.asarray(values(5, 3)), wf.asarray(b))


@ON_DEVICE
@EVERY
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 5), (4, 4)])
def test_pseudo_inverses(library: Library, dtype: str, shape: tuple[int, ...]) -> None:
    a = values(*shape, dtype=dtype)
    a[..., -1, :] = a[..., 0, :]  # (the rank is not full)
    close(wf.linalg.pinv(wf.asarray(a)), np.linalg.pinv(a))
    close(wf.linalg.pinv(wf.asarray(a), rtol=0.3), np.linalg.pinv(a, rtol=0.3))
    assert wf.linalg.matrix_rank(wf.asarray(a)).tolist() == np.linalg.matrix_rank(a).tolist()
