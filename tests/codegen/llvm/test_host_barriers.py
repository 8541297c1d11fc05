"""Tests of synchronization in explicit kernels on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm.grids import run
from weft.codegen import KernelBuilder, Value, verify_kernel
from weft.codegen.llvm import host_threads
from weft.runtime import KernelFault

FULL = 0xFFFFFFFF


@pytest.fixture(autouse=True, params=["loops", "coroutines"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test twice: with loops over threads if possible, and with coroutines only."""
    if request.param == "coroutines":
        monkeypatch.setattr(host_threads, "split_at_barriers", lambda kernel: None)


def builder(name: str, index: type = np.int32) -> KernelBuilder:
    return KernelBuilder(name, index, "threaded", explicit=True)


def number(b: KernelBuilder, opcode: str, axis: int = 0) -> Value:
    return b.emit(opcode, (), (b.kernel.index_dtype,), axis=axis)[0]


def position(b: KernelBuilder, axis: int = 0) -> Value:
    blocks = b.op("multiply", number(b, "block_index", axis), number(b, "block_size", axis))
    return b.op("add", blocks, number(b, "thread_index", axis))


def mask(b: KernelBuilder, bits: int = FULL) -> Value:
    return b.constant(bits, np.uint32)


def reduction(guard: bool = False) -> KernelBuilder:
    """Return a builder of a kernel that sums each block by a tree reduction.

    With `guard`, threads beyond the end of the array return before the first barrier.
    """
    b = builder("reduction")
    x, out, n = b.pointer("x", np.float32), b.pointer("out", np.float32, writable=True), b.scalar("n")
    shared, zero = b.shared(np.float32, 1024), b.constant(0)
    s = b.local(np.int32)
    with b.scope("kernel"):
        t, i = number(b, "thread_index"), position(b)
        if guard:
            b.store(shared, t, b.constant(0, np.float32))
            with b.if_(b.op("greater_equal", i, n, dtype=bool)):
                b.leave("kernel")
            b.store(shared, t, b.load(x, i))
        else:
            with b.if_(b.op("less", i, n, dtype=bool), [np.dtype(np.float32)]) as value:
                value.yield_(b.load(x, i))
            with b.else_() as value:
                value.yield_(b.constant(0, np.float32))
            b.store(shared, t, value.results[0])
        b.emit("barrier")
        b.store(s, zero, b.op("right_shift", number(b, "block_size"), b.constant(1)))
        with b.scope("while"), b.repeat():
            half = b.load(s, zero)
            with b.if_(b.op("less_equal", half, zero, dtype=bool)):
                b.leave("while")
            with b.if_(b.op("less", t, half, dtype=bool)):
                b.store(shared, t, b.op("add", b.load(shared, t), b.load(shared, b.op("add", t, half))))
            b.emit("barrier")
            b.store(s, zero, b.op("right_shift", half, b.constant(1)))
        with b.if_(b.op("equal", t, zero, dtype=bool)):
            b.store(out, number(b, "block_index"), b.load(shared, zero))
    return b


