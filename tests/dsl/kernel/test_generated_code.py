"""Tests of the code generated for explicit kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda
from weft.codegen import CompileCounts, compile_kernel, resolve_target
from weft.dsl.kernel.language.specialize import specialize
from weft.dsl.kernel.language.types import parse_type
from weft.dsl.kernel.launch.arguments import from_type
from weft.dsl.kernel.launch.dispatcher import make_options
from weft.runtime import CompileError, assemble, override

WIDE = re.compile(r"\b(mul|mad)\.(lo|hi)\.[su]64|\b(div|rem)\.[su]64")


def axpby(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.5 * x[i] + 2 * y[i]


def vector_add(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def matrix_scale(m: Any, out: Any) -> None:
    x, y = cuda.grid(2)
    if y < m.shape[0] and x < m.shape[1]:
        out[y, x] = 2 * m[y, x]


def ptx_of(function: Any, *types: str) -> str:
    """Return the PTX of a kernel for sm_80."""
    ptx: str = cuda.compile_ptx(function, f"void({', '.join(types)})", cc=(8, 0))[0]
    return ptx


def parameters(ptx: str) -> int:
    """Return the number of parameters of the kernel in a PTX text."""
    head = ptx[ptx.index(".visible .entry") :]
    return head[: head.index(")")].count(".param")


@pytest.mark.parametrize("layout", ["[::1]", "[:]"])
def test_float32_stays_float32(layout: str) -> None:
    ptx = ptx_of(weft.kernel(axpby), *[f"float32{layout}"] * 3)
    assert not re.search(r"\.f64|\bcvt\.f64|%fd", ptx)
    assert re.search(r"\.(rn\.)?f32", ptx)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_vector_add_is_lean(dtype: str) -> None:
    ptx = ptx_of(vector_add, *[f"{dtype}[::1]"] * 3)
    assert parameters(ptx) <= 12
    assert not WIDE.search(ptx)
    assert parameters(ptx_of(vector_add, *[f"{dtype}[:]"] * 3)) <= 12


@pytest.mark.parametrize("layout", ["[:, ::1]", "[::1, :]", "[:, :]"])
def test_narrow_indices_where_extents_allow(layout: str) -> None:
    """Test that PTX with 32-bit indices has few parameters, and no 64-bit products or quotients."""
    cases: list[tuple[Any, list[str], int]] = [
        (matrix_scale, [f"float32{layout}"] * 2, 10),
        (vector_add, ["float32[:]"] * 3, 9),
    ]
    for function, types, count in cases:
        kernel = specialize(
            function,
            tuple(from_type(parse_type(text)) for text in types),
            resolve_target("sm_80"),
            np.dtype(np.int32),
            make_options({}),
            reporting=False,
        ).kernel
        ptx = compile_kernel(kernel, resolve_target("sm_80")).code.decode()
        assert not WIDE.search(ptx)
        assert parameters(ptx) <= count


def test_ptx_is_compiled_once(tmp_path: Path) -> None:
    with override(cache_dir=str(tmp_path)):
        before = CompileCounts.compiled
        first, again = (cuda.compile_ptx(axpby, "void(int8[::1], int8[::1], int8[::1])", cc=(8, 0)) for _ in range(2))
    assert first == again and CompileCounts.compiled == before + 1


@pytest.mark.parametrize("arch", [(7, 5), (8, 0), (9, 0), (10, 0), (12, 0)])
def test_every_architecture_assembles_it(arch: tuple[int, int]) -> None:
    ptx, _ = cuda.compile_ptx(vector_add, "void(float32[::1], float32[::1], float32[::1])", cc=arch)
    try:
        code = assemble(ptx.encode(), f"sm_{arch[0]}{arch[1]}")
    except CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("nvJitLink is not installed")
    resources = code.launch
    assert resources["spills"] == 0 and resources["stack"] == 0
    assert resources["registers"] <= 24


@cuda.jit("float32(float32, int32)", device=True)
def scaled(x, n):  # type: ignore[no-untyped-def]
    return x * n


def test_device_functions_show_their_stages() -> None:
    (arguments,) = scaled.inspect_asm()
    assert scaled.inspect_asm()[arguments] == scaled.inspect_asm("float32(float32, int32)")
    assert ".visible .func" in scaled.inspect_asm(arguments, cc=(9, 0))
    assert ".target sm_90" in scaled.inspect_asm(arguments, cc=(9, 0))
    assert "define float @scaled(" in scaled.inspect_llvm("float32(float32, int32)")
    with pytest.raises(RuntimeError, match="SASS of a device function"):
        scaled.inspect_sass(arguments)
    with pytest.raises(TypeError, match="give a signature"):
        cuda.jit(scaled.py_func, device=True).inspect_asm()
