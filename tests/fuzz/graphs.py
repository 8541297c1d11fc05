"""Random programs that combine many kinds of operations.

For example, a program reduces a gather of a reshaped roll after partial assignments. Values are evaluated at random
moments.

``python -m tests.fuzz.graphs --programs 200 --seed 0`` runs the programs. A program is text over sizes n, m, k. It runs
again with other data, which reuses its plan, and with other sizes, which reuses its kernels. All finite floats are
small multiples of 1/8. Every result is therefore exact, and must have NumPy's bits on every device.
"""

from __future__ import annotations

import ast
import random
import re
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from tests.fuzz.programs import differences, few_blocks
from tests.fuzz.rows import DEVICES, MOST_SANITIZED
from weft.runtime import device as on_device

Arrays = dict[str, Any]
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100)
LONG = (128, 129, 200, 256, 1000, 1030, 2049, 4100)
SHAPES = "(n,) (n,m) (m,n) (n,m) (n,n) (n,m,k) (k,n,m) (n,1) (1,m) (m,) (k,m,1,n) (1,) () (n*m,) (2*n,) (2,n,1,k,1,m) (n,0)".split()
DTYPES = "float32 float32 float64 int32 int64 uint8 int8 bool float16 uint64 int16 complex64 complex128 uint32".split()
MOST = 12_000  # maximum number of elements of a value

