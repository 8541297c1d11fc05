"""Tests of the reference interpreter: results, and errors that it detects."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import kernels
from tests.oracle.interpret import DivergenceError, cast_scalar, interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.kernel_ir.operation import Block, Operation, Pointer, Value


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u8", "c8", "?"])
def test_pointwise(dtype: str) -> None:
    x, y = kernels.numbers(17, dtype, 1), kernels.numbers(17, dtype, 2)
    out = np.zeros_like(x)
    with np.errstate(all="ignore"):
        expected = x * y + x
    interpret_kernel(kernels.line(dtype), {"out": out, "x": x, "y": y, "n": 17})
    np.testing.assert_array_equal(out, expected)


def test_folds() -> None:
    x = kernels.numbers((5, 9), "f8")
    x[2, 4] = np.nan
    out = [np.zeros(5), np.zeros(5), np.zeros(5, np.int64)]
    interpret_kernel(kernels.rows("f8", ("add", "argmin")), [x.ravel(), 5, 9, *out])
    # the sum is computed from left to right
    np.testing.assert_array_equal(out[0], np.add.accumulate(x, axis=1)[:, -1])
    np.testing.assert_array_equal(out[2], x.argmin(1))
    np.testing.assert_array_equal(out[1], x.min(1))


def test_scan_and_start() -> None:
    x = kernels.numbers(12, "i8")
    out = np.zeros(12, np.int64)
    interpret_kernel(kernels.scan("i8"), [x, out, 3, 4])
    np.testing.assert_array_equal(out.reshape(3, 4), x.reshape(3, 4).cumsum(1))
    # the same kernel with a pointer into the middle of an array
    longer = np.concatenate([np.full(5, 99), x])
    again = np.zeros(20, np.int64)
    interpret_kernel(kernels.scan("i8"), [(longer, 5), (again, 8), 3, 4])
    np.testing.assert_array_equal(again[8:], out)
    assert not again[:8].any()


def test_accesses_are_checked() -> None:
    x, out = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(IndexError, match="load of element 4 of %x, which has 4"):
        interpret_kernel(kernels.line(), [x, x, out, 5])
    with pytest.raises(IndexError, match="store of element 2 of %out, which has 2"):
        interpret_kernel(kernels.line(), [x, x, out[:2], 4])
    with pytest.raises(IndexError, match="load of element -1 of %x"):
        interpret_kernel(kernels.line(), [(x, -1), x, out, 1])
    with pytest.raises(TypeError, match="%x points to float32, not float64"):
        interpret_kernel(kernels.line(), [np.zeros(4), x, out, 1])


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.float32(3.99), "i4", 3),
        (np.float32(-3.99), "i4", -3),
        (np.float64(1e300), "i4", 2**31 - 1),
        (np.float64(-1e300), "i8", -(2**63)),
        (np.float64(np.inf), "u2", 65535),
        (np.float64(-1), "u2", 0),
        (np.float32(np.nan), "i8", 0),
        (np.float64(255.5), "u1", 255),
        (np.int64(300), "u1", 44),
        (np.int64(-1), "u8", 2**64 - 1),
        (np.float64(np.nan), "?", True),
        (np.float64(-0.0), "?", False),
        (np.complex128(3 + 4j), "i4", 3),
        (np.complex64(4j), "?", True),
        (np.float64(1e300), "f4", np.inf),
        (np.int8(-5), "c8", -5),
    ],
)
def test_casts(value: np.generic, dtype: str, expected: object) -> None:
    with np.errstate(all="ignore"):
        result = cast_scalar(value, np.dtype(dtype))
    assert result.dtype == np.dtype(dtype)
    assert result == expected


# -- threads ----------------------------------------------------------------------------------------


def _threaded() -> tuple[KernelBuilder, Value, Value]:
    b = KernelBuilder("threads")
    b.kernel.level = "threaded"
    out = b.pointer("out", np.int32, writable=True)
    return b, out, b.emit("thread_index", (), (np.dtype(np.int32),), axis=0)[0]


def _when(b: KernelBuilder, condition: Value, what: str) -> None:
    then, otherwise = Block(), Block()
    if what == "barrier":
        then.operations.append(Operation("barrier"))
    for block in (then, otherwise):
        block.operations.append(Operation("yield"))
    b.emit("if", (condition,), (), (then, otherwise))


def _run(kernel: Kernel, size: int, block: int, grid: int = 1) -> list[np.ndarray]:
    verify_kernel(kernel)
    found = []
    for backwards in (False, True):
        out = np.zeros(size, np.int32)
        interpret_kernel(kernel, [out], grid=(grid,), block=(block,), backwards=backwards)
        found.append(out)
    return found


def test_indices_of_blocks_and_threads() -> None:
    b, out, thread = _threaded()
    index = np.dtype(np.int32)
    number, size, count = (b.emit(o, (), (index,), axis=0)[0] for o in ("block_index", "block_size", "grid_size"))
    where = b.op("add", b.op("multiply", number, size), thread)
    b.store(out, where, b.op("add", b.op("multiply", where, b.constant(100)), count))
    for out_array in _run(b.finish(), 12, 4, grid=3):
        np.testing.assert_array_equal(out_array, np.arange(12) * 100 + 3)


def test_shared_memory_and_barriers() -> None:
    """Test threads that exchange values through shared memory, with and without a barrier.

    Without the barrier, results depend on the order of threads.
    """
    results = {}
    for fenced in (True, False):
        b, out, thread = _threaded()
        shared = b.emit("shared", (), (Pointer(np.dtype(np.int32), "shared"),), count=64)[0]
        b.store(shared, thread, b.op("multiply", thread, thread))
        if fenced:
            b.emit("barrier")
        opposite = b.op("subtract", b.constant(63), thread)
        b.store(out, thread, b.load(shared, opposite))
        results[fenced] = _run(b.finish(), 64, 64)
    for found in results[True]:
        np.testing.assert_array_equal(found, np.arange(64)[::-1] ** 2)
    assert any((found != np.arange(64)[::-1] ** 2).any() for found in results[False])


def test_shuffles() -> None:
    b, out, thread = _threaded()
    value = thread
    for mask in (1, 2, 4, 8, 16):
        other = b.emit("shuffle_xor", (value,), (value.type,), mask=mask)[0]
        value = b.op("add", value, other)
    b.store(out, thread, value)
    for found in _run(b.finish(), 64, 64):
        np.testing.assert_array_equal(found, np.repeat([sum(range(32)), sum(range(32, 64))], 32))


@pytest.mark.parametrize("limit", [1, 32, 40])
def test_divergent_barrier(limit: int) -> None:
    b, _, thread = _threaded()
    _when(b, b.op("less", thread, b.constant(limit), dtype=np.bool_), "barrier")
    with pytest.raises(DivergenceError, match="threads"):
        _run(b.finish(), 64, 64)


def test_uniform_barrier_in_a_branch() -> None:
    b, _, thread = _threaded()
    _when(b, b.op("less", thread, b.constant(64), dtype=np.bool_), "barrier")
    _run(b.finish(), 64, 64)


def test_shuffle_needs_a_full_warp() -> None:
    b, _, thread = _threaded()
    b.emit("shuffle_xor", (thread,), (thread.type,), mask=1)
    with pytest.raises(DivergenceError, match="a shuffle in a warp of 16 threads"):
        _run(b.finish(), 64, 48)


def test_atomics() -> None:
    b, out, thread = _threaded()
    b.emit("atomic", (out, b.constant(0), thread), (np.dtype(np.int32),), kind="add")
    b.emit("atomic", (out, b.constant(1), thread), (np.dtype(np.int32),), kind="maximum")
    for found in _run(b.finish(), 2, 64, grid=2):
        np.testing.assert_array_equal(found, [2 * sum(range(64)), 63])


def test_uninitialized_shared_memory_is_not_zero() -> None:
    b, out, thread = _threaded()
    shared = b.emit("shared", (), (Pointer(np.dtype(np.int32), "shared"),), count=32)[0]
    b.store(out, thread, b.load(shared, thread))
    assert all((found != 0).all() for found in _run(b.finish(), 32, 32))
