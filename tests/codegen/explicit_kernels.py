"""Explicit kernels for tests of code generation, with expected results.

An explicit kernel is written in terms of threads and blocks, like the kernels of users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.codegen import Kernel, KernelBuilder, Pointer, Type, Value

U4, I4, I8, BOOL = (np.dtype(name) for name in ("u4", "i4", "i8", "?"))
ALL = 0xFFFFFFFF


@dataclass
class Program:
    """An explicit kernel, with a launch and the expected results."""

    kernel: Kernel
    arguments: list[Any]
    expected: list[Any]  # one per argument; None for an argument that does not change
    block: tuple[int, ...] = (64,)
    grid: tuple[int, ...] = (2,)
    shared_bytes: int = 0


class Builder(KernelBuilder):
    """A kernel builder with short methods for writing the test kernels of this module."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, np.int32, "threaded", explicit=True, **attributes)

    def one(self, opcode: str, operands: tuple[Value, ...] = (), type: Type = I4, **attributes: Any) -> Value:
        """Emit an operation and return its single result."""
        return self.emit(opcode, operands, (type,), **attributes)[0]

    def grid_index(self) -> Value:
        """Return the thread's index in the grid along axis 0."""
        first = self.op("multiply", self.one("block_index", axis=0), self.one("block_size", axis=0))
        return self.op("add", first, self.one("thread_index", axis=0))

    def test(self, name: str, x: Value, y: Value) -> Value:
        """Emit a comparison and return its result."""
        return self.op(name, x, y, dtype=np.bool_)


def block_sums() -> Program:
    """Return a program in which each block sums 64 elements by a tree reduction."""
    b = Builder("block_sums")
    x, out = b.pointer("x", "f8"), b.pointer("out", "f8", writable=True)
    t, kept, half = b.one("thread_index", axis=0), b.shared("f8", 64), b.local("i4")
    b.store(kept, t, b.load(x, b.grid_index()))
    b.store(half, b.constant(0), b.constant(32))
    with b.scope("tree"), b.repeat():
        b.emit("barrier")
        width = b.load(half, b.constant(0))
        with b.if_(b.test("equal", width, b.constant(0))):
            b.leave("tree")
        with b.if_(b.test("less", t, width)):
            b.store(kept, t, b.op("add", b.load(kept, t), b.load(kept, b.op("add", t, width))))
        b.store(half, b.constant(0), b.op("right_shift", width, b.constant(1)))
    with b.if_(b.test("equal", t, b.constant(0))):
        b.store(out, b.one("block_index", axis=0), b.load(kept, t))
    values = np.arange(128.0)
    return Program(b.finish(), [values, np.zeros(2)], [None, values.reshape(2, 64).sum(1)])


def shuffled(dtype: Any, mode: str, width: int) -> Program:
    """Return a program with a shuffle whose operand differs between lanes.

    The operand is a lane, a distance or a mask, depending on `mode`.
    """
    b = Builder("shuffled")
    dtype = np.dtype(dtype)
    x, out = b.pointer("x", dtype), b.pointer("out", dtype, writable=True)
    i = b.grid_index()
    lane = b.op("bitwise_and", b.op("multiply", b.one("lane_index"), b.constant(3)), b.constant(7))
    moved = b.one("shuffle", (b.constant(ALL, U4), b.load(x, i), lane), dtype, mode=mode, width=width)
    b.store(out, i, moved)
    values = (np.arange(128) * 3 - 50).astype(dtype)
    expected = values.copy()
    for i_ in range(128):
        lane_, by = i_ % 32, i_ % 32 * 3 & 7
        base = lane_ - lane_ % width
        target = {"idx": base + by % width, "up": lane_ - by, "down": lane_ + by, "xor": lane_ ^ by}[mode]
        inside = target < base + width and (target >= base or mode == "xor")
        expected[i_] = values[i_ - lane_ + target] if inside else values[i_]
    return Program(b.finish(), [values, np.zeros_like(values)], [None, expected])


