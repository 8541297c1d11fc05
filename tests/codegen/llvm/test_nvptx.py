"""Tests that the PTX of array programs assembles without spills or local memory.

Accesses are 16 bytes wide, and indices are 32 bits wide. The tests need no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.runtime import CompileError, override

pytest.importorskip("cuda.bindings.nvjitlink")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def floats(*shape: int) -> wf.Array:
    return wf.asarray(np.ones(shape, np.float32))


TEMPLATES: dict[str, Callable[[], wf.Array]] = {
    "elements": lambda: floats(1000) * 2.0 + floats(1000),
    "float64": lambda: wf.asarray(np.ones(1000)) / 3 + 1,
    "float16": lambda: wf.asarray(np.ones(1000, np.float16)) * 3,
    "complex": lambda: wf.asarray(np.ones(1000, np.complex64)) * 2j,
    "transposed": lambda: floats(40, 50).T * 2,
    "broadcast": lambda: floats(40, 50) + floats(50),
    "stencil": lambda: floats(1000)[2:] - floats(1000)[:-2],
    "rows": lambda: floats(40, 5000).sum(axis=1),
    "columns": lambda: floats(40, 5000).max(axis=0),
    "all": lambda: (floats(1 << 20) * 2).sum(),
    "argmax": lambda: floats(40, 500).argmax(axis=1),
    "truth": lambda: (floats(40, 500) > 0).any(axis=1),
    "scan": lambda: floats(40, 500).cumsum(axis=1),
    "gather": lambda: floats(100)[np.array([3, 1, 2])] + 1,
    # (The argument reduction of the sine needs a table in local memory, also in CUDA C++.)
    "math": lambda: wf.exp(floats(1000)) * wf.log(floats(1000)),
    "integers": lambda: wf.arange(1000) // 7,
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_assemble(name: str, arch: str) -> None:
    for kernel in wf.compile(TEMPLATES[name](), target=arch):
        resources = kernel.resources
        assert resources["spills"] == 0
        assert resources["stack"] == 0
        assert 0 < resources["registers"] <= 255
        assert "ld.local" not in kernel.ptx


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_small_arrays_are_read_from_the_parameters(arch: str) -> None:
    with wf.device("simt"), override(immediate=16384):
        small = wf.asarray(np.arange(6.0))
        (kernel,) = wf.compile(wf.asarray(np.ones((6, 20_000))) * small[::-1, None], target=arch)
    assert re.search(r"\.param \.align \d+ \.b8 \w+\[64\]", kernel.ptx) and "ld.param.b64 \t%rd" in kernel.ptx
    assert "local" not in kernel.ptx and "cvta" not in kernel.ptx
    assert kernel.resources["spills"] == kernel.resources["stack"] == 0


def test_accesses_are_sixteen_bytes_wide() -> None:
    (kernel,) = wf.compile(TEMPLATES["elements"](), target="sm_90")
    assert "v4" in kernel.ptx
    assert "LDG.E.128" in kernel.sass
    assert "STG.E.128" in kernel.sass


@pytest.mark.parametrize("name", ["elements", "broadcast", "stencil", "rows", "columns"])
def test_indices_are_32_bits_wide(name: str) -> None:
    for kernel in wf.compile(TEMPLATES[name](), target="sm_90"):
        assert "mul.lo.s64" not in kernel.ptx
        assert "div.s64" not in kernel.ptx


def test_nothing_is_contracted() -> None:
    (kernel,) = wf.compile(TEMPLATES["elements"](), target="sm_90")
    assert "fma.rn" not in kernel.ptx


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(CompileError, match="sm_90"):
        wf.compile(floats(3) + 1, target="sm_130")


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "sin", "tanh", "arctan2", "power", "erf", "cbrt", "floor_divide", "remainder", "hypot", "logaddexp"],
)
def test_functions_reach_ptx(name: str) -> None:
    function = getattr(wf, name)
    x = wf.asarray(np.ones(100))
    operands = (x, x) if function.nin == 2 else (x,)
    (kernel,) = wf.compile(function(*operands), target="sm_80")
    assert ".extern" not in kernel.ptx
