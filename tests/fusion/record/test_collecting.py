"""Tests of callbacks around garbage collections, and of interrupts in finalizers."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from weft.fusion import current_epoch, recording
from weft.fusion.record import collecting


@pytest.fixture(autouse=True)
def _told() -> Iterator[None]:
    """During a test, let the garbage collector notify only weft's callbacks. All other callbacks are removed until the test ends."""
    before, gc.callbacks[:] = gc.callbacks[:], (collecting._begin, collecting._end)
    yield
    gc.callbacks[:] = before


class Finalised:
    """An object in a reference cycle that the garbage collector finds."""

    def __init__(self, seen: list) -> None:
        self.itself, self.seen = self, seen

    def __del__(self) -> None:
        self.seen.append((recording.epoch, current_epoch()))


def test_finalisers_have_an_epoch_of_their_own() -> None:
    epoch, seen = current_epoch(), []
    Finalised(seen)
    gc.collect()
    ((none, own),) = seen
    assert none is None and own is not epoch and own.ended
    assert recording.epoch is epoch and not epoch.ended and recording.interrupted is None


def test_a_thread_that_has_recorded_nothing() -> None:
    recording.epoch = None
    gc.collect()
    assert recording.epoch is None and recording.interrupted is None


def test_calls_that_do_not_belong_together_change_nothing() -> None:
    epoch = current_epoch()
    begin, end = gc.callbacks
    for call, phase in ((begin, "stop"), (end, "start"), (end, "stop")):
        assert call(phase, {}) is None
        assert recording.epoch is epoch and recording.interrupted is None


def test_it_is_the_last_to_be_called() -> None:
    def other(phase: str, info: dict) -> None:
        if recording.interrupted is None:
            seen.append(phase)

    seen: list[str] = []
    gc.callbacks.append(other)
    gc.collect()
    assert not seen
    assert gc.callbacks == [collecting._begin, other, collecting._end]


def test_nothing_is_left_behind() -> None:
    epoch = current_epoch()
    gc.collect()
    before = sys.getrefcount(epoch)
    for _ in range(100):
        gc.collect(0)
    assert sys.getrefcount(epoch) == before


class Swallowing:
    """An object whose finalizer raises KeyboardInterrupt."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def interrupted() -> bool:
    """Raise KeyboardInterrupt in a finalizer, where Python ignores it. Return whether weft raises it again outside of the finalizer."""
    try:
        Swallowing()
        for _ in range(5000):
            time.sleep(1e-3)
    except KeyboardInterrupt:
        return True
    return False


@pytest.fixture
def _hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set `sys.unraisablehook` to weft's hook again, because pytest has installed a different hook."""
    monkeypatch.setattr(sys, "unraisablehook", collecting._raise_again)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_an_interrupt_during_a_collection_is_raised_behind_it(handler: Any, _hook: None) -> None:
    """Test that weft re-raises a KeyboardInterrupt from a finalizer after the finalizer has ended, even if the process
    ignores SIGINT.
    """
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_slow_hook_does_not_swallow_the_interrupt(monkeypatch: pytest.MonkeyPatch, _hook: None) -> None:
    def start_slowly(*arguments: Any) -> None:
        start(*arguments)
        time.sleep(0.05)  # the new thread runs while this thread is still in the hook

    start = collecting._thread.start_new_thread
    monkeypatch.setattr(collecting, "_thread", SimpleNamespace(start_new_thread=start_slowly))
    assert interrupted()


def test_what_else_cannot_be_raised_is_reported() -> None:
    with mock.patch.object(collecting, "_report") as report:
        collecting._raise_again(SimpleNamespace(exc_type=ValueError))
    report.assert_called_once()
