"""Tests of the machine code of scans along long rows.

The tests need no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import disassemble, find_tool

pytest.importorskip("cuda.bindings.nvjitlink")
pytestmark = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)
ARCHITECTURES = ["sm_90", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sm_75", "sm_80", "sm_100", "sm_120"))]
LENGTH = 1 << 20


def zeros(dtype: str) -> wf.Array:
    return wf.asarray(np.zeros(LENGTH, dtype))


# program, limit of registers, elements of a vector
PROGRAMS: dict[str, tuple[Callable[[], wf.Array], int, int]] = {
    "float32": (lambda: wf.cumsum(zeros("f4") * 0.5) * 2.0, 64, 4),
    "beside its input": (lambda: (lambda x: wf.cumsum(x) + x)(zeros("f4")), 80, 4),
    "float64": (lambda: wf.cumsum(zeros("f8")), 96, 2),
    "counts": (lambda: wf.cumsum(zeros("f4") > 0), 96, 4),
    "maxima": (lambda: wf.maximum.accumulate(zeros("i4")), 64, 4),
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tile_is_read_and_written_once_in_whole_vectors(name: str, arch: str) -> None:
    make, registers, vector = PROGRAMS[name]
    (kernel,) = wf.compile(make(), target=arch)
    resources: Any = kernel.resources
    assert resources["spills"] == resources["stack"] == 0
    if arch == "sm_90":
        assert resources["registers"] <= registers
    names = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", disassemble(kernel.cubin))
    # 16 elements per thread in vectors, and a scalar copy of the loop for the end of a row
    assert sum(n.startswith("LDG.E.128") for n in names) == 16 // vector
    assert sum(n.startswith("STG.E.128") for n in names) == 16 // (vector if name != "counts" else 2)
    assert sum(n.startswith("BAR.SYNC") for n in names) == 3
    assert sum(n.startswith("ATOM") for n in names) == 2  # one for the block's number, and one for the next launch
    assert not [n for n in names if n.startswith(("MEMBAR", "LDL", "STL"))]
    if arch not in ("sm_75", "sm_80"):  # these have a slow path with a call for shuffles of diverged lanes
        assert not [n for n in names if n.startswith("CALL")]
