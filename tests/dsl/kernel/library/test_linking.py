"""Tests of kernels that call functions of linked code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import compile_kernel, resolve_target
from weft.dsl.kernel.language.specialize import specialize
from weft.dsl.kernel.launch.arguments import describe_array
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, make_options
from weft.runtime import CompileError, ForeignCode, ObjectCode, assemble, register_foreign

PTX = """
.version 6.4
.target sm_75
.address_size 64
.visible .func (.param .b32 status) product(.param .b64 result, .param .b32 x, .param .b32 y)
{
    .reg .f32 %f<4>;
    .reg .b64 %r;
    .reg .b32 %s;
    ld.param.u64 %r, [result];
    ld.param.f32 %f1, [x];
    ld.param.f32 %f2, [y];
    mul.f32 %f3, %f1, %f2;
    st.f32 [%r], %f3;
    mov.u32 %s, 0;
    st.param.b32 [status], %s;
    ret;
}
"""
SOURCE = """
extern "C" __device__ int product(float* result, float x, float y) { *result = x * y; return 0; }
extern "C" __device__ int total(double* result, const double* values, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += values[i];
    *result = sum;
    return 0;
}
extern "C" __device__ int meet(void* nothing) { __syncthreads(); return 0; }
"""
C_PTX = """
.version 6.4
.target sm_75
.address_size 64
.visible .func (.param .b32 result) plain(.param .b32 x, .param .b32 y)
{
    .reg .f32 %f<4>;
    ld.param.f32 %f1, [x];
    ld.param.f32 %f2, [y];
    mul.f32 %f3, %f1, %f2;
    st.param.f32 [result], %f3;
    ret;
}
.visible .func consume(.param .b32 x)
{
    ret;
}
"""
plain = cuda.declare_device("plain", "float32(float32, float32)", abi="c")
consume = cuda.declare_device("consume", "void(float32)", abi="c")
product = cuda.declare_device("product", "float32(float32, float32)")
total = cuda.declare_device("total", "float64(CPointer(float64), int32)")
meet = cuda.declare_device("meet", "void()")


def multiply(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        out[i] = product(x[i], 2.0) + 1


def multiply_plainly(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        consume(x[i])
        out[i] = plain(x[i], 2.0) + 1


def add_up(x: Any, out: Any) -> None:
    meet()
    out[cuda.threadIdx.x] = total(x, x.size)


def ptx_of(function: Any, dtype: Any, architecture: str, **options: Any) -> ObjectCode:
    descriptors = (describe_array(np.dtype(dtype), 1, True),) * 2
    target = resolve_target(architecture)
    made = specialize(function, descriptors, target, np.dtype(np.int32), make_options(options), reporting=False)
    return compile_kernel(made.kernel, target)


def linked(code: ObjectCode, architecture: str) -> ObjectCode:
    try:
        return assemble(code.code, architecture, tuple(code.launch["links"]))
    except CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(str(error).partition(":")[0])


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_ptx_is_linked(architecture: str) -> None:
    code = ptx_of(multiply, np.float32, architecture, link=[cuda.PTXSource(PTX, "product.ptx")])
    assert b".extern .func" in code.code and b"product" in code.code
    found = linked(code, architecture)
    assert found.kind == "cubin" and found.code[:4] == b"\x7fELF"
    with pytest.raises(CompileError, match="product"):  # the code that defines the function is missing
        assemble(code.code, architecture)


def test_functions_with_the_c_abi() -> None:
    code = ptx_of(multiply_plainly, np.float32, "sm_80", link={cuda.PTXSource(C_PTX, "plain.ptx")})
    text = code.code.decode()
    assert ".extern .func  (.param .b32 func_retval0) plain" in text and ".extern .func consume" in text
    assert linked(code, "sm_80").code[:4] == b"\x7fELF"
    with pytest.raises(TypeError, match="the ABI is 'c' or 'numba', not 'C'"):
        cuda.declare_device("plain", "float32(float32)", abi="C")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_cuda_cpp_is_linked(architecture: str) -> None:
    source = cuda.CUSource(SOURCE, "functions.cu")
    for function, dtype in ((multiply, np.float32), (add_up, np.float64)):
        code = ptx_of(function, dtype, architecture, link=source)
        assert linked(code, architecture).code[:4] == b"\x7fELF"


def test_other_forms_of_code() -> None:
    core = pytest.importorskip("cuda.core")
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError:
        pytest.skip("NVRTC is not installed")
    for kind, form, options in (
        ("cubin", cuda.Cubin, {"relocatable_device_code": True}),
        ("ltoir", cuda.LTOIR, {"relocatable_device_code": True, "link_time_optimization": True}),
    ):
        program = core.Program(SOURCE, "c++", core.ProgramOptions(arch="sm_80", **options))
        code = ptx_of(multiply, np.float32, "sm_80", link=[form(program.compile(kind).code)])
        assert linked(code, "sm_80").code[:4] == b"\x7fELF"


def test_a_mistake_in_cuda_cpp_is_shown() -> None:
    digest = register_foreign(ForeignCode("cu", "wrong.cu", b'extern "C" __device__ int f() { retrn 0; }'))
    code = ptx_of(multiply, np.float32, "sm_80", link=[cuda.PTXSource(PTX)])
    try:
        with pytest.raises(CompileError, match=r"wrong.cu does not compile for sm_80(.|\n)*retrn"):
            assemble(code.code, "sm_80", (*code.launch["links"], digest))
    except AssertionError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("NVRTC or nvJitLink is not installed")


def test_the_code_is_named_by_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "product.ptx"
    file.write_text(PTX)
    declared = cuda.declare_device("product", "float32(float32, float32)", link=str(file))

    def calls(x: Any, out: Any) -> None:
        out[0] = declared(x[0], x[1])

    first = ptx_of(calls, np.float32, "sm_80").launch["links"]
    assert first == ptx_of(multiply, np.float32, "sm_80", link=[file]).launch["links"]
    file.write_text(PTX.replace("mul.f32", "add.f32"))
    assert ptx_of(multiply, np.float32, "sm_80", link=[file]).launch["links"] != first


def test_kernels_of_the_cpu_say_why_not() -> None:
    kernel = cuda.jit(link=[cuda.PTXSource(PTX)])(multiply)
    assert isinstance(kernel, KernelDispatcher)
    with pytest.raises(
        wf.KernelTypeError, match=r"product is a function of linked GPU code(.|\n)*product\(x\[i\], 2.0\)"
    ):
        kernel[1, 4](np.zeros(4, np.float32), np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="only kernels on a GPU call it"):
        product(1.0, 2.0)

    @cuda.jit(link=[cuda.PTXSource(PTX)])
    def unused(out: Any) -> None:
        out[cuda.grid(1)] = 1

    out = np.zeros(3)
    unused[1, 3](out)
    assert out.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cuda.jit(link=["functions.xyz"])(multiply), "files to link are .cu, .ptx"),
        (lambda: cuda.jit(link=[3])(multiply), "paths and objects such as cuda.CUSource, not int"),
        (lambda: cuda.CUSource("", setup_callback=print), "takes no setup_callback"),
        (lambda: cuda.declare_device("f", "float32(float32[:])"), r"numbers and CPointer\(...\)"),
        (lambda: cuda.declare_device("f", "float32[:](float32)"), "a number or void"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(wf.KernelTypeError, match=message):
        make()
    with pytest.raises(OSError):
        cuda.declare_device("f", "void()", link="/no/such/file.cu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("x[0], 1, 2", "total takes 2 arguments, but 3 were given"),
        ("1.0, 2", r"takes an array where CPointer\(float64\)"),
        ("y, 2", "a contiguous array of float64"),
        ("x[::2], 2", "a contiguous array of float64"),
    ],
)
def test_arguments_that_do_not_fit(arguments: str, message: str, tmp_path: Path) -> None:
    text = f"def wrong(x, y, out):\n    out[0] = total({arguments})\n"
    file = tmp_path / "wrong.py"
    file.write_text(text)
    names: dict[str, Any] = {"total": total}
    exec(compile(text, str(file), "exec"), names)
    descriptors = tuple(describe_array(np.dtype(d), 1, True) for d in ("f8", "f4", "f8"))
    with pytest.raises(wf.KernelTypeError, match=message):
        specialize(names["wrong"], descriptors, resolve_target("sm_80"), np.dtype(np.int32), make_options({}))
