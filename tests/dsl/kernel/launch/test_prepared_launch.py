"""Tests of repeated launches.

A repeated launch finds a prepared launch by its arguments' types and shapes. It has the effects of a first launch.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.stand_in import RunningDevice, RunningStandIn
from weft import cuda
from weft.dsl.kernel.launch.dispatcher import LAUNCHERS_LIMIT
from weft.dsl.kernel.launch.prepared_launch import LIMIT
from weft.runtime import KernelFault, get_device, override, set_default_device

FACTOR = 2.0


@pytest.fixture(params=["cpu", "cuda"], autouse=True)
def device(request: pytest.FixtureRequest) -> Any:
    made = get_device("cpu") if request.param == "cpu" else RunningDevice(RunningStandIn())
    set_default_device(made)
    return made


def kernel_of(function: Any) -> Any:
    return wf.kernel(function)


def scale(x, factor, shift, out):  # type: ignore[no-untyped-def]
    k = cuda.grid(1)
    if k < out.shape[0]:
        out[k] = x[k] * factor + shift


def test_numbers_and_arrays_change() -> None:
    kernel = wf.kernel(scale)
    launcher = kernel[2, 64]
    for k in range(5):
        host = np.arange(100.0) + k
        x, out = wf.asarray(host), wf.zeros(100)
        launcher(x, k * 0.5, -k, out)
        assert np.array_equal(out.numpy(), host * (k * 0.5) - k)
    assert len(launcher.prepared) == 1
    assert kernel[2, 64] is launcher


def test_what_a_specialization_depends_on_is_another_launch() -> None:
    kernel = wf.kernel(scale)
    launcher = kernel[2, 64]
    host = np.arange(200)
    for dtype in (np.float64, np.float32, np.int16):
        for made in (lambda a: a, lambda a: a[:100], lambda a: a[::2], lambda a: a[10:80]):
            source = made(host.astype(dtype))
            for _ in range(2):
                out = wf.zeros(source.shape, dtype=dtype)
                launcher(made(wf.asarray(host.astype(dtype))), 2, 1, out)
                wanted = np.zeros(source.shape, dtype)
                wanted[:128] = (source * 2 + 1)[:128]
                assert np.array_equal(out.numpy(), wanted)
    assert len(launcher.prepared) == 12


def test_old_values_stay() -> None:
    kernel = wf.kernel(scale)
    x, out = wf.asarray(np.arange(100.0)), wf.zeros(100)
    for k in range(4):
        before = out + 0.0 if k % 2 else out * 1.0
        kernel[2, 64](x, 1.0, float(k), out)
        assert np.array_equal(before.numpy(), np.arange(100.0) + k - 1 if k else np.zeros(100))


def test_the_same_array_twice() -> None:
    kernel = wf.kernel(scale)
    for turn in range(3):
        x = wf.asarray(np.arange(100.0))
        shown = x.numpy() if turn else None
        kernel[2, 64](x, 3.0, 1.0, x)
        kernel[2, 64](x, 3.0, 1.0, x)
        assert np.array_equal(x.numpy(), np.arange(100.0) * 9 + 4)
        assert shown is None or np.array_equal(shown, np.arange(100.0))


def shift_down(x, out):  # type: ignore[no-untyped-def]
    if cuda.grid(1) == 0:
        for k in range(1, x.shape[0]):
            out[k] = x[k - 1] + 1


def test_an_input_that_is_the_output() -> None:
    kernel = wf.kernel(shift_down)
    for _ in range(3):
        x = wf.zeros(50)
        shown = x.numpy()  # another reference to the memory, so that the kernel writes to a copy
        kernel[1, 1](x, x)
        assert np.array_equal(x.numpy(), np.arange(50.0)), "the kernel reads what it wrote"
        assert not shown.any()


def test_views_of_one_array() -> None:
    kernel = wf.kernel(scale)
    for _ in range(3):
        grid, host = wf.zeros((4, 50)), np.zeros((4, 50))
        for row in range(3):
            for g in (grid, host):
                g[row] += row
            kernel[1, 64](grid[row], 2.0, 1.0, grid[row + 1])
            host[row + 1] = host[row] * 2 + 1
        assert np.array_equal(grid.numpy(), host)


def test_recompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    @wf.kernel
    def fill(out):  # type: ignore[no-untyped-def]
        k = cuda.grid(1)
        if k < out.shape[0]:
            out[k] = FACTOR

    out = wf.zeros(10)
    launcher = fill[1, 32]
    for value in (2.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", value)
        fill.recompile()
        for _ in range(2):
            launcher(out)
            assert out.numpy().tolist() == [value] * 10


def test_checks_and_reports_go_the_long_way() -> None:
    def outside(out):  # type: ignore[no-untyped-def]
        out[cuda.grid(1) + 5] = 1.0

    kernel, out = wf.kernel(outside), wf.zeros(64)
    for _ in range(2):
        kernel[1, 32](out)
    with override(checked=True):
        for _ in range(2):
            with pytest.raises(IndexError):
                kernel[2, 32](out)


def test_what_is_kept_is_bounded() -> None:
    kernel = wf.kernel(scale)
    for k in range(1, LAUNCHERS_LIMIT + 5):
        kernel[k, 32]
    assert len(kernel._launchers) <= LAUNCHERS_LIMIT
    launcher = kernel[1, 32]
    launcher.prepared.update({("other", k): None for k in range(LIMIT)})
    launcher(wf.zeros(10), 1.0, 1.0, wf.zeros(10))
    assert len(launcher.prepared) == 1
    with pytest.raises(Exception, match="integers"):
        kernel[True, 32]


def waits(n, out):  # type: ignore[no-untyped-def]
    """Deadlock if `n` is positive, since the threads of a block wait at two different barriers."""
    k = cuda.grid(1)
    if n > 0 and cuda.threadIdx.x < 3:
        cuda.syncthreads()
    elif n > 0:
        cuda.syncthreads()
    out[k] = n


def test_a_launch_that_failed_leaves_the_next_one_alone(device: Any) -> None:
    if device.name != "cpu":
        pytest.skip("the stand-in runs no threads")
    launcher, out = wf.kernel(waits)[2, 8], wf.zeros(16, dtype=np.int32)
    for _ in range(3):
        launcher(-1, out)
        assert out.numpy().tolist() == [-1] * 16
        with pytest.raises(KernelFault, match="wait for each other forever"):
            launcher(1, out)


def test_threads_that_wait_for_ever_are_told_with_their_lines_in_checked_mode(device: Any) -> None:
    if device.name != "cpu":
        pytest.skip("the stand-in runs no threads")
    with pytest.raises(KernelFault, match=r"debug=True adds the lines"):
        wf.kernel(waits)[2, 8](1, np.zeros(16, np.int32))
    with pytest.raises(KernelFault, match=r"waits at barrier in line \d+"):
        wf.kernel(debug=True)(waits)[2, 8](1, np.zeros(16, np.int32))


def test_launches_of_many_threads_and_of_other_numbers_of_threads() -> None:
    launcher, host = wf.kernel(scale)[64, 128], np.arange(8000.0)
    wrong: list[float] = []

    def go(seed: int) -> None:
        for k in range(20):
            x, out = wf.asarray(host), wf.zeros(8000)
            launcher(x, 2, seed + k, out)
            if not np.array_equal(out.numpy(), host * 2 + seed + k):
                wrong.append(seed)

    for threads in (1, 3, 2):
        with override(threads=threads):
            go(threads)
            if get_device("cpu") is wf.default_device():
                with ThreadPoolExecutor(3) as pool:
                    list(pool.map(go, (10, 20, 30)))
    assert not wrong
