"""Tests of the arenas of plans, and of failed allocations.

An arena is allocated before the first kernel.
"""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.plan.arena import ALIGNMENT, ArenaFreeList, ArenaSlices, Donation, arrange_memory
from weft.runtime import Buffer, OutOfMemoryError, get_device
from weft.runtime.cpu import free_lists


def test_gaps_are_joined_and_used_again() -> None:
    gaps = ArenaFreeList()
    at = [gaps.allocate(1000) for _ in range(4)]
    assert at == [0, 1024, 2048, 3072] and gaps.top == 4096
    gaps.release(at[1], 1000)
    gaps.release(at[0], 1000)
    assert gaps.allocate(2048) == 0
    gaps.release(at[3], 1000)
    assert gaps.allocate(3000) == 3072, "what lies at the end grows"
    assert gaps.top == 3072 + 3072


@pytest.mark.parametrize("seed", range(60))
def test_values_that_live_at_the_same_time_do_not_overlap(seed: int) -> None:
    source = random.Random(seed)
    slots, slot_count = 2, 2
    steps: list[Any] = []
    live: dict[int, int] = {}
    outputs: set[int] = set()
    for _ in range(source.randrange(1, 25)):
        nbytes = source.randrange(0, 3000)
        steps.append((slot_count, nbytes))
        steps.append(SimpleNamespace(patches=[(0, slot_count, 8), *((1, p, 0) for p in live)]))
        live[slot_count] = nbytes
        if source.random() < 0.2:
            old = slot_count
            slot_count += 1
            steps.append(Donation(slot_count, old, "donate", nbytes))
            steps.append(SimpleNamespace(patches=[(0, slot_count, 0)]))
            steps.append(old)
            live[slot_count] = live.pop(old)
        slot_count += 1
        for slot in list(live):
            if source.random() < 0.4:
                del live[slot]
                if source.random() < 0.3:
                    outputs.add(slot)
                else:
                    steps.append(slot)
    outputs |= {slot for slot in live if source.random() < 0.5}
    kernels = [step for step in steps if hasattr(step, "patches")]
    before = [list(kernel.patches) for kernel in kernels]
    arranged, _ = arrange_memory(list(steps), slots, slot_count, outputs)
    requests = [step for step in arranged if isinstance(step, tuple)]
    assert arranged[: len(requests)] == requests, "memory comes first"
    after = [kernel.patches for kernel in kernels]
    inside = {step[0] for step in steps if isinstance(step, tuple)} - outputs - _handed_on(steps, outputs)
    arena = slot_count if len(inside) > 1 else None
    if arena is None:
        assert before == after
        return
    (total,) = [nbytes for slot, nbytes in requests if slot == arena]
    sizes = {step[0]: step[1] for step in steps if isinstance(step, tuple)}
    for step in steps:
        if isinstance(step, Donation):
            sizes[step.slot] = sizes[step.source]
    for old, new in zip(before, after, strict=True):
        ranges = []
        for (_, slot, offset), (_, where, moved) in zip(old, new, strict=True):
            if where == arena:
                assert slot not in outputs
                begin = moved - offset
                assert begin % ALIGNMENT == 0 and begin + sizes[slot] <= total
                ranges.append((begin, begin + max(sizes[slot], 1)))
            else:
                assert where == slot
        ranges.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges)), "a kernel's values lie apart"


def _handed_on(steps: list[Any], outputs: set[int]) -> set[int]:
    """Return the slot numbers of values whose memory is later reused by a result in `outputs`, either directly or after
    reuse by other values.
    """
    found: set[int] = set()
    for step in reversed(steps):
        if isinstance(step, Donation) and step.slot in outputs | found:
            found.add(step.source)
    return found


def test_results_have_blocks_of_their_own() -> None:
    """Test that results of one evaluation have separate memory: a result that still exists does not keep alive the
    memory of the others.
    """
    pool: Any = get_device("cpu").memory
    with wf.device("cpu"):
        x = wf.asarray(np.arange(30.0))
        for _ in range(4):  # the first runs launch one kernel at a time, and later runs use free lists
            gc.collect()
            before = pool.held
            made = [x + k for k in range(1, 20)]
            wf.evaluate(made, x)
            block = (pool.held - before) // len(made)
            assert pool.held == before + block * len(made) and block < 1024
            one = made[3]
            del made
            assert pool.held == before + block
            one += 5
            np.testing.assert_array_equal(one, np.arange(30.0) + 9)
            del one
        made = [x + 1, x + 2, (x + 3)[:5] * 2, x.sum()]
        wf.evaluate(made)
        buffers = [a._storage.buffer for a in made]
        assert len({buffer.address for buffer in buffers}) == 4


