"""Streams that delay their work as long as possible.

In: work for streams, events and waits. Out: the work, executed in an order that the driver could have chosen.
Invariant: work does not run until a caller waits for it, so that a missing synchronization causes a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable

Work = Callable[[], int]


class Queues:
    """The pending work of all streams."""

    def __init__(self) -> None:
        self.error = 0  # error code of completed work, which later calls return, as on a GPU
        self._work: dict[int, list[Work]] = {}  # by stream
        self._done: dict[int, int] = {}  # number of completed work items, by stream
        self._events: dict[int, tuple[int, int]] = {}  # event -> stream, and number of its preceding work items

    def give(self, stream: int, work: Work) -> int:
        """Append work to a stream. Return the error code of previously executed work, or 0 if it had no error."""
        self._work.setdefault(stream, []).append(work)
        return self.error

    def record(self, event: int, stream: int) -> int:
        """Record an event at the end of a stream."""
        self._events[event] = stream, len(self._work.get(stream, ()))
        return self.error

    def wait(self, stream: int, event: int) -> int:
        """Let later work of `stream` wait for the most recent recording of an event.

        Later recordings of the event do not affect this wait.
        """
        event_position = self._events.get(event)
        return self.give(stream, lambda: self._run(*event_position)) if event_position is not None else self.error

    def reach(self, event: int) -> int:
        """Execute the work that precedes an event."""
        event_position = self._events.get(event)
        return self._run(*event_position) if event_position is not None else self.error

    def drain(self, stream: int) -> int:
        """Execute all work of a stream."""
        return self._run(stream, len(self._work.get(stream, ())))

    def finish(self) -> int:
        """Execute all work of all streams."""
        for stream in list(self._work):
            self.drain(stream)
        return self.error

    def _run(self, stream: int, end: int) -> int:
        work = self._work.get(stream, [])
        while self._done.get(stream, 0) < end and not self.error:
            k = self._done.get(stream, 0)
            self._done[stream] = k + 1
            item, work[k] = work[k], _nothing
            self.error = item() or self.error
        return self.error


def _nothing() -> int:
    return 0
