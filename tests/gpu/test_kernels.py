"""Tests that kernels have the same results on a real GPU as in Python (``pytest -m gpu``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.probes import PROBES, Probe, same
from tests.dsl.kernel.programs import PROGRAMS
from tests.dsl.kernel.test_vectorize import X, Y, branches, by_hand, steps
from weft import cuda
from weft.runtime import DeviceLostError

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")]


def run(given: Probe) -> tuple[Any, ...]:
    arguments = given.copies()
    kernel = wf.kernel(**given.options)(given.function) if given.options else wf.kernel(given.function)
    kernel[given.launch](*arguments, **given.keywords)
    cuda.synchronize()
    return arguments


@pytest.mark.parametrize("given", PROBES, ids=lambda given: given.name)
def test_probe(given: Probe) -> None:
    # libdevice and the C library round differently, so the bound is doubled
    for found, right in zip(run(given), given.wanted(), strict=True):
        same(found, right, 2 * given.ulps)


@pytest.mark.parametrize("given", PROGRAMS, ids=lambda given: given.name)
def test_program(given: Probe) -> None:
    for found, right in zip(run(given), given.wanted(), strict=True):
        same(found, right, 2 * given.ulps)


def test_functions_inside_expressions() -> None:
    f = wf.vectorize(branches)
    np.testing.assert_array_equal((f(wf.asarray(X), wf.asarray(Y)) * 3).numpy(), by_hand(X, Y) * 3)
    c = (X + 1j * Y).astype(np.complex128)
    np.testing.assert_array_equal(wf.vectorize(steps)(wf.asarray(c)).numpy(), [steps(v) for v in c])
    values = np.arange(100_003, dtype=np.int64)
    assert wf.reduce(lambda a, b: a + b)(wf.asarray(values)) == values.sum()


def test_checked_kernels_name_block_and_thread() -> None:
    @wf.kernel(debug=True)
    def wrong(x: Any) -> None:
        x[cuda.grid(1)] = 1

    with pytest.raises(IndexError, match=r"block \(1, 0, 0\), thread \([23], 0, 0\)"):
        wrong[2, 4](wf.zeros(6))


def test_a_million_in_shared_memory_with_the_bits_of_the_cpu() -> None:
    @wf.kernel
    def blocks(x: Any, out: Any) -> None:
        part = cuda.shared.array(256, np.float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        part[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        s = cuda.blockDim.x // 2
        while s > 0:
            if t < s:
                part[t] += part[t + s]
            cuda.syncthreads()
            s //= 2
        if t == 0:
            out[cuda.blockIdx.x] = part[0]

    values = np.random.default_rng(0).random(1_000_000).astype(np.float32)
    found = []
    for device in ("cuda:0", "cpu"):
        with wf.device(device):
            out = wf.zeros(3907, dtype=np.float32)
            blocks[3907, 256](wf.asarray(values), out)
            found.append(out.numpy())
    np.testing.assert_array_equal(*found)


def test_lost_device_is_not_met_here() -> None:
    """Test that the preceding tests have not lost the device."""
    try:
        assert float(wf.ones(8).sum()) == 8
    except DeviceLostError as error:  # pragma: no cover
        pytest.fail(str(error))
