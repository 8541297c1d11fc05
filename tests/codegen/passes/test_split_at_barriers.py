"""Tests of the uniformity analysis, and of the split of kernels at barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.codegen import Kernel, KernelBuilder, Value
from weft.codegen.kernel_ir.operation import SYNCHRONIZATION
from weft.codegen.passes.find_uniform import find_uniform
from weft.codegen.passes.split_at_barriers import BarrierSplit, Run, split_at_barriers

INT = np.dtype(np.int32)
FULL = 0xFFFFFFFF


class Source:
    """A kernel builder with the values that most tests use."""

    def __init__(self) -> None:
        self.b = b = KernelBuilder("kernel", np.int32, "threaded", explicit=True)
        self.x, self.n = b.pointer("x", INT, writable=True), b.scalar("n", INT)
        self.zero, self.one = b.constant(0), b.constant(1)
        (self.t,) = b.emit("thread_index", (), (INT,), axis=0)
        (self.block,) = b.emit("block_index", (), (INT,), axis=0)

    def less(self, x: Value, y: Value) -> Value:
        return self.b.op("less", x, y, dtype=bool)

    def shuffle(self, value: Value, bits: int = FULL) -> Value:
        mask = self.b.constant(bits, np.uint32)
        return self.b.emit("shuffle", (mask, value, self.one), (value.type,), mode="down", width=32)[0]


def shape(split: BarrierSplit, kernel: Kernel) -> str:
    """Return the steps of a kernel's body as text.

    The letters are r for a `Run`, m for a synchronization point, and . for other steps.
    """
    steps = split.steps[kernel.body]
    return "".join("r" if isinstance(s, Run) else "m" if s.opcode in SYNCHRONIZATION else "." for s in steps).strip(".")


def test_what_depends_on_the_thread_differs() -> None:
    s = Source()
    own, common, given = (s.b.local(INT) for _ in range(3))
    s.b.store(own, s.zero, s.t)
    s.b.store(common, s.zero, s.n)
    with s.b.if_(s.less(s.t, s.n)):
        s.b.store(given, s.zero, s.one)
    loads = [s.b.load(v, s.zero) for v in (own, common, given)]
    at_block, at_thread = s.b.load(s.x, s.block), s.b.load(s.x, s.t)
    found = find_uniform(s.b.finish())
    assert [v in found.varying for v in loads] == [True, False, True]
    assert at_block not in found.varying
    assert at_thread in found.varying


def test_who_returned_is_not_apart() -> None:
    s = Source()
    with s.b.scope("kernel"):
        with s.b.if_(s.less(s.n, s.t)):
            s.b.leave("kernel")
        s.b.emit("barrier")
        value = s.b.load(s.x, s.block)
    kernel = s.b.finish()
    found = find_uniform(kernel)
    (barrier,) = (o for o in kernel.walk() if o.opcode == "barrier")
    assert found.returns
    assert barrier in found.late
    assert barrier not in found.apart
    assert value in found.varying  # since every thread may have returned before the load


def test_a_variable_of_a_branch_is_common_to_who_takes_it() -> None:
    s = Source()
    inside, kept = s.b.local(INT), s.b.local(INT)
    with s.b.if_(s.less(s.t, s.n)):
        s.b.store(inside, s.zero, s.n)
        s.b.store(kept, s.zero, s.b.op("add", s.b.load(kept, s.zero), s.one))
        loads = [s.b.load(v, s.zero) for v in (inside, kept)]
    found = find_uniform(s.b.finish())
    assert [v in found.varying for v in loads] == [False, True]


def test_runs_between_barriers() -> None:
    s = Source()
    b = s.b
    value = b.load(s.x, s.t)
    b.emit("barrier")
    b.store(s.x, s.t, b.op("add", value, s.t))
    b.emit("barrier")
    b.store(s.x, b.op("add", s.t, s.one), s.t)
    kernel = b.finish()
    split = split_at_barriers(kernel)
    assert split is not None
    assert shape(split, kernel) == "rmrmr"
    assert split.crossing == {value}  # the thread's index is cheap to recompute


def test_a_shuffle_is_sent_and_received() -> None:
    s = Source()
    result = s.shuffle(s.b.load(s.x, s.t))
    s.b.store(s.x, s.t, result)
    kernel = s.b.finish()
    split = split_at_barriers(kernel)
    assert split is not None
    assert shape(split, kernel) == "rmr"
    first, second = split.runs()
    assert [o.opcode for o in first.sends] == ["shuffle"]
    assert [o.opcode for o in second.receives] == ["shuffle"]


def test_a_loop_counter_around_a_barrier_is_common() -> None:
    s = Source()
    b = s.b
    counter, mine = b.local(INT), b.local(INT)
    b.store(counter, s.zero, s.n)
    b.store(mine, s.zero, s.t)
    with b.scope("loop"), b.repeat():
        k = b.load(counter, s.zero)
        with b.if_(b.op("less_equal", k, s.zero, dtype=bool)):
            b.leave("loop")
        b.store(mine, s.zero, b.op("add", b.load(mine, s.zero), k))
        b.emit("barrier")
        b.store(counter, s.zero, b.op("subtract", k, s.one))
    b.store(s.x, s.t, b.load(mine, s.zero))
    split = split_at_barriers(b.finish())
    assert split is not None
    assert split.common == {counter}
    assert split.kept == {mine}


def test_a_variable_with_the_same_value_in_all_threads_is_common() -> None:
    s = Source()
    b = s.b
    distance, offset, mine, twice = (b.local(INT) for _ in range(4))
    b.store(distance, s.zero, s.one)
    b.store(offset, s.zero, s.one)
    b.store(mine, s.zero, s.t)
    with b.scope("loop"), b.repeat():
        with b.if_(b.op("less_equal", s.n, b.load(distance, s.zero), dtype=bool)):
            b.leave("loop")
        b.store(mine, s.zero, b.op("add", b.load(mine, s.zero), b.load(offset, s.zero)))
        b.store(twice, s.zero, s.n)
        b.store(s.x, s.t, b.load(twice, s.zero))
        b.store(offset, s.zero, b.op("add", b.load(offset, s.zero), s.n))
        b.emit("barrier")
        b.store(distance, s.zero, b.op("add", b.load(distance, s.zero), s.one))
    b.store(s.x, s.t, b.load(mine, s.zero))
    split = split_at_barriers(b.finish())
    assert split is not None
    assert split.common == {distance, offset}  # only `distance` determines how often the loop runs
    assert split.kept == {mine}


def test_variables_of_one_run_are_not_kept() -> None:
    s = Source()
    b = s.b
    mine = b.local(INT)
    for _ in range(2):
        b.store(mine, s.zero, b.load(s.x, s.t))
        b.store(s.x, s.t, b.load(mine, s.zero))
        b.emit("barrier")
    split = split_at_barriers(b.finish())
    assert split is not None
    assert not split.kept


def divergent_barrier(s: Source) -> None:
    with s.b.if_(s.less(s.t, s.n)):
        s.b.emit("barrier")


def barrier_in_a_ragged_loop(s: Source) -> None:
    with s.b.loop(s.t, "serial"):
        s.b.emit("barrier")


def barrier_behind_a_ragged_break(s: Source) -> None:
    with s.b.scope("loop"), s.b.loop(s.n, "serial"):
        with s.b.if_(s.less(s.t, s.n)):
            s.b.leave("loop")
        s.b.emit("barrier")
    s.b.store(s.x, s.t, s.t)


def partial_mask(s: Source) -> None:
    s.b.store(s.x, s.t, s.shuffle(s.t, 0xFFFF))


def active_lanes(s: Source) -> None:
    (lanes,) = s.b.emit("active_mask", (), (np.dtype(np.uint32),))
    s.b.store(s.x, s.t, s.b.cast(lanes, INT))


def whole_grid(s: Source) -> None:
    s.b.emit("grid_barrier")


@pytest.mark.parametrize(
    "build",
    [
        divergent_barrier,
        barrier_in_a_ragged_loop,
        barrier_behind_a_ragged_break,
        partial_mask,
        active_lanes,
        whole_grid,
    ],
)
def test_what_cannot_be_split(build: Callable[[Source], None]) -> None:
    s = Source()
    build(s)
    assert split_at_barriers(s.b.finish()) is None


def test_a_branch_with_a_shuffle_is_taken_in_step() -> None:
    s = Source()
    with s.b.if_(s.less(s.t, s.n)) as _:
        with s.b.loop(s.n, "serial"):
            s.b.store(s.x, s.t, s.shuffle(s.t))
    kernel = s.b.finish()
    split = split_at_barriers(kernel)
    assert split is not None
    assert [o.opcode for o in split.in_step] == ["if"]
    (shuffle,) = (o for o in kernel.walk() if o.opcode == "shuffle")
    branch = split.branches[shuffle]
    assert branch is not None
    assert branch[1] == 0
    assert shuffle not in split.strict  # the threads that skip the shuffle end
    s = Source()
    with s.b.if_(s.less(s.t, s.n)):
        s.b.store(s.x, s.t, s.shuffle(s.t))
    s.b.emit("barrier")
    split = split_at_barriers(s.b.finish())
    assert split is not None
    assert len(split.strict) == 1


@pytest.mark.parametrize("needed", ["by a later run", "by a loop around barriers"])
def test_long_computations_on_both_sides_of_a_barrier(needed: str) -> None:
    s = Source()
    value = s.b.load(s.x, s.t if needed == "by a later run" else s.zero)
    for _ in range(1500):
        value = s.b.op("add", value, s.one)
    with s.b.loop(s.n if needed == "by a later run" else value, "serial"):
        s.b.emit("barrier")
    s.b.store(s.x, s.t, value)
    split = split_at_barriers(s.b.finish())
    assert split is not None
    assert (value in split.crossing) == (needed == "by a later run")
