"""Tests of whole programs on a CUDA device.

The stand-in for the driver delays kernels as long as possible.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import weft as wf
from tests.fuzz.programs import differences, run_numpy, run_program, short_program
from tests.stand_in import RunningDevice, RunningStandIn
from weft import cuda
from weft.runtime import DeviceLostError, set_default_device


def test_a_loop_of_plans(device: RunningDevice, driver: RunningStandIn) -> None:
    a, b = np.random.default_rng(0).random((2, 100, 37))
    x, y = wf.asarray(a), wf.asarray(b)
    for _ in range(8):
        s = ((x - y) * (x + y)).sum(axis=1, keepdims=True)
        t = (x.T * 0.5).sum(axis=0).max()
        x, y = x + s * 1e-3, y - t * 1e-6
        wf.evaluate(x, y)
        s_ = ((a - b) * (a + b)).sum(axis=1, keepdims=True)
        t_ = (a.T * 0.5).sum(axis=0).max()
        a, b = a + s_ * 1e-3, b - t_ * 1e-6
        np.testing.assert_allclose(x.numpy(), a, rtol=1e-12)
        np.testing.assert_allclose(y.numpy(), b, rtol=1e-12)
    assert device._driver.graphs >= 1
    assert driver.count("cuGraphLaunch") >= 4


def test_updates_in_place(device: RunningDevice, driver: RunningStandIn) -> None:
    grid, host = wf.zeros((40, 50)), np.zeros((40, 50))
    grid[0], host[0] = 1.0, 1.0
    for _ in range(20):
        for g in (grid, host):
            g[1:-1, 1:-1] = 0.25 * (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:])
            g += 0.125
        wf.evaluate(grid)
    assert np.array_equal(grid.numpy(), host)


def test_numbers_that_change(device: RunningDevice) -> None:
    x = wf.asarray(np.arange(1000.0))
    for k in range(8):
        assert np.array_equal((x * float(k) + k).numpy(), np.arange(1000.0) * k + k)


@pytest.mark.parametrize("seed", range(2000, 2018, 6))
def test_random_programs(device: RunningDevice, seed: int) -> None:
    for k in range(seed, seed + 6):
        generator, start = short_program(k)
        for _ in range(2):
            found = run_program(generator.lines, start, device=device)  # type: ignore[arg-type]
            wrong = differences(found, run_numpy(generator.lines, start), bool(generator.inexact))
            assert wrong == "", "\n".join([f"seed {k}", *generator.lines])


def test_a_kernel_of_the_users(device: RunningDevice, driver: RunningStandIn) -> None:
    @wf.kernel
    def add(x, y, out):  # type: ignore[no-untyped-def]
        k = cuda.grid(1)
        if k < out.shape[0]:
            out[k] = x[k] + y[k]

    x, y = wf.asarray(np.arange(1000.0)), wf.asarray(np.ones(1000))
    out = wf.zeros(1000)
    for k in range(4):
        add[4, 256](x, y + float(k), out)
        assert np.array_equal(out.numpy(), np.arange(1000.0) + 1 + k)


def test_a_kernel_of_the_users_loses_the_device(device: RunningDevice, driver: RunningStandIn) -> None:
    @wf.kernel
    def outside(out):  # type: ignore[no-untyped-def]
        out[cuda.grid(1)] = 1.0

    out = wf.zeros(64)
    outside[1, 32](out)
    device.synchronize()
    line = outside.py_func.__code__.co_firstlineno
    driver.fail("cuEventQuery", 700)
    with pytest.raises(DeviceLostError, match=rf"kernel outside \(test_cuda_programs.py:{line}\)"):
        out.numpy()
    driver.mend()


def test_the_device_is_lost(device: RunningDevice, driver: RunningStandIn) -> None:
    x = wf.asarray(np.arange(1000.0))
    (x + 1).numpy()
    y = x + 1
    driver.fail("cuLaunchKernelEx", 700)
    with pytest.raises(DeviceLostError, match=r"cuda:\d+ is lost: .* in or after kernel fused"):
        y.numpy()
    driver.mend()
    driver.forget()
    for thing in (y, x, x * 2):
        with pytest.raises(DeviceLostError, match="restart the process"):
            thing.numpy()
    del x, y, thing
    gc.collect()
    assert not driver.calls, "destructors are silent"
    set_default_device("cpu")
    assert float((wf.ones(10) + 1).sum()) == 20.0
