"""Tests of the machine code of sort kernels.

The kernels keep elements in registers. The tests need no GPU.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from weft.dsl.functions.radix_kernels import make_block_sort, make_radix_pass, order_of
from weft.runtime import find_tool

pytest.importorskip("cuda.bindings.nvjitlink")
pytestmark = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)
REGISTERS = 128  # a multiprocessor has enough registers for two such blocks
COUNTS, BOARD = "uint32[:, ::1]", "uint64[:, ::1], uint32[::1], uint32[::1], int64, int64"


def mnemonics(kernel: Any, signature: str) -> tuple[list[str], int]:
    """Return the mnemonics of a kernel's instructions on sm_90, and its number of registers."""
    kernel.compile(f"void({signature})")
    (text,) = kernel.inspect_sass(cc="sm_90").values()
    names = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", text)
    (registers,) = kernel.get_regs_per_thread().values()
    return names, registers


@pytest.mark.parametrize(
    ("dtype", "items", "numbered", "instructions"),
    [("f4", 16, False, 1180), ("f4", 16, True, 1550), pytest.param("f8", 8, False, 1140, marks=pytest.mark.slow)],
)
def test_a_sweep(dtype: str, items: int, numbered: bool, instructions: int) -> None:
    order = order_of(np.dtype(dtype), False)
    rows = f"{order.word}[:, ::1]"
    kernel = make_radix_pass(order, items, numbered)
    indices, result = (COUNTS, "int64[:, ::1]") if numbered else (rows, rows)
    names, used = mnemonics(kernel, ", ".join([rows, rows, rows, indices, indices, result, COUNTS, BOARD]))
    assert not [name for name in names if name.startswith(("LDL", "STL", "CALL"))]
    assert len(names) <= instructions
    assert used <= REGISTERS
    assert sum(name.startswith("MATCH") for name in names) == items
    assert sum("STRONG" in name for name in names if name.startswith("LDG")) == 1  # the load of other tiles' results


@pytest.mark.parametrize(
    ("dtype", "items", "numbered"),
    [pytest.param("f4", 16, False, marks=pytest.mark.slow), ("u4", 8, True), ("f8", 8, False)],
)
def test_rows_within_a_block(dtype: str, items: int, numbered: bool) -> None:
    order = order_of(np.dtype(dtype), False)
    result = "int64[::1]" if numbered else f"{order.word}[::1]"
    kernel = make_block_sort(order, items, numbered, numbered)
    names, used = mnemonics(kernel, f"{order.word}[::1], {result}, int64, int64, int64")
    assert not [name for name in names if name.startswith(("LDL", "STL", "CALL"))]
    assert used <= REGISTERS
    assert sum(name.startswith("LDG") for name in names) == items  # each element is loaded once
