"""Tests of kernels launched from kernels on a real GPU (``pytest -m gpu``)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dsl.kernel.launch.test_nested import count_down, quicksort, scale_parts, scaled
from weft import cuda

pytestmark = pytest.mark.gpu


def test_parts_of_an_array() -> None:
    values = np.arange(100_000.0)
    x = cuda.to_device(values)
    scale_parts[32, 64](x, 50)
    assert np.array_equal(x.copy_to_host(), scaled(values, 50))


def test_recursion_in_a_stream() -> None:
    x, stream = cuda.to_device(np.zeros(6)), cuda.stream()
    count_down[1, 1, stream](x, 5)
    stream.synchronize()
    assert x.copy_to_host().tolist() == [1, 2, 3, 4, 5, 6]
    values = np.random.default_rng(0).standard_normal(300)
    x = cuda.to_device(values)
    quicksort[1, 1](x, 0, 299)
    assert np.array_equal(x.copy_to_host(), np.sort(values))
