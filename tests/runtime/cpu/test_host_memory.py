"""Tests of host memory: sizes, reuse, release, and alignment of blocks."""

from __future__ import annotations

import ctypes
import mmap
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from weft.runtime import Buffer, CpuDevice
from weft.runtime.cpu.free_list_code import MOST
from weft.runtime.cpu.host_memory import ALIGNMENT, HUGE, Pool, size_class


@pytest.mark.parametrize("nbytes", [1, 255, 257, 4097, HUGE - 1, HUGE + 1, 10 * HUGE + 3])
def test_blocks_are_aligned_and_little_is_wasted(nbytes: int) -> None:
    block = Pool().allocate(nbytes)
    assert block.address % ALIGNMENT == 0
    assert nbytes <= block.size <= max(256, nbytes * 1.25 + 64)
    assert block.size == size_class(nbytes)


def test_a_block_that_was_given_back_is_handed_out_again() -> None:
    pool = Pool()
    first = pool.allocate(3 * HUGE)
    address = first.address
    assert pool.held == first.size
    pool.give_back(first)
    assert pool.held == 0
    assert pool.allocate(3 * HUGE).address == address


def test_no_more_is_kept_than_the_bound() -> None:
    pool = Pool()
    pool.counts[MOST] = HUGE
    for block in [pool.allocate(HUGE) for _ in range(2)]:
        pool.give_back(block)
    assert pool.kept == HUGE
    pool.empty()
    assert pool.kept == 0


@pytest.mark.parametrize("listed", [False, True])
def test_many_threads_take_and_give_back(listed: bool) -> None:
    """Test that no two threads use a block at the same time. The final byte counts of the pool must be right, too."""
    device = CpuDevice()
    pool: Any = device.memory
    assert not listed or pool.obtain_free_lists() is not None
    source = random.Random(7)
    plans = [[source.choice((100, 1000, 5000)) for _ in range(3000)] for _ in range(4)]
    wrong: list[int] = []

    def go(sizes: list[int]) -> None:
        held: list[Buffer] = []
        for k, nbytes in enumerate(sizes):
            buffer = device.allocate(nbytes)
            word = ctypes.c_int64.from_address(buffer.address)
            word.value = id(buffer)
            held.append(buffer)
            if len(held) > 8:
                old = held.pop(k % 8)
                if ctypes.c_int64.from_address(old.address).value != id(old):
                    wrong.append(k)
            if k % 500 == 499:
                pool.empty()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=go, args=(sizes,)) for sizes in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
    if listed:
        pool.free_lists.clear()
    assert pool.held == 0 and pool.kept == sum(size * len(free) for size, free in pool._free.items())
    assert 5000 < pool.peak <= 4 * 9 * size_class(5000)


def test_a_buffer_that_dies_gives_its_block_back() -> None:
    device = CpuDevice()
    buffer = device.allocate(1000)
    part = Buffer(device, buffer.address + 64, 100, buffer)
    del buffer
    assert device.memory.held == size_class(1000), "a part keeps the whole"
    del part
    assert device.memory.held == 0


def test_what_dies_while_python_ends_gives_nothing_back() -> None:
    code = "from weft.runtime import CpuDevice; device = CpuDevice()\n"
    code += "device.memory.give_back = lambda block: print('given back'); kept = device.allocate(1000)\n"
    dropped = code + "del kept"
    run = [sys.executable, "-c"]
    assert subprocess.run([*run, code], capture_output=True, text=True, check=True).stdout == ""
    assert subprocess.run([*run, dropped], capture_output=True, text=True, check=True).stdout == "given back\n"


def test_large_blocks_on_a_kernel_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 12345)
    assert Pool().allocate(2 * HUGE).size == 2 * HUGE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's list of mappings")
def test_large_blocks_are_private_memory_which_can_have_huge_pages() -> None:
    block = Pool().allocate(8 * HUGE)
    lines = Path("/proc/self/smaps").read_text().split("\n")
    inside = False
    for line in lines:
        span, _, rest = line.partition(" ")
        if "-" in span and not span.endswith(":"):
            low, high = (int(part, 16) for part in span.split("-"))
            inside = low <= block.address < high
            if inside:
                assert rest[:4] == "rw-p"
        elif inside and line.startswith("VmFlags:"):
            assert "hg" in line.split() or not Path("/sys/kernel/mm/transparent_hugepage").exists()
            return
    raise AssertionError("the block lies in no mapping")
