"""The tests of numba-cuda 0.30.4 that fail on weft, with the reasons.

``numba_cuda`` reports them as "differs". Tests are listed by ``file::test``, or by the beginning of it.
"""

from __future__ import annotations

_PTX = "compares the text of PTX: weft has other instructions with the same results"
_TEXT = "compares the text of an error: weft has its own"
_MORE = "expects an error, where weft has a result"
_CPU = "needs a GPU: on the CPU device there is nothing to wait for, to copy, or to warn of"
_INTERNAL = "uses Numba's internal objects"
_CODE = "expects resources of GPU code (on the CPU device, LLVM removes what one thread needs not share)"
_OPTION = "expects Numba's treatment of unknown or obsolete options"

DIFFERENCES: dict[str, str] = {
    "cudadrv/test_array_attr::TestArrayAttr::test_ravel_stride": _MORE,
    "cudadrv/test_cuda_array_slicing::CudaArraySetting::test_sync": _CPU,
    "cudadrv/test_cuda_ndarray::TestArrayMethod::test_np_array_copy_false": _CPU,
    "cudadrv/test_cuda_ndarray::TestCudaNDArray::test_devicearray_contiguous": _MORE,
    "cudadrv/test_cuda_ndarray::TestCudaNDArray::test_devicearray_transpose_wrongdim": _MORE,
    "cudadrv/test_cuda_ndarray::TestCudaNDArray::test_stream_bind": "arrays belong to no stream: they may be used in any",
    "cudadrv/test_events::TestCudaEvent::test_event_elapsed_cuda_core_stream": "needs a driver",
    "cudapy/test_alignment::TestAlignment::test_record_alignment_error": _MORE,
    "cudapy/test_array::TestCudaArray::test_gpu_array_interleaved": _MORE,
    "cudapy/test_array_methods::TestCudaArrayMethods::test_array_copy": "a copy inside a kernel needs a shape known when it is compiled",
    "cudapy/test_atomics::TestCudaAtomics::test_atomic_add_double_global": _PTX,
    "cudapy/test_atomics::TestCudaAtomics::test_atomic_sub3": "passes an array of uint32 to a kernel declared for int32",
    "cudapy/test_cache_hints::TestCacheHints::test_bad_indices": _TEXT,
    "cudapy/test_cache_hints::TestCacheHints::test_unsupported_dtypes": _TEXT,
    "cudapy/test_casting::TestCasting": _PTX,
    "cudapy/test_compiler::TestCompile::test_compile_cabi_calling_device_function_returning_optional": "asks for LTO-IR",
    "cudapy/test_compiler::TestCompile::test_compile_jitted_subroutine": "asks for LTO-IR",
    "cudapy/test_compiler::TestCompile::test_numba_abi_has_env_global": _INTERNAL,
    "cudapy/test_compiler::TestCompileOnlyTests::test_compile_ptx_arch_specific": "asks for code of one architecture only, sm_90a",
    "cudapy/test_compiler::TestCompileWithLaunchBounds::test_launch_bounds_with_max_cluster_rank": _PTX,
    "cudapy/test_complex::TestCMath::test_log10": "allows one unit in the last place less than weft's bound",
    "cudapy/test_cooperative_groups::TestCudaCooperativeGroups::test_this_grid_is_cooperative": "`this_grid()` alone needs no cooperative launch",
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_consume": _CPU,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_from_dtype_caching": _INTERNAL,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_launch_sync": _CPU,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_negative_strided_copy_to_host": _MORE,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_ownership": _INTERNAL,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_produce": _CPU,
    "cudapy/test_cuda_array_interface::TestCudaArrayInterface::test_ufunc_arg": "expects the array of another library to have weft's methods",
    "cudapy/test_debug::TestDebugOutput::test_dump_assembly": "NUMBA_DUMP_ASSEMBLY is WEFT_DEBUG=asm",
    "cudapy/test_device_func::TestDeclareDevice::test_link_sources": "a file that numba-cuda's build makes",
    "cudapy/test_device_func::TestDeclareDevice": "linked functions take numbers and pointers, not arrays of Numba's layout",
    "cudapy/test_device_func::TestDeclareDeviceCABI": "cffi's from_buffer inside a kernel: pass the array itself",
    "cudapy/test_device_func::TestDeviceFunc::test_device_func_as_kernel_disallowed": _TEXT,
    "cudapy/test_device_func::TestDeviceFunc::test_inspect": _INTERNAL,
    "cudapy/test_dispatcher::TestDispatcher::test_explicit_signatures_ambiguous_resolution": _MORE,
    "cudapy/test_dispatcher::TestDispatcher::test_explicit_signatures_device": _TEXT,
    "cudapy/test_dispatcher::TestDispatcherKernelProperties::test_get_const_mem_unspecialized": _CODE,
    "cudapy/test_dispatcher::TestDispatcherKernelProperties::test_get_shared_mem_per_block_unspecialized": _CODE,
    "cudapy/test_dispatcher::TestLaunchBounds": "expects an error of the driver's own class",
    "cudapy/test_enums::EnumTest::test_int_enum_no_conversion": _INTERNAL,
    "cudapy/test_errors::TestJitErrors::test_typing_error": _TEXT,
    "cudapy/test_exception::TestException::test_exception": _TEXT,
    "cudapy/test_fastmath::TestFastMathOption::test_divf": _PTX,
    "cudapy/test_fastmath::TestFastMathOption::test_tanhf": "weft's fastmath has no approximate tanh",
    "cudapy/test_gufunc::TestCUDAGufunc::test_inefficient_launch_configuration": _CPU,
    "cudapy/test_gufunc::TestCUDAGufunc::test_invalid_flags": _OPTION,
    "cudapy/test_gufunc::TestCUDAGufunc::test_nopython_flag": _OPTION,
    "cudapy/test_gufunc::TestCUDAGufunc::test_not_supported_call_from_jit": _TEXT,
    "cudapy/test_gufunc_scalar::TestGUFuncScalar::test_gufunc_old_style_scalar_as_array": "gives an output of another shape",
    "cudapy/test_gufunc_scalar::TestGUFuncScalar::test_gufunc_scalar_cast": _MORE,
    "cudapy/test_inspect::TestInspect": _TEXT,
    "cudapy/test_intrinsics::TestCudaIntrinsic::test_nonliteral": _TEXT,
    "cudapy/test_ipc::TestIpcStaged::test_staged": "copies by addresses between devices, with driver calls made directly",
    "cudapy/test_lineinfo::TestCudaLineInfo::test_debug_and_lineinfo_warning": "weft's debug and lineinfo go together",
    "cudapy/test_lineinfo::TestCudaLineInfo::test_lineinfo_in_device_function": _PTX,
    "cudapy/test_lineinfo::TestCudaLineInfo::test_lineinfo_with_compile_internal": _INTERNAL,
    "cudapy/test_localmem::TestCudaLocalMem::test_invalid_string_dtype": _TEXT,
    "cudapy/test_localmem::TestCudaLocalMem": _INTERNAL,
    "cudapy/test_multiprocessing::TestMultiprocessing::test_fork": "expects an error in a forked process: on the CPU device it goes on",
    "cudapy/test_optimization::TestOptimization::test_device_opt": "expects a fused multiply-add: weft rounds twice without fastmath",
    "cudapy/test_print::TestPrint::test_bfloat16": "expects six digits behind the point",
    "cudapy/test_print::TestPrint::test_too_many_args": _MORE,
    "cudapy/test_recursion::TestSelfRecursion::test_growing_return_tuple": _TEXT,
    "cudapy/test_recursion::TestSelfRecursion::test_runaway": _TEXT,
    "cudapy/test_retrieve_autoconverted_arrays": _INTERNAL,
    "cudapy/test_sm::TestSharedMemory::test_invalid_array_type": _TEXT,
    "cudapy/test_sm_creation::TestSharedMemoryCreation::test_global_build_list": _MORE,
    "cudapy/test_sm_creation::TestSharedMemoryCreation::test_invalid": _TEXT,
    "cudapy/test_sm_creation::TestSharedMemoryCreation": _INTERNAL,
    "cudapy/test_ssa::TestSSA::test_unhandled_undefined": "reads a variable that was never given a value, which weft refuses",
    "cudapy/test_transpose::TestTranspose::test_transpose_view": "expects the strides of a copy of a view in Fortran order",
    "cudapy/test_userexc::TestUserExc::test_user_exception": _TEXT,
    "cudapy/test_vector_type::TestCudaVectorType::test_vector_type_alias": _INTERNAL,
    "cudapy/test_vectorize::TestCUDAVectorize::test_no_transfer_for_device_data": _CPU,
    "cudapy/test_vectorize_decor::TestVectorizeNopythonArg": _OPTION,
    "cudapy/test_vectorize_decor::TestVectorizeUnrecognizedArg": _OPTION,
    "cudapy/test_warning::TestWarnings::test_inefficient_launch_configuration": _CPU,
    "cudapy/test_warning::TestWarnings::test_pinned_warn_on_host_array": _CPU,
    "cudapy/test_warning::TestWarnings::test_warn_on_debug_and_opt": "weft's checked kernels are optimized",
    "cudapy/test_warning::TestWarnings::test_warn_on_host_array": _CPU,
}


def entry_for(name: str) -> str | None:
    """Return the longest key of `DIFFERENCES` that is a prefix of a test's name, or None."""
    return max((entry for entry in DIFFERENCES if name.startswith(entry)), key=len, default=None)
