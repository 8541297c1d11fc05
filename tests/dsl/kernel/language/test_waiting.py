"""Tests of loops on the CPU that wait for another thread.

A loop may wait for an earlier thread. It ends with an error if it waits for a later one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.dsl.kernel.language import waiting


def in_a_block(flag: Any, out: Any) -> None:
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:  # here
            cuda.nanosleep(1)
        out[0] = 1
    else:
        cuda.atomic.add(flag, 0, 1)


def for_an_element(flag: Any, out: Any) -> None:
    if cuda.threadIdx.x == 0:
        while flag[0] == 0:  # here
            pass
        out[0] = 1
    else:
        flag[0] = 1


def for_a_later_block(flag: Any, out: Any) -> None:
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x == 0:
        while cuda.atomic.cas(flag, 0, 1, 1) == 0:  # here
            pass
        out[0] = 1
    elif cuda.blockIdx.x == cuda.gridDim.x - 1:
        cuda.atomic.exch(flag, 0, 1)


@pytest.mark.parametrize("function", [in_a_block, for_an_element, for_a_later_block])
def test_waiting_for_a_later_thread_ends(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LIMIT", 100_000)
    grid = (8, 1) if function is for_a_later_block else (1, 2)
    with pytest.raises(RuntimeError, match=r"(?s)waits for what another thread writes.*thread \(0, 0, 0\).*# here"):
        cuda.jit(function)[grid](np.zeros(1, np.int32), np.zeros(1))


def test_waiting_for_an_earlier_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LIMIT", 1_000_000)

    @cuda.jit
    def locked(mutex: Any, total: Any) -> None:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        total[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(mutex, 0, 0)

    total = np.zeros(1)
    locked[2, 64](np.zeros(1, np.int32), total)
    assert total[0] == 128
