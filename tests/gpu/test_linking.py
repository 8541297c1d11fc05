"""Tests of kernels linked with PTX and CUDA C++ on a real GPU (``pytest -m gpu``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dsl.kernel.library.test_linking import PTX, SOURCE, add_up, multiply
from weft import cuda

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("code", [cuda.PTXSource(PTX), cuda.CUSource(SOURCE)], ids=["ptx", "cu"])
def test_product(code: Any) -> None:
    x = np.arange(1000, dtype=np.float32)
    out = cuda.device_array_like(x)
    cuda.jit(link=[code])(multiply).forall(1000)(cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), 2 * x + 1)


def test_arrays_and_barriers() -> None:
    x = np.arange(64.0)
    out = cuda.device_array_like(x)
    cuda.jit(link=[cuda.CUSource(SOURCE)])(add_up)[1, 64](cuda.to_device(x), out)
    assert np.array_equal(out.copy_to_host(), np.full(64, x.sum()))
