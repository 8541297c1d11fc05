"""Tests of bfloat16 in explicit kernels.

Kernels compiled for the CPU and kernels run as plain Python have bit-identical results, and the assembler accepts the
kernels' PTX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.cuda import types
from weft.runtime import CompileError, assemble, override

ml_dtypes = pytest.importorskip("ml_dtypes")
BRAIN = np.dtype(ml_dtypes.bfloat16)
bfloat16 = ml_dtypes.bfloat16
N = 64
STEPS = np.arange(8).astype(BRAIN)
pytestmark = [pytest.mark.filterwarnings("ignore::weft.PerformanceWarning", "ignore::RuntimeWarning")]


def weak_numbers(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = 2 * x[i] * 0.1 + (y[i] - 1.7) / 3 + x[i] ** 2
    assert out.dtype == (x[i] * 0.5).dtype


def branches(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    best = x[i]
    if y[i] > 0.1:
        best = y[i] / 3
    elif x[i] < 0:
        best = -best
    best += 0.3
    out[i] = max(best, 0.25) if best == best else abs(x[i])


def functions(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = math.sqrt(abs(x[i])) + np.floor(y[i]) + np.where(x[i] > 0, y[i], 0.7) + np.maximum(x[i], 0.2)


def memory(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    shared = cuda.shared.array(N, bfloat16)
    own = cuda.local.array(2, types.bfloat16)
    constants = cuda.const.array_like(STEPS)
    own[0] = x[i]
    own[1] = own[0] * y[i]
    shared[cuda.threadIdx.x] = own[1]
    cuda.syncthreads()
    out[i] = shared[N - 1 - cuda.threadIdx.x] + constants[i % 8]


def warps(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    low = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)
    out[i] = cuda.shfl_xor_sync(0xFFFFFFFF, y[i], 5) - low * 0.5


def casts(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    whole = int(x[i]) + types.int8(y[i])
    half = np.float16(x[i])
    out[i] = types.bfloat16(whole * 0.3) + bfloat16(half) + np.float32(y[i]) * np.float64(1.01)


def bits(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = np.uint16(x[i].view(np.uint16) ^ 1).view(bfloat16)


def on_values(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = (
        cuda.bf16.hadd(cuda.bf16.hfma(x[i], y[i], 0.5), x[i]) if cuda.bf16.hgt(x[i], y[i]) else cuda.bf16.hneg(y[i])
    )


def numbers(x: Any, y: Any, out: Any, scale: Any) -> None:
    i = cuda.grid(1)
    out[i] = scale * x[i] + y[i]


def views(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    part = x[::2]
    out[i] = part[i // 2] + y[-1 - i] + len(part)


class Case(NamedTuple):
    kernel: Callable[..., None]
    wanted: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _brain(value: float) -> Any:
    return BRAIN.type(value)


def _branches(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    best = np.where(y > _brain(0.1), y / _brain(3), np.where(x < _brain(0), -x, x)) + _brain(0.3)
    return np.where(best == best, np.where(best < _brain(0.25), _brain(0.25), best), abs(x))


def _casts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    whole = np.trunc(x).astype(np.int64) + np.clip(np.trunc(y.astype(np.float64)), -128, 127).astype(np.int8)
    half = x.astype(np.float16).astype(BRAIN)
    return ((whole * 0.3).astype(BRAIN) + half + y.astype(np.float64) * 1.01).astype(BRAIN)


CASES = {
    case.kernel.__name__: case
    for case in (
        Case(
            weak_numbers,
            lambda x, y: _brain(2) * x * _brain(0.1) + (y - _brain(1.7)) / _brain(3) + x * x,
        ),
        Case(branches, _branches),
        Case(
            functions,
            lambda x, y: (
                np.sqrt(abs(x)) + np.floor(y) + np.where(x > _brain(0), y, _brain(0.7)) + np.maximum(x, _brain(0.2))
            ),
        ),
        Case(memory, lambda x, y: (x * y)[::-1] + np.tile(STEPS, 8)),
        Case(
            warps,
            lambda x, y: y[np.arange(N) ^ 5] - x[np.arange(N) + (np.arange(N) % 32 != 31)] * _brain(0.5),
        ),
        Case(casts, _casts),
        Case(bits, lambda x, y: (x.view(np.uint16) ^ 1).view(BRAIN)),
        Case(
            on_values,
            lambda x, y: np.where(
                x > y, (x.astype(float) * y.astype(float) + 0.5).astype(np.float32).astype(BRAIN) + x, -y
            ),
        ),
        Case(views, lambda x, y: np.repeat(x[::2], 2) + y[::-1] + _brain(32)),
    )
}
EACH = pytest.mark.parametrize("name", CASES)


def _arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pick = np.random.default_rng(11)
    return pick.normal(0, 3, N).astype(BRAIN), pick.normal(0, 3, N).astype(BRAIN), np.zeros(N, BRAIN)


def _check(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.dtype == wanted.dtype == BRAIN
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


@EACH
def test_on_the_cpu(name: str) -> None:
    x, y, out = _arguments()
    wf.kernel(CASES[name].kernel)[1, N](x, y, out)
    _check(out, CASES[name].wanted(x, y))


@EACH
def test_as_python(name: str) -> None:
    x, y, out = _arguments()
    with override(kernel_python=True):
        wf.kernel(CASES[name].kernel)[1, N](x, y, out)
    _check(out, CASES[name].wanted(x, y))


@pytest.mark.parametrize("architecture", [(8, 0), (9, 0)])
@EACH
def test_for_a_gpu(name: str, architecture: tuple[int, int]) -> None:
    assert cuda.bfloat16 is types.bfloat16
    arrays = (types.bfloat16[::1],) * 3
    ptx, _ = cuda.compile_ptx(CASES[name].kernel, arrays, cc=architecture)
    assert "bf16" not in ptx
    try:
        assert assemble(ptx.encode(), "sm_{}{}".format(*architecture)).code
    except CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("nvJitLink is not installed")


def test_weft_arrays_and_numbers() -> None:
    x, y, _ = _arguments()
    a, b, out = wf.asarray(x), wf.asarray(y), wf.zeros(N, BRAIN)
    compiled = wf.kernel(numbers)
    compiled[1, N](a + 1, b, out, _brain(1.5))
    _check(np.asarray(out), _brain(1.5) * (x + _brain(1)) + y)
    compiled[1, N](a, b, out, 1.5)
    _check(np.asarray(out), _brain(1.5) * x + y)
    plain = np.zeros(N, BRAIN)
    with override(kernel_python=True):
        compiled[1, N](x, y, plain, _brain(1.5))
    _check(plain, _brain(1.5) * x + y)


@pytest.mark.parametrize("looping", [False, True])
def test_functions_of_numbers(looping: bool) -> None:
    def scaled(x: Any, y: Any) -> Any:
        return x * 0.5 + y

    def repeated(x: Any, y: Any) -> Any:
        total = x
        while total < y:
            total = total * 1.5 + 0.25
        return total

    x, y, _ = _arguments()
    x, y = abs(x), abs(y)
    function = repeated if looping else scaled
    found = np.asarray(wf.vectorize(function)(wf.asarray(x), wf.asarray(y)))
    wanted = x.copy()
    if looping:
        while (wanted < y).any():
            wanted = np.where(wanted < y, wanted * _brain(1.5) + _brain(0.25), wanted)
    else:
        wanted = x * _brain(0.5) + y
    _check(found, wanted)


def test_a_variable_of_two_dtypes() -> None:
    def widened(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        total = x[i]
        if i > 3:
            total = np.int32(i)
        out[i] = total

    x, _, _ = _arguments()
    out = np.zeros(N)
    wf.kernel(widened)[1, N](x, out)
    np.testing.assert_array_equal(out, np.where(np.arange(N) > 3, np.arange(N), x.astype(float)))


def _adds(x: Any) -> None:
    cuda.atomic.add(x, 0, x[1])


def _swaps(x: Any) -> None:
    cuda.atomic.cas(x, 0, x[1], x[2])


@pytest.mark.parametrize("kernel", [_adds, _swaps])
@pytest.mark.parametrize("plain", [False, True])
def test_atomics_are_refused(kernel: Any, plain: bool) -> None:
    with override(kernel_python=plain), pytest.raises(TypeError, match=r"cuda.atomic.*bfloat16"):
        wf.kernel(kernel)[1, 1](_arguments()[0])


@pytest.mark.parametrize("make", [cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array])
def test_arrays_of_the_host_face(make: Any) -> None:
    x, y, _ = _arguments()
    out = make(N, BRAIN)
    assert out.dtype == BRAIN
    wf.kernel(numbers)[1, N](cuda.to_device(x), y, out, 2)
    found = out.copy_to_host() if hasattr(out, "copy_to_host") else out
    _check(np.asarray(found), _brain(2) * x + y)


def test_other_small_floats_are_refused() -> None:
    with pytest.raises(TypeError, match="float8"):
        wf.kernel(_adds)[1, 1](np.zeros(4, ml_dtypes.float8_e5m2))
