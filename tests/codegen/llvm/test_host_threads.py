"""Tests of explicit kernels without synchronization on the CPU.

The tests cover guards, loops, functions, atomics, printing and mathematical functions.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm.grids import run
from weft.codegen import KernelBuilder, Value, compile_kernel, lower_stages, resolve_target, verify_kernel
from weft.codegen.kernel_ir.operation import Pointer
from weft.runtime import CompileError


def builder(name: str, index: Any = np.int32) -> KernelBuilder:
    return KernelBuilder(name, index, "threaded", explicit=True)


def number(b: KernelBuilder, opcode: str, axis: int = 0) -> Value:
    return b.emit(opcode, (), (b.kernel.index_dtype,), axis=axis)[0]


def position(b: KernelBuilder, axis: int = 0) -> Value:
    blocks = b.op("multiply", number(b, "block_index", axis), number(b, "block_size", axis))
    return b.op("add", blocks, number(b, "thread_index", axis))


def unary(row: str, index: Any = np.int64, dtype: Any = np.float32) -> KernelBuilder:
    """Return a builder of the kernel ``if i < n: y[i] = row(x[i])``. `row` is the name of an op."""
    b = builder("unary", index)
    x, y = b.pointer("x", dtype), b.pointer("y", dtype, writable=True)
    n = b.scalar("n")
    with b.scope("kernel"):
        i = position(b)
        with b.if_(b.op("greater_equal", i, n, dtype=bool)):
            b.leave("kernel")
        b.store(y, i, b.op(row, b.load(x, i)))
    return b


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_guarded_loads_are_vectors(index: Any) -> None:
    kernel = unary("negative", index).finish()
    verify_kernel(kernel)
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    y = np.full(1024, 7, np.float32)
    run(kernel, [x, y, 1000], (8,), (128,))
    np.testing.assert_array_equal(y[:1000], -x)
    assert (y[1000:] == 7).all()
    text = lower_stages(kernel, resolve_target("host"))["llvm"]
    assert re.search(r"store <\d+ x float>", text)
    assert "llvm.masked" not in text  # the loop over threads ends at n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ["exp", "log", "sin", "tanh", "cbrt", "sqrt", "floor"])
def test_a_value_does_not_depend_on_its_lane(row: str, dtype: Any) -> None:
    kernel = unary(row, dtype=dtype).finish()
    x = np.random.default_rng(1).uniform(0.1, 20, 997).astype(dtype)
    whole, single = np.zeros(997, dtype), np.zeros(997, dtype)
    run(kernel, [x, whole, 997], (4,), (256,))
    run(kernel, [x, single, 997], (997,), (1,))
    np.testing.assert_array_equal(whole, single)
    np.testing.assert_allclose(whole, getattr(np, row)(x), rtol=1e-5 if dtype is np.float32 else 1e-14)


def test_three_axes() -> None:
    b = builder("indices")
    out = b.pointer("out", np.int32, writable=True)
    index = None
    for axis in (2, 1, 0):
        i = position(b, axis)
        if index is None:
            index = i
        else:
            extent = b.op("multiply", number(b, "grid_size", axis), number(b, "block_size", axis))
            index = b.op("add", b.op("multiply", index, extent), i)
    assert index is not None
    code = None
    for name in ("block_index", "thread_index"):
        for axis in (2, 1, 0):
            digit = b.cast(number(b, name, axis), np.int32)
            ten = b.constant(10, np.int32)
            code = digit if code is None else b.op("add", b.op("multiply", code, ten), digit)
    assert code is not None
    b.store(out, index, code)
    kernel = b.finish()
    verify_kernel(kernel)
    grid, block = (3, 2, 2), (5, 3, 2)
    extents = [g * s for g, s in zip(grid, block, strict=True)]
    values = np.zeros(math.prod(extents), np.int32)
    run(kernel, [values], grid, block)
    z, y, x = np.indices(extents[::-1])
    expected = 0
    for part in (z // 2, y // 3, x // 5, z % 2, y % 3, x % 5):
        expected = 10 * expected + part
    np.testing.assert_array_equal(values.reshape(extents[::-1]), expected)


def test_leaves_out_of_nested_loops() -> None:
    """Test early exits from nested loops, in a kernel that finds factors of integers."""
    b = builder("factors")
    out = b.pointer("out", np.int32, writable=True)
    i = position(b)
    zero = b.constant(0)
    found, a = b.local(np.int32), b.local(np.int32)
    b.store(found, zero, b.constant(-1, np.int32))
    b.store(a, zero, b.constant(2, np.int32))
    with b.scope("search"), b.repeat():
        first = b.load(a, zero)
        with b.if_(b.op("greater", first, i, dtype=bool)):
            b.leave("search")
        with b.scope("inner"), b.loop(i, "serial", start=b.constant(2)) as loop:
            product = b.op("multiply", first, loop.index)
            with b.if_(b.op("equal", product, i, dtype=bool)):
                b.store(found, zero, b.op("add", b.op("multiply", first, b.constant(1000)), loop.index))
                b.leave("search")
            with b.if_(b.op("greater", product, i, dtype=bool)):
                b.leave("inner")
        b.store(a, zero, b.op("add", first, b.constant(1)))
    b.store(out, i, b.load(found, zero))
    kernel = b.finish()
    verify_kernel(kernel)
    values = np.zeros(64, np.int32)
    run(kernel, [values], (2,), (32,))
    for n in range(64):
        pairs = [1000 * p + n // p for p in range(2, n) if n % p == 0]
        assert values[n] == (pairs[0] if pairs else -1)


def test_local_arrays_offsets_and_tables() -> None:
    b = builder("reverse")
    x, y = b.pointer("x", np.int32), b.pointer("y", np.int32, writable=True)
    mine = b.local(np.int32, 4)
    where = Pointer(np.dtype(np.int32), "constant")
    (table,) = b.emit("table", (), (where,), values=np.array([30, 20, 10, 0], np.int32))
    start = b.op("multiply", position(b), b.constant(4))
    with b.loop(b.constant(4), "serial") as loop:
        b.store(mine, loop.index, b.load(b.offset(x, start), loop.index))
    with b.loop(b.constant(4), "serial") as loop:
        back = b.op("subtract", b.constant(3), loop.index)
        value = b.op("add", b.load(mine, back), b.load(table, loop.index))
        b.store(b.offset(y, start), loop.index, value)
    kernel = b.finish()
    x_values = np.arange(160, dtype=np.int32)
    out = np.zeros(160, np.int32)
    run(kernel, [x_values, out], (4,), (10,))
    expected = x_values.reshape(40, 4)[:, ::-1] + np.array([30, 20, 10, 0])
    np.testing.assert_array_equal(out.reshape(40, 4), expected)


def test_functions_call_themselves() -> None:
    b = builder("fibonacci")
    out = b.pointer("out", np.int64, writable=True)
    with b.function("fib", [np.dtype(np.int64)], [np.dtype(np.int64)]) as (n,):
        with b.if_(b.op("less", n, b.constant(2, np.int64), dtype=bool), [np.dtype(np.int64)]) as branch:
            branch.yield_(n)
        with b.else_() as branch:
            one, two = (b.op("subtract", n, b.constant(k, np.int64)) for k in (1, 2))
            branch.yield_(b.op("add", b.call("fib", one)[0], b.call("fib", two)[0]))
        b.yield_(branch.results[0])
    with b.function("mine", [np.dtype(np.int64)], [np.dtype(np.int64)] * 2) as (n,):
        b.yield_(b.op("add", n, b.cast(number(b, "thread_index"), np.int64)), n)
    i = position(b)
    (value,) = b.call("fib", b.cast(i, np.int64))
    total, _ = b.call("mine", value)
    b.store(out, i, total)
    kernel = b.finish()
    verify_kernel(kernel)
    values = np.zeros(20, np.int64)
    run(kernel, [values], (2,), (10,))
    fibonacci = [0, 1]
    while len(fibonacci) < 20:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    np.testing.assert_array_equal(values, np.array(fibonacci) + np.arange(20) % 10)


ATOMICS: dict[str, Any] = {
    "add": np.add.reduce,
    "minimum": np.min,
    "maximum": np.max,
    "fmin": np.fmin.reduce,
    "fmax": np.fmax.reduce,
    "bitwise_and": np.bitwise_and.reduce,
    "bitwise_or": np.bitwise_or.reduce,
    "bitwise_xor": np.bitwise_xor.reduce,
}


def atomic(kind: str, dtype: Any) -> KernelBuilder:
    b = builder("atomics")
    x, out, old = (b.pointer(name, dtype, writable=True) for name in ("x", "out", "old"))
    i = position(b)
    (before,) = b.emit("atomic", (out, b.constant(0), b.load(x, i)), (np.dtype(dtype),), kind=kind)
    b.store(old, i, before)
    return b


INTEGERS = [np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]


@pytest.mark.parametrize(
    ("kind", "dtype"), [(k, d) for k in ATOMICS for d in (*INTEGERS, *(FLOATS if not k.startswith("bitwise") else ()))]
)
def test_atomics_from_all_cores(kind: str, dtype: Any) -> None:
    count = 1024 if dtype is np.float16 else 1 << 16
    x = np.random.default_rng(2).integers(1, 2 if dtype is np.float16 and kind == "add" else 100, count).astype(dtype)
    out, old = x[:1].copy(), np.zeros_like(x)
    run(atomic(kind, dtype).finish(), [x, out, old], (count // 64,), (64,))
    expected = ATOMICS[kind](np.append(x, x[:1]))
    if kind == "add":
        expected = (x.astype(np.int64).sum() + int(x[0])).astype(dtype)
    assert out[0] == expected
    assert len(np.unique(old)) > 1 or kind.startswith(("bitwise", "min", "fmin")) or x.max() == x[0]


def test_atomic_nan_rules() -> None:
    for kind, stays in (("minimum", True), ("maximum", True), ("fmin", False), ("fmax", False)):
        x = np.array([1.0, np.nan, 2.0], np.float32)
        for start in (np.float32(np.nan), np.float32(1.5)):
            out = np.array([start])
            run(atomic(kind, np.float32).finish(), [x, out, np.zeros_like(x)], (1,), (3,))
            assert np.isnan(out[0]) == stays


def test_atomic_counters_wrap() -> None:
    out, old = np.zeros(1, np.uint32), np.zeros(10, np.uint32)
    run(atomic("increment", np.uint32).finish(), [np.full(10, 3, np.uint32), out, old], (1,), (10,))
    assert out[0] == 2
    assert list(old) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    out[0] = 1
    run(atomic("decrement", np.uint32).finish(), [np.full(10, 3, np.uint32), out, old], (1,), (10,))
    assert list(old) == [1, 0, 3, 2, 1, 0, 3, 2, 1, 0]


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32, np.float64])
def test_compare_and_swap(dtype: Any) -> None:
    """Test a kernel that computes a sum by a compare-and-swap loop, on all cores."""
    b = builder("swap")
    x, out = b.pointer("x", dtype), b.pointer("out", dtype, writable=True)
    zero = b.constant(0)
    mine = b.load(x, position(b))
    expected = b.local(dtype)
    b.store(expected, zero, b.load(out, zero))
    with b.scope("done"), b.repeat():
        before = b.load(expected, zero)
        (old,) = b.emit("atomic_cas", (out, zero, before, b.op("add", before, mine)), (np.dtype(dtype),))
        with b.if_(b.op("equal", old, before, dtype=bool)):
            b.leave("done")
        b.store(expected, zero, old)
    x_values = np.random.default_rng(3).integers(0, 9, 1 << 14).astype(dtype)
    out_values = np.zeros(1, dtype)
    run(b.finish(), [x_values, out_values], (64,), (256,))
    assert out_values[0] == x_values.sum()


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    b = builder("says")
    i = position(b)
    half = b.op("multiply", b.cast(i, np.float32), b.constant(0.5, np.float32))
    even = b.op("equal", b.op("bitwise_and", i, b.constant(1)), b.constant(0), dtype=bool)
    b.emit("print", (i, half, even), pieces=("i=", " half ", " é ", "!\n"))
    b.emit("print", (half, i), pieces=("<", ", ", ">\n"), formats=(".2f", "03x"))
    run(b.finish(), [], (1,), (2,))
    expected = "i=0 half 0 é True!\n<0.00, 000>\ni=1 half 0.5 é False!\n<0.50, 001>\n"
    assert capsys.readouterr().out == expected


def test_odds_and_ends() -> None:
    b = builder("odd")
    out = b.pointer("out", np.int64, writable=True)
    (before,) = b.emit("clock", (), (np.dtype(np.int64),))
    b.emit("sleep", (b.constant(1500, np.uint32),))
    b.emit("fence", (), scope="device")
    (after,) = b.emit("clock", (), (np.dtype(np.int64),))
    b.store(out, position(b), b.op("subtract", after, before))
    values = np.zeros(3, np.int64)
    run(b.finish(), [values], (1,), (3,))
    assert (values > 0).all()


def test_shared_memory_of_one_thread_after_another() -> None:
    b = builder("dynamic")
    out = b.pointer("out", np.int32, writable=True)
    shared = b.shared(np.int32, 8)
    (dynamic,) = b.emit("dynamic_shared", (), (b.reinterpret(shared, np.uint8).type,))
    i = number(b, "thread_index")
    b.store(shared, i, i)
    b.store(b.reinterpret(dynamic, np.int32), i, b.op("multiply", i, b.constant(2)))
    total = b.op("add", b.load(shared, i), b.load(b.reinterpret(dynamic, np.int32), i))
    b.store(out, position(b), total)
    values = np.zeros(24, np.int32)
    run(b.finish(), [values], (3,), (8,), 32)
    np.testing.assert_array_equal(values, np.tile(np.arange(8) * 3, 3))


@pytest.mark.parametrize("opcode", ["assembly", "external"])
def test_what_exists_on_a_gpu_only(opcode: str) -> None:
    b = builder("gpu")
    if opcode == "assembly":
        b.emit(opcode, (), (np.dtype(np.int32),), template="mov.u32 $0, %laneid;", constraints="=r")
    else:
        b.emit(opcode, (b.constant(1, np.float32),), (np.dtype(np.float32),), symbol="__nv_j0f")
    with pytest.raises(CompileError, match="exists on a GPU only"):
        compile_kernel(b.finish(), resolve_target("host"))


@pytest.mark.parametrize("k", [0, 1])
def test_the_order_within_a_thread_stays(k: int) -> None:
    """Test that a store between two loads of adjacent elements stays between them.

    LLVM would otherwise load both elements at once.
    """
    b = builder("pairs")
    x, y = b.pointer("x", np.float32, writable=True), b.pointer("y", np.float32, writable=True)
    which = b.scalar("k")
    i = position(b)
    first = b.op("multiply", i, b.constant(2))
    before = b.load(x, first)
    b.store(x, b.op("add", first, which), b.constant(5, np.float32))
    after = b.load(x, b.op("add", first, b.constant(1)))
    b.store(y, i, b.op("add", b.op("multiply", before, b.constant(100, np.float32)), after))
    x_values, y_values = np.arange(512, dtype=np.float32), np.zeros(256, np.float32)
    expected = x_values.reshape(256, 2).copy()
    before_values = expected[:, 0].copy()
    expected[:, k] = 5
    run(b.finish(), [x_values, y_values, k], (1,), (256,))
    np.testing.assert_array_equal(y_values, before_values * 100 + expected[:, 1])


@pytest.mark.parametrize("fast", [False, True])
def test_fast_kernels_contract_and_regroup(fast: bool) -> None:
    b = KernelBuilder("sums", np.int64, "threaded", explicit=True, fast=fast)
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    zero = b.constant(0)
    total = b.local(np.float64)
    b.store(total, zero, b.constant(0, np.float64))
    row = b.op("multiply", position(b), b.constant(1000))
    with b.loop(b.constant(1000), "serial") as loop:
        value = b.load(x, b.op("add", row, loop.index))
        b.store(total, zero, b.op("add", b.load(total, zero), b.op("multiply", value, value)))
    b.store(out, position(b), b.load(total, zero))
    kernel = b.finish()
    values, sums = np.arange(4000, dtype=np.float64), np.zeros(4)
    run(kernel, [values, sums], (2,), (2,))
    np.testing.assert_allclose(sums, (values**2).reshape(4, 1000).sum(1))
    assert ("contract" in lower_stages(kernel, resolve_target("host"))["llvm"]) == fast
