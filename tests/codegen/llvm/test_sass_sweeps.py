"""Tests of the machine code of kernels with temporal blocking.

The tests need no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tests.fusion.plan import test_time_steps as steps
from weft.runtime import disassemble, find_tool

pytest.importorskip("cuda.bindings.nvjitlink")
pytestmark = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)
ARCHITECTURES = ["sm_90", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sm_75", "sm_80", "sm_100", "sm_120"))]
SIDE = 4096


def jacobi() -> wf.Array:
    u = wf.asarray(np.zeros((SIDE, SIDE), np.float32))
    return steps.jacobi(u)


def gray_scott() -> wf.Array:
    u, _ = steps.gray_scott(*(wf.asarray(np.zeros((SIDE, SIDE), np.float32)) for _ in range(2)))
    return u


# program, number of steps, limit of instructions per iteration for one point and step
PROGRAMS: dict[str, tuple[Callable[[], wf.Array], int, int]] = {
    "jacobi": (jacobi, 5, 23),
    "gray_scott": (gray_scott, 5, 49),
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_are_straight_code_that_meets_once_a_turn(name: str, arch: str) -> None:
    make, count, most = PROGRAMS[name]
    wf.evaluate(wf.zeros(1))  # drop what other tests recorded and only compiled, which could cut a loop
    (kernel,) = wf.compile(make(), target=arch)
    assert kernel.resources["spills"] == kernel.resources["stack"] == 0
    assert kernel.resources["registers"] <= 48
    assert 0 < kernel.resources["shared"] <= 48 << 10
    names = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", disassemble(kernel.cubin))
    assert not [n for n in names if n.startswith(("LDL", "STL", "CALL", "I2F", "F2I"))]
    barriers = [k for k, n in enumerate(names) if n.startswith("BAR.SYNC")]
    assert len(barriers) == 2  # one after the ring buffers are cleared, and one per iteration
    turn = names[barriers[0] + 1 : barriers[1]]
    assert sum(n.startswith("LDG") for n in turn) == (1 if name == "jacobi" else 2)  # each array is read once
    assert len(turn) <= most * count
