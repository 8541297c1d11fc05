"""Tests of the events that instrumented kernels record on the host."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from tests.oracle.parse import parse_kernel
from weft.codegen import InvalidKernelError, Kernel, KernelBuilder, compile_kernel, print_kernel, verify_kernel
from weft.runtime import get_device, tracing
from weft.runtime.cpu import trace_log as log

INT = np.dtype(np.int64)


def sanitized(numbers: int, barrier: bool = False, align: int = 1) -> Kernel:
    """Return a kernel that is instrumented as for a sanitizer: each of its threads records an event at site 1.

    If `barrier`, they record another event at site 2, after a barrier.
    """
    b = KernelBuilder("sanitized", INT, "threaded", explicit=True, trace=3 + numbers)
    x = b.pointer("x", np.float32, writable=True, align=4)
    (thread,) = b.emit("thread_index", (), (INT,), axis=0)
    address = b.offset(x, thread)
    (fine,) = b.emit("trace", (address, *[thread] * numbers), (np.dtype(bool),), site=1, align=align)
    with b.if_(fine):
        b.store(address, b.constant(0), b.constant(1, np.float32))
    if barrier:
        b.emit("barrier")
        b.emit("trace", (), (np.dtype(bool),), site=2)
    return b.finish()


def run(kernel: Kernel, x: np.ndarray, grid: tuple[int, int, int], block: tuple[int, int, int]) -> list[list[int]]:
    """Launch the kernel and return the events."""
    verify_kernel(kernel)
    device = get_device("cpu")
    function = device.load(compile_kernel(kernel, device.target))
    events: list[list[int]] = []
    with tracing(kernel.attributes["trace"], events.extend):
        device.launch_grid(function, grid, block, 0, array("q", [x.ctypes.data]))
    return events


@pytest.mark.parametrize("barrier", [False, True])
def test_events_in_order(barrier: bool) -> None:
    x = np.zeros(8, np.float32)
    events = run(sanitized(1, barrier), x, (2, 2, 1), (3, 1, 2))
    first = [e for e in events if e[0] & 0xFFFFFFFF == 1]
    assert [(e[0] >> 32, e[1], e[3]) for e in first] == [(t, b, t % 3) for b in range(4) for t in range(6)]
    assert all(e[2] == x.ctypes.data + 4 * e[3] for e in first)
    assert (x == [1, 1, 1, 0, 0, 0, 0, 0]).all()
    if barrier:
        per_block = [[e[0] & 0xFFFFFFFF for e in events if e[1] == b] for b in range(4)]
        assert per_block == [[1] * 6 + [2] * 6] * 4


def test_alignment() -> None:
    x = np.zeros(8, np.float32)
    run(sanitized(0, align=8), x, (1, 1, 1), (4, 1, 1))
    odd = x.ctypes.data % 8 // 4
    assert x[:4].tolist() == [1 - (k + odd) % 2 for k in range(4)]


def test_a_full_log_is_emptied() -> None:
    x = np.zeros(1024, np.float32)
    blocks = log.WORDS // 1024
    events = run(sanitized(2), x, (blocks, 1, 1), (1024, 1, 1))
    assert len(events) == blocks * 1024
    assert [e[1] for e in events[::1024]] == list(range(blocks))


def test_errors_of_the_reader_are_raised() -> None:
    def refuse(rows: list[list[int]]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tracing(3, refuse):
        pass


def test_the_verifier() -> None:
    kernel = sanitized(1)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    kernel.attributes["trace"] = 3
    with pytest.raises(InvalidKernelError, match="must be the width of its events"):
        verify_kernel(kernel)
