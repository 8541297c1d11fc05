"""Tests of kernels on the host in which threads update private copies of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.runtime import override


@cuda.jit
def add(x, h):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(h, x[i] % h.size, x[i])


REDUCTIONS = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_results_are_exact(name: str, dtype: str) -> None:
    operation = getattr(cuda.atomic, name)

    @cuda.jit
    def reduce(x, h):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            operation(h, x[i] % 7, x[i])

    source = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    x = source.integers(limits.min // 4, limits.max // 4, 100_000, dtype=dtype)
    start = source.integers(limits.min, limits.max, 7, dtype=dtype)
    expected, found = start.copy(), start.copy()
    REDUCTIONS[name].at(expected, x % 7, x)
    with override(threads=2):
        reduce[64, 128](x, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["add", "sub", "min", "max", "nanmin", "nanmax"])
def test_floats(name: str, dtype: str) -> None:
    operation = getattr(cuda.atomic, name)

    @cuda.jit
    def reduce(x, h):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            operation(h, i % 7, x[i])

    x = np.random.default_rng(0).integers(-50, 50, 70_000).astype(dtype)
    x[3::7], x[4::7], x[5 + 7 * 999], x[6::14] = np.nan, np.inf, np.nan, -np.inf
    start = np.array([8, -0.0, np.nan, np.nan, np.nan, np.inf, -3, 5, -0.0], dtype)
    x[1::7] = -0.0
    reference = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}
    reference |= {"nanmin": np.fmin, "nanmax": np.fmax}
    expected, found = start.copy(), start.copy()
    effective = x
    if name in ("min", "max"):  # a NaN changes nothing
        effective = np.where(np.isnan(x), np.array(np.inf if name == "min" else -np.inf, dtype), x)
    with np.errstate(invalid="ignore"):
        reference[name].at(expected, np.arange(x.size) % 7, effective)
    with override(threads=2):
        reduce[64, 128](x, found)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[7:]), [False, True])
    if name == "add":
        assert np.signbit(found[1])


def test_one_call_adds_floats_in_order() -> None:
    @cuda.jit
    def total(x, h):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(h, 0, x[i])

    x = np.random.default_rng(0).random(5_000, np.float32)
    found, expected = np.full(1, 1e6, np.float32), np.full(1, 1e6, np.float32)
    np.add.at(expected, np.zeros(x.size, int), x)
    with override(threads=1):
        total[20, 256](x, found)
    assert found == expected


@pytest.mark.parametrize("bins", [1, 5, 300, 40_000, 200_000])
def test_arrays_of_all_lengths(bins: int) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 30, 100_000, dtype=np.int32)
    expected, found = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    np.add.at(expected, x % bins, x)
    add[-(-x.size // 100), 100](x, found)
    np.testing.assert_array_equal(found, expected)


def test_without_elements() -> None:
    h = np.zeros(0, np.int32)
    add[4, 64](np.zeros(0, np.int32), h)
    add[40, 640](np.zeros(0, np.int32), np.zeros(3, np.int32))
    assert h.size == 0


def test_two_dimensions_and_two_arrays() -> None:
    @cuda.jit
    def count(x, h, total):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(h, (x[i], x[i] % 3), 1)
            cuda.atomic.max(total, (), x[i])

    x = np.random.default_rng(0).integers(0, 5, 30_000)
    h, total = np.zeros((5, 3), np.int32), np.zeros((), np.int64)
    count[300, 100](x, h, total)
    np.testing.assert_array_equal(h.sum(1), np.bincount(x))
    assert total == 4


def test_a_thread_reads_its_own_changes_if_arrays_overlap() -> None:
    @cuda.jit
    def count(x, h, seen):
        i = cuda.grid(1)
        cuda.atomic.add(h, i, 5)
        seen[i] = x[i]

    both = cuda.to_device(np.arange(20_001))
    seen = np.zeros(20_000, np.int64)
    count[200, 100](both[:-1], both[:-1], seen)
    np.testing.assert_array_equal(seen, np.arange(20_000) + 5)
    count[200, 100](both[:-1], both[1:], seen[:1].repeat(20_000))
    assert both.copy_to_host()[-1] == 20_005


def test_threads_before_an_error_have_changed_the_array() -> None:
    @cuda.jit(debug=True)
    def count(x, h):
        i = cuda.grid(1)
        cuda.atomic.add(h, 0, 1)
        assert x[i] < 9
        cuda.atomic.add(h, 1, 1)

    x, h = np.zeros(10_000, np.int32), np.zeros(2, np.int64)
    x[77] = 9
    with pytest.raises(AssertionError):
        count[100, 100](x, h)
    assert h.tolist() == [10_000, 9_999]


def test_the_device_that_runs_coroutines() -> None:
    x = np.random.default_rng(0).integers(0, 1 << 30, 10_000, dtype=np.int32)
    expected, found = np.zeros(9, np.int64), np.zeros(9, np.int64)
    np.add.at(expected, x % 9, x)
    with wf.device("simt::backward"):
        add[100, 100](cuda.InOut(x), cuda.InOut(found))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.cpu  # other devices copy the two views, which then do not overlap
@pytest.mark.parametrize("step", [2, -3])
def test_strided_arrays(step: int) -> None:
    @cuda.jit
    def count(x, h, seen):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(h, i, 5)
            seen[i] = x[i]

    x, seen = np.arange(60_000)[::step], np.zeros(60_000, np.int64)
    h = np.zeros(60_000, np.int64)
    count[600, 100](x, h, seen)
    np.testing.assert_array_equal(seen[: x.size], x)
    np.testing.assert_array_equal(h, 5 * (np.arange(60_000) < x.size))
    both = np.arange(100_000)
    own, other, same = (both, both[::2], 0) if step > 0 else (both, both[:90_001][::-3], 22_500)
    expected = other.copy()
    count[600, 100](other, own, seen)
    assert seen[same] == expected[same] + 5  # this thread reads the element to which it has added