@pytest.mark.parametrize("size", [32, 256, 1024])
def test_reduction_in_shared_memory(size: int) -> None:
    kernel = reduction().finish()
    verify_kernel(kernel)
    x = np.random.default_rng(0).integers(0, 100, 10_000).astype(np.float32)
    blocks = -(-len(x) // size)
    out = np.zeros(blocks, np.float32)
    run(kernel, [x, out, len(x)], (blocks,), (size,))
    padded = np.zeros(blocks * size, np.float32)
    padded[: len(x)] = x
    np.testing.assert_array_equal(out, padded.reshape(blocks, size).sum(1))


def test_threads_that_returned_count_as_arrived() -> None:
    kernel = reduction(guard=True).finish()
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros(16, np.float32)
    run(kernel, [x, out, 1000], (16,), (64,))
    padded = np.zeros(1024, np.float32)
    padded[:1000] = x
    np.testing.assert_array_equal(out, padded.reshape(16, 64).sum(1))


def test_barriers_of_blocks_with_three_axes() -> None:
    """Test that, after a barrier, thread i of n reads what thread n - 1 - i wrote."""
    b = builder("opposite")
    out = b.pointer("out", np.int32, writable=True)
    shared = b.shared(np.int32, 64)
    linear, total = number(b, "thread_index", 2), number(b, "block_size", 2)
    for axis in (1, 0):
        linear = b.op("add", b.op("multiply", linear, number(b, "block_size", axis)), number(b, "thread_index", axis))
        total = b.op("multiply", total, number(b, "block_size", axis))
    b.store(shared, linear, b.op("add", linear, b.op("multiply", number(b, "block_index", 1), b.constant(100))))
    b.emit("barrier")
    back = b.op("subtract", b.op("subtract", total, b.constant(1)), linear)
    block = b.op(
        "add", b.op("multiply", number(b, "block_index", 1), number(b, "grid_size", 0)), number(b, "block_index")
    )
    b.store(out, b.op("add", b.op("multiply", block, total), linear), b.load(shared, back))
    values = np.zeros(6 * 42, np.int32)
    run(b.finish(), [values], (2, 3), (7, 3, 2))
    expected = np.concatenate([np.arange(42)[::-1] + 100 * (block // 2) for block in range(6)])
    np.testing.assert_array_equal(values, expected)


def shuffled(mode: str, lane: Any, k: int, width: int) -> Any:
    """For each lane in the array `lane`, return the lane from which it receives its value in a warp shuffle."""
    group = lane // width * width
    match mode:
        case "idx":
            return group + k % width
        case "up":
            return np.where(lane - k >= group, lane - k, lane)
        case "down":
            return np.where(lane + k < group + width, lane + k, lane)
        case _:
            return np.where((lane ^ k) < group + width, lane ^ k, lane)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64]
)
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(width: int, dtype: Any) -> None:
    modes = ("idx", "up", "down", "xor")
    b = builder("shuffles")
    x, k, y = b.pointer("x", dtype), b.scalar("k", np.int32), b.pointer("y", dtype, writable=True)
    i = position(b)
    for number, mode in enumerate(modes):
        (value,) = b.emit("shuffle", (mask(b), b.load(x, i), k), (np.dtype(dtype),), mode=mode, width=width)
        b.store(y, b.op("add", i, b.constant(128 * number)), value)
    kernel = b.finish()
    verify_kernel(kernel)
    values = np.random.default_rng(1).integers(0, 100, 128).astype(dtype)
    lane = np.arange(128) % 32
    for other in (0, 1, 3, 7):
        out = np.zeros((4, 128), dtype)
        run(kernel, [values, other, out], (2,), (64,))
        for found, mode in zip(out, modes, strict=True):
            source = np.arange(128) // 32 * 32 + shuffled(mode, lane, other, width)
            np.testing.assert_array_equal(found, values[source], err_msg=mode)


def test_shuffles_in_a_divergent_warp_of_a_ragged_block() -> None:
    """Test shuffles of even and odd lanes in different branches, in a block of 40 threads."""
    b = builder("divergent")
    y = b.pointer("y", np.int32, writable=True)
    t = number(b, "thread_index")
    one = b.constant(1)
    with b.if_(b.op("equal", b.op("bitwise_and", t, one), b.constant(0), dtype=bool)):
        (value,) = b.emit(
            "shuffle", (mask(b, 0x55555555), t, b.constant(2, np.int32)), (t.type,), mode="down", width=32
        )
        b.store(y, t, value)
    with b.else_():
        (value,) = b.emit("shuffle", (mask(b, 0xAAAAAAAA), t, b.constant(2, np.int32)), (t.type,), mode="up", width=32)
        b.store(y, t, value)
    out = np.zeros(40, np.int32)
    run(b.finish(), [out], (1,), (40,))
    i = np.arange(40)
    last = np.where(i < 32, 30, 38)
    expected = np.where(i % 2 == 0, np.where(i < last, i + 2, i), np.where(i % 32 >= 3, i - 2, i))
    np.testing.assert_array_equal(out, expected)


def test_votes() -> None:
    b = builder("votes")
    x = b.pointer("x", np.int32)
    out = b.pointer("out", np.uint32, writable=True)
    i = position(b)
    positive = b.op("greater", b.load(x, i), b.constant(0, np.int32), dtype=bool)
    results = []
    for kind in ("all", "any", "eq", "ballot"):
        (value,) = b.emit("vote", (mask(b), positive), (np.dtype(np.uint32 if kind == "ballot" else bool),), kind=kind)
        results.append(b.cast(value, np.uint32))
    for kind in ("count", "and", "or"):
        (value,) = b.emit("barrier_vote", (positive,), (np.dtype(np.int32),), kind=kind)
        results.append(b.cast(value, np.uint32))
    for k, value in enumerate(results):
        b.store(out, b.op("add", b.op("multiply", i, b.constant(7)), b.constant(k)), value)
    kernel = b.finish()
    verify_kernel(kernel)
    x_values = np.zeros(192, np.int32)
    x_values[:64] = 1
    x_values[70:90] = 1
    out_values = np.zeros((192, 7), np.uint32)
    run(kernel, [x_values, out_values.reshape(-1)], (3,), (64,))
    held = (x_values > 0).reshape(6, 32)
    ballots = (held * (1 << np.arange(32, dtype=np.uint64))).sum(1)
    counts = held.reshape(3, 64).sum(1)
    for row in range(192):
        warp, block = row // 32, row // 64
        every, some = held[warp].all(), held[warp].any()
        expected = [every, some, every or not some, ballots[warp]]
        expected += [counts[block], counts[block] == 64, counts[block] > 0]
        np.testing.assert_array_equal(out_values[row], np.array(expected, np.uint32))


def test_match_and_reduce() -> None:
    b = builder("match")
    x = b.pointer("x", np.float32)
    found, same, every = (b.pointer(name, np.uint32, writable=True) for name in ("found", "same", "every"))
    total, largest = (b.pointer(name, np.float32, writable=True) for name in ("total", "largest"))
    i = position(b)
    mine = b.load(x, i)
    b.store(found, i, b.emit("match", (mask(b), mine), (np.dtype(np.uint32),), kind="any")[0])
    agreed, held = b.emit("match", (mask(b), mine), (np.dtype(np.uint32), np.dtype(bool)), kind="all")
    b.store(same, i, agreed)
    b.store(every, i, b.cast(held, np.uint32))
    b.store(total, i, b.emit("warp_reduce", (mask(b), mine), (mine.type,), kind="add")[0])
    b.store(largest, i, b.emit("warp_reduce", (mask(b), mine), (mine.type,), kind="maximum")[0])
    kernel = b.finish()
    verify_kernel(kernel)
    values = np.random.default_rng(4).integers(0, 4, 96).astype(np.float32)
    values[32:64] = 2
    masks = [np.zeros(96, np.uint32) for _ in range(3)]
    sums = [np.zeros(96, np.float32) for _ in range(2)]
    run(kernel, [values, *masks, *sums], (1,), (96,))
    warps = values.reshape(3, 32)
    bits = (1 << np.arange(32, dtype=np.uint64)).astype(np.uint64)
    expected = [[(bits * (w == v)).sum() for v in w] for w in warps]
    np.testing.assert_array_equal(masks[0].reshape(3, 32), np.array(expected, np.uint32))
    np.testing.assert_array_equal(masks[1].reshape(3, 32)[:, 0], [0, FULL, 0])
    np.testing.assert_array_equal(masks[2].reshape(3, 32)[:, 0], [0, 1, 0])
    np.testing.assert_array_equal(sums[0], np.repeat(warps.sum(1), 32))
    np.testing.assert_array_equal(sums[1], np.repeat(warps.max(1), 32))


def test_active_lanes_of_a_branch() -> None:
    b = builder("active")
    out = b.pointer("out", np.uint32, writable=True)
    t = number(b, "thread_index")
    three = b.op("remainder", t, b.constant(3))
    with b.if_(b.op("equal", three, b.constant(0), dtype=bool)):
        b.store(out, t, b.emit("active_mask", (), (np.dtype(np.uint32),))[0])
    with b.else_():
        b.store(out, t, b.emit("active_mask", (), (np.dtype(np.uint32),))[0])
    values = np.zeros(48, np.uint32)
    run(b.finish(), [values], (1,), (48,))
    for t_value, value in enumerate(values):
        warp = range(t_value // 32 * 32, min(t_value // 32 * 32 + 32, 48))
        expected = sum(1 << (k % 32) for k in warp if (k % 3 == 0) == (t_value % 3 == 0))
        assert value == expected


def test_lanes_overtake_each_other() -> None:
    """Test that a fast lane does not overwrite values that a slow lane has not read yet.

    Lane k takes part in k exchanges among the remaining lanes.
    """
    b = builder("overtake")
    out = b.pointer("out", np.int32, writable=True)
    t, zero = number(b, "thread_index"), b.constant(0)
    total, turn = b.local(np.int32), b.local(np.int32)
    b.store(total, zero, zero)
    b.store(turn, zero, zero)
    with b.scope("loop"), b.repeat():
        k = b.load(turn, zero)
        with b.if_(b.op("greater_equal", k, t, dtype=bool)):
            b.leave("loop")
        # the remaining lanes are those above k
        above = b.op("left_shift", mask(b, 0xFFFFFFFE), b.cast(k, np.uint32))
        value = b.op("add", b.op("multiply", t, b.constant(100)), k)
        (got,) = b.emit("shuffle", (above, value, b.constant(31, np.int32)), (value.type,), mode="idx", width=32)
        b.store(total, zero, b.op("add", b.load(total, zero), got))
        b.store(turn, zero, b.op("add", k, b.constant(1)))
    b.store(out, t, b.load(total, zero))
    values = np.zeros(32, np.int32)
    run(b.finish(), [values], (1,), (32,))
    np.testing.assert_array_equal(values, [sum(3100 + k for k in range(t)) for t in range(32)])


def test_warps_do_not_wait_for_each_other() -> None:
    """Test warps that execute different numbers of iterations of a loop with warp barriers."""
    b = builder("warps")
    out = b.pointer("out", np.int32, writable=True)
    shared = b.shared(np.int32, 128)
    t = number(b, "thread_index")
    warp = b.op("right_shift", t, b.constant(5))
    b.store(shared, t, t)
    with b.loop(warp, "serial"):
        b.emit("warp_barrier", (mask(b),))
        first = b.op("bitwise_and", t, b.constant(-32))
        near = b.op("add", first, b.op("bitwise_and", b.op("add", t, b.constant(1)), b.constant(31)))
        value = b.load(shared, near)
        b.emit("warp_barrier", (mask(b),))
        b.store(shared, t, value)
    b.store(out, t, b.load(shared, t))
    values = np.zeros(128, np.int32)
    run(b.finish(), [values], (1,), (128,))
    t_values = np.arange(128)
    np.testing.assert_array_equal(values, t_values // 32 * 32 + (t_values + t_values // 32) % 32)


def test_barriers_in_nested_scopes() -> None:
    b = builder("nested")
    out = b.pointer("out", np.int32, writable=True)
    shared, zero = b.shared(np.int32, 64), b.constant(0)
    t, size = number(b, "thread_index"), number(b, "block_size")
    mine = b.local(np.int32)
    b.store(mine, zero, t)
    with b.loop(b.constant(5), "serial") as outer, b.scope("inner"), b.loop(b.constant(5), "serial") as inner:
        with b.if_(b.op("greater", inner.index, outer.index, dtype=bool)):
            b.leave("inner")
        b.store(shared, t, b.load(mine, zero))
        b.emit("barrier")
        near = b.op("remainder", b.op("add", t, b.constant(1)), size)
        b.store(mine, zero, b.op("add", b.load(shared, near), b.constant(1)))
        b.emit("barrier")
    b.store(out, t, b.load(mine, zero))
    values = np.zeros(50, np.int32)
    run(b.finish(), [values], (1,), (50,))
    np.testing.assert_array_equal(values, (np.arange(50) + 15) % 50 + 15)


def test_grid_barrier() -> None:
    b = builder("grid")
    x, out = b.pointer("x", np.int32, writable=True), b.pointer("out", np.int32, writable=True)
    i = position(b)
    n = b.op("multiply", number(b, "grid_size"), number(b, "block_size"))
    with b.loop(b.constant(3), "serial"):
        b.store(out, i, b.load(x, b.op("subtract", b.op("subtract", n, b.constant(1)), i)))
        b.emit("grid_barrier")
        b.store(x, i, b.op("add", b.load(out, i), i))
        b.emit("grid_barrier")
    kernel = b.finish()
    verify_kernel(kernel)
    values, expected = np.arange(160, dtype=np.int32), np.arange(160)
    run(kernel, [values, np.zeros(160, np.int32)], (5,), (32,))
    for _ in range(3):
        expected = expected[::-1] + np.arange(160)
    np.testing.assert_array_equal(values, expected)


def test_barriers_of_different_branches_end_in_an_error() -> None:
    b = builder("apart")
    b.line = 7
    t = number(b, "thread_index")
    with b.if_(b.op("less", t, b.constant(5), dtype=bool)):
        b.line = 8
        b.emit("barrier")
    with b.else_():
        b.line = 10
        b.emit("barrier")
    kernel = b.finish()
    with pytest.raises(
        KernelFault,
        match=r"kernel apart: block \(\d, 0, 0\): thread \(0, 0, 0\) waits at barrier in line 8, "
        r"thread \(5, 0, 0\) at barrier in line 10",
    ):
        run(kernel, [], (3,), (8,))


def test_a_mask_that_names_lanes_elsewhere_ends_in_an_error() -> None:
    b = builder("elsewhere")
    t = number(b, "thread_index")
    with b.if_(b.op("less", t, b.constant(5), dtype=bool)):
        b.emit("warp_barrier", (mask(b),))
    b.emit("barrier")
    with pytest.raises(
        KernelFault, match=r"\(0, 0, 0\) waits at warp_barrier, thread \(5, 0, 0\) at (barr|another br)"
    ):
        run(b.finish(), [], (1,), (32,))


def test_dynamic_shared_memory_across_a_barrier() -> None:
    b = builder("dynamic")
    out = b.pointer("out", np.float64, writable=True)
    shared = b.shared(np.int32, 3)
    (space,) = b.emit("dynamic_shared", (), (b.reinterpret(shared, np.uint8).type,))
    doubles = b.reinterpret(space, np.float64)
    t, size = number(b, "thread_index"), number(b, "block_size")
    with b.if_(b.op("equal", t, b.constant(0), dtype=bool)):
        b.store(shared, b.constant(2), number(b, "block_index"))
    b.store(doubles, t, b.cast(t, np.float64))
    b.emit("barrier")
    back = b.op("subtract", b.op("subtract", size, b.constant(1)), t)
    value = b.op("add", b.load(doubles, back), b.cast(b.load(shared, b.constant(2)), np.float64))
    b.store(out, position(b), value)
    values = np.zeros(4 * 300)
    run(b.finish(), [values], (4,), (300,), 2400)
    np.testing.assert_array_equal(values.reshape(4, 300), np.arange(300)[::-1] + np.arange(4)[:, None])


def test_a_warp_that_returns_from_a_loop_in_a_branch() -> None:
    """Test votes in a warp whose lanes return one after another."""
    b = builder("returns")
    out = b.pointer("out", np.int32, writable=True)
    t, zero = number(b, "thread_index"), b.constant(0)
    turn = b.local(np.int32)
    with b.scope("kernel"):
        with b.if_(b.op("less", t, b.constant(32), dtype=bool)):
            b.store(turn, zero, zero)
            with b.repeat():
                k = b.load(turn, zero)
                (ballot,) = b.emit(
                    "vote", (mask(b), b.op("equal", k, k, dtype=bool)), (np.dtype(np.uint32),), kind="ballot"
                )
                b.store(out, t, b.cast(ballot, np.int32))
                with b.if_(b.op("equal", t, k, dtype=bool)):
                    b.leave("kernel")
                b.store(turn, zero, b.op("add", k, b.constant(1)))
        b.emit("barrier")
        b.store(out, t, t)
    values = np.zeros(64, np.int32)
    run(b.finish(), [values], (1,), (64,))
    left = [np.uint32(FULL & ~((1 << k) - 1)).astype(np.int32) for k in range(32)]
    np.testing.assert_array_equal(values, [*left, *range(32, 64)])


def test_lanes_that_end_need_not_be_waited_for() -> None:
    """Test a warp shuffle that only half of its mask's lanes execute. The shuffle does not wait for the other lanes, which have ended."""
    b = builder("half")
    out = b.pointer("out", np.int32, writable=True)
    t = number(b, "thread_index")
    b.store(out, t, b.constant(-1, np.int32))
    with b.if_(b.op("less", t, b.constant(16), dtype=bool)):
        (value,) = b.emit("shuffle", (mask(b), t, b.constant(8, np.int32)), (t.type,), mode="down", width=32)
        b.store(out, t, value)
    values = np.zeros(32, np.int32)
    run(b.finish(), [values], (1,), (32,))
    np.testing.assert_array_equal(values, [*range(8, 16), *range(8, 16), *[-1] * 16])
