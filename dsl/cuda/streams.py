"""Streams and events with Numba CUDA's interface.

In: the runtime's streams and events. Out: `Stream`, `Event`, and `as_queue`, which converts a launch's stream
argument. Invariant: 0 and None are the calling thread's stream: that of the innermost ``with stream:`` block, or else
the device's own stream. Work in different streams is ordered so that arrays are never read too early.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import weft.runtime as runtime
from weft.fusion import flush
from weft.runtime import default_device, get_device

if TYPE_CHECKING:
    import asyncio

LEGACY = 1  # CUDA's legacy default stream, which other libraries call 0
_NAMES = {0: "<Default CUDA stream>", 1: "<Legacy default CUDA stream>", 2: "<Per-thread default CUDA stream>"}


class _Entered(threading.local):
    """The ``with`` blocks of a stream that a thread has entered, with the innermost block last."""

    def __init__(self) -> None:
        self.blocks: list[AbstractContextManager[None]] = []


class Stream:
    """A queue of copies and kernels, created by `weft.stream`, `cuda.stream` and related functions.

    In a ``with stream:`` block, the calling thread's evaluations, kernels and copies run in the stream if they use the
    stream's device. Operations that were recorded before the block run first. Operations that are recorded in the block
    run at the end of the block at the latest.
    """

    def __init__(self, queue: runtime.Stream, external: bool = False, device: runtime.Device | None = None) -> None:
        self.queue = queue
        self.external = external
        self.device = device or default_device()
        self._entered = _Entered()

    def __enter__(self) -> Stream:
        flush()
        within = self.device.working_in(self.queue)
        within.__enter__()
        self._entered.blocks.append(within)
        return self

    def __exit__(self, kind: type, *error: Any) -> None:
        try:
            if kind is None:
                flush()
        finally:
            self._entered.blocks.pop().__exit__(None, None, None)

    @property
    def handle(self) -> int:
        """The stream's CUDA handle."""
        return self.queue.handle

    def __int__(self) -> int:
        return self.queue.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        # (other libraries would interpret 0 as CUDA's legacy default stream)
        return (0, self.queue.number)

    def __repr__(self) -> str:
        kind = "External CUDA" if self.external else "CUDA"
        return _NAMES.get(self.handle, f"<{kind} stream {self.handle}>")

    def query(self) -> bool:
        """Return whether all work in the stream has ended."""
        return self.queue.query()

    def synchronize(self) -> None:
        """Wait for all work in the stream."""
        self.queue.synchronize()

    def wait(self, other: Stream | Event) -> None:
        """Make later work in this stream wait for an event, or for another stream's current work."""
        if isinstance(other, Event):
            self.queue.wait(other._event)
            return
        mark = other.device.create_event(timing=False)
        mark.record(other.queue)
        self.queue.wait(mark)

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Return a context manager that waits for all work in the stream when its block ends without an exception."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Stream, int, Any], object], arg: Any = None) -> None:
        """Call ``callback(stream, status, arg)`` once all earlier work in the stream has ended.

        The callback may run in another thread, and must be short. On the CPU, the callback runs immediately. An exception
        of the callback is shown as a warning.
        """

        def call() -> None:
            try:
                callback(self, 0, arg)
            except Exception as error:
                warnings.warn(f"exception in a stream's callback: {error!r}", stacklevel=2)

        self.queue.add_callback(call)

    def async_done(self) -> asyncio.Future[Stream]:
        """Return an awaitable that is done when all earlier work in the stream has ended. The result is the stream."""
        import asyncio  # slow to import, and already loaded if there is an event loop

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Stream] = loop.create_future()

        def resolve() -> None:
            if not future.done():
                future.set_result(self)

        self.queue.add_callback(lambda: loop.call_soon_threadsafe(resolve))
        return future


