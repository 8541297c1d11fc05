"""Tests of the machine code of elementwise programs over rows of any length.

The tests check instructions per element, access widths and registers. They need no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf
from tests.codegen.llvm.test_sass import ARCHITECTURES, Code, jacobi, machine_code
from weft.runtime import find_tool

pytest.importorskip("cuda.bindings.nvjitlink")
pytestmark = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)


@cache
def zeros(*shape: int, dtype: Any = np.float32, number: int = 0) -> wf.Array:
    return wf.asarray(np.zeros(shape, dtype))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Delete the shared arrays after the last test of this file."""
    yield
    zeros.cache_clear()
    wf.evaluate(wf.zeros(1))


def norm(x: Any) -> Any:
    return wf.sqrt((x * x).sum(axis=-1))


def mean(a: Any) -> Any:
    """Return the mean of each point and its eight neighbours."""
    return sum(a[i : i - 2 or None, j : j - 2 or None] for i in range(3) for j in range(3)) * np.float32(1 / 9)


IMAGE = (1080, 1920, 3)


class Program(NamedTuple):
    """A program, and upper bounds on its registers and instructions on sm_90.

    `instructions` is the bound per element. `narrow` is the maximum number of loads of fewer than `width` bytes.
    """

    make: Callable[[], wf.Array]
    instructions: float
    registers: int = 32
    narrow: int = 0
    width: int = 16


def points(a: Any) -> Any:
    """Return a weighted sum of each point and its eight neighbours."""
    return sum(a[i : i - 2 or None, j : j - 2 or None] * (1 + i + j) for i in range(3) for j in range(3))


PROGRAMS = {
    "rows of 64": Program(lambda: zeros(100_000, 64) - zeros(64), 3),
    "rows of 4096": Program(lambda: zeros(2048, 4096) - zeros(4096), 3),
    "times a column": Program(lambda: zeros(100_000, 64) * zeros(100_000, 1), 3, narrow=4),
    "complex numbers": Program(
        lambda: zeros(1 << 22, dtype=np.complex64) * zeros(1 << 22, dtype=np.complex64, number=1), 11
    ),
    "channels": Program(lambda: zeros(*IMAGE, dtype=np.uint8) * zeros(3) - zeros(3), 8, narrow=4),
    "channels over constants": Program(
        lambda: zeros(*IMAGE, dtype=np.uint8).astype(np.float32) / 255 - zeros(3), 9, narrow=4
    ),
    "squares of three": Program(lambda: (zeros(1_000_000, 3) ** 2).sum(axis=-1), 11),
    # rows of 4094 results begin at multiples of 8 bytes
    "mean of nine points": Program(lambda: mean(zeros(4096, 4096)), 15, width=8),
    "nine points": Program(lambda: points(zeros(4096, 4096)), 21, width=8),
    "four points": Program(lambda: jacobi(zeros(4096, 4096)), 9, narrow=4, width=8),
    # including the slow paths of square roots and quotients
    "norms of three": Program(lambda: norm(zeros(1_000_000, 3)), 28),
    "normalised channels": Program(
        lambda: (zeros(*IMAGE, dtype=np.uint8) / np.float32(255) - zeros(3)) / zeros(3), 33, 56, narrow=4
    ),
}


@cache
def code_of(name: str, arch: str) -> Code:
    return machine_code(PROGRAMS[name].make(), arch)


def width(instruction: str) -> int:
    """Return the number of bytes that a memory instruction moves per thread."""
    if found := re.search(r"\.(64|128)\b", instruction):
        return int(found[1]) // 8
    return 1 if ".U8" in instruction or ".S8" in instruction else 2 if "16" in instruction else 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_few_instructions_an_element_and_registers(name: str) -> None:
    program, code = PROGRAMS[name], code_of(name, "sm_90")
    stored = sum(count * width(each) for each, count in code.names().items() if each.startswith("STG"))
    assert stored
    assert len(code.instructions) <= program.instructions * stored / program.make().dtype.itemsize
    assert code.resources["registers"] <= program.registers


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_accesses_are_wide_and_nothing_spills(name: str, arch: str) -> None:
    code = code_of(name, arch)
    assert code.resources["spills"] == code.resources["stack"] == 0
    wide = [each for each in code.names().elements() if width(each) >= PROGRAMS[name].width]
    assert sum(each.startswith("STG") for each in wide) == code.count("STG") >= 1
    assert code.count("LDG") - sum(each.startswith("LDG") for each in wide) <= PROGRAMS[name].narrow
    assert not code.count("LDG.E.U8")
    assert not code.count("I2F.U32.RP")  # no divisions of indices
    assert not code.count("CALL")
