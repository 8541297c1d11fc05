"""What programs written for Numba CUDA do, and what running numba-cuda's own tests brought to light."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def test_types_stand_beside_the_functions() -> None:
    assert cuda.float32[:, ::1] == cuda.types.float32[:, ::1]
    assert cuda.void(cuda.int32, cuda.float64[:]).arguments == (cuda.types.int32, cuda.types.float64[:])


def test_an_array_for_a_signature_that_leaves_its_strides_open() -> None:
    @cuda.jit("void(float64[:, :], float64[:, :])")
    def transpose(x: Any, y: Any) -> None:
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[j, i] = x[i, j]

    values = np.arange(35.0).reshape(5, 7)
    result = cuda.device_array((7, 5))
    transpose[(1, 1), (8, 8)](cuda.to_device(values), result)
    np.testing.assert_array_equal(result.copy_to_host(), values.T)


def test_a_program_on_the_command_line() -> None:
    program = "from weft import cuda\n@cuda.jit\ndef hello(n):\n    print(n, cuda.grid(1))\nhello[1, 2](7)\ncuda.synchronize()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert sorted(done.stdout.split("\n")) == ["", "7 0", "7 1"]


_ = weft