# Templates: A and B are operands that can be broadcast together, I is an array of indices, q a small number, d an axis,
# e another axis, s a slice of one axis, p a permutation, and D a dtype.
PLAIN = """A + B|A - B|A * B|A * q|A - q|q - A|A % q|A // B|A % B|-A|abs(A)|xp.maximum(A, B)|xp.minimum(A, q)|A < B|A == B|A >= q|A & B
A | B|A ^ q|~A|xp.where(A > q, A, B)|xp.where(A > B, q, A)|xp.where(A != B, B, xp.where(A > q, q, B))|xp.floor(A / q)|xp.floor(A / B)
xp.square(A)|xp.sign(A)|xp.isnan(A)|xp.logical_and(A, B)|xp.logical_not(A)|xp.where(A == q, xp.nan, A)|xp.where(A < q, -xp.inf, A)
xp.clip(A, -2, 3)|xp.clip(A, B, 4)|A << 1|A >> B|A.real + B|xp.imag(A) + q|xp.real(A) - q|xp.conj(A)|A + 1j|xp.fmax(A, B)|xp.nan_to_num(A)|A.astype('D')
xp.select([A > 2, A < q], [B, A], 1)|xp.add(A, B, dtype='D')|xp.left_shift(A, B)|divmod(A, q)[1]|xp.gcd(A, 6)|A + xp.D(3)
xp.sqrt(xp.square(A))|xp.heaviside(A, 1)|xp.trunc(A / 2)|xp.copysign(A, q)|A ** 2|xp.piecewise(A, [A > q], [2, 3])"""
VIEWS = """A.T|A[s]|A[s]|A[..., s]|A[s, s]|A[s, ..., s]|A[None]|A[..., None]|A.transpose(p)|xp.swapaxes(A, d, e)|xp.moveaxis(A, d, e)
xp.flip(A, d)|xp.flip(A)|xp.rot90(A)|xp.squeeze(A)|xp.expand_dims(A, d)|A.reshape(-1)|A.ravel()|A.reshape(A.shape[::-1])
A.reshape(-1, A.shape[-1])|A.reshape(2, -1)|A.reshape(-1, 2)|A.reshape(3, -1)|A.reshape(-1, 4)|xp.diagonal(A)|xp.diagonal(A, 1, d, e)|xp.diagonal(A, -1, d, e)
xp.diag(A)|A.reshape(-1, 2, 2)|xp.broadcast_to(A, (3, *A.shape))|A[1:] - A[:-1]|A[..., 2:] + A[..., :-2]|A[0]|A[-1]|A[..., 0]
A.reshape(A.size // 2, 2)[:, 1]|A.T.reshape(-1)|A.T.reshape(2, -1)|A.flatten('F')|xp.reshape(A, -1, order='F')|A[:, 1:-1, ...]
A.T.reshape(A.shape)|xp.lib.stride_tricks.sliding_window_view(A, 2, d)|A[s, None, s]|A[s, 0]|A[None, s, None]|A.mT|xp.trace(A)"""
MOVES = """xp.roll(A, 1)|xp.roll(A, 2, d)|xp.roll(A, -1, d)|xp.roll(A, (1, 2), (d, e))|xp.repeat(A, 2, d)|xp.repeat(A, 3)|xp.tile(A, 2)
xp.tile(A, (2, 1))|xp.pad(A, 1)|xp.pad(A, (1, 2), mode='edge')|xp.pad(A, 2, mode='wrap')|xp.pad(A, 1, mode='reflect')
xp.pad(A, (0, 2), mode='symmetric')|xp.pad(A, 1, constant_values=3)|xp.concatenate([A, B])|xp.concatenate([A, B, A], d)|xp.stack([A, B], d)
xp.stack([A, B, A])|xp.hstack([A, B])|xp.vstack([A, B])|xp.dstack([A, B])|xp.append(A, B)|xp.concatenate([A[s], A], d)|xp.tril(A)|xp.triu(A, 1)|xp.tril(A, -1)
xp.concatenate([A[1:], A[:1]])|xp.insert(A, 1, 2)|xp.delete(A, 0, d)|xp.diff(A, axis=d)|xp.diff(A)|xp.kron(A, B[:3, :3])|xp.outer(A, B.ravel()[:50])
xp.hsplit(A, 2)[1]|xp.split(A, 2)[0]|xp.array_split(A, 3)[1]|xp.block([[A, A], [A, A]])|xp.column_stack([A, A])|xp.resize(A, (3, 5))
xp.meshgrid(A, B.ravel()[:50])[0]|xp.fliplr(A)|xp.cross(A, B)|xp.vander(A, 3)|xp.ediff1d(A)"""
REDUCTIONS = """A.sum(d)|A.sum()|A.sum(d, keepdims=True)|A.max(d)|A.min(d)|A.max()|A.max(d, keepdims=True)|A.argmax(d)|A.argmin(d)|A.argmax()|A.any(d)
A.all(d)|A.sum((0, -1))|A.max((0, 1))|A.sum((d, e))|xp.floor(A.mean(d))|xp.floor(A.mean())|xp.count_nonzero(A, axis=d)|xp.ptp(A, axis=d)
A.cumsum(d)|A.cumsum()|xp.cumsum(A, d)[..., ::-1]|xp.maximum.accumulate(A, d)|xp.nansum(A, d)|xp.nanmax(A, d)|xp.prod(xp.where(A > 0, -1, 1), d)
xp.minimum.accumulate(A, d)|A.sum(dtype='D')|xp.cumprod(xp.where(A > 0, -1, 1), d)|xp.trace(A)|A.argmax(d, keepdims=True)|xp.logical_xor.reduce(A, d)
xp.bitwise_or.reduce(A, d)|xp.add.reduce(A, d)|xp.add.outer(A, B[:3, :3])|xp.multiply.outer(A, B.ravel()[:50]).sum(d)|A.max(d) - A.min(d)|A.sum(d, where=A > q)
xp.average(A, axis=d) // 1|xp.add.reduceat(A, [0, 2, 1])|xp.nanargmax(A, d)|xp.sum(A * B, d)|xp.max(A * B, d)|xp.sum(A == B)|xp.argmin(abs(A - B), d)
xp.sum((A[:, None] - B[None]) ** 2 % 7, -1)|((A[..., :, None] - B[..., None, :]) % 5).max(d)|xp.sum((A[:, None] - A[None, :]) ** 2 % 7, -1)
A - A.max(d, keepdims=True)|xp.where(A == A.max(d, keepdims=True), 1, 0)|(A - A.min(d, keepdims=True)).sum(d)|A - xp.floor(A.mean(d, keepdims=True))"""
PICKS = """A[I]|A[I, I]|A[I[:, None], I]|A[I, :, I]|A[:, I]|A[..., I]|A[I][s]|A[I, None]|A[I, s]|A[s, I]|xp.take(A, I)|xp.take(A, I, d)|xp.take(A, I, d, mode='wrap')
xp.take(A, I[::-1], mode='clip')|A[A > q]|A[xp.isfinite(A)]|xp.compress(I > 1, A)|xp.flatnonzero(A)|xp.argwhere(A > q)|xp.nonzero(A)[-1]
xp.take_along_axis(A, A.argmax(d, keepdims=True), d)|xp.unique(A)|xp.sort(A, d)|xp.argsort(A, d, kind='stable')|xp.searchsorted(xp.sort(I), A)
xp.bincount(I)|xp.bincount(I, minlength=7)|xp.choose(I % 2, [A, B])|A[[0, -1]]|A[[0, -1], [0, 0]]|A[..., [1, 0, 1]]|A.T[I]|A[::-1][I]|A[s][I]|A.reshape(-1)[I]
xp.isin(A, B)|xp.extract(A > q, A)|xp.ix_(I, I)[0] + A|A[xp.ix_(I, I)]|xp.digitize(A, [0, 1, 2])|xp.argpartition(A, 0, d).max(d)|A[I % 2 == 0]|A[I].sum(d)
A[I, I].max()|A[(I + 1) % A.shape[0]] - A|A[I][I]|A[-I - 1]|xp.arange(n)[I % n]|xp.histogram(A, 4, (0, 8))[0]|xp.lexsort((I, I % 3))|A[A.argmax()]"""
PRODUCTS = """A @ B.T|A @ B|A @ A.T|xp.dot(A, B)|xp.inner(A, A)|xp.einsum('ij,ij->i', A, A)|xp.einsum('ii->i', A)|xp.einsum('ij->j', A)|xp.einsum('ij,kj->ik', A, A)
xp.einsum('i,j->ij', A, B)|xp.einsum('ii', A)|xp.tensordot(A, B, 1)|xp.vdot(A, A)|xp.einsum('ij,jk,k->i', A, A, A[0])|A.T @ A|xp.einsum('...i,...i', A, A)
xp.diagonal(A @ A.T)|(A @ B + 1).sum(d)|xp.einsum('ijk->kji', A)|xp.linalg.matrix_power(A % 2, 2)|xp.convolve(A, [1, -1, 2])|xp.matmul(A[None], A.T)"""
NEW = """xp.zeros(A.shape, 'D')|xp.ones_like(A)|xp.full(A.shape, q, 'D')|xp.arange(n)|xp.arange(m) % 5|xp.eye(n)|xp.eye(n, m, 1)|xp.arange(n * m).reshape(n, m) % 7
xp.tri(n)|xp.indices((n, m))[0] % 6|xp.copy(A)|A.copy()|xp.array(A)|xp.zeros((n, m))|xp.zeros_like(A)|xp.fromfunction(lambda i, j: (i + j) % 4, (n, m))|xp.identity(m)
xp.linspace(0, 8, 9)|xp.full_like(A, 2)|xp.array([1, 2, 3])|xp.array([[1.5, 2], [0, -1]])"""
# Special cases of the planner: short reductions that are unrolled, long reductions that are split, computed indices,
# quotients together with their dividends, and integers that wrap around.
ODD = """A[..., :3].sum(-1).max(-1)|xp.sum(A[..., :2].max(-1) * 2, -1)|(A[..., :3].min(-1) + 1).sum(d)|A.reshape(-1, 2).sum(-1).sum()|A[:, :3].sum(1)[:, None] + A
xp.sum((A.reshape(-1) + xp.arange(97)[:, None]) % 3, d)|((A.reshape(1, -1) - xp.arange(131)[:, None]) % 5).max(d)|((A.reshape(-1) * xp.arange(151)[:, None]) % 7).argmax()
xp.sum((A.reshape(-1, 1) + xp.arange(603)) % 3)|((A.reshape(-1)[:600] + xp.arange(203)[:, None]) % 4).sum((0, 1))|xp.any((A.reshape(-1) + xp.arange(103)[:, None]) % 9 > 8)
xp.cumsum((A.reshape(-1) + xp.arange(151)[:, None]) % 3)[::997] % 8|xp.cumsum((A.reshape(1, -1) - xp.arange(83)[:, None]) % 5, d)[..., ::97] % 7|xp.maximum.accumulate((A.reshape(-1)[::-1] * xp.arange(71)[:, None]).reshape(-1))[5::501]
(A + B)[I]|(A * 2)[I, I]|(A + 1)[..., I]|(A - B)[(I + 1) % 2]|(A * 2)[s][I].sum(d)|(A + B).T[I]|xp.maximum(A, B)[I[:, None], I]|(A + B).reshape(-1)[I * 2]
(A + 1).T.reshape(-1)[s]|(A * 2).reshape(-1)[1:-1]|(A * 2).T.reshape(-1, 2).T.reshape(-1)|xp.roll((A + 1).reshape(-1), 5).reshape(A.shape)|xp.pad((A + 1).T.reshape(-1), 1)
xp.roll(A.reshape(-1, 3), 1, 1).reshape(-1)|(A - B).reshape(-1)[::2].reshape(-1, 2)[s]|xp.repeat(A + 1, 3).reshape(-1, 2).T|xp.tile(A + 1, 2).T.reshape(-1)[s]|(A + 1).reshape(2, -1).T.reshape(3, -1)
xp.diagonal(xp.sum((A[:, None] - A[None, :]) ** 2 % 7, -1))|xp.trace((A[:, None] - A[None, :]) % 3)|xp.triu((A[:, None] - A[None, :]) % 3).sum(d)|(A[:, None] == A[None]).argmax(d)
A.astype('int64') << 61|A.astype('uint8') * 100|A.astype('int8') * 100 // B|A.astype('uint64') - 5|A.astype('int16') * 1000 % 7|-A.astype('uint32')|abs(A.astype('int8') * 128)|A.astype('int32') * 2**30 >> 3
A.astype('uint64') * xp.uint64(2**63) + B|xp.bitwise_xor.reduce(A.astype('int64') << 62, d)|A.astype('int64') * 2**62 + A.astype('uint64')|xp.floor_divide(A.astype('int8') * 64, -1)
xp.concatenate([A + 1, B * 2])[s].sum(d)|xp.concatenate([A[1:], A[:1]]) - A|xp.stack([A, A + 1, B], -1).max(-1)|xp.pad(A, 1)[1:-1, 1:-1]|xp.pad(A, 2, mode='edge')[s, s]|xp.roll(A, 1, d) + xp.roll(A, -1, d) - A
xp.concatenate([A, A, A])[I]|xp.pad(A + 1, 1).sum(d)|xp.where(A > q, xp.roll(A, 1), xp.pad(A, 1)[1:-1])|xp.cumsum(A + 1, d) - A|xp.cumsum(A[::-1], 0)[::-1]|xp.cumsum(A, d).max(d)|xp.cumsum(xp.cumsum(A > q, d), e)
(A - A.max(d, keepdims=True)).sum(d, keepdims=True) % 5 + A|xp.where(A > A.sum() % 3, A.max(), A.min())|A.max(d, keepdims=True) + A.max(e, keepdims=True)|(A.sum(d, keepdims=True) % 3 + A).max(d)
(lambda v: v[..., ::-1] - v + v[..., 1:].sum(-1, keepdims=True) % 3)(xp.floor(xp.sqrt(xp.square(A - A.max(-1, keepdims=True)))) % 7)
(lambda v: v - v.max(-1, keepdims=True) + v[..., :1] + v[..., -1:])(xp.trunc(xp.sqrt(abs(A - A.min(d, keepdims=True)))) % 5)|(lambda v: (v - v.sum(d, keepdims=True) % 3).max(d) + v.min(d))(xp.floor(xp.sqrt(abs(A))) % 4)
xp.stack([A.max(), A.min(), A.sum() % 8])|A[A.argmax(d)]|xp.take_along_axis(A, xp.argsort(A, d, kind='stable'), d)|xp.sort(A + B, d)[s]|(A + B) @ (A - B).T|xp.sum(A[I] * B[I], d)|A[..., ::-1].cumsum(-1)[..., ::-1]"""
GROUPS = [t.replace("\n", "|").split("|") for t in (PLAIN, VIEWS, MOVES, REDUCTIONS, PICKS, PRODUCTS, NEW, ODD)]
# ("A | B" contains the separator, but is one template)
GROUPS[0] = [t for t in GROUPS[0] if t.strip() not in ("A", "B")] + ["A | B"]
# (the sign of a zero in a product of complex numbers depends on the implementation)
GROUPS[5] = [f"(lambda v: v + 0 if v.dtype.kind == 'c' else v)({t})" for t in GROUPS[5]]
WEIGHTS = (12, 8, 5, 7, 4, 2, 1, 7)
WRITES = """T[s] = A|T[s] += A|T[...] = A|T[..., s] = A|T[s, s] -= A|T[1:] = T[:-1]|T[1:] += T[:-1]|T[:-1] = T[1:]|T[::-1] = T|T[s] = T[s]|T[:] = T[::-1]|T += A|T *= 2|T -= q
T[T > q] = q|T[T < q] += 1|T[A > q] = 2|T[I] = A|T[I] = q|T[I] += 1|T[I, I] = q|T[..., I] = A|T[[0, -1]] = T[[-1, 0]]|T[0] = A|T[-1] = 2|T[..., 0] += 1|T[0, 0] = q
T[s] = A[s]|T[s, 0] = 1|xp.copyto(T, A)|xp.copyto(T, A, where=T > q)|xp.putmask(T, T > q, A)|xp.put(T, I, q)|xp.fill_diagonal(T, q)|xp.add.at(T, I, 1)|xp.add.at(T, I, A)
xp.maximum.at(T, I, q)|xp.sum(A, d, out=T)|xp.clip(A, -1, 2, out=T)|xp.add(A, B, out=T, where=A > q)|xp.take(A, I, 0, out=T)|xp.concatenate([A, B], out=T)|xp.max(A, d, out=T[0])|xp.max(A, d, T[0])|xp.sum(A, d, None, T[0])|xp.clip(A, -1, 2, T)|xp.take(A, I, 0, T)
T[0] = A.max(d)|T[..., 1:] = T[..., :-1] + T[..., 1:]|T[1:-1, 1:] = T[2:, :-1] + T[:-2, 1:]|T[1:, 1:-1] = xp.maximum(T[:-1, 2:], T[1:, :-2])|T[:, ::-1] = T|T[1:-1] += T[2:] - T[:-2]|xp.add(A, B, out=T)|xp.maximum(T, A, out=T)|xp.negative(T, out=T)|T.fill(q)|T.sort()|T.T[s] = A|T.T[...] = A|T[s].T[s] = A|T.reshape(-1)[s] = q
xp.place(T, T > q, [1, 2])|T[1:-1] = (T[:-2] + T[2:]) % 5|T[1:-1, 1:-1] = (T[:-2, 1:-1] + T[2:, 1:-1] + T[1:-1, 2:]) % 7|T[:, 0] = T[0, :]|T[...] = T.T|T += T.T
T[:-1], T[1:] = T[1:], T[:-1].copy()|T[s] = A.sum(d)|T[s] = A.max(d)|T[::2] = T[1::2]|T |= A|T %= 3|T[I, s] = A|T[s, I] = q|T //= 2|T[None, ...] = A|T[T != T] = 0
xp.put_along_axis(T, T.argmax(d, keepdims=True), q, d)|T[s] *= B|T[I] = T[I[::-1]]|T[s] = T[s][::-1]|T[...] = xp.roll(T, 1)|T.flat[1] = q|xp.cumsum(T, d, out=T)|xp.cumsum(A, d, None, T)
T[...] = T - T.max(d, keepdims=True)|T[1:] = xp.maximum(T[1:], T[:-1])|T[:, 1:] += A|T[0], T[1] = T[1].copy(), T[0].copy()""".replace(
    "\n", "|"
).split("|")
WRITES = [t for t in WRITES if t.strip() not in ("T", "= A")] + ["T |= A"]
LOOPS = (
    "for _ in range(3): T[1:-1] = (T[:-2] + T[2:]) % 5",
    "for _ in range(4): T[...] = xp.where(T > q, T - 1, T + 1)",
    "for _ in range(3): T = (T + xp.roll(T, 1, d)) % 6",
    "for i in range(3): T[i] = T[i - 1] + A[i]",
    "for i in range(4): T[i::2] += i",
    "for _ in range(3): T = xp.where(T * T > 4, T % 3, T + B)",
    "for i in range(2): T[i, i] = T[i].max()",
    "for i in range(1, 5): T[:, i] = (T[:, i] + T[:, i - 1]) % 8",
)
NUMBERS = ("2", "3", "-1", "1", "0", "0.5", "7", "2.5", "True")
SLICES = "1: :-1 ::2 1::2 ::-1 1:-1 :3 -2: 2:5 ::-2 3::-1 : -1:0:-1 1:2 :0".split()


