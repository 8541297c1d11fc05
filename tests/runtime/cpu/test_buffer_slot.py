"""Tests of the buffer protocol of small weft arrays.

Native code forwards the requests to NumPy arrays.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.array import VALUE_READS, ReadOnly
from weft.dsl.immediate import native_immediate
from weft.fusion import find_shared
from weft.runtime import override

pytestmark = pytest.mark.skipif("config.getoption('--device') != 'cpu'", reason="memory of the CPU")


@pytest.fixture(autouse=True)
def _native() -> Any:
    native_immediate.install_native_code()
    native_immediate.install_native_code()  # (a second installation changes nothing)
    with override(immediate=16384):
        yield


def small() -> Any:
    """Return a small array, after checking that its storage has not been created yet."""
    x = wf.asarray(np.arange(12.0).reshape(3, 4)) + 1
    assert x._device is not None
    return x


def test_a_small_array_exports_its_memory_and_stays_without_storage() -> None:
    x, looks = small(), VALUE_READS[0]
    shown = np.asarray(x)
    assert VALUE_READS[0] == looks + 1 and x._device is not None
    assert shown.flags.writeable and shown.shape == (3, 4)
    shown[1, 2] = -7
    x[0, 0] = 50
    assert x[1, 2] == -7 and shown[0, 0] == 50
    assert memoryview(x).shape == (3, 4) and bytes(memoryview(x)) == shown.tobytes()


def test_memory_that_others_have_is_shared_when_a_storage_is_made() -> None:
    x = small()
    shown = np.asarray(x)
    row = x[1]  # (creates the storage)
    assert x._device is None and find_shared(x._storage) is not None
    later = wf.exp(row)
    shown[1] = 0
    np.testing.assert_array_equal(row, np.zeros(4))
    row += 3
    np.testing.assert_array_equal(shown[1], np.full(4, 3.0))
    np.testing.assert_array_equal(np.asarray(x)[1], np.full(4, 3.0))
    np.testing.assert_allclose(later, np.exp([5.0, 6.0, 7.0, 8.0]))
    with override(immediate=0):
        recorded = x * 2
        shown[2] = -1
        np.testing.assert_array_equal(recorded[2], [18.0, 20.0, 22.0, 24.0])
    del shown, recorded
    gc.collect()
    assert find_shared(x._storage) is None
    np.testing.assert_array_equal(x[1:], [[3.0] * 4, [-1.0] * 4])


def test_an_array_outlives_others_and_others_outlive_it() -> None:
    x = small()
    shown = np.asarray(x)[1:]
    x[2, 3] = 9.0
    del x
    gc.collect()
    assert shown[1, 3] == 9.0
    y = small()
    np.asarray(y)[0] = 5
    gc.collect()
    np.testing.assert_array_equal(y.T[0], [5.0, 5.0, 9.0])


def test_other_arrays_answer_as_before() -> None:
    fixed = small()
    fixed.flags.writeable = False
    assert type(fixed) is ReadOnly and not np.asarray(fixed).flags.writeable
    large = wf.ones(100_000) * 2
    shown = np.asarray(large)
    shown[5] = 3
    assert large[5] == 3 and float(np.asarray(small().sum())) == 78.0


def test_no_references_leak() -> None:
    x = small()
    values = x._values
    counts = sys.getrefcount(values), sys.getrefcount(True)
    for _ in range(100):
        np.asarray(x)
        memoryview(x)
    assert sys.getrefcount(values) == counts[0] and abs(sys.getrefcount(True) - counts[1]) < 20
