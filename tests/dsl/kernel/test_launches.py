"""Tests of the kernel object: launches, signatures, inspection, and compilation."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda
from weft.runtime import CompileError

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def fill(x: Any, value: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@pytest.mark.parametrize(
    "brackets", [(2, 4), ((2,), (4,)), ((2, 1), (4, 1)), ((2, 1, 1), [4, 1, 1]), (2, 4, 0), (2, 4, 0, 0)]
)
def test_brackets(brackets: Any) -> None:
    x = np.zeros(8)
    weft.kernel(fill)[brackets](x, 3)
    np.testing.assert_array_equal(x, 3.0)


def test_brackets_take_numpy_integers() -> None:
    x = np.zeros(8)
    weft.kernel(fill)[np.int64(2), np.uint8(4)](x, 3)
    np.testing.assert_array_equal(x, 3.0)


def test_stream_and_configure() -> None:
    kernel = weft.kernel(fill)
    x = cuda.device_array(8)
    stream = cuda.stream()
    kernel.configure(2, 4, stream=stream)(x, 2.5)
    stream.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), 2.5)
    kernel[1, 8, cuda.default_stream()](x, 1)
    cuda.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), 1.0)


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_forall(n: int) -> None:
    x = np.zeros(n + 5)
    weft.kernel(fill).forall(n)(x[:n], 1)
    assert x.sum() == n
    weft.kernel(fill).forall(n, 16)(x[:n], 2)
    assert x.sum() == 2 * n


def test_a_launch_of_nothing() -> None:
    weft.kernel(fill).forall(0)(np.zeros(0), 1)


@pytest.mark.parametrize(("tasks", "threads"), [(2.5, 0), (4, 2.5), ("4", 0)])
def test_forall_takes_integers(tasks: Any, threads: Any) -> None:
    with pytest.raises((weft.LaunchError, weft.KernelTypeError), match="integer"):
        weft.kernel(fill).forall(tasks, threads)


class PairError(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__(first, second)


SHARED_ERROR = ValueError("one for all launches")


def test_a_raised_object_has_the_note_of_the_last_launch() -> None:
    @weft.kernel
    def fail(x: Any) -> None:
        if x[cuda.grid(1)] > 0:
            raise SHARED_ERROR

    SHARED_ERROR.__notes__ = ["its own"]
    for thread in (1, 2):
        with pytest.raises(ValueError, match="one for all") as caught:
            fail[1, 4](np.eye(4)[thread])
        assert caught.value is SHARED_ERROR
        own, note = SHARED_ERROR.__notes__
        assert own == "its own" and f"thread ({thread}, 0, 0)" in note


def test_messages_of_exceptions() -> None:
    @weft.kernel
    def fail(x: Any) -> None:
        raise PairError(x[0], f"{x[1]:.1f}|{x[0]}")

    with pytest.raises(PairError, match=r"\(3-4j\), 0\.5\+2\.0j\|\(3-4j\) in block \(0, 0, 0\)"):
        fail[1, 1](np.array([3 - 4j, 0.5 + 2j]))


def test_one_kernel_for_many_types() -> None:
    kernel = weft.kernel(fill)
    for dtype in (np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64, np.bool_):
        x = np.zeros(5, dtype)
        kernel[1, 8](x, 1)
        np.testing.assert_array_equal(x, np.ones(5, dtype))
    assert len(kernel.signatures) == 9
    x = np.zeros(5)
    kernel[1, 8](x, 2)
    assert len(kernel.signatures) == 9
    assert x.sum() == 10


def test_signature_ahead() -> None:
    @cuda.jit("void(float64[:], float64)")
    def one(x: Any, value: Any) -> None:
        x[cuda.grid(1)] = value

    @cuda.jit([(cuda.types.float32[:], cuda.types.float32), "float64[:], float64"])
    def several(x: Any, value: Any) -> None:
        x[cuda.grid(1)] = value

    x = np.zeros(4)
    one[1, 4](x, 2)
    several[1, 4](x[::-1], 3)
    np.testing.assert_array_equal(x, 3.0)
    assert len(one.signatures) == 1 and len(several.signatures) == 2
    single = np.zeros(4, np.float32)
    several[1, 4](single, 0.1)
    np.testing.assert_array_equal(single, np.float32(0.1))


def test_signature_casts_arguments() -> None:
    @cuda.jit("void(int32[:], int8, float32, boolean)")
    def kernel(out: Any, small: Any, real: Any, flag: Any) -> None:
        out[0] = small
        out[1] = int(real * 10)
        out[2] = flag

    out = np.zeros(3, np.int32)
    kernel[1, 1](out, np.int64(-3), 2, 1)
    np.testing.assert_array_equal(out, [-3, 20, 1])


def test_signature_refuses_another_array() -> None:
    @cuda.jit("void(float64[::1])")
    def kernel(x: Any) -> None:
        x[0] = 1

    with pytest.raises(TypeError, match="float32"):
        kernel[1, 1](np.zeros(3, np.float32))
    with pytest.raises(TypeError):
        kernel[1, 1](np.zeros(6)[::2])


def test_device_functions() -> None:
    @cuda.jit(device=True)
    def scaled(v: Any, by: Any = 2) -> Any:
        return v * by

    @weft.device
    def shifted(v: Any) -> Any:
        return scaled(v) + 1

    @cuda.jit("float64(float64, float64)", device=True, inline=True)
    def added(a: Any, b: Any) -> Any:
        return a + b

    @weft.kernel
    def kernel(x: Any) -> None:
        i = cuda.grid(1)
        x[i] = added(shifted(x[i]), scaled(x[i], by=10))

    x = np.arange(4.0)
    kernel[1, 4](x)
    np.testing.assert_array_equal(x, 12 * np.arange(4.0) + 1)
    assert shifted(3) == 7


def test_a_kernel_made_twice_sees_its_own_closure() -> None:
    def make(factor: Any) -> Any:
        @weft.kernel
        def kernel(x: Any) -> None:
            x[cuda.grid(1)] = factor

        return kernel

    x = np.zeros(2)
    for factor in (2, 0.5, 7):
        make(factor)[1, 2](x)
        np.testing.assert_array_equal(x, factor)


def test_functions_as_arguments() -> None:
    @weft.device
    def negated(v: Any) -> Any:
        return -v

    @weft.kernel
    def kernel(x: Any, f: Any) -> None:
        i = cuda.grid(1)
        x[i] = f(x[i])

    x = np.arange(4.0)
    kernel[1, 4](x, lambda v: v + 41)
    kernel[1, 4](x, negated)
    np.testing.assert_array_equal(x, -41 - np.arange(4.0))


def test_code_of_a_checked_kernel_that_was_not_launched() -> None:
    kernel = weft.kernel(debug=True)(fill)
    assert ".entry fill" in kernel.inspect_asm("void(float32[::1], float32)", cc=(8, 0))


def test_looking_inside() -> None:
    kernel = weft.kernel(fill)
    kernel[1, 4](np.zeros(4), 1.0)
    (signature,) = kernel.signatures
    assert kernel.py_func is fill
    for name in ("inspect_llvm", "inspect_asm", "inspect_types"):
        method = getattr(kernel, name)
        if name == "inspect_types":
            method()
            continue
        every = method()
        assert isinstance(every, dict) and len(every) == 1
        assert "fill" in next(iter(every.values()))
        assert "fill" in method(signature)


def test_resources() -> None:
    @cuda.jit("void(float64[:])")
    def kernel(x: Any) -> None:
        part = cuda.shared.array(32, np.float64)
        t = cuda.threadIdx.x
        part[t] = x[t]
        cuda.syncthreads()
        x[t] = part[31 - t]

    (signature,) = kernel.signatures
    assert kernel.get_shared_mem_per_block(signature) == 256
    assert kernel.get_regs_per_thread(signature) >= 0
    assert kernel.get_local_mem_per_thread(signature) >= 0
    assert kernel.get_const_mem_size(signature) >= 0
    assert kernel.get_max_threads_per_block(signature) >= 32


def scaled_sum(a: Any, b: Any) -> Any:
    return a + 2 * b


def constant(x: Any) -> int:
    return 3


def test_compile_to_ptx() -> None:
    ptx, result = cuda.compile_ptx(fill, "void(float32[::1], float32)", cc=(9, 0))
    assert ".target sm_90" in ptx and "fill" in ptx and str(result) in ("void", "none")
    ptx, result = cuda.compile_ptx_for_current_device(fill, (cuda.types.float32[:], cuda.types.float32))
    assert ".visible .entry" in ptx
    ptx, result = cuda.compile_ptx(scaled_sum, "float32, float32", device=True, cc=(7, 5), abi="c")
    assert re.search(r"\.visible \.func\s+\(\.param \.b64 \S+\) scaled_sum", ptx) and str(result) == "float64"
    ptx, _ = cuda.compile_ptx(
        scaled_sum, "float32(float32, float32)", device=True, cc=(8, 0), abi="c", abi_info={"abi_name": "my_sum"}
    )
    assert re.search(r"\.visible \.func.*\bmy_sum\b", ptx)
    ptx, result = cuda.compile_ptx(constant, "(float32,)", device=True, cc=(8, 0))
    assert str(result) == "int64" and "st.param" in ptx
    ptx, result = cuda.compile(scaled_sum, "int32(int32, int32)", device=True, cc=(8, 0), output="ptx")
    assert ".visible .func" in ptx and str(result) == "int32"


def test_compile_with_device_functions() -> None:
    """Test the compilation to PTX of a kernel that calls a device function. numba-cuda needs a GPU for this."""

    @cuda.jit(device=True)
    def inner(v: Any) -> Any:
        return v * 3

    def kernel(x: Any) -> None:
        x[cuda.grid(1)] = inner(x[cuda.grid(1)])

    ptx, _ = cuda.compile_ptx(kernel, "void(float64[:])", cc=(8, 6))
    assert ".target sm_86" in ptx


def test_fast_math() -> None:
    def divide(x: Any, y: Any) -> None:
        i = cuda.grid(1)
        x[i] = x[i] / y[i]

    exact, _ = cuda.compile_ptx(divide, "void(float32[::1], float32[::1])", cc=(8, 0))
    fast, _ = cuda.compile_ptx(divide, "void(float32[::1], float32[::1])", cc=(8, 0), fastmath=True)
    assert "fma.rn.f32" in exact  # exact division, expanded inline
    assert "div.approx.ftz.f32" not in exact
    assert "div.approx.ftz.f32" in fast


def test_fast_math_of_device_functions() -> None:
    def cosine(x: Any) -> Any:
        return math.cos(x)

    signature = "float32(float32)"
    for fast in (True, False):
        function = cuda.jit(signature, device=True, fastmath=fast)(cosine)
        compiled, _ = cuda.compile_ptx(cosine, signature, device=True, fastmath=fast, cc=(8, 0))
        for ptx in (compiled, function.inspect_asm(signature)):
            assert ("cos.approx.ftz.f32" in ptx) is fast
    with pytest.raises(TypeError, match="no option 'fast'"):
        weft.device(fast=True)
    with pytest.raises(TypeError, match="no option 'quick'"):
        cuda.jit(device=True, quick=True)(cosine)


def test_fast_math_does_not_check_float_division() -> None:
    def divide(x: Any, out: Any) -> None:
        out[0] = x[0] / x[1]
        out[1] = int(x[0]) % int(x[2])

    x, out = np.array([1, 0, 1.0]), np.zeros(2)
    cuda.jit(debug=True, fastmath=True)(divide)[1, 1](x, out)
    assert out[0] == np.inf
    with pytest.raises(ZeroDivisionError):
        cuda.jit(debug=True)(divide)[1, 1](x, out)
    with pytest.raises(ZeroDivisionError):
        cuda.jit(debug=True, fastmath=True)(divide)[1, 1](np.zeros(3), out)


def test_kernels_are_made_of_kernels() -> None:
    made = weft.kernel(fill)
    assert weft.kernel(made).py_func is cuda.jit(made).py_func is weft.device(made).py_func is fill


def test_one_signature_with_every_parameter() -> None:
    with pytest.raises(weft.KernelTypeError, match="fill takes 2 arguments, not 1"):
        weft.kernel(fill).specialize(np.zeros(2))
    for compiling in (weft.kernel(fill).compile, lambda signatures: cuda.compile_ptx(fill, signatures)):
        with pytest.raises(TypeError, match="one signature is needed here, not 2"):
            compiling(["void(float64[:], int32)", "void(float32[:], int32)"])


@pytest.mark.parametrize("options", [{"launch_bounds": -1}, {"launch_bounds": (128, "2")}, {"max_registers": -5}])
def test_options_are_positive(options: dict[str, Any]) -> None:
    with pytest.raises(weft.KernelTypeError, match="positive integers"):
        weft.kernel(**options)(fill)


@pytest.mark.parametrize(("weak", "result"), [(True, "float32"), (False, "float64")])
def test_device_functions_are_compiled_with_their_own_types(weak: bool, result: str) -> None:
    twice = cuda.jit(device=True, weak_scalars=weak)(lambda x: x * 2.0)
    assert str(cuda.compile_ptx(twice, "(float32,)", device=True, cc=(8, 0))[1]) == result


def test_checks_of_negative_indices_and_divmod() -> None:
    def index(x: Any) -> None:
        x[0] = x[-5]

    def divide(x: Any) -> None:
        x[0], x[1] = divmod(x[0], x[1])

    def count(x: Any) -> None:
        for i in range(0, 5, int(x[0])):
            x[1] += i

    with pytest.raises(ValueError, match="arg 3 must not be zero in block"):
        weft.kernel(debug=True)(count)[1, 1](np.zeros(2))
    with pytest.raises(IndexError, match="index -5 is out of bounds for axis 0 of x with size 3"):
        weft.kernel(debug=True)(index)[1, 1](np.arange(3.0))
    with pytest.raises(ZeroDivisionError):
        weft.kernel(debug=True)(divide)[1, 1](np.array([5, 0]))


def test_zips_of_different_lengths() -> None:
    def kernel(x: Any, y: Any) -> None:
        for a, b in zip(x, y, strict=True):
            x[0] = a + b

    with pytest.raises(ValueError, match="different lengths"):
        weft.kernel(kernel)[1, 1](np.arange(3.0), np.arange(2.0))


@pytest.mark.parametrize(
    ("exponent", "modulus", "message"), [(-1, 7, "negative exponent"), (3, 10**10, "at most 3037000499")]
)
def test_powers_with_a_modulus_out_of_range(exponent: int, modulus: int, message: str) -> None:
    def kernel(n: Any) -> None:
        n[0] = pow(int(n[0]), int(n[1]), int(n[2]))

    with pytest.raises(AssertionError, match=message):
        weft.kernel(kernel)[1, 1](np.array([3, exponent, modulus]))


def test_launch_bounds_and_registers() -> None:
    @cuda.jit(launch_bounds=(128, 2), max_registers=40)
    def kernel(x: Any) -> None:
        x[cuda.grid(1)] = 1

    x = np.zeros(4)
    kernel[1, 4](x)
    assert x.sum() == 4
    with pytest.raises(weft.LaunchError, match="128"):
        kernel[1, 256](np.zeros(256))


def test_assembly_is_for_gpus() -> None:
    def kernel(out: Any) -> None:
        out[0] = cuda.inline_ptx("add.s32 $0, $1, $2;", "=r,r,r", np.int32(1), np.int32(2))

    ptx, _ = cuda.compile_ptx(kernel, "void(int32[:])", cc=(8, 0))
    assert "add.s32" in ptx
    with pytest.raises(CompileError, match="GPU"):
        weft.kernel(kernel)[1, 1](np.zeros(1, np.int32))


def test_functions_of_python_and_numpy_are_arguments() -> None:
    @weft.kernel
    def apply(out, first, second):  # type: ignore[no-untyped-def]
        out[0], out[1] = first(4.0), second(1.5)

    out = np.zeros(2)
    apply[1, 1](out, math.sqrt, np.negative)
    assert out.tolist() == [2.0, -1.5]
    apply[1, 1](out, np.exp, abs)
    assert out.tolist() == pytest.approx([np.exp(4.0), 1.5], rel=1e-15)


def test_kernels_without_parameters_write_to_shared_memory(capfd: pytest.CaptureFixture[str]) -> None:
    @cuda.jit
    def kernel() -> None:
        floats = cuda.shared.array(0, np.float32)
        words = cuda.shared.array(0, np.int32)
        floats[0] = 3.14
        print(words[0])

    kernel[1, 1, 0, 4]()
    cuda.synchronize()
    assert capfd.readouterr().out == "1078523331\n"


def test_a_quotient_as_a_grid_is_explained() -> None:
    with pytest.raises(TypeError, match=r"griddim must be a sequence of integers, got \[2\.0\]: write //"):
        weft.kernel(fill)[8 / 4, 8]


def test_atomics_name_the_dtypes_that_they_take() -> None:
    @weft.kernel
    def count(x: Any) -> None:
        cuda.atomic.add(x, 0, 1)

    said = "cuda.atomic.add takes int32, int64, uint32, uint64, float16, float32 and float64, not int16"
    with pytest.raises(weft.KernelTypeError, match=said):
        count[1, 1](np.zeros(1, np.int16))