def as_queue(value: object) -> runtime.Stream | None:
    """Convert a launch's `stream` argument to a runtime stream, or to None for the calling thread's stream.

    Raises TypeError unless the argument is a `Stream`, 0, None, or an object with ``__cuda_stream__``.
    """
    if isinstance(value, Stream):
        return value.queue
    if value is None or (isinstance(value, int) and value == 0):
        return None
    protocol = getattr(value, "__cuda_stream__", None)
    if protocol is not None:
        handle = int((protocol() if callable(protocol) else protocol)[1])
        return default_device().create_stream(handle or LEGACY, value)
    raise TypeError(f"a stream is made by cuda.stream(), or 0 for the default; not {value!r}")


def stream(device: str | runtime.Device | None = None) -> Stream:
    """Create a stream.

    Operations in a ``with weft.stream():`` block run in the new stream.

    Streams run concurrently if the device supports concurrent streams. An array that is computed in one stream can be
    used in any other stream, which then waits for the array.

    Parameters
    ----------
    device : str or Device, optional
        The device, by default the current one.

    Returns
    -------
    Stream

    Examples
    --------
    >>> with wf.stream():
    ...     x = wf.ones(3) * 2
    >>> print(x)
    [2. 2. 2.]
    """
    owner = default_device() if device is None else get_device(device)
    return Stream(owner.create_stream(), device=owner)


def default_stream() -> Stream:
    """Return the current device's default stream.

    Weft computes arrays in this stream outside ``with stream:`` blocks.

    Examples
    --------
    >>> cuda.default_stream().synchronize()
    """
    return Stream(default_device().create_stream(0))


def legacy_default_stream() -> Stream:
    """Return CUDA's legacy default stream.

    Examples
    --------
    >>> cuda.legacy_default_stream().synchronize()
    """
    return Stream(default_device().create_stream(LEGACY))


def per_thread_default_stream() -> Stream:
    """Return CUDA's per-thread default stream.

    Examples
    --------
    >>> cuda.per_thread_default_stream().synchronize()
    """
    return Stream(default_device().create_stream(2))


def external_stream(ptr: int) -> Stream:
    """Return a `Stream` for the CUDA stream with the handle `ptr`.

    The creator of the CUDA stream must destroy it.

    Examples
    --------
    >>> stream = cuda.external_stream(0)
    >>> stream.synchronize()
    """
    return Stream(default_device().create_stream(int(ptr)), external=True)


class Event:
    """A point in a stream, created by `cuda.event`."""

    def __init__(self, event: runtime.Event) -> None:
        self._event = event

    @property
    def handle(self) -> Any:
        """The event's CUDA handle."""
        return getattr(self._event, "handle", 0)

    def record(self, stream: object = 0) -> None:
        """Record the event at the end of a stream, by default the calling thread's stream.

        Pending operations run first.
        """
        flush()
        self._event.record(as_queue(stream))

    def query(self) -> bool:
        """Return whether all work before the event has ended."""
        return self._event.query()

    def synchronize(self) -> None:
        """Wait for the event: block the calling thread until all work that was queued before the event has finished."""
        self._event.synchronize()

    def wait(self, stream: object = 0) -> None:
        """Make a stream (by default the calling thread's stream) wait for this event. Work that is queued in the stream later runs after the event."""
        (as_queue(stream) or default_device().current_stream).wait(self._event)

    def elapsed_time(self, evtend: Event) -> float:
        """Return the time from this event to `evtend`, in milliseconds."""
        return event_elapsed_time(self, evtend)


def event(timing: bool = True) -> Event:
    """Return a new event for the current device.

    If `timing` is false, the event is cheaper and records no time.

    Examples
    --------
    >>> begin, end = cuda.event(), cuda.event()
    >>> begin.record()
    >>> end.record()
    >>> end.synchronize()
    >>> cuda.event_elapsed_time(begin, end) >= 0
    True
    """
    return Event(default_device().create_event(timing))


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Return the time between two recorded events, in milliseconds.

    Examples
    --------
    >>> begin, end = cuda.event(), cuda.event()
    >>> begin.record()
    >>> end.record()
    >>> end.synchronize()
    >>> cuda.event_elapsed_time(begin, end) >= 0
    True
    """
    return evtend._event.elapsed(evtstart._event)
