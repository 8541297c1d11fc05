"""Fourier transforms on a GPU with cuFFT, if nvmath-python is installed.

In: contiguous rows on the device, by address. Out: their unnormalized transforms, enqueued in the calling thread's
stream. Invariant: a plan's workspace is memory of the device's pool, and returns to the pool once the transforms
are enqueued.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from weft.runtime.cuda.libraries import DeviceLibrary

KEPT_PLANS = 16
FORWARD, INVERSE = -1, 1
# Transform -> cuFFT's names of the type and its numbers, for single and for double precision.
TYPES = {
    "fft": (("c2c", 0x29), ("z2z", 0x69)),
    "ifft": (("c2c", 0x29), ("z2z", 0x69)),
    "rfft": (("r2c", 0x2A), ("d2z", 0x6A)),
    "irfft": (("c2r", 0x2C), ("z2d", 0x6C)),
}


class Fourier(DeviceLibrary):
    """The cuFFT library for one device."""

    BINDINGS, TITLE = "cufft", "cuFFT"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plans: OrderedDict[tuple[int, int, int], tuple[int, int]] = OrderedDict()

    def transform(self, kind: str, out: int, source: int, n: int, rows: int, double: bool) -> None:
        """Compute unnormalized Fourier transforms of contiguous rows.

        The results are written to the address `out`.

        Parameters
        ----------
        kind : {"fft", "ifft", "rfft", "irfft"}
        out, source : int
            Addresses. Real rows have `n` elements, and their transforms ``n // 2 + 1``.
        n, rows : int
        double : bool
            Whether elements have double precision.

        Raises
        ------
        CudaError
            If cuFFT fails.
        """
        name, number = TYPES[kind][double]
        with self._lock:
            plan, nbytes = self._plan(number, n, rows)
            work = self._allocate(nbytes)
            with self._order.lock:
                queue = int(self._order.enter(None))
                self._call("set_stream", plan, queue)
                self._call("set_work_area", plan, work.address)
                direction = ((INVERSE if kind == "ifft" else FORWARD),) if name in ("c2c", "z2z") else ()
                self._call(f"exec_{name}", plan, source, out, *direction)

    def _plan(self, number: int, n: int, rows: int) -> tuple[int, int]:
        """Return a cuFFT plan, cached or new, and the size of the plan's workspace in bytes."""
        key = number, n, rows
        found = self._plans.get(key)
        if found is not None:
            self._plans.move_to_end(key)
            return found
        while len(self._plans) >= KEPT_PLANS:
            _, (oldest, _) = self._plans.popitem(last=False)
            self._call("destroy", oldest)
        plan = self._call("create")
        try:
            self._call("set_auto_allocation", plan, 0)
            # (without embedding lengths, strides and distances have no effect: rows are contiguous)
            nbytes = int(self._call("make_plan_many64", plan, 1, [n], 0, 1, 0, 0, 1, 0, number, rows))
        except BaseException:
            self._call("destroy", plan)
            raise
        self._plans[key] = plan, nbytes
        return plan, nbytes

    def __del__(self) -> None:
        for plan, _ in getattr(self, "_plans", {}).values():
            self._release("destroy", plan)