class Rejected(Exception):
    """Raised for a statement or an expression that is not allowed in a program."""


def exact(value: Any) -> bool:
    """Return whether a value is simple enough for exact computations. Programs may contain only such values.

    Integers and bools may occur. Finite floats must be small, with few binary digits. The same holds for the parts of
    complex numbers, which must be finite.
    """
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        return True
    if array.dtype.kind == "c":
        return bool(np.isfinite(array).all()) and exact(array.real) and exact(array.imag)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        return False
    finite = array[np.isfinite(array)].astype(np.float64)
    most, step = (32, 4) if array.dtype == np.float16 else (64, 8)
    return bool((abs(finite) <= most).all() and (finite * step == np.floor(finite * step)).all())


def own(value: Any, before: Iterable[Any]) -> Any:
    """Return a NumPy result with the memory layout that weft's result has.

    For index arrays along an inner axis, NumPy returns a transposed view of a new array. Such a view, which shares no
    memory with the values in `before`, is copied to C order. Views with negative or zero strides are not copied.
    """
    is_view = isinstance(value, np.ndarray) and value.base is not None
    if is_view and not value.flags.c_contiguous and min(value.strides) > 0:
        if not any(np.may_share_memory(value, each) for each in before if isinstance(each, np.ndarray)):
            copied = value.copy("C")
            copied.flags.writeable = value.flags.writeable
            return copied
    return value


