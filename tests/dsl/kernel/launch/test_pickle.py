"""Tests of pickled kernels and device functions."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft import cuda


@cuda.jit(device=True)
def twice(x: Any) -> Any:
    return 2 * x


@cuda.jit("void(float64[::1])", fastmath=True)
def double(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] = twice(x[i])


def plain(x: Any) -> None:
    x[0] += 1


@pytest.mark.parametrize("held", [twice, double], ids=["device", "kernel"])
def test_names_find_them(held: Any) -> None:
    assert pickle.loads(pickle.dumps(held)) is held
    assert copy.deepcopy(held) is held


def test_a_kernel_of_another_name_is_made_again() -> None:
    made = cuda.jit("void(float64[::1])", max_registers=32)(plain)
    x = np.zeros(2)
    made[1, 1](x)
    found = pickle.loads(pickle.dumps(made))
    assert found is not made and found.options == made.options
    found[1, 1](x)
    assert x.tolist() == [2, 0]
    with pytest.raises(TypeError, match="was compiled for"):
        found[1, 1](np.zeros(2, np.complex128))


def test_a_process_that_is_spawned(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\nimport numpy as np\nfrom weft import cuda\n"
        "@cuda.jit\ndef fill(x, value):\n    x[cuda.grid(1)] = value\n"
        "def work(kernel):\n    x = np.zeros(3)\n    kernel[1, 3](x, 7)\n    return x.tolist()\n"
        "if __name__ == '__main__':\n    fill[1, 1](np.zeros(1), 1)\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.apply(work, (fill,)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[7.0, 7.0, 7.0]\n", done.stderr
