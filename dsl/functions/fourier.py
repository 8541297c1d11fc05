"""NumPy's one-dimensional Fourier transforms.

The transforms over several axes call these functions.

In: arrays. Out: recorded calls to a library: NumPy on all threads of the CPU or, for arrays on a GPU, cuFFT if it is
installed. Invariant: on the CPU, results are bit-identical to those of NumPy's functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.memory_order import in_order, memory_order, permuted, unpermuted
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import return_result
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.creation import arange, asarray
from weft.dsl.functions.host_loops import run_in_blocks
from weft.dsl.functions.manipulation import moveaxis
from weft.dsl.functions.padding import pad
from weft.dsl.functions.selection import where
from weft.dsl.functions.sorting import packed
from weft.fusion import cast, opaque
from weft.runtime import Buffer, Device, device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output

_NORMS = ("backward", "ortho", "forward")


@dataclass(frozen=True, slots=True)
class HostTransform:
    """The host function that computes a recorded Fourier transform with NumPy."""

    kind: str
    n: int
    axis: int
    norm: str

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """Transform `values` along the axis. All threads take part, and each processes blocks of the data. Write the result to `out`."""
        function = partial(getattr(np.fft, self.kind), n=self.n, axis=self.axis, norm=self.norm)
        run_in_blocks(lambda index: function(values[index], out=out[index]), out, self.axis)


@dataclass(frozen=True, slots=True)
class DeviceTransform:
    """The library call of a recorded Fourier transform on a GPU, without scaling. The rows are contiguous."""

    kind: str
    n: int

    def __call__(self, out: np.ndarray, values: np.ndarray) -> None:
        """Transform `values` on the host, and write the result to `out`. Interpreted plans call this method."""
        norm: Any = "forward" if self.kind[0] == "i" else "backward"
        getattr(np.fft, self.kind)(values, self.n, norm=norm, out=out)

    def enqueue(
        self, device: Device, out: Buffer, operand: tuple[Buffer, int], shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        """Enqueue the library's kernels on the device. `operand` is a buffer and the byte offset of the first row."""
        source, begin = operand
        double = dtype.char in "dD"
        device.fourier.transform(  # type: ignore[attr-defined]
            self.kind, out.address, source.address + begin, self.n, prod(shape[:-1]), double
        )

    def describe(self, shape: tuple[int, ...], dtype: np.dtype) -> str:
        """Return a description of the call for the plan's explanation."""
        return f"by cuFFT, {prod(shape[:-1])} rows of {self.n}"


def _library_of(device: Device) -> Any:
    """Return a device's Fourier transform library (cuFFT), or None if the device has none."""
    found = device.fourier
    return found if found is not None and found.is_available() else None


def _transform(kind: str, a: ArrayLike, n: int | None, axis: int, norm: str | None, out: Output | None) -> Any:
    location = start()
    x = asarray(a)
    if isinstance(out, Array) and _library_of(x.device) is not None:
        found = _transform(kind, x, n, axis, norm, None)
        if found.shape == out.shape and found.dtype == out.dtype:
            return return_result("positive", expr_of(found), out)
    numpys: Callable[..., Any] = getattr(np.fft, kind)
    rule = "backward" if norm is None else norm
    if out is not None or not x.ndim or x.dtype.char not in "?bBhHiIlLqQefdFD" or rule not in _NORMS:
        return call_numpy(numpys, (a, n, axis, norm), {"out": out} if out is not None else {})
    along = normalize_axis(axis, x.ndim)
    length = (2 * (x.shape[along] - 1) if kind == "irfft" else x.shape[along]) if n is None else operator.index(n)
    if length < 1 or (kind == "rfft" and x.dtype.kind == "c") or not x.size:
        return call_numpy(numpys, (a, n, axis, norm), {})
    count = length // 2 + 1 if kind == "rfft" else length
    single = x.dtype.char in "efF"
    made = np.dtype(("f" if single else "d") if kind == "irfft" else ("F" if single else "D"))
    with device(x.device):
        # (the result has the operand's order of axes in memory)
        order = memory_order([x])
        restore_order = (lambda found: found) if order is None else partial(unpermuted, order=order)
        if order is not None:
            x, along = permuted(x, order), order.index(along)
        half = kind == "irfft" and x.dtype.char == "e"
        if _library_of(x.device) is not None:
            found = restore_order(_on_device(kind, x, length, along, rule, made, count, location))
            return found.astype(np.float16) if half else found
        shape = (*x.shape[:along], count, *x.shape[along + 1 :])
        call = HostTransform(kind, length, along, rule)
        return restore_order(record(opaque(call, [expr_of(x)], shape, x.dtype if half else made, kind, location)))


def _on_device(kind: str, x: Array, n: int, axis: int, norm: str, made: np.dtype, count: int, location: Any) -> Array:
    """Record a Fourier transform that the device's library computes.

    Scaling and casts are separate operations, which can be fused.
    """
    rows, taken = moveaxis(x, axis, -1), n // 2 + 1 if kind == "irfft" else n
    have = rows.shape[-1]
    if have > taken:
        rows = rows[..., :taken]
    elif have < taken:
        rows = pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, taken - have)])
    given = np.dtype(made.char.lower()) if kind == "rfft" else np.dtype(made.char.upper())
    rows = rows.astype(given)
    if kind == "irfft":  # (cuFFT requires real elements at the frequencies 0 and n / 2; NumPy ignores imaginary parts)
        frequencies = arange(taken)
        real = (frequencies == 0) | (frequencies == n // 2) if n % 2 == 0 else frequencies == 0
        rows = where(real, rows.real.astype(given), rows)
    node = opaque(DeviceTransform(kind, n), [packed(expr_of(rows))], (*rows.shape[:-1], count), made, kind, location)
    found = record(cast(node, made))
    inverse = kind[0] == "i"
    if norm == "ortho" or (norm == "backward") == inverse:
        found = found * made.type(1 / sqrt(n) if norm == "ortho" else 1 / n)
    return in_order(moveaxis(found, -1, axis), "C")


def _make_transform(kind: str) -> Callable[..., Any]:
    def function(
        a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: Output | None = None
    ) -> Any:
        return _transform(kind, a, n, axis, norm, out)

    return named(f"fft.{kind}", function)  # type: ignore[no-any-return]


fft, ifft, rfft, irfft = map(_make_transform, ("fft", "ifft", "rfft", "irfft"))
