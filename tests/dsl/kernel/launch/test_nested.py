"""Tests of kernels launched from kernels."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import compile_kernel, resolve_target
from weft.dsl.kernel.language.specialize import specialize
from weft.dsl.kernel.launch.arguments import describe_array
from weft.dsl.kernel.launch.dispatcher import make_options
from weft.dsl.kernel.library.child_launches import RECORDS
from weft.runtime import assemble, override


@cuda.jit
def scale(x: Any, first: Any, count: Any, factor: Any) -> None:
    i = cuda.grid(1)
    if i < count:
        x[first + i] = x[first + i] * factor + 1


@cuda.jit
def scale_parts(x: Any, size: Any) -> None:
    part = cuda.grid(1)
    if part * size < x.size and part % 2 == 0:
        scale[(size + 31) // 32, 32](x, part * size, size, 2.0)


def scaled(values: np.ndarray, size: int) -> np.ndarray:
    even = np.arange(values.size) // size % 2 == 0
    return np.where(even, values * 2 + 1, values)


@pytest.mark.parametrize("python", [False, True])
def test_parts_of_an_array(python: bool) -> None:
    values = np.arange(1000.0)
    for x in (values.copy(), wf.asarray(values)):
        with override(kernel_python=python):
            scale_parts[1, 64](x, 50)
        assert np.array_equal(np.asarray(x), scaled(values, 50))


def test_older_expressions_keep_their_values() -> None:
    x = wf.arange(100.0)
    before = x + 0
    scale_parts[1, 64](x, 10)
    assert np.array_equal(before.numpy(), np.arange(100.0))
    assert np.array_equal(x.numpy(), scaled(np.arange(100.0), 10))


Pair = namedtuple("Pair", "low high")


@dataclass
class Shift:
    amount: float
    mask: Any


@cuda.jit
def record(
    out: Any, text: Any, numbers: Any, shift: Any, flag: Any, half: Any, whole: Any, z: Any, rest: Any = 3
) -> None:
    out[0] = numbers.low
    out[1] = numbers.high
    out[2] = shift.amount
    out[3] = shift.mask[2]
    out[4] = flag
    out[5] = half
    out[6] = whole
    out[7] = z.real
    out[8] = z.imag
    out[9] = rest
    out[10] = text[1, 1]
    out[11] = text.shape[0] * 100 + text.strides[0]
    out[12] = cuda.gridDim.x * 100 + cuda.blockDim.y


@cuda.jit
def pass_all(out: Any, table: Any, mask: Any, z: Any) -> None:
    i = cuda.grid(1)
    numbers = Pair(i + 1, np.uint8(200))
    big = np.uint64(2**63) + np.uint64(i)
    shift = Shift(0.25, mask)
    record[(2, 1), (1, 3)](out, table[::2, 1:], numbers, shift, i == 0, np.float16(0.5), big, z, rest=7)


def test_arguments() -> None:
    out, table = np.zeros(13), np.arange(40, dtype=np.int32).reshape(5, 8)
    pass_all[1, 1](out, table, np.array([1, 2, 9], np.int16), 1.5 - 2j)
    assert out.tolist() == [1, 200, 0.25, 9, 1, 0.5, 2.0**63, 1.5, -2, 7, 18, 300 + 64, 203]


@cuda.jit
def count_down(x: Any, n: Any) -> None:
    x[n] = n + 1
    if n > 0:
        count_down[1, 1](x, n - 1)


@cuda.jit
def second(log: Any, value: Any) -> None:
    log[log[0]] = value
    log[0] += 1


@cuda.jit
def in_order(log: Any) -> None:
    for k in range(5):
        second[1, 1](log, k * 10)
    log[9] = log[0]  # no child kernel has begun yet


@pytest.mark.parametrize("python", [False, True])
def test_recursion_and_order(python: bool) -> None:
    x, log = np.zeros(6), np.zeros(10, np.int64)
    log[0] = 1
    with override(kernel_python=python):
        count_down[1, 1](x, 5)
        in_order[1, 1](log)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    assert log.tolist() == [6, 0, 10, 20, 30, 40, 0, 0, 0, 1]


@cuda.jit
def quicksort(x: Any, low: Any, high: Any) -> None:
    """Sort `x[low:high + 1]` in one thread, which launches a kernel for each part."""
    pivot = x[(low + high) // 2]
    i, j = low, high
    while i <= j:
        while x[i] < pivot:
            i += 1
        while x[j] > pivot:
            j -= 1
        if i <= j:
            x[i], x[j] = x[j], x[i]
            i += 1
            j -= 1
    if low < j:
        quicksort[1, 1](x, low, j)
    if i < high:
        quicksort[1, 1](x, i, high)


def test_quicksort() -> None:
    x = np.random.default_rng(0).standard_normal(300)
    right = np.sort(x)
    quicksort[1, 1](x, 0, x.size - 1)
    assert np.array_equal(x, right)


def test_dynamic_shared_memory_and_all_cores() -> None:
    @wf.kernel
    def total(x: Any, out: Any, at: Any) -> None:
        shared = cuda.shared.array(0, np.float64)
        t = cuda.threadIdx.x
        shared[t] = x[at * 64 + t]
        cuda.syncthreads()
        if t == 0:
            out[at] = sum(shared[k] for k in range(64))

    @wf.kernel
    def totals(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            total[1, 64, 0, 64 * 8](x, out, i)

    x = np.arange(64.0 * 700)
    out = np.zeros(700)
    totals[11, 64](x, out)
    assert np.array_equal(out, x.reshape(700, 64).sum(1))


def fails(body: str, tmp_path: Any) -> Any:
    text = f"def parent(x):\n    local = cuda.local.array(3, np.float64)\n    {body}\n"
    file = tmp_path / "parent.py"
    file.write_text(text)
    names: dict[str, Any] = {"cuda": cuda, "np": np, "scale": scale, "second": second}
    exec(compile(text, str(file), "exec"), names)
    return cuda.jit(names["parent"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("scale[1, 32](x, 0, 5)", "missing a required argument: 'factor'"),
        ("scale[1](x, 0, 5, 1)", r"takes \[grid, block\]"),
        ("scale[1, (1, 1, 1, 1)](x, 0, 5, 1)", "1 to 3 numbers, not 4"),
        ("scale[1, 32, 7](x, 0, 5, 1)", "the stream in the brackets is 0"),
        ("scale[1, 32](local, 0, 5, 1)", "local array of float64 ends with its thread"),
        ("scale(x, 0, 5, 1)[1, 32]", "cannot be indexed"),
    ],
)
def test_errors_on_the_line(body: str, message: str, tmp_path: Any) -> None:
    with pytest.raises(wf.KernelError, match=message) as caught:
        fails(body, tmp_path)[1, 1](np.zeros(5))
    assert "line 3" in str(caught.value)


def test_kernels_compiled_ahead_of_time_launch_none() -> None:
    with pytest.raises(wf.KernelError, match="compiled ahead of time cannot launch kernels"):
        cuda.compile_ptx(scale_parts.py_func, "void(float64[::1], int64)")


def test_a_configured_kernel_has_a_name() -> None:
    @cuda.jit
    def parent(x: Any) -> None:
        doubled = scale[1, 32]
        doubled(x, 0, 2, 2.0)
        doubled(x, 2, 2, 3.0)

    x = np.ones(4)
    parent[1, 1](x)
    assert x.tolist() == [3, 3, 4, 4]


def test_sizes_that_no_kernel_has(tmp_path: Any) -> None:
    kernel = fails("scale[0, 32](x, 0, 5, 1)", tmp_path)
    with pytest.raises(wf.LaunchError, match="the grid has 0 blocks along x"):
        kernel[1, 1](np.zeros(5))
    kernel = fails("scale[1, 2000](x, 0, 5, 1)", tmp_path)
    with pytest.raises(wf.LaunchError, match="2000 threads along x"):
        kernel[1, 1](np.zeros(5))
    kernel = fails("scale[1, 1](x, 0, 5, 1)", tmp_path)
    with pytest.raises(wf.LaunchError, match=f"launches {RECORDS + 64} kernels; one kernel launches at most {RECORDS}"):
        kernel[RECORDS // 64 + 1, 64](np.zeros(5))


def test_errors_of_a_child_name_its_thread() -> None:
    @cuda.jit
    def child(x: Any, n: Any) -> None:
        assert cuda.grid(1) < n, "too many threads"
        x[cuda.grid(1)] = 1

    @cuda.jit
    def parent(x: Any) -> None:
        child[1, 4](x, 3)

    x = np.zeros(4)
    with pytest.raises(AssertionError, match=r"too many threads in block \(0, 0, 0\), thread \(3, 0, 0\)"):
        parent[1, 1](x)


def test_under_the_sanitizer() -> None:
    x = np.arange(200.0)
    with wf.sanitize():
        scale_parts[1, 64](x, 50)
    assert np.array_equal(x, scaled(np.arange(200.0), 50))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_ptx(architecture: str) -> None:
    target = resolve_target(architecture)
    descriptors = (describe_array(np.dtype(np.float64), 1, True), ("scalar", np.dtype(np.int64), True))
    made = specialize(scale_parts.py_func, descriptors, target, np.dtype(np.int32), make_options({}))
    code = compile_kernel(made.kernel, target).code
    assert b"atom" in code
    try:
        assemble(code, architecture)
    except wf.CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("nvJitLink is not installed")
