"""Tests of kernels that run as plain Python."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.python_mode import FULL, f32, run
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.kernel_errors import DivergenceError
from weft.dsl.kernel.python_mode.simulate_intrinsics import ACTIONS

# -- common programs ---------------------------------------------------------------------------


def test_vector_add_with_a_guard() -> None:
    def add(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    x, y = np.arange(10, dtype=f32), np.full(10, 2, f32)
    out = np.zeros(10, f32)
    run(add, 3, 4, x, y, out)
    assert out.tolist() == (x + y).tolist()


def test_grid_stride_over_three_axes() -> None:
    def fill(out: np.ndarray) -> None:
        x, y, z = cuda.grid(3)
        gx, gy, gz = cuda.gridsize(3)
        for i in range(z, out.shape[0], gz):
            for j in range(y, out.shape[1], gy):
                for k in range(x, out.shape[2], gx):
                    out[i, j, k] += 100 * i + 10 * j + k

    out = np.zeros((5, 4, 7), np.int32)
    run(fill, (2, 1, 2), (2, 3, 1), out)
    i, j, k = np.indices(out.shape)
    assert np.array_equal(out, 100 * i + 10 * j + k)


@pytest.mark.parametrize("threads", [64, 256])
def test_block_reduction(threads: int) -> None:
    def reduce(x: np.ndarray, out: np.ndarray) -> None:
        held = cuda.shared.array(256, f32)
        t = cuda.threadIdx.x
        held[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        s = cuda.blockDim.x // 2
        while s > 0:
            if t < s:
                held[t] += held[t + s]
            cuda.syncthreads()
            s //= 2
        if t == 0:
            out[cuda.blockIdx.x] = held[0]

    x = np.arange(3 * threads, dtype=f32)
    out = np.zeros(3, f32)
    run(reduce, 3, threads, x, out)
    assert out.tolist() == x.reshape(3, -1).sum(1).tolist()


def test_tiled_matmul() -> None:
    n = 4

    def matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        left = cuda.shared.array((n, n), f32)
        right = cuda.shared.array((n, n), f32)
        col, row = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = f32(0)
        for k in range(0, a.shape[1], n):
            left[ty, tx] = a[row, k + tx]
            right[ty, tx] = b[k + ty, col]
            cuda.syncthreads()
            for j in range(n):
                total += left[ty, j] * right[j, tx]
            cuda.syncthreads()
        c[row, col] = total

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 8, 8)).astype(f32)
    c = np.zeros((8, 8), f32)
    run(matmul, (2, 2), (n, n), a, b, c)
    assert np.array_equal(c, a @ b)


def test_a_device_function_has_one_shared_array() -> None:
    def block_sum(value: Any) -> Any:
        held = cuda.shared.array(8, np.int64)
        held[cuda.threadIdx.x] = value
        cuda.syncthreads()
        total = 0
        for i in range(8):
            total += held[i]
        cuda.syncthreads()
        return total

    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        out[t] = block_sum(t) * 100 + block_sum(1)

    out = np.zeros(8, np.int64)
    run(kernel, 1, 8, out)
    assert out.tolist() == [2808] * 8


# -- thread indices ------------------------------------------------------------------------------


def test_threads_know_their_numbers() -> None:
    def kernel(out: np.ndarray) -> None:
        i = cuda.gridsize(1) * 0 + cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        out[i, 0] = cuda.laneid + 0
        out[i, 1] = cuda.threadIdx.y
        out[i, 2] = cuda.gridDim.x + cuda.gridDim.y
        out[i, 3] = 1 << cuda.laneid if cuda.laneid < cuda.warpsize else -1

    out = np.zeros((66, 4), np.int64)
    run(kernel, 2, (33, 1), out)
    assert out[:, 0].tolist() == [*range(32), 0] * 2
    assert out[:, 2].tolist() == [3] * 66
    assert out[:33, 3].tolist() == [1 << (k % 32) for k in range(33)]


@pytest.mark.parametrize(
    "use", [lambda: cuda.grid(1), lambda: cuda.threadIdx.x + 1, lambda: cuda.laneid + 1, cuda.syncthreads]
)
def test_names_outside_a_kernel(use: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"cuda\.\w+(\.x)? works inside a kernel only"):
        use()


def test_components_exist_outside_a_kernel() -> None:
    assert all(hasattr(cuda.blockDim, axis) for axis in "xyz") and not hasattr(cuda.blockDim, "w")
    assert repr(cuda.blockDim.x) == "<cuda.blockDim.x>"
    captured = cuda.threadIdx.x

    @wf.kernel
    def kernel(out: np.ndarray) -> None:
        out[captured] = 1

    with pytest.raises(wf.KernelError, match="cuda.threadIdx.x is read outside of the kernel"):
        kernel[1, 1](np.zeros(1))


def test_every_name_can_be_performed() -> None:
    assert set(ACTIONS) == set(cuda.TABLE)


# -- barriers --------------------------------------------------------------------------------------


def test_votes_of_a_block() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        out[t, 0] = cuda.syncthreads_count(t % 3 == 0)
        out[t, 1] = cuda.syncthreads_and(t < 40)
        out[t, 2] = cuda.syncthreads_and(t < 39)
        out[t, 3] = cuda.syncthreads_or(t == 39)
        out[t, 4] = cuda.syncthreads_or(t > 39)

    out = np.zeros((40, 5), np.int32)
    run(kernel, 1, 40, out)
    assert np.array_equal(out, np.tile([14, 1, 0, 1, 0], (40, 1)))


def test_a_thread_that_returned_has_arrived() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t >= 5:
            return
        out[t] = cuda.syncthreads_count(True)

    out = np.zeros(8, np.int32)
    run(kernel, 1, 8, out)
    assert out.tolist() == [5] * 5 + [0] * 3


def test_a_late_return_lets_the_others_go() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        for _ in range(t):
            cuda.syncthreads()
        out[t] = 1

    out = np.zeros(6, np.int32)
    run(kernel, 1, 6, out)
    assert out.tolist() == [1] * 6


def test_divergent_barriers_name_their_threads() -> None:
    def kernel() -> None:
        if cuda.threadIdx.x < 3:
            cuda.syncthreads()
        else:
            cuda.syncthreads_count(True)

    with pytest.raises(DivergenceError) as caught:
        run(kernel, 2, 4)
    text = str(caught.value)
    assert "kernel kernel: threads of block (0, 0, 0)" in text
    assert "threads (0, 0, 0), (1, 0, 0), (2, 0, 0) wait at cuda.syncthreads()" in text
    assert "thread (3, 0, 0) wait at cuda.syncthreads_count()" in text
    assert "test_python_mode.py:" in text


def test_the_same_barrier_at_two_calls_diverges() -> None:
    def kernel() -> None:
        if cuda.threadIdx.x == 0:
            cuda.syncthreads()
        else:
            cuda.syncthreads()

    with pytest.raises(DivergenceError):
        run(kernel, 1, 2)


def test_grid_barrier() -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        x[i] = i
        grid.sync()
        out[i] = x[x.size - 1 - i]
        grid.sync()
        x[i] = out[(i + 1) % x.size]
        assert grid.size() == x.size
        assert grid.thread_rank() == i

    x, out = np.zeros(12, np.int32), np.zeros(12, np.int32)
    run(kernel, 4, 3, x, out)
    assert out.tolist() == list(range(11, -1, -1))
    assert x.tolist() == [*range(10, -1, -1), 11]


def test_grid_barrier_with_blocks_that_ended() -> None:
    def kernel(out: np.ndarray) -> None:
        if cuda.blockIdx.x == 1:
            return
        cuda.cg.this_grid().sync()
        out[cuda.blockIdx.x] = 1

    out = np.zeros(3, np.int32)
    run(kernel, 3, 2, out)
    assert out.tolist() == [1, 0, 1]


def test_grid_barrier_beside_a_block_barrier_diverges() -> None:
    def kernel() -> None:
        if cuda.threadIdx.x == 0:
            cuda.cg.this_grid().sync()
        else:
            cuda.syncthreads()

    with pytest.raises(DivergenceError, match=r"block \(0, 0, 0\)"):
        run(kernel, 2, 2)


def test_grid_barriers_of_two_calls_diverge() -> None:
    def kernel() -> None:
        if cuda.blockIdx.x == 0:
            cuda.cg.this_grid().sync()
        else:
            cuda.cg.this_grid().sync()

    with pytest.raises(DivergenceError, match="threads of the grid"):
        run(kernel, 2, 2)


def test_sleepers_let_others_work() -> None:
    def kernel(flag: np.ndarray, out: np.ndarray) -> None:
        if cuda.grid(1) == 0:
            while flag[0] == 0:
                cuda.nanosleep(100)
            out[0] = flag[0]
        elif cuda.grid(1) == 5:
            cuda.atomic.exch(flag, 0, 7)

    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(kernel, 2, 3, flag, out)
    assert out[0] == 7


# -- errors ----------------------------------------------------------------------------------------------


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


@pytest.mark.parametrize("waits", [False, True])
def test_an_error_says_its_thread(waits: bool) -> None:
    ended: list[int] = []

    def kernel(x: np.ndarray) -> None:
        try:
            if waits:
                cuda.syncthreads()
            x[cuda.grid(1) + 1] = 1
            cuda.syncthreads()
        finally:
            ended.append(1)

    with pytest.raises(IndexError, match="out of bounds") as caught:
        run(kernel, 2, (2, 2), np.zeros(3))
    assert "in thread (0, 0, 0) of block (1, 0, 0), kernel kernel" in notes(caught.value)
    assert not any(thread.name == "weft kernel" for thread in threading.enumerate())
    assert len(ended) == (8 if waits else 5)  # every started thread has been unwound


def test_wrong_arguments_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"cuda\.shfl_sync\(mask, value, src_lane, width=32\): missing"):
        run(lambda: cuda.shfl_sync(FULL, 1), 1, 1)
    with pytest.raises(TypeError, match="got an unexpected keyword argument"):
        run(lambda: cuda.popc(1, y=1), 1, 1)
    with pytest.raises(ValueError, match="1, 2 or 3 axes"):
        run(lambda: cuda.grid(4), 1, 1)
    with pytest.raises(ValueError, match="width of a shuffle"):
        run(lambda: cuda.shfl_sync(FULL, 1, 0, 3), 1, 1)


def test_shared_arrays_of_types_that_are_none() -> None:
    with pytest.raises(TypeError):
        run(lambda: cuda.shared.array(4, "no such type"), 1, 1)


# -- threads and debugging -------------------------------------------------------------------------------


def test_threads_that_never_wait_run_in_the_calling_thread() -> None:
    seen = set()
    run(lambda: seen.add(threading.get_ident()), 2, 8)
    assert seen == {threading.get_ident()}


def test_one_thread_runs_at_a_time_in_the_same_order() -> None:
    def trace() -> list[tuple[int, int]]:
        order: list[tuple[int, int]] = []

        def kernel() -> None:
            for step in range(3):
                order.append((step, cuda.threadIdx.x))
                cuda.syncthreads()

        run(kernel, 1, 50)
        return order

    assert trace() == [(step, t) for step in range(3) for t in range(50)]


def test_a_debugger_follows_into_threads_that_wait() -> None:
    lines: list[tuple[int, int]] = []

    def kernel() -> None:
        cuda.syncthreads()
        lines.append((0, 0))

    seen: set[int] = set()

    def trace(frame: Any, event: str, value: Any) -> Any:
        if frame.f_code is kernel.__code__:
            seen.add(threading.get_ident())
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(kernel, 1, 3)
    finally:
        sys.settrace(before)
    assert len(seen) == 3
    assert len(lines) == 3


def test_a_kernel_may_run_another_launch() -> None:
    def inner(x: np.ndarray) -> None:
        cuda.syncthreads()
        x[cuda.threadIdx.x] += 1

    def outer(x: np.ndarray) -> None:
        t = cuda.threadIdx.x
        cuda.syncthreads()
        run(inner, 1, 4, x)
        cuda.syncthreads()
        assert cuda.threadIdx.x == t

    x = np.zeros(4, np.int32)
    run(outer, 1, 2, x)
    assert x.tolist() == [2] * 4


def test_launches_of_several_python_threads() -> None:
    def kernel(x: np.ndarray) -> None:
        for _ in range(5):
            cuda.syncthreads()
            x[cuda.threadIdx.x] += 1

    arrays = [np.zeros(8, np.int32) for _ in range(4)]
    workers = [threading.Thread(target=run, args=(kernel, 1, 8, x)) for x in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(x.tolist() == [5] * 8 for x in arrays)


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends the process there")
@pytest.mark.parametrize("looping", [0, 1])
def test_ctrl_c_ends_a_kernel_that_loops(looping: int) -> None:
    def kernel() -> None:
        if cuda.threadIdx.x == looping:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        cuda.syncthreads()

    with pytest.raises(KeyboardInterrupt):
        run(kernel, 1, 3)
    assert not any(thread.name == "weft kernel" for thread in threading.enumerate())
