"""User-written kernels: the kernel language, the compiler, and launches."""

from __future__ import annotations

from weft.runtime.lazy_names import lazy_names

__getattr__ = lazy_names(
    globals(),
    {
        "weft.dsl.kernel.language.device_function": "DeviceFunction device",
        "weft.dsl.kernel.language.kernel_errors": (
            "KernelAttributeError KernelError KernelNameError KernelSyntaxError KernelTypeError LaunchError"
        ),
        "weft.dsl.kernel.language.numba_objects": "from_numba",
        "weft.dsl.kernel.launch.ahead": (
            "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device stages_of"
        ),
        "weft.dsl.kernel.launch.decorators": "jit literal_unroll",
        "weft.dsl.kernel.launch.dispatcher": "KernelDispatcher kernel make_options",
        "weft.dsl.kernel.library.generalized": "GeneralizedFunction guvectorize",
        "weft.dsl.kernel.library.linking": (
            "Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource declare_device link_digests"
        ),
        "weft.dsl.kernel.library.reduction": "Reduce reduce",
        "weft.dsl.kernel.library.textures": "texture",
        "weft.dsl.kernel.library.vectorized": "VectorFunction vectorize",
        "weft.dsl.kernel.python_mode.simulate": "run_python",
        "weft.dsl.kernel.sanitizer.sanitized_launch": "SanitizedLaunch SanitizerError sanitize",
    },
)