class World:
    """The accepted statements of a program, and the values of its variables in NumPy."""

    def __init__(self, start: Arrays, sizes: dict[str, int]) -> None:
        self.start, self.sizes = start, sizes
        self.lines: list[str] = []
        self.values: Arrays = {}
        self.again()

    def again(self) -> None:
        """Run the accepted statements again, to restore the values of the variables."""
        self.values = {name: value.copy() for name, value in self.start.items()}
        for line in self.lines:
            self._run(line)

    def _run(self, line: str) -> None:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            values = {"xp": np, "evaluate": lambda *a: None, "see": np.array, **self.sizes, **self.values}
            exec(line, values)
        known = ("xp", "evaluate", "see", "__builtins__", "_", "i", *self.sizes)
        before = [*self.values.values()]
        self.values = {name: own(value, before) for name, value in values.items() if name not in known}

    def evaluated(self, text: str) -> Any:
        """Evaluate an expression with NumPy.

        Raise Rejected if the value has an unsupported dtype, or too many elements or axes.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = eval(text, {"xp": np, **self.sizes}, dict(self.values))
        if not isinstance(found, np.ndarray | np.generic) or found.dtype.kind not in "biufc":
            raise Rejected
        if found.size > MOST or found.ndim > 7 or found.dtype.itemsize > 16:
            raise Rejected
        return found

    def _guard(self, line: str) -> None:
        """Reject statements whose results would depend on the machine.

        These are casts of floats to integers that may not hold them, and `ufunc.at` with values wider than its target.
        """
        written: ast.expr
        match ast.parse(line).body[0]:
            case ast.Assign(targets=[ast.Subscript() as written], value=value):
                parts = [value]
            case ast.Expr(ast.Call(keywords=[ast.keyword("out", written), *_]) as call):
                call.keywords = []
                parts = [call]
            case ast.Expr(ast.Call(func=ast.Attribute(attr="sum" | "max" | "clip" | "take"), args=args) as call):
                *call.args, written = args  # (the output is the last argument)
                parts = [call]
            case ast.For(body=[ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))])]) as loop:
                read = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name)} & self.values.keys()
                if self.values[name].dtype.kind in "iub" and any(self.values[n].dtype.kind in "fc" for n in read):
                    raise Rejected
                return
            case ast.Expr(ast.Call(func=ast.Attribute(), args=[written, *parts])):
                pass
            case _:
                return
        target, *values = (np.asarray(self._evaluated(part)) for part in (written, *parts))
        for value in values if target.dtype.kind in "iub" else ():
            if value.dtype.kind in "fc":
                if not np.isfinite(value).all() or (target.dtype.kind != "i" and (value < 0).any()):
                    raise Rejected
            elif ".at(" in line and np.result_type(value, target) != target.dtype:
                raise Rejected

    def _evaluated(self, node: ast.expr) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return eval(compile(ast.Expression(node), "", "eval"), {"xp": np, **self.sizes}, dict(self.values))

    def accept(self, line: str) -> bool:
        """Run a statement, and return whether it is allowed in the program.

        An allowed statement is added to the program. Any other statement is undone.
        """
        try:
            self._guard(line)
            self._run(line)
        except Exception:
            self.again()  # the statement may have changed some values
            return False
        arrays = [v for v in self.values.values() if isinstance(v, np.ndarray | np.generic)]
        if len(arrays) < len(self.values) or not all(v.size <= MOST and exact(v) for v in arrays):
            self.again()
            return False
        self.lines.append(line)
        return True


class Generator:
    """A generator of one random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.shapes: dict[str, tuple[str, str]] = {}
        pick = self.random
        for name in "xyzw"[: pick.randint(2, 4)]:
            self.shapes[name] = pick.choice(SHAPES), pick.choice(DTYPES)
        self.shapes["j"] = pick.choice(("(n,)", "(m,)", "(3,)", "(n,)", "(5,)")), "int64"
        self.bindings: list[tuple[dict[str, int], int]] = []
        sizes = self.sizes()
        self.bindings = [(sizes, 0), (sizes, 1), (self.sizes(), 2), (self.sizes(), 3)]
        self.world = World(self.start(*self.bindings[0]), sizes)
        self.count = 0
        target = pick.randint(3, 16)
        for _ in range(6 * target):
            if len(self.world.lines) >= target:
                break
            try:
                line = self.statement()
                if line:
                    self.world.accept(line)
            except Exception:
                continue  # NumPy rejects a part of the statement

    def sizes(self) -> dict[str, int]:
        """Return random values of the sizes n, m and k."""
        pick = self.random
        n, m, k = (pick.choice(EXTENTS) for _ in range(3))
        kind = pick.randrange(8)
        if kind == 0:
            n, m, k = pick.choice(LONG), pick.choice((1, 2, 3)), 1
        elif kind == 1:
            n, m, k = pick.choice((1, 2, 3)), pick.choice(LONG), 1
        elif kind == 2:
            n, m = pick.choice((4, 8, 16, 32, 64)), pick.choice((4, 8, 16, 32, 64))
        while n * m * k > 4100:
            k, n = 1, (n if m * n <= 4100 else max(1, n // 2))
        found = {"n": n, "m": m, "k": k}
        while any(np.prod(eval(shape, dict(found))) > MOST for shape, _ in self.shapes.values()):
            found["n"] //= 2
        return found

    def start(self, sizes: dict[str, int], data: int) -> Arrays:
        """Return inputs with these sizes. `data` is a seed for their elements."""
        source = np.random.default_rng([self.seed, data])
        found: Arrays = {}
        for name, (shape, dtype) in self.shapes.items():
            extents, kind = eval(shape, dict(sizes)), np.dtype(dtype)
            if name == "j":
                made: Any = source.integers(0, min(sizes["n"], 6), extents)
            elif kind.kind == "b":
                made = source.random(extents) < 0.5
            elif kind.kind == "c":
                made = source.integers(-4, 5, extents) + 1j * source.integers(-4, 5, extents)
            else:
                made = np.asarray(source.integers(0 if kind.kind == "u" else -9, 10, extents))
                made = made * 0.25 if kind.kind == "f" else made
            found[name] = np.asarray(made).astype(kind)
        return found

    # -- text ---------------------------------------------------------------------------------------------

    def operand(self, depth: int, beside: Any = None) -> tuple[str, Any]:
        """Return the text and the value of a random operand. Usually, it can be broadcast together with the other operand, given as `beside`."""
        if depth > 0 and self.random.random() < 0.45:
            text = self.expression(depth - 1)
            return f"({text})", self.world.evaluated(text)
        # (values that were read are NumPy arrays in both programs)
        known = [(name, value) for name, value in self.world.values.items() if name[0] != "s"]
        names = [name for name, value in known if np.size(value) or self.random.random() < 0.1]
        if beside is not None:
            fitting = [name for name in names if fits(self.world.values[name], beside)]
            if fitting and self.random.random() < 0.95:
                names = fitting
        name = self.random.choice(names)
        return name, self.world.values[name]

    def expression(self, depth: int) -> str:
        """Return an expression whose value is exact. Raise Rejected if forty attempts find none."""
        for attempt in range(40):
            if attempt % 8 == 0:
                group = self.random.choices(GROUPS, WEIGHTS)[0]
                template = self.random.choice(group)
            try:
                text = self.filled(template, depth)
                if group is GROUPS[5]:
                    first = self.world.evaluated(text.split("@")[0]) if "@" in text else None
                    if first is not None and first.dtype == np.float16:
                        continue
                elif "@" in text:
                    with suppress(SyntaxError):  # (the text before "@" may be incomplete)
                        self.world.evaluated(text.split("@")[0])  # rejects products that would take minutes
                value = self.world.evaluated(text)
            except Exception:
                continue
            if exact(value):
                return text
            for form in ("xp.clip(xp.floor({0}), -8, 8)", "({0}) % 8", "xp.clip(xp.real({0}) // 1, -8, 8)"):
                try:
                    wrapped = form.format(text)
                    if exact(self.world.evaluated(wrapped)) and not self.rounded(text):
                        return wrapped
                except Exception:
                    continue
        raise Rejected

    def rounded(self, text: str) -> bool:
        """Return whether, because of rounding, a value may depend on the machine or on the order of summation."""
        value = self.world.evaluated(text)
        if value.dtype.kind in "iub":
            return False
        finite = np.abs(value[np.isfinite(value)])
        return value.dtype == np.float16 or bool(finite.size and finite.max() > 2**18)

    def filled(self, template: str, depth: int, target: str = "") -> str:
        """Return a template with letters replaced by random text.

        Letters stand for operands, indices, axes, dtypes and numbers.
        """
        pick = self.random
        found: dict[str, str] = {}
        first: Any = self.world.values[target] if target else None
        out = []
        for position, letter in enumerate(template):
            alone = not (template[position - 1 : position].isalpha() or template[position + 1 : position + 2].isalpha())
            quoted = template[position - 1 : position] in "'." and template[position - 1 : position]
            if letter in "AB" and alone and not quoted:
                if letter not in found:
                    found[letter], value = self.operand(depth, first)
                    if first is None:
                        first = value
                out.append(found[letter])
            elif letter == "T" and alone and not quoted:
                out.append(target)
            elif letter == "D" and (quoted or alone):
                # out-of-range floats are cast to integers by another rule than NumPy's
                whole = np.asarray(first).dtype.kind in "biu" if first is not None else True
                out.append(found.setdefault("D", pick.choice(DTYPES[:-3] if whole else ("float32", "float64"))))
            elif letter == "I" and alone and not quoted:
                out.append(found.setdefault("I", self.positions()))
            elif letter == "q" and alone:
                out.append(found.setdefault("q", pick.choice(NUMBERS)))
            elif letter in "de" and alone:
                rank = max(np.ndim(first), 1)
                out.append(found.setdefault(letter, str(pick.randrange(-rank, rank))))
            elif letter == "s" and alone:
                out.append(pick.choice(SLICES))
            elif letter == "p" and alone and not quoted and template[position - 1] == "(":
                order = list(range(np.ndim(first)))
                pick.shuffle(order)
                out.append(str(tuple(order)))
            else:
                out.append(letter)
        if first is not None and np.asarray(first).dtype.kind in "fc" and re.search(r"astype\('u?int", template):
            raise Rejected  # the cast of an out-of-range float depends on the machine
        return "".join(out)

    def positions(self) -> str:
        """Return the source text of an expression for an index array. The indices are small, so that they are in bounds for most arrays."""
        return self.random.choice(
            ("j", "j", "j % 3", "j[::-1]", "j[:2]", "abs(j - 2)", "(j > 1).astype('int64')", "xp.arange(2)")
        )

    def statement(self) -> str:
        """Return a random statement, or "" if the statement has already been added to the program."""
        pick, values = self.random, self.world.values
        kind = pick.randrange(20)
        if kind == 0:
            return f"evaluate({', '.join(pick.sample(list(values), pick.randint(1, min(3, len(values)))))})"
        if kind == 1:
            return f"s{len(self.world.lines)} = see({pick.choice(list(values))})"
        if kind == 2 and len(values) > 3:
            return f"del {pick.choice([name for name in values if name != 'j'])}"
        if kind < 9:
            writable = [n for n, v in values.items() if n != "j" and np.ndim(v) and v.flags.writeable and n[0] != "s"]
            template = pick.choice(LOOPS if kind == 3 else WRITES)
            for _ in range(8):
                target = pick.choice(writable)
                try:
                    line = self.filled(template, int(kind != 3), target)
                except Exception:
                    continue  # NumPy rejects a part of the statement
                if self.world.accept(line):
                    return ""
            raise Rejected
        if kind == 9:
            # a named view: a later write to the view changes its base
            name = self.random.choice([n for n in values if n[0] != "s"])
            text = self.filled(pick.choice(GROUPS[1][:24]).replace("A", name), 0, name)
            return f"{self.name()} = {text}"
        return f"{self.name()} = {self.expression(pick.choice((0, 1, 1, 2, 3)))}"

    def name(self) -> str:
        """Return a name for a value: a new name, or an existing one to overwrite."""
        if self.random.random() < 0.15 and self.count:
            return f"v{self.random.randint(1, self.count)}"
        self.count += 1
        return f"v{self.count}"


def fits(one: Any, other: Any) -> bool:
    """Return whether two values can be broadcast together."""
    try:
        np.broadcast_shapes(np.shape(one), np.shape(other))
    except ValueError:
        return False
    return True


def run_weft(lines: list[str], start: Arrays, sizes: dict[str, int], device: str, when: str) -> Arrays:
    """Run the program on weft, and return its values.

    `when` is the time of evaluation: at the "end", or after "each" statement. With "one" the last value is evaluated
    before all others, and with "other" the first value.
    """
    shared: list[np.ndarray] = []  # (on the CPU, these arrays share memory, and later writes would change them)

    def see(value: Any) -> np.ndarray:
        shared.append(np.asarray(value))
        return shared[-1].copy()

    with on_device(device):
        values: Arrays = {
            "xp": wf,
            "evaluate": lambda *a: wf.evaluate(*(v for v in a if isinstance(v, wf.Array))),
            "see": see,
            **sizes,
        }
        for name, value in start.items():
            values[name] = wf.asarray(value)
        for line in lines:
            exec(line, values)
            if when == "each":
                wf.evaluate(*[v for v in values.values() if isinstance(v, wf.Array)])
        arrays = {n: v for n, v in values.items() if isinstance(v, wf.Array | np.ndarray | np.generic)}
        lazy = [v for v in arrays.values() if isinstance(v, wf.Array)]
        if when in ("one", "other") and lazy:
            first = -1 if when == "one" else 0
            np.array(lazy[first])
            wf.evaluate(lazy[len(lazy) // 2])
        wf.evaluate(*lazy)
        return {name: np.array(value) for name, value in arrays.items()}


def trouble_of(lines: list[str], start: Arrays, sizes: dict[str, int], device: str, whens: tuple[str, ...]) -> str:
    """Run a program on weft with each of the evaluation times in `whens`, and compare the results with NumPy's (see
    `run_weft`).

    Return the first difference from NumPy or the first error as text, or "" if there is none.
    """
    world = World(start, sizes)
    world.lines = lines
    world.again()
    wanted = {name: np.asarray(value) for name, value in world.values.items()}
    for when in whens:
        try:
            found = run_weft(lines, start, sizes, device, when)
            trouble = differences(found, wanted, False)
            if not trouble and when == "end" and device.startswith("simt"):
                with few_blocks(device):
                    trouble = differences(run_weft(lines, start, sizes, device, when), wanted, False)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            return f"({when}) {trouble}"
    return ""


def check(seed: int, devices: tuple[str, ...] = DEVICES) -> str:
    """Return a description of the first difference between NumPy and weft on the devices, or ""."""
    generator = Generator(seed)
    lines = generator.world.lines
    for device in devices:
        for number, (sizes, data) in enumerate(generator.bindings):
            start = generator.start(sizes, data)
            world = World(start, sizes)
            for line in lines:
                world.accept(line)
            held = sum(np.size(v) for v in world.values.values())
            if device.endswith("sanitized") and (
                held > MOST_SANITIZED or re.search(r"arange\(\d\d", "".join(world.lines))
            ):
                continue
            more = ("one", "other") if seed % 2 else ("each",)
            whens = ("end", *more) if device == "cpu" and not number else ("end",)
            trouble = trouble_of(world.lines, start, sizes, device, whens)
            if trouble:
                shown = minimal(world.lines, start, sizes, device, whens)
                inputs = ", ".join(f"{n}: {v.dtype}{v.shape}" for n, v in start.items())
                return "\n".join([f"seed {seed} on {device} {sizes} data {data}: {trouble}", inputs, *shown])
    return ""


def minimal(lines: list[str], start: Arrays, sizes: dict[str, int], device: str, whens: tuple[str, ...]) -> list[str]:
    """Return the program without statements that do not contribute to the fault."""
    k = len(lines) - 1
    while k >= 0:
        fewer = lines[:k] + lines[k + 1 :]
        try:
            if trouble_of(fewer, start, sizes, device, whens):
                lines = fewer
        except Exception:
            pass  # NumPy rejects the program, so the statement is needed
        k -= 1
    return lines


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.graphs"))
