"""Tests of the signatures, the code and the resources of compiled kernels."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.dsl.kernel.launch.inspection import _most_threads


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def double(x: Any) -> Any:
    return x * 2


def negate(x: Any) -> Any:
    return -x


def apply(x: Any, function: Any) -> None:
    x[0] = function(x[0])


def convert(x: Any, dtype: Any) -> None:
    x[0] = dtype(x[0])


def paint(x: Any, color: Any) -> None:
    x[0] = 1 if color == Color.RED else 2


@pytest.mark.parametrize(
    ("function", "constants"),
    [(apply, (double, negate)), (convert, (np.int32, np.float32)), (paint, tuple(Color))],
    ids=["function", "dtype", "enum"],
)
def test_each_constant_has_a_signature(function: Any, constants: tuple[Any, ...]) -> None:
    kernel = wf.kernel(function)
    for constant in constants:
        kernel[1, 1](np.ones(1), constant)
    assert len(set(kernel.signatures)) == len(kernel.inspect_llvm()) == 2
    for signature, text in kernel.inspect_llvm().items():
        assert kernel.inspect_llvm(signature) == text
    assert len(kernel.signatures) == 2, "inspection compiles nothing"


def test_a_read_only_array_has_another_type() -> None:
    @wf.kernel
    def first(x, out):  # type: ignore[no-untyped-def]
        out[0] = x[0]

    x, fixed = np.ones(1), np.ones(1)
    fixed.flags.writeable = False
    for array in (x, fixed):
        first[1, 1](array, np.zeros(1))
    assert sorted(str(signature[0]) for signature in first.signatures) == ["float64[::1]", "readonly float64[::1]"]


def test_code_has_the_types_for_which_it_was_compiled() -> None:
    kernel = cuda.jit("void(float64[:])")(lambda x: None)
    for signature in ("void(float64[::1])", "void(float64[:])"):
        assert list(kernel.compiled(signature)) == kernel.signatures


@pytest.mark.parametrize(
    ("registers", "bounds", "threads"),
    [(0, (), 1024), (64, (), 1024), (88, (), 640), (255, (), 256), (32, (128, 2), 128), (255, (512,), 256)],
)
def test_the_most_threads_per_block(registers: int, bounds: tuple[int, ...], threads: int) -> None:
    kernel: Any = SimpleNamespace(
        resources={"registers": registers}, kernel=SimpleNamespace(attributes={"launch_bounds": bounds})
    )
    assert _most_threads(kernel) == threads


def test_options_are_found_under_the_names_of_numba() -> None:
    assert (
        cuda.jit(double, device=True, fastmath=True).targetoptions.items() >= {"device": True, "fastmath": True}.items()
    )
    kernel = cuda.jit(max_registers=24, debug=True)(double)
    wanted = {"device": False, "debug": True, "fastmath": False, "max_registers": 24}
    assert kernel.targetoptions.items() >= wanted.items()


def test_kernels_with_signatures_are_recompiled() -> None:
    @wf.kernel("void(float64[:])")
    def store(x: Any) -> None:
        x[0] = VALUES[0]

    try:
        VALUES[0] = 2.0
        store.recompile()
        assert store.specialized
        x = np.zeros(1)
        store[1, 1](x)
    finally:
        VALUES[0] = 1.0
    assert x[0] == 2


VALUES = [1.0]