def votes() -> Program:
    """Return a program in which the lower half of each warp votes and matches values."""
    b = Builder("votes")
    x, out = b.pointer("x", "i4"), b.pointer("out", "u4", writable=True)
    i, mask = b.grid_index(), b.constant(0xFFFF, U4)
    with b.if_(b.test("less", b.one("lane_index"), b.constant(16))):
        value = b.load(x, i)
        odd = b.test("equal", b.op("bitwise_and", value, b.constant(1)), b.constant(1))
        found = b.one("vote", (mask, odd), U4, kind="ballot")
        for kind, bit in (("all", 16), ("any", 17), ("eq", 18)):
            said = b.cast(b.one("vote", (mask, odd), BOOL, kind=kind), U4)
            found = b.op("bitwise_or", found, b.op("left_shift", said, b.constant(bit, U4)))
        b.store(out, i, found)
        b.store(out, b.op("add", i, b.constant(128)), b.one("match", (mask, value), U4, kind="any"))
        lanes, same = b.emit("match", (mask, b.op("bitwise_and", value, b.constant(0))), (U4, BOOL), kind="all")
        b.store(out, b.op("add", i, b.constant(256)), b.op("add", lanes, b.cast(same, U4)))
        b.emit("warp_barrier", (mask,))
    values = np.array([[k * k % 5 for k in range(32)], [1] * 32, [2] * 32, [k // 8 for k in range(32)]], np.int32)
    expected = np.zeros((3, 4, 32), np.uint32)
    for w, row in enumerate(values):
        odd_lanes = [int(v) % 2 for v in row[:16]]
        ballot = sum(bit << k for k, bit in enumerate(odd_lanes))
        ballot |= all(odd_lanes) << 16 | any(odd_lanes) << 17 | (len(set(odd_lanes)) == 1) << 18
        expected[0, w, :16] = ballot
        expected[1, w, :16] = [sum(1 << k for k in range(16) if row[k] == v) for v in row[:16]]
        expected[2, w, :16] = 0xFFFF + 1
    return Program(b.finish(), [values.ravel(), np.zeros(384, np.uint32)], [None, expected.ravel()])


def warp_reductions(dtype: Any, kind: str, mask: int, known: bool = True) -> Program:
    """Return a program that reduces the values of the lanes in `mask`, separately for each warp.

    The mask is a constant of the kernel if `known`, otherwise an argument.
    """
    b = Builder("warp_reductions")
    dtype = np.dtype(dtype)
    x, out, m = b.pointer("x", dtype), b.pointer("out", dtype, writable=True), b.scalar("m", U4)
    i, lanes = b.grid_index(), b.constant(mask, U4) if known else m
    mine = b.op("right_shift", lanes, b.cast(b.one("lane_index"), U4))
    with b.if_(b.test("equal", b.op("bitwise_and", mine, b.constant(1, U4)), b.constant(1, U4))):
        b.store(out, i, b.one("warp_reduce", (lanes, b.load(x, i)), dtype, kind=kind))
    values = np.random.default_rng(3).integers(0, 50, 64).astype(dtype)
    expected = np.zeros_like(values)
    chosen = [k for k in range(32) if mask >> k & 1]
    for warp in (0, 32):
        for k in chosen:
            folded = getattr(np, kind).reduce(values[warp : warp + 32][chosen])
            expected[warp + k] = folded.astype(dtype)
    return Program(b.finish(), [values, np.zeros_like(values), mask], [None, expected, None], (64,), (1,))


def histogram() -> Program:
    """Return a program that counts values, and computes the maximum of the values.

    Each block counts in shared memory, and then adds its counts to global memory.
    """
    b = Builder("histogram")
    x, out, top = b.pointer("x", "i4"), b.pointer("out", "u4", writable=True), b.pointer("top", "f4", writable=True)
    t, i, counts = b.one("thread_index", axis=0), b.grid_index(), b.shared("u4", 8)
    zero, first = b.constant(0), b.test("less", t, b.constant(8))
    with b.if_(first):
        b.store(counts, t, b.constant(0, U4))
    b.emit("barrier")
    value = b.load(x, i)
    b.emit("atomic", (counts, value, b.constant(1, U4)), (U4,), kind="add", scope="block")
    b.emit("atomic", (top, zero, b.cast(value, np.float32)), (np.dtype("f4"),), kind="maximum")
    b.emit("barrier")
    with b.if_(first):
        b.emit("atomic", (out, t, b.load(counts, t)), (U4,), kind="add")
    values = np.random.default_rng(1).integers(0, 8, 128).astype(np.int32)
    expected = np.bincount(values, minlength=8).astype(np.uint32)
    arguments = [values, np.zeros(8, np.uint32), np.full(1, -5, np.float32)]
    return Program(b.finish(), arguments, [None, expected, values.max(keepdims=True).astype(np.float32)])


def counters() -> Program:
    """Return a program with atomic counters that wrap around, and a compare-and-swap loop."""
    b = Builder("counters")
    out, best = b.pointer("out", "u4", writable=True), b.pointer("best", "i8", writable=True)
    i, zero, one = b.grid_index(), b.constant(0), b.constant(1)
    b.emit("atomic", (out, zero, b.constant(9, U4)), (U4,), kind="increment")
    b.emit("atomic", (out, one, b.constant(9, U4)), (U4,), kind="decrement")
    mine = b.cast(b.op("remainder", b.op("multiply", i, b.constant(37)), b.constant(101)), I8)
    with b.scope("tried"), b.repeat():
        seen = b.load(best, zero, volatile=True)
        with b.if_(b.test("greater_equal", seen, mine)):
            b.leave("tried")
        old = b.one("atomic_cas", (best, zero, seen, mine), I8)
        with b.if_(b.test("equal", old, seen)):
            b.leave("tried")
    arguments = [np.array([0, 3], np.uint32), np.array([-1])]
    largest = max(k * 37 % 101 for k in range(128))
    # 128 steps modulo ten: from 0 up to 8, and from 3 down to 5
    return Program(b.finish(), arguments, [np.array([8, 5], np.uint32), np.array([largest])])


def recursion() -> Program:
    """Return a program that calls two functions. One function is recursive, and the other one squares complex numbers."""
    b = Builder("recursion")
    c8 = np.dtype("c8")
    with b.function("fibonacci", [I8], [I8]) as (n,):
        with b.if_(b.test("less", n, b.constant(2, I8)), [I8]) as branch:
            branch.yield_(n)
        with b.else_() as branch:
            parts = [b.call("fibonacci", b.op("subtract", n, b.constant(k, I8)))[0] for k in (1, 2)]
            branch.yield_(b.op("add", *parts))
        b.yield_(*branch.results)
    with b.function("squared", [c8, BOOL], [BOOL, c8]) as (z, flag):
        kept = b.local(c8, 2)
        b.store(kept, b.constant(1), z)
        again = b.load(b.offset(kept, b.constant(1)), b.constant(0))
        b.yield_(b.op("logical_not", flag, dtype=np.bool_), b.op("multiply", again, z))
    out, zs = b.pointer("out", "i8", writable=True), b.pointer("zs", c8, writable=True)
    i = b.grid_index()
    (result,) = b.call("fibonacci", b.cast(b.op("remainder", i, b.constant(10)), I8))
    b.store(out, i, result)
    flag, square = b.call("squared", b.load(zs, i), b.constant(False, BOOL))
    with b.if_(flag):
        b.store(zs, i, square)
    numbers = [0, 1]
    while len(numbers) < 10:
        numbers.append(numbers[-1] + numbers[-2])
    values = (np.arange(16) + 1j).astype(c8)
    expected = np.array([numbers[k % 10] for k in range(16)])
    return Program(b.finish(), [np.zeros(16, np.int64), values], [expected, values * values], (8,))


def memory() -> Program:
    """Return a program with views of dynamic shared memory, and arrays in constant memory."""
    b = Builder("memory")
    out, zs = b.pointer("out", "f8", writable=True), b.pointer("zs", "c16")
    t = b.one("thread_index", axis=0)
    space = b.one("dynamic_shared", type=Pointer(np.dtype("u1"), "shared"))
    first, second = b.reinterpret(space, "f4"), b.reinterpret(b.offset(space, b.constant(32)), "c16")
    table = b.one("table", type=Pointer(np.dtype("f4"), "constant"), values=np.arange(8, dtype=np.float32) / 2)
    other = b.one("table", type=Pointer(np.dtype("c16"), "constant"), values=np.array([1 + 2j, 3 - 1j]))
    b.store(first, t, b.load(table, t))
    b.store(second, t, b.op("add", b.load(zs, t), b.load(other, b.constant(1))), align=8)
    b.emit("barrier")
    back = b.op("subtract", b.constant(7), t)
    parts = b.reinterpret(second, "f8")
    imaginary = b.load(parts, b.op("add", b.op("multiply", back, b.constant(2)), b.constant(1)))
    b.store(out, t, b.op("add", b.cast(b.load(first, back), "f8"), imaginary))
    values = np.arange(8) * 2j
    expected = (np.arange(8) / 2 + (np.arange(8) * 2 - 1))[::-1]
    return Program(b.finish(), [np.zeros(8), values], [expected, None], (8,), (1,), 32 + 8 * 16)


def block_votes() -> Program:
    """Return a program with votes among the threads of a block, memory fences, and the clock."""
    b = Builder("block_votes")
    x, out = b.pointer("x", "i4"), b.pointer("out", "i4", writable=True)
    i = b.grid_index()
    positive = b.test("greater", b.load(x, i), b.constant(0))
    total = b.constant(0)
    for kind, weight in (("count", 1), ("and", 1000), ("or", 10000)):
        said = b.one("barrier_vote", (positive,), kind=kind)
        total = b.op("add", total, b.op("multiply", said, b.constant(weight)))
        b.emit("fence", scope="block")
    before, after = b.one("clock", type=I8), b.one("clock", type=I8)
    b.emit("sleep", (b.constant(1, U4),))
    ordered = b.cast(b.test("greater_equal", after, before), I4)
    b.store(out, i, b.op("multiply", total, ordered))
    values = np.concatenate([np.ones(64), np.arange(64) % 4 - 1]).astype(np.int32)
    expected = np.repeat(np.array([64 + 1000 + 10000, 32 + 10000], np.int32), 64)
    return Program(b.finish(), [values, np.zeros(128, np.int32)], [None, expected])


PROGRAMS: dict[str, Callable[[], Program]] = {
    "block_sums": block_sums,
    **{
        f"shuffle_{m}_{w}": lambda m=m, w=w: shuffled("i8", m, w) for m in ("idx", "up", "down", "xor") for w in (8, 32)
    },
    **{f"shuffle_{d}": lambda d=d: shuffled(d, "down", 32) for d in ("?", "u1", "i2", "f2", "f4", "f8", "c8", "c16")},
    "votes": votes,
    **{
        f"fold_{k}_{d}_{m:x}": lambda d=d, k=k, m=m: warp_reductions(d, k, m)
        for d, k, m in (
            ("i4", "add", ALL),
            ("u4", "maximum", 0xF0),
            ("i1", "minimum", ALL),
            ("i8", "bitwise_xor", ALL),
            ("f4", "add", ALL),
            ("f2", "add", ALL),
            ("f8", "maximum", 0b1011),
            ("c8", "add", 0xFF00),
        )
    },
    "fold_by_a_mask": lambda: warp_reductions("f4", "add", 0xFFF0, known=False),
    "fold_by_the_full_mask": lambda: warp_reductions("f4", "minimum", ALL, known=False),
    "histogram": histogram,
    "counters": counters,
    "recursion": recursion,
    "memory": memory,
    "block_votes": block_votes,
}
