"""Tests that sums of conditions are computed in 32 bits if they cannot overflow."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.passes.narrow_counts import narrow_counts

NARROW, WIDE = np.dtype(np.int32), np.dtype(np.int64)


def counting(
    index: type = np.int32, source: type = np.uint8, shared: bool = False, through: type | None = None
) -> Kernel:
    """Return the kernel ``count[0] = 5 + sum(x > 1); total[0] = sum(x)``.

    With `shared`, the total is a sum of the running counts instead, so that the loop reads them. If `through` is given,
    the condition is first cast to that dtype.
    """
    b = KernelBuilder("counting", np.dtype(index))
    length = b.scalar("length")
    x = b.pointer("x", source, noalias=True)
    out = [b.pointer(name, np.int64, writable=True, noalias=True) for name in ("count", "total")]
    initial = [b.constant(5, WIDE), b.constant(0, WIDE)]
    with b.loop(length, "reduce", initial=initial, combine=("add", "add")) as loop:
        value = b.load(x, loop.index)
        condition = b.op("greater", value, b.constant(1, source), dtype=np.bool_)
        one = condition if through is None else b.cast(condition, np.dtype(through))
        count = b.op("add", loop.carried[0], b.cast(one, WIDE), dtype=WIDE)
        other = loop.carried[0] if shared else b.cast(value, WIDE)
        loop.yield_(count, b.op("add", loop.carried[1], other, dtype=WIDE))
    for pointer, result in zip(out, loop.results, strict=True):
        b.store(pointer, b.constant(0, np.dtype(index)), result)
    return b.finish()


def loop_of(kernel: Kernel) -> Operation:
    return next(operation for operation in kernel.walk() if operation.opcode == "for")


@pytest.mark.parametrize("through", [None, np.uint8, np.float32])
def test_only_the_count_is_narrow(through: type | None) -> None:
    kernel = narrow_counts(counting(through=through))
    verify_kernel(kernel)
    assert [value.type for value in loop_of(kernel).results] == [NARROW, WIDE]
    assert [value.type for value in loop_of(counting()).results] == [WIDE, WIDE]


@pytest.mark.parametrize("change", [{"index": np.int64}, {"shared": True}])
def test_counts_that_could_overflow_or_are_read_in_the_loop_stay_wide(change: dict[str, type]) -> None:
    kernel = counting(**change)
    assert narrow_counts(kernel) is kernel


@pytest.mark.parametrize("values", [[], [2], [0, 1, 2, 3, 255, 1]])
def test_results_are_the_same(values: list[int]) -> None:
    found = []
    for kernel in (counting(), narrow_counts(counting())):
        count, total = np.zeros(1, np.int64), np.zeros(1, np.int64)
        interpret_kernel(kernel, [len(values), np.array(values, np.uint8), count, total])
        found.append((count[0], total[0]))
    assert found == [(5 + sum(value > 1 for value in values), sum(values))] * 2


@pytest.mark.parametrize("shape", [(100_000,), (500, 300), (300, 3), (3, 40_000)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_counts_equal_numpys(shape: tuple[int, ...], dtype: type) -> None:
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    array = wf.asarray(x)
    for axis in (None, *range(len(shape))):
        for count in (
            wf.count_nonzero(array > 4, axis=axis),
            (array > 4).sum(axis=axis),
            wf.sum(array > 4, axis=axis, dtype=np.uint64),
            (array > 4).astype(np.uint8).sum(axis=axis),
        ):
            np.testing.assert_array_equal(np.asarray(count), np.count_nonzero(x > 4, axis=axis))
    np.testing.assert_allclose(float((array > 4).mean()), (x > 4).mean(), rtol=1e-14)
