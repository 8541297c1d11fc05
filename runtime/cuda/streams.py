"""Streams and events of a GPU, and the order between a person's streams and the device's own.

In: a device's driver. Out: `CudaStream`, `CudaEvent`, `Order`. Always true: a person's stream waits for what the device's
own stream was given before; the device's own stream waits for every open stream before its next work; two of a
person's streams wait for each other only where events say so.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

from weft.runtime.cuda.driver import Driver

NON_BLOCKING = 1
NO_TIMING = 2

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_callbacks: dict[int, Any] = {}  # those that the driver has yet to call


class CudaEvent:
    """A point in a stream.

    Parameters
    ----------
    driver : Driver
    stream : the handle of the stream that `record` marks unless it is given another
    timing : bool
    """

    def __init__(self, driver: Driver, stream: Any, timing: bool = True) -> None:
        self._driver = driver
        self._stream = stream
        self.handle = driver.call("cuEventCreate", 0 if timing else NO_TIMING)

    def record(self, stream: Any = None) -> None:
        """Mark the present end of a stream."""
        self._driver.call("cuEventRecord", self.handle, self._stream if stream is None else stream.queue)

    def query(self) -> bool:
        """Whether everything before it has ended."""
        return self._driver.is_done("cuEventQuery", self.handle)

    def synchronize(self) -> None:
        """Wait for it; Ctrl-C works meanwhile."""
        pause = 1e-5
        while not self.query():
            time.sleep(pause)
            pause = min(pause * 1.5, 1e-3)

    def elapsed(self, earlier: Any) -> float:
        """Milliseconds since another event."""
        return float(self._driver.call("cuEventElapsedTime", earlier.handle, self.handle))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._driver.quietly("cuEventDestroy", self.handle)


class CudaStream:
    """A stream beside the device's own, or the device's own (`handle` 0)."""

    def __init__(self, order: Order, queue: Any, handle: int, owned: bool) -> None:
        self._order = order
        self._owned = owned
        self.queue = queue  # what the driver takes
        self.handle = handle
        self.seen = -1  # the turn of the device's own stream that this one has waited for
        self._mark: CudaEvent | None = None

    @property
    def is_main(self) -> bool:
        """Whether this is the device's own stream."""
        return self.queue is self._order.main

    @property
    def number(self) -> int:
        """CUDA's own number of it."""
        return _number(self.queue)

    def mark(self) -> CudaEvent:
        """The present end, as an event that is used again and again."""
        if self._mark is None:
            self._mark = CudaEvent(self._order.driver, self.queue, timing=False)
        self._mark.record()
        return self._mark

    def query(self) -> bool:
        """Whether everything in it has ended."""
        return self._order.driver.is_done("cuStreamQuery", self.queue)

    def synchronize(self) -> None:
        """Wait for everything in it; Ctrl-C works meanwhile."""
        if self.is_main:
            self._order.join()
        self.mark().synchronize()

    def wait(self, event: Any) -> None:
        """What comes next waits for `event`."""
        self._order.driver.call("cuStreamWaitEvent", self.queue, event.handle, 0)

    def add_callback(self, function: Callable[[], object]) -> None:
        """Call `function`, from a thread of the driver's, when everything so far has ended."""

        def called(_: Any) -> None:
            try:
                function()
            finally:
                del _callbacks[key]

        made = _Callback(called)
        key = ctypes.cast(made, ctypes.c_void_p).value or 0
        _callbacks[key] = made
        driver = self._order.driver
        driver.call("cuLaunchHostFunc", self.queue, driver.table.CUhostFn(_ptr=key), 0)

    def __del__(self) -> None:
        if self._owned:
            self._order.driver.quietly("cuStreamDestroy", self.queue)


class Order:
    """Which streams have work that the device's own has not waited for, and the other way round."""

    def __init__(self, driver: Driver, main: Any) -> None:
        self.driver = driver
        self.main = main
        self.turn = 0  # counts the device's own work
        self._open: dict[CudaStream, None] = {}
        self._lock = threading.Lock()
        self._own = CudaStream(self, main, 0, owned=False)

    def create(self, handle: int | None) -> CudaStream:
        """A new stream, one that somebody else made, or (0) the device's own."""
        if handle is not None and handle in (0, self._own.number):
            return self._own
        if handle is None:
            queue = self.driver.call("cuStreamCreate", NON_BLOCKING)
            return CudaStream(self, queue, _number(queue), owned=True)
        return CudaStream(self, handle, handle, owned=False)

    def enter(self, stream: CudaStream | None) -> Any:
        """Before work goes to `stream`: what the driver calls it. None is the device's own."""
        if stream is None or stream.is_main:
            self.join()
            self.turn += 1
            return self.main
        with self._lock:
            if stream.seen != self.turn:
                stream.wait(self._own.mark())
                stream.seen = self.turn
            self._open[stream] = None
        return stream.queue

    @property
    def is_open(self) -> bool:
        """Whether a person's stream has work that the device's own has not waited for."""
        return bool(self._open)

    def join(self) -> None:
        """The device's own stream waits for every open one, and their work counts as its own from here on."""
        if self._open:
            with self._lock:
                while self._open:
                    stream = next(iter(self._open))
                    self._own.wait(stream.mark())
                    del self._open[stream]
                    self.turn += 1


def _number(queue: Any) -> int:
    """A stream's handle as a number."""
    try:
        return int(queue)
    except (TypeError, ValueError):
        return id(queue)
