"""Tests of the machine code of GPU schedules for five architectures.

The tests check instructions, registers and access widths. The tests need no GPU. `HAND` describes hand-written CUDA C++
programs, compiled by NVIDIA's compiler (nvcc 13.5.37, -O3 -fmad=false, sm_90). They keep rows in the registers of 256
threads as float4. Reductions use shuffles and one barrier, and the last block combines the results of all blocks.
Transposes use 64 x 64 tiles of float4. Divisions are exact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf
from weft.runtime import disassemble, find_tool

pytest.importorskip("cuda.bindings.nvjitlink")
pytestmark = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)

# A disassembler takes half a second, so only one architecture is not marked slow. `test_nvptx` assembles for all.
ARCHITECTURES = [
    "sm_90",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("sm_75", "sm_80", "sm_100", "sm_120")),
]
SIDE = 4096
MANY = 1 << 24


@cache
def floats(*shape: int, number: int = 0) -> wf.Array:
    return wf.asarray(np.zeros(shape, np.float32))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """After the last test of this file, delete the arrays that the tests share, and the programs that were recorded with these arrays."""
    yield
    floats.cache_clear()
    wf.evaluate(wf.zeros(1))  # the next evaluation drops programs that were recorded and only compiled


def exponentials(x: Any) -> Any:
    return wf.exp(x - x.max(axis=1, keepdims=True))


def softmax(x: Any) -> Any:
    e = exponentials(x)
    return e / e.sum(axis=1, keepdims=True)


def softmax_reciprocal(x: Any) -> Any:
    e = exponentials(x)
    return e * (1 / e.sum(axis=1, keepdims=True))


def layer_norm(x: Any) -> Any:
    d = x - x.mean(axis=1, keepdims=True)
    return d / wf.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


def jacobi(a: Any) -> Any:
    return 0.25 * (a[1:-1, 2:] + a[1:-1, :-2] + a[2:, 1:-1] + a[:-2, 1:-1])


class Limits(NamedTuple):
    """Upper bounds on registers and on instructions, on sm_90. The instructions include the slow paths of divisions."""

    instructions: int
    registers: int


PROGRAMS: dict[str, Callable[[], wf.Array]] = {
    "chain": lambda: (lambda x: 2.5 * x + 1.5 * x * x - 0.5)(floats(MANY)),
    "chain of arrays": lambda: (lambda x, c: 2.5 * x + 1.5 * x * x - c)(floats(MANY), floats(MANY, number=1)),
    "softmax": lambda: softmax(floats(SIDE, SIDE)),
    "softmax by reciprocals": lambda: softmax_reciprocal(floats(SIDE, SIDE)),
    "layer norm": lambda: layer_norm(floats(SIDE, SIDE)),
    "sums of rows": lambda: floats(SIDE, SIDE).sum(axis=1),
    "sums of columns": lambda: floats(64, MANY // 64).sum(axis=0),
    "squared differences": lambda: ((floats(MANY) - floats(MANY, number=1)) ** 2).sum(),
    "transpose": lambda: floats(SIDE, SIDE) + floats(SIDE, SIDE, number=1).T,
    "stencil": lambda: jacobi(floats(SIDE, SIDE)),
}
# Programs that reduce each block twice.
TWICE: dict[str, Callable[[], wf.Array]] = {
    "variance": lambda: floats(MANY).var(),
    "exponentials": lambda: (lambda x: wf.exp(x - x.max()).sum())(floats(MANY)),
}
HAND = {
    "chain": Limits(37, 18),
    "chain of arrays": Limits(39, 22),
    "softmax": Limits(574, 40),
    "softmax by reciprocals": Limits(327, 32),
    "layer norm": Limits(500, 38),
    "sums of rows": Limits(69, 26),
    "squared differences": Limits(153, 26),
    "transpose": Limits(117, 32),
    "stencil": Limits(138, 20),
}
# The limits for generated code.
OURS = {
    "chain": Limits(38, 18),
    "chain of arrays": Limits(41, 20),
    "softmax": Limits(460, 40),
    "softmax by reciprocals": Limits(300, 32),
    "layer norm": Limits(400, 32),
    "sums of rows": Limits(72, 26),
    "squared differences": Limits(135, 28),
    "transpose": Limits(104, 32),
    "stencil": Limits(72, 32),
}


class Code(NamedTuple):
    """The resources and the machine code of a kernel."""

    resources: dict[str, int]
    instructions: list[str]

    def names(self) -> Counter[str]:
        """Return the number of occurrences of each mnemonic with its modifiers."""
        return Counter(re.sub(r"^@!?U?P\w+\s+", "", text).split()[0] for text in self.instructions)

    def count(self, prefix: str) -> int:
        """Return the number of instructions whose names begin with `prefix`."""
        return sum(n for name, n in self.names().items() if name.startswith(prefix))


@cache
def code_of(name: str, arch: str) -> Code:
    return machine_code({**PROGRAMS, **TWICE}[name](), arch)


def machine_code(program: wf.Array, arch: str) -> Code:
    """Return the machine code of a program that consists of one kernel."""
    (kernel,) = wf.compile(program, target=arch)
    found: list[str] = []
    for section in disassemble(kernel.cubin).split(".section\t.text.")[1:]:
        texts = [m[1].strip() for m in re.finditer(r"/\*[0-9a-f]{4,5}\*/\s+(.*?);", section)]
        while texts and texts[-1].startswith("NOP"):
            texts.pop()
        found += texts[:-1]  # the last instruction only stops the processor from running on
    return Code(kernel.resources, found)


@pytest.mark.parametrize("name", OURS)
def test_as_few_instructions_and_registers_as_by_hand(name: str) -> None:
    code, limits = code_of(name, "sm_90"), OURS[name]
    assert len(code.instructions) <= limits.instructions
    assert code.resources["registers"] <= limits.registers


def test_what_we_allow_ourselves_is_near_what_hands_write() -> None:
    for name, limits in OURS.items():
        assert limits.instructions <= 1.1 * HAND[name].instructions, name
        # a thread reads four rows at once, whereas the hand-written stencil reads one row at a time
        assert name == "stencil" or limits.registers <= 1.1 * HAND[name].registers, name


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_spills_and_no_index_is_64_bits_wide(name: str, arch: str) -> None:
    code = code_of(name, arch)
    assert code.resources["spills"] == code.resources["stack"] == 0
    assert not code.count("LDL")
    assert not code.count("STL")
    # no divisions of indices
    assert not code.count("I2F")
    assert not code.count("F2I")
    # no 64-bit products of indices, which need at least three multiplications
    assert not code.count("IMAD.WIDE.U32.X")
    assert code.resources["registers"] <= 48
    # quotients and roots are expanded inline, since calls would reserve registers
    assert not code.count("CALL")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "stencil"])
def test_accesses_are_sixteen_bytes_wide(name: str, arch: str) -> None:
    code = code_of(name, arch)
    assert code.count("LDG.E.128") == code.count("LDG") >= 1
    if not name.startswith("s") or "softmax" in name:
        assert code.count("STG.E.128") == code.count("STG") >= 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("name", "loads"), [("softmax", 4), ("layer norm", 4), ("sums of rows", 4)])
def test_a_row_is_read_once(name: str, loads: int, arch: str) -> None:
    # 4096 elements, 256 threads, vectors of four
    assert code_of(name, arch).count("LDG") == loads


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("name", "sums"), [("variance", 3), ("exponentials", 2)])
def test_a_block_that_is_reduced_twice_is_read_once(name: str, sums: int, arch: str) -> None:
    code = code_of(name, arch)
    # 16,384 elements, 512 threads, vectors of four; plus the loads of the partial sums
    assert code.count("LDG.E.128") == code.count("LDG") == 8 + sums
    assert code.resources["spills"] == code.resources["stack"] == 0
    assert code.resources["registers"] <= 64  # so that two blocks fit on a multiprocessor


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_warps_fold_by_shuffles_and_blocks_meet_once_a_fold(arch: str) -> None:
    code = code_of("softmax", arch)
    assert code.count("SHFL.BFLY") in (2 * 5, 2 * 5 + 1)  # (for sm_75, one occurs in both sides of a branch)
    assert code.count("BAR.SYNC") == 2


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_long_fold_is_one_launch(arch: str) -> None:
    code = code_of("squared differences", arch)
    assert code.count("ATOMG") == 1
    assert code.count("MEMBAR") >= 1
    assert code.count("CCTL.IVALL") >= 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_columns_are_read_as_vectors_and_reduced_at_one_barrier(arch: str) -> None:
    code = code_of("sums of columns", arch)
    assert code.count("LDG.E.128") == code.count("LDG") == 4 + 3  # four rows at once, and the remaining rows
    assert code.count("STG.E.128") == code.count("STG") == 1
    assert code.count("BAR.SYNC") == 2  # the second barrier precedes the block's next columns


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_maxima_are_one_instruction(arch: str) -> None:
    if arch == "sm_75":
        return  # sm_75 has no minimum or maximum that propagates NaN
    names = code_of("softmax", arch).names()
    assert names["FMNMX.NAN"] + names["FMNMX3.NAN"] > 0
    assert names["FSEL"] <= 4  # two float64 values, for extreme divisors


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiles_go_through_shared_memory(arch: str) -> None:
    code = code_of("transpose", arch)
    assert code.count("STS") == code.count("LDS") == 16
    assert code.resources["shared"] >= 64 * 65 * 4


@pytest.mark.parametrize("length", [1000, 100_000])
def test_rows_of_other_lengths_leave_room_for_more_blocks(length: int) -> None:
    """Test that softmax kernels for rows of 1000 and 100,000 elements use few registers, so that more blocks fit on a multiprocessor.

    The kernels use at most 64 registers and no spills. Each thread keeps 32 elements of a row, or 512 threads read a
    longer row several times.
    """
    (kernel,) = wf.compile(softmax(floats(64, length)), target="sm_90")
    assert kernel.resources["registers"] <= 64
    assert not kernel.resources["spills"]
