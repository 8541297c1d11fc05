"""The CUDA model with the names of Numba CUDA. ``from weft import cuda`` replaces ``from numba import cuda``.

Kernels run on the GPU. On a machine without a GPU, kernels are compiled for the CPU.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

from weft.dsl.cuda.array_creation import (
    as_cuda_array,
    device_array,
    device_array_like,
    from_cuda_array_interface,
    is_cuda_array,
    to_device,
)
from weft.dsl.cuda.devices import (
    close,
    cuda_error,
    current_context,
    defer_cleanup,
    detect,
    get_current_device,
    gpus,
    is_available,
    is_bfloat16_supported,
    is_float16_supported,
    is_fp8_supported,
    is_supported_version,
    list_devices,
    profile_start,
    profile_stop,
    profiling,
    require_context,
    select_device,
    synchronize,
)
from weft.dsl.cuda.devices import cuda_runtime as runtime
from weft.dsl.cuda.errors import CudaSupportError, KernelRuntimeError
from weft.dsl.cuda.host_arrays import (
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    pinned,
    pinned_array,
    pinned_array_like,
)
from weft.dsl.cuda.modules import LACKING as _LACKING
from weft.dsl.cuda.modules import MODULES as _MODULES
from weft.dsl.cuda.sharing import open_ipc_array
from weft.dsl.cuda.streams import (
    default_stream,
    event,
    event_elapsed_time,
    external_stream,
    legacy_default_stream,
    per_thread_default_stream,
    stream,
)
from weft.dsl.kernel.language import types as _types
from weft.dsl.kernel.language.names import NAMES as _NAMES
from weft.dsl.kernel.language.types import from_dtype, typeof
from weft.dsl.kernel.launch.hints import In, InOut, Out
from weft.dsl.kernel.library.vector_types import VECTOR_ALIASES as _VECTOR_ALIASES
from weft.dsl.kernel.library.vector_types import VECTOR_TYPES as _VECTOR_TYPES
from weft.runtime.lazy_names import unquote_annotations as _unquote_annotations

for _name in [*globals()]:
    _unquote_annotations(globals()[_name])

# the types, the names of the CUDA model, and the vector types
globals().update({_name: _object for _name, _object in vars(_types).items() if isinstance(_object, _types.Type)})
globals().update({_name: _object for _name, _object in _NAMES.items() if "." not in _name})
globals().update(_VECTOR_TYPES)
globals().update(_VECTOR_ALIASES)
for _name, _module in _MODULES.items():
    _sys.modules[f"{__name__}.{_name}"] = _module
    if "." not in _name:
        globals()[_name] = _module

# names of the kernel language, loaded with the compiler on first use
_COMPILED = frozenset(
    {
        "Archive",
        "CUSource",
        "Cubin",
        "Fatbin",
        "LTOIR",
        "LinkableCode",
        "Object",
        "PTXSource",
        "Reduce",
        "compile",
        "compile_all",
        "compile_for_current_device",
        "compile_ptx",
        "compile_ptx_for_current_device",
        "declare_device",
        "jit",
        "literal_unroll",
        "reduce",
        "texture",
    }
)
_DECORATORS = frozenset({"guvectorize", "vectorize"})  # decorators with Numba's type rules


def __getattr__(name: str) -> _Any:
    if name in _COMPILED:
        return _unquote_annotations(getattr(_import_module("weft.dsl.kernel"), name))
    if name in _DECORATORS:
        return getattr(_import_module("weft.dsl.kernel.launch.decorators"), name)
    if name == "bfloat16":  # (loads ml_dtypes)
        return _types.bfloat16
    if name in _LACKING:
        raise AttributeError(f"weft.cuda has no {name!r}: {_LACKING[name]}")
    raise AttributeError(f"module 'weft.cuda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(
        {
            *_COMPILED,
            *_DECORATORS,
            *(_name for _name in globals() if not _name.startswith("_") and _name != "annotations"),
        }
    )


__all__ = [
    "CudaSupportError",
    "In",
    "InOut",
    "KernelRuntimeError",
    "Out",
    "as_cuda_array",
    "close",
    "cuda_error",
    "current_context",
    "default_stream",
    "defer_cleanup",
    "detect",
    "device_array",
    "device_array_like",
    "event",
    "event_elapsed_time",
    "external_stream",
    "from_cuda_array_interface",
    "from_dtype",
    "get_current_device",
    "gpus",
    "is_available",
    "is_bfloat16_supported",
    "is_cuda_array",
    "is_float16_supported",
    "is_fp8_supported",
    "is_supported_version",
    "legacy_default_stream",
    "list_devices",
    "managed_array",
    "mapped",
    "mapped_array",
    "mapped_array_like",
    "open_ipc_array",
    "per_thread_default_stream",
    "pinned",
    "pinned_array",
    "pinned_array_like",
    "profile_start",
    "profile_stop",
    "profiling",
    "require_context",
    "runtime",
    "select_device",
    "stream",
    "synchronize",
    "to_device",
    "typeof",
]
