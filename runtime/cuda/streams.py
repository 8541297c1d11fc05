"""Streams and events of a GPU, and the order of work in different streams.

In: a device's driver. Out: `CudaStream`, `CudaEvent` and `StreamOrder`. Invariant: a user stream waits for earlier work
of the device's own stream. The next work of the device's own stream waits for earlier work of all user streams. Two
user streams wait for each other only through events, or if one uses memory that the other wrote, or writes memory that
the other used (`StreamOrder.claim`).
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from weft.runtime.cuda.driver import Driver
from weft.runtime.errors import CudaError, DeviceMismatchError
from weft.runtime.fork_locks import renew_in_children

if TYPE_CHECKING:
    from weft.runtime.cuda.device_memory import PoolBlock

NON_BLOCKING = 1
NO_TIMING = 2
# Seconds of a wait during which the driver is queried without pause. A sleeping thread wakes up at least 0.06 ms late.
SPIN = 2e-3
INVALID_HANDLE = 400  # the code of an error

_functions: dict[int, Callable[[], object]] = {}  # by number, the functions that the driver has not called yet
_numbers = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _call_function(number: int) -> None:
    """Call the Python function ``_functions[number]``. The CUDA driver calls this wrapper in one of its threads.

    The C function exists once and forever, because it must not be freed while a driver thread returns from it.
    """
    _functions.pop(number)()


class CudaEvent:
    """An event, which marks a point in the work of a CUDA stream.

    Parameters
    ----------
    driver : Driver
    order : StreamOrder or None
        The order of the device's streams, for an event of the user. It gives the default stream of `record`, and lets
        the device's own stream wait for the user streams before the event is recorded in the device's own stream.
        None for an internal event.
    timing : bool
    """

    def __init__(self, driver: Driver, order: StreamOrder | None, timing: bool = True) -> None:
        self._driver = driver
        self._order = order
        self.handle = driver.call("cuEventCreate", 0 if timing else NO_TIMING)

    def record(self, stream: Any = None) -> None:
        if self._order is not None:
            stream = stream or self._order.current
            if stream.is_main:
                self._order.join()
        self._driver.call("cuEventRecord", self.handle, stream.queue)

    def query(self) -> bool:
        return self._driver.is_done("cuEventQuery", self.handle)

    def synchronize(self) -> None:
        """Wait for the event. Ctrl-C interrupts the wait."""
        begin = time.perf_counter()
        while not self.query():
            waited = time.perf_counter() - begin
            if waited > SPIN:
                time.sleep(min(waited / 16, 1e-3))

    def elapsed(self, earlier: Any) -> float:
        """Return the time in milliseconds from the event `earlier` to this event.

        Raises ValueError if one of the events was not recorded or has no timing.
        """
        try:
            return self._driver.milliseconds(earlier.handle, self.handle)
        except CudaError as error:
            if error.code != INVALID_HANDLE:
                raise
            raise ValueError(
                "the time between two events needs both of them recorded, and made with timing=True"
            ) from error

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._driver.quietly("cuEventDestroy", self.handle)


class CudaStream:
    """A CUDA stream, which belongs either to the user or to the device itself.

    The `handle` of the device's own stream is 0.

    Attributes
    ----------
    queue
        The driver's handle.
    last_work : int
        The number of the stream's latest work. All streams of a device share one counter.
    free : FreeList or None
        Free blocks of memory that only this stream and the device's own stream have used. None before the stream's
        first allocation.
    """

    def __init__(self, order: StreamOrder, queue: Any, handle: int, owned: bool, owner: object = None) -> None:
        self._order = order
        self._owned = owned
        # another library's stream object: the stream must exist until the device's own stream has waited for it
        self._owner = owner
        self.queue = queue
        self.handle = handle
        self.last_work = 0
        self.free: Any = None
        # number of a stream -> the latest work of that stream for which this stream has waited
        self._seen: dict[int, int] = {}
        self._mark: CudaEvent | None = None
        order.all.add(self)

    @property
    def is_main(self) -> bool:
        """Return whether this is the device's own stream."""
        return self.queue is self._order.main

    @property
    def number(self) -> int:
        """The stream's driver handle as an integer."""
        return _number(self.queue)

    def mark(self) -> CudaEvent:
        """Record the stream's event at the current end of the stream, and return the event.

        The next call records the same event again.
        """
        if self._mark is None:
            self._mark = CudaEvent(self._order.driver, None, timing=False)
        self._mark.record(self)
        return self._mark

    def query(self) -> bool:
        return self._order.driver.is_done("cuStreamQuery", self.queue)

    def synchronize(self) -> None:
        """Wait for all work in the stream. Ctrl-C interrupts the wait."""
        if self.is_main:
            self._order.join()
        self.mark().synchronize()

    def wait(self, event: Any) -> None:
        self._order.driver.call("cuStreamWaitEvent", self.queue, event.handle, 0)

    def follow(self, other: CudaStream) -> None:
        """Make later work in this stream wait for all current work of `other`."""
        if other is not self and not self.waits_for(other.number, other.last_work):
            self.wait(other.mark())
            self._seen[other.number] = other.last_work
            for number, last_work in other._seen.items():  # work for which the other stream has waited
                self._seen[number] = max(last_work, self._seen.get(number, 0))

    def waits_for(self, number: int, last_work: int) -> bool:
        """Return whether this stream waits for the work item `last_work` of the stream with the handle `number`."""
        return number == self.number or self._seen.get(number, 0) >= last_work

    def add_callback(self, function: Callable[[], object]) -> None:
        """Call `function` in a driver thread after the stream's current work."""
        number, driver = next(_numbers), self._order.driver
        _functions[number] = function
        address = ctypes.c_void_p.from_buffer(_call_function).value
        try:
            driver.call("cuLaunchHostFunc", self.queue, driver.table.CUhostFn(address), number)
        except BaseException:
            _functions.pop(number, None)
            raise

    def __del__(self) -> None:
        if self.free is not None and self is not self._order.own:
            self._order.inherit(self.free)  # the device's own stream waits for a stream before the stream is deleted
        if self._owned:
            self._order.driver.quietly("cuStreamDestroy", self.queue)


