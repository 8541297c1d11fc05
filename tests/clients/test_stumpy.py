"""Tests that stumpy's GPU functions have the results of its CPU functions.

The GPU functions run on the CPU device. Only stumpy's import of ``numba.cuda`` is redirected to `weft.cuda`.

Opt-in: ``pytest -m clients tests/clients`` where stumpy is installed.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(find_spec("stumpy") is None, reason="stumpy is not installed"),
]

# A separate process, since the redirection must precede the first import of stumpy.
PROGRAM = """
import sys
import numba
import numpy as np
import weft.cuda

numba.cuda = weft.cuda
sys.modules |= {"numba" + name[4:]: module for name, module in sys.modules.items() if name.startswith("weft.cuda")}
from numba.cuda.cudadrv.error import CudaSupportError
from numba.cuda.random import create_xoroshiro128p_states

assert create_xoroshiro128p_states is weft.cuda.random.create_xoroshiro128p_states
import stumpy

def same(name, found, wanted, ties=0.02):
    np.testing.assert_allclose(
        np.array(found[:, 0], float), np.array(wanted[:, 0], float), atol=1e-5, err_msg=name
    )
    # where two neighbours are equally near either may be named
    assert (found[:, 1] != wanted[:, 1]).mean() <= ties, name
    print(name, "ok")

n, m = int(sys.argv[1]), int(sys.argv[2])
source = np.random.default_rng(7)
series = np.cumsum(source.normal(size=n))
other = np.cumsum(source.normal(size=n // 2))
flat = series.copy()
flat[n // 3 : n // 3 + 2 * m] = flat[n // 3]
holes = series.copy()
holes[n // 2] = np.nan

same("self-join", stumpy.gpu_stump(series, m), stumpy.stump(series, m))
same("two series", stumpy.gpu_stump(series, m, other, ignore_trivial=False), stumpy.stump(series, m, other, ignore_trivial=False))
same("constant part", stumpy.gpu_stump(flat, m), stumpy.stump(flat, m), ties=0.2)
same("missing value", stumpy.gpu_stump(holes, m), stumpy.stump(holes, m))
same("not normalised", stumpy.gpu_aamp(series, m), stumpy.aamp(series, m))

found, wanted = stumpy.gpu_stump(series, m, k=3), stumpy.stump(series, m, k=3)
np.testing.assert_allclose(np.array(found[:, :3], float), np.array(wanted[:, :3], float), atol=1e-5)
left, right = slice(-2, -1), slice(-1, None)
assert (found[:, left] == wanted[:, left]).mean() > 0.98 and (found[:, right] == wanted[:, right]).mean() > 0.98
print("three nearest ok")
"""


def test_matrix_profile(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(path), "400", "20"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count(" ok") == 6
