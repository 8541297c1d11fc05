"""Tests of the streams and events of weft.cuda on the CPU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.dsl.cuda.streams import Stream, as_queue


def test_kinds_of_streams() -> None:
    one, other = cuda.stream(), cuda.stream()
    assert int(one) != int(other)
    assert repr(cuda.default_stream()) == "<Default CUDA stream>"
    assert repr(cuda.legacy_default_stream()) == "<Legacy default CUDA stream>"
    assert repr(cuda.per_thread_default_stream()) == "<Per-thread default CUDA stream>"
    assert repr(cuda.external_stream(4711)) == "<External CUDA stream 4711>"
    assert one.__cuda_stream__() == (0, int(one))
    assert one.query()
    with one.auto_synchronize() as entered:
        assert entered is one


def test_what_a_launch_takes_as_its_stream() -> None:
    stream = cuda.stream()
    assert as_queue(0) is None
    assert as_queue(None) is None
    for made in (stream, cuda.default_stream()):
        assert as_queue(made) is made.queue

    class Foreign:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 99)

    queue: Any = as_queue(Foreign())
    assert queue.handle == 99
    for bad in ("stream", 5, True):
        with pytest.raises(TypeError, match="stream"):
            as_queue(bad)


def test_callbacks() -> None:
    stream = cuda.stream()
    seen: list[Any] = []
    stream.add_callback(lambda *given: seen.append(given), "data")
    assert seen == [(stream, 0, "data")]

    def fails(*given: Any) -> None:
        raise KeyError("lost")

    with pytest.warns(UserWarning, match="lost"):
        stream.add_callback(fails)


def test_awaiting_a_stream() -> None:
    stream = cuda.stream()

    async def work() -> Any:
        return await stream.async_done()

    assert asyncio.run(work()) is stream


def test_two_threads_in_one_stream() -> None:
    class Watched:
        """A device whose ``with`` blocks must end in the thread in which they began."""

        @contextmanager
        def working_in(self, queue: object) -> Iterator[None]:
            began = threading.get_ident()
            yield
            assert threading.get_ident() == began

    stream: Any = Stream(None, device=Watched())  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as other, stream:
        other.submit(stream.__enter__).result()
        stream.__exit__(None)
        other.submit(stream.__exit__, None).result()
        stream.__enter__()


def test_events() -> None:
    begin, end = cuda.event(), cuda.event()
    with pytest.raises(ValueError, match="recorded"):
        cuda.event_elapsed_time(begin, end)
    assert begin.query()
    begin.record()
    x = cuda.to_device(np.ones(10)) + 1
    end.record(cuda.stream())
    assert x._storage.buffer is not None, "what is pending belongs before the mark"
    end.synchronize()
    end.wait()
    end.wait(cuda.stream())
    assert begin.elapsed_time(end) == cuda.event_elapsed_time(begin, end) >= 0
    plain = cuda.event(timing=False)
    plain.record()
    with pytest.raises(ValueError, match="timing"):
        begin.elapsed_time(plain)