class StreamStack(threading.local):
    """The stack of the streams that a thread is using, with the innermost stream last."""

    def __init__(self) -> None:
        self.streams: list[CudaStream] = []


class StreamOrder:
    """The streams of a device, and the dependencies between the work in different streams.

    Attributes
    ----------
    own : CudaStream
        The device's own stream.
    lock : RLock
        Held from `enter` until the work is submitted, so that other streams wait for this work, too.
    entered : StreamStack
        The streams that the calling thread is using.
    all : WeakSet of CudaStream
        All existing streams.
    inherit : callable
        Function of the memory pool that receives the free blocks of a destroyed stream.
    """

    def __init__(self, driver: Driver, main: Any) -> None:
        self.driver = driver
        self.main = main
        self._count = itertools.count(1)
        self._open: dict[CudaStream, None] = {}
        self.lock = threading.RLock()
        renew_in_children(self, name="lock")
        self.entered = StreamStack()
        self.all: WeakSet[CudaStream] = WeakSet()
        self.inherit: Callable[[Any], None] = lambda free: None
        self.own = CudaStream(self, main, 0, owned=False)
        self.own.last_work = next(self._count)
        self._beside: CudaStream | None = None

    def create(self, handle: int | None, owner: object = None) -> CudaStream:
        """Return the stream with the CUDA handle `handle`, or a new stream if `handle` is None.

        The handle 0 is the device's own stream. For other handles, the result wraps the CUDA stream and keeps `owner`
        alive.
        """
        if handle is not None and handle in (0, self.own.number):
            return self.own
        if handle is None:
            queue = self.driver.call("cuStreamCreate", NON_BLOCKING)
            return CudaStream(self, queue, _number(queue), owned=True)
        return CudaStream(self, handle, handle, owned=False, owner=owner)

    @property
    def beside(self) -> CudaStream:
        """The stream for copies that need not wait for other work on the device. It has no implicit dependencies."""
        if self._beside is None:
            self._beside = self.create(None)
        return self._beside

    def join_copies(self) -> None:
        """Make the device's own stream wait for the copy stream.

        From then on, the copies are treated as work of the device's own stream.
        """
        with self.lock:
            self.own.follow(self.beside)
            self.own.last_work = next(self._count)

    # -- the calling thread's stream ----------------------------------------------------------

    @property
    def current(self) -> CudaStream:
        """Return the stream of the calling thread."""
        streams = self.entered.streams
        return streams[-1] if streams else self.own

    # -- order ----------------------------------------------------------------------------------

    def enter(self, stream: CudaStream | None) -> Any:
        """Prepare a stream for its next work, and return the stream's driver handle.

        The stream waits for the work that must come first. If `stream` is None, the stream is that of the calling
        thread.

        Raises DeviceMismatchError for a stream of another device.
        """
        if stream is None:
            stream = self.current
        if stream is self.own:
            if self._open:
                self.join()
            stream.last_work = next(self._count)
            return self.main
        if stream._order is not self:
            raise DeviceMismatchError(
                f"a stream of {stream._order.driver.name} was given work of {self.driver.name}: "
                f"make one there, with weft.stream({self.driver.name!r})"
            )
        with self.lock:
            if stream is not self._beside:
                stream.follow(self.own)
                self._open[stream] = None
            stream.last_work = next(self._count)
        return stream.queue

    def join(self) -> None:
        """Make the device's own stream wait for the work in all user streams.

        From then on, this work is treated as work of the device's own stream.
        """
        if self._open:
            with self.lock:
                while self._open:
                    stream = next(iter(self._open))
                    self.own.follow(stream)
                    del self._open[stream]
                    self.own.last_work = next(self._count)

    def claim(self, block: PoolBlock, stream: CudaStream | None, written: bool) -> None:
        """Make `stream` wait for other streams' work on a block, before the stream uses the block.

        None is the stream of the calling thread.
        """
        if stream is None:
            stream = self.current
        if block.writer is not stream:
            if not block.writer.is_main and not stream.is_main:
                stream.follow(block.writer)
            block.readers = block.readers | {stream}
        if written:
            for reader in block.readers:
                if reader is not stream and not reader.is_main and not stream.is_main:
                    stream.follow(reader)
            block.writer = stream
            block.readers = frozenset()


def _number(queue: Any) -> int:
    """Return a stream's driver handle as an integer. A handle that cannot be converted is replaced by its `id`."""
    try:
        return int(queue)
    except (TypeError, ValueError):
        return id(queue)