def test_copies_and_calls_get_buffers_of_the_arena() -> None:
    call = SimpleNamespace(out=3, operands=[(2, None, False)])
    steps: list[Any] = [(2, 100), SimpleNamespace(patches=[(0, 2, 0)]), (3, 100), call, 2, (4, 8), 3]
    arranged, length = arrange_memory(steps, 2, 5, {4})
    assert length == 6
    sliced = [step for step in arranged if isinstance(step, ArenaSlices)]
    parts = [part for each in sliced for part in each.parts]
    assert {(slot, nbytes) for slot, _, nbytes in parts} == {(2, 100), (3, 100)}
    assert len({offset for _, offset, _ in parts}) == 2
    assert arranged.index(sliced[-1]) < arranged.index(call)


# -- out of memory ----------------------------------------------------------------------------------------


def _stencil(xp: Any, a: Any, b: Any) -> Any:
    a[1:-1] = a[1:-1] + 0.5 * (b[:-2] + b[2:])
    b[1:-1] = b[1:-1] - 0.5 * (a[:-2] + a[2:])
    return a, b, (a * b).sum()


def _rows(xp: Any, a: Any, b: Any) -> Any:
    m = (a[:60, None] + b[None, :50]) * 2
    s = m - m.max(axis=1, keepdims=True)
    t = xp.exp(s) / xp.exp(s).sum(axis=0)
    return t @ t.T, t.sum(axis=0)


def _in_place(xp: Any, a: Any, b: Any) -> Any:
    a += 1
    c = a[::-1] * b
    a *= c
    d = xp.cumsum(a) + xp.cumsum(b)[::-1]
    b -= d
    return a, b, c, d


def _masks(xp: Any, a: Any, b: Any) -> Any:
    a[a > 0.5] = 0
    b[xp.arange(10)] += 3
    total = a.sum() + b.sum()
    return a / total, b / total, xp.sort(a)


PROGRAMS = (_stencil, _rows, _in_place, _masks)


@contextmanager
def failing(after: int) -> Iterator[list[int]]:
    """Within the ``with`` block, let one allocation on the CPU device fail.

    `after` earlier allocations succeed. Yield a list with the number of allocations.
    """
    device: Any = get_device("cpu")
    asked = [0]
    plain = type(device).allocate

    def allocate(self: Any, nbytes: int) -> Buffer:
        asked[0] += 1
        if asked[0] == after + 1:
            raise OutOfMemoryError(self.name, nbytes, self.memory.held)
        found: Buffer = plain(self, nbytes)
        return found

    type(device).allocate = allocate
    try:
        yield asked
    finally:
        type(device).allocate = plain


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_plan_without_memory_has_changed_nothing(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_lists, "PATIENCE", 1 << 30)  # (native code would take buffers from free lists)
    source = np.random.default_rng(0)
    x, y = source.random(100), source.random(100)
    expected = program(np, x.copy(), y.copy())
    with failing(1 << 30) as asked:
        wf.evaluate(*program(wf, wf.asarray(x), wf.asarray(y)))
    memory: Any = get_device("cpu").memory
    gc.collect()  # objects that other tests left
    for after in range(asked[0]):
        held = memory.held
        a = b = results = None
        with failing(after):
            try:
                a, b = wf.asarray(x), wf.asarray(y)
                results = program(wf, a, b)
                wf.evaluate(*results)
            except OutOfMemoryError as error:
                caught = error
        assert caught.requested >= 0
        if results is not None:
            for found, right in zip(results, expected, strict=True):
                np.testing.assert_allclose(np.asarray(found), right, rtol=1e-12)
            del found
        del a, b, results, caught
        wf.evaluate(wf.zeros(1))
        gc.collect()  # unreachable recordings with reference cycles
        assert memory.held == held, f"memory is lost where allocation {after} fails"


@pytest.mark.cpu
def test_an_error_for_memory_keeps_nothing_alive() -> None:
    a = wf.asarray(np.ones(1000))
    memory: Any = a.device.memory
    held = memory.held
    r = wf.cumsum(a)[::-1] + wf.cumsum(a * 2)
    with failing(2):
        try:
            wf.evaluate(r, wf.cumsum(r))
        except OutOfMemoryError as error:
            caught = error
    assert caught.__traceback__ is not None
    assert memory.held == held, "the frames of the error hold what the plan had made"
    np.testing.assert_allclose(np.asarray(r), np.arange(1000, 0, -1) + np.arange(2, 2002, 2))
