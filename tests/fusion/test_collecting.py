"""The collector's calls before and after a collection."""

from __future__ import annotations

import _thread
import gc
import operator
import sys
import weakref
from collections.abc import Iterator

import pytest

import weft as wf
from weft.fusion import collecting, current_epoch, keep_apart_natively, recording


@pytest.fixture(params=["python", "native"], autouse=True)
def told(request: pytest.FixtureRequest) -> Iterator[tuple]:
    """Only these are called."""
    keep_apart_natively()
    before, native = gc.callbacks[:], collecting._told
    made = native if request.param == "native" else (collecting._begin, collecting._end)
    collecting._told, gc.callbacks[:] = made, made
    yield made
    collecting._told, gc.callbacks[:] = native, before


class Finalised:
    """A cycle: the collector finds it."""

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


def test_calls_that_do_not_belong_together_change_nothing(told: tuple) -> None:
    epoch = current_epoch()
    begin, end = told
    for call, phase in ((begin, "stop"), (end, "start"), (end, "stop")):
        assert call(phase, {}) is None
        assert recording.epoch is epoch and recording.interrupted is None


def test_it_is_the_last_to_be_called(told: tuple) -> None:
    def other(phase: str, info: dict) -> None:
        if recording.interrupted is None:
            seen.append(phase)

    seen: list[str] = []
    gc.callbacks.append(other)
    gc.collect()
    assert not seen
    assert gc.callbacks == [told[0], other, told[1]]


def test_nothing_is_left_behind() -> None:
    epoch = current_epoch()
    gc.collect()
    before = sys.getrefcount(epoch)
    for _ in range(100):
        gc.collect(0)
    assert sys.getrefcount(epoch) == before


class Cycle:
    """The collector finds it, and calls nobody."""

    def __init__(self) -> None:
        self.itself = self


class Interrupting(weakref.ref):
    """Interrupts the program in the middle of a collection, without a function of Python's own."""

    interrupt = staticmethod(_thread.interrupt_main)


@pytest.mark.parametrize("told", ["native"], indirect=True)
def test_an_interrupt_while_garbage_is_collected_is_raised_behind_it() -> None:
    gc.disable()  # (a collection of its own accord would be interrupted out here)
    try:
        epoch, garbage = current_epoch(), Cycle()
        watched = Interrupting(garbage, operator.methodcaller("interrupt"))
        del garbage
        with pytest.raises(KeyboardInterrupt):
            gc.collect()
    finally:
        gc.enable()
    assert watched() is None
    assert recording.epoch is epoch and recording.interrupted is None
    assert float(wf.ones(3).sum()) == 3
