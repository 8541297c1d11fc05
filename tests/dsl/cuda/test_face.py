"""Tests of the public names of weft.cuda, and of its import."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import cuda
from weft.runtime import override

ROOT = Path(__file__).resolve().parents[3]

# public names of Numba CUDA 0.30, except for linking and memory managers, which are rejected with a reason
NUMBA = """
In Out InOut Reduce activemask all_sync any_sync as_cuda_array atomic ballot_sync blockDim blockIdx brev cbrt cg close clz
compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device const cuda_error current_context
declare_device default_stream defer_cleanup detect device_array device_array_like eq_sync event event_elapsed_time
external_stream ffs float32x4 float4 fma from_cuda_array_interface get_current_device gpus grid gridDim gridsize
int8x2 is_available is_bfloat16_supported is_cuda_array is_float16_supported is_fp8_supported is_supported_version jit laneid
lanemask_lt ldca ldcg ldcs ldcv ldlu legacy_default_stream list_devices literal_unroll local managed_array mapped mapped_array
mapped_array_like match_all_sync match_any_sync nanosleep open_ipc_array per_thread_default_stream pinned pinned_array
pinned_array_like popc profile_start profile_stop profiling reduce require_context runtime select_device selp shared
shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync stcg stcs stream stwb stwt syncthreads syncthreads_and syncthreads_count
syncthreads_or syncwarp synchronize threadIdx threadfence threadfence_block threadfence_system to_device types uchar2 warpsize
CudaSupportError KernelRuntimeError
""".split()

MODULES = {
    "weft.cuda.types": "float32",
    "weft.cuda.errors": "TypingError",
    "weft.cuda.random": "create_xoroshiro128p_states",
    "weft.cuda.libdevice": "rsqrtf",
    "weft.cuda.args": "InOut",
    "weft.cuda.cg": "this_grid",
    "weft.cuda.fp16": "hadd",
    "weft.cuda.compiler": "compile_ptx",
    "weft.cuda.dispatcher": "CUDADispatcher",
    "weft.cuda.testing": "unittest",
    "weft.cuda.core.errors": "NumbaPerformanceWarning",
    "weft.cuda.cudadrv.error": "CudaSupportError",
    "weft.cuda.cudadrv.driver": "CudaAPIError",
    "weft.cuda.cudadrv.devices": "gpus",
    "weft.cuda.cudadrv.devicearray": "DeviceNDArray",
    "weft.cuda.cudadrv.nvvm": "NvvmError",
    "weft.cuda.cudadrv.runtime": "runtime",
}


@pytest.mark.parametrize("name", NUMBA)
def test_numbas_names(name: str) -> None:
    assert getattr(cuda, name) is not None
    assert name in dir(cuda)


@pytest.mark.parametrize("module_name", MODULES)
def test_modules_inside(module_name: str) -> None:
    module = import_module(module_name)
    assert getattr(module, MODULES[module_name]) is not None
    inner: object = weft
    for part in module_name.split(".")[1:]:
        inner = getattr(inner, part)
    assert inner is module


@pytest.mark.parametrize("name", ["set_memory_manager", "MemoryPointer", "extending"])
def test_what_is_lacking_says_what_to_do(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no '{name}': .{{20}}"):
        getattr(cuda, name)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cuda.no_such_name


def test_errors_are_wefts_own() -> None:
    from weft.cuda import errors

    assert issubclass(errors.TypingError, weft.WeftError)
    assert issubclass(errors.UnsupportedError, weft.WeftError)
    assert errors.NumbaPerformanceWarning is weft.PerformanceWarning
    assert cuda.CudaSupportError is errors.CudaSupportError
    assert set(errors.__all__) == {name for name in vars(errors) if name[0].isupper()}
    with pytest.raises(errors.CudaSupportError):
        weft.set_default_device("cuda:63")


def test_importing_weft_does_not_load_kernels() -> None:
    code = (
        "import sys, weft; print([m for m in sys.modules if m.startswith(('weft.cuda', 'weft.dsl.kernel.language.names'))]);"
        "weft.cuda.to_device; import weft.cuda as c; print(c is weft.cuda);"
        "print([m for m in ('llvmlite', 'sympy', 'cuda') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.stdout.split("\n")[:3] == ["[]", "True", "[]"]


def test_what_programs_take_from_numba_itself_is_there() -> None:
    record = cuda.from_dtype(np.dtype([("a", np.int32), ("b", np.float64)]))
    assert cuda.typeof(np.zeros(3, np.float32)) == cuda.float32[::1]
    assert record == cuda.types.from_dtype(np.dtype([("a", np.int32), ("b", np.float64)]))


def test_class_of_what_jit_returns() -> None:
    from weft.cuda.dispatcher import CUDADispatcher

    made = CUDADispatcher(lambda x: None, {"debug": True})
    device_function = cuda.jit(lambda x: x, device=True)
    assert [isinstance(x, CUDADispatcher) for x in (made, device_function, cuda.vectorize(lambda x: x), len)] == [
        True,
        True,
        False,
        False,
    ]
    assert made.options.debug


def test_tests_of_programs_for_numba() -> None:
    from weft.cuda.testing import ContextResettingTestCase, skip_on_cudasim, skip_unless_cudasim, unittest

    def in_python_mode(on: bool) -> tuple[int, int]:
        with override(kernel_python=on):

            class Tests(ContextResettingTestCase):
                @skip_on_cudasim("compiled")
                def test_compiled(self) -> None:
                    warnings.warn("slow", weft.PerformanceWarning, stacklevel=1)

                @skip_unless_cudasim("not compiled")
                def test_python(self) -> None:
                    self.fail()

            result = unittest.TestResult()
            unittest.TestLoader().loadTestsFromTestCase(Tests).run(result)
            assert not result.errors
            return len(result.skipped), len(result.failures)

    assert (in_python_mode(False), in_python_mode(True)) == ((1, 0), (1, 1))
