"""Table that maps import names to the submodules of `weft.cuda`.

Invariant: a module in the table is one that weft itself uses, or a namespace of objects that weft uses.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from weft.dsl.cuda import array_creation as arrays
from weft.dsl.cuda import devices, errors, libdevice, random, sharing, streams
from weft.dsl.kernel.language import names, types
from weft.dsl.kernel.launch import hints
from weft.dsl.kernel.library import vector_types
from weft.runtime import DeviceNotFoundError, find_libdevice, probe
from weft.runtime.lazy_names import lazy_names

NEEDED = "no NVIDIA driver library was found"


def _raise_driver_not_found() -> None:
    found = probe()
    raise DeviceNotFoundError(found.message if found.status != "ok" else NEEDED)


def get_libdevice() -> str | None:
    """Return the path of libdevice's bitcode file, or None if the file is not installed."""
    found = find_libdevice()
    return None if found is None else str(found)


def _namespace(name: str, doc: str, members: dict[str, Any]) -> ModuleType:
    module = ModuleType(f"weft.cuda.{name}", doc)
    module.__dict__.update(members)
    return module


_ERRORS = {name: getattr(errors, name) for name in errors.__all__}
_DRIVER: dict[str, dict[str, Any]] = {
    "error": _ERRORS,
    "devices": {
        "gpus": devices.gpus,
        "get_context": devices.current_context,
        "require_context": devices.require_context,
        "reset": devices.close,
    },
    "devicearray": {
        "DeviceNDArray": arrays.DeviceNDArray,
        "DeviceRecord": arrays.DeviceRecord,
        "from_array_like": arrays.device_array_like,
        "from_record_like": lambda rec, stream=0, gpu_data=None: arrays.DeviceRecord(rec.dtype, stream),
        "is_cuda_ndarray": arrays.is_cuda_array,
        "auto_device": lambda obj, stream=0, copy=True, user_explicit=False: (
            arrays.to_device(obj, stream, copy),
            not arrays.is_cuda_array(obj),
        ),
    },
    "driver": {
        **_ERRORS,
        "Device": devices.Device,
        "Context": devices.Context,
        "Stream": streams.Stream,
        "Event": streams.Event,
        "event_elapsed_time": streams.event_elapsed_time,
        "MemoryInfo": devices.MemoryInfo,
        "IpcHandle": sharing.IpcArrayHandle,
        "profiling": devices.profiling,
        "profile_start": devices.profile_start,
        "profile_stop": devices.profile_stop,
        "_raise_driver_not_found": _raise_driver_not_found,
    },
    "runtime": {"runtime": devices.cuda_runtime, "get_version": devices.cuda_runtime.get_version},
    "nvvm": {"NvvmError": errors.NvvmError, "NvvmSupportError": errors.NvvmSupportError, "is_available": lambda: True},
    "libs": {"get_libdevice": get_libdevice},
}


# Modules whose names are loaded on first use, because they load the compiler or `unittest`: module -> file -> names.
_LOADED: dict[str, dict[str, str]] = {
    "compiler": {
        "weft.dsl.kernel": "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device"
    },
    "dispatcher": {"weft.dsl.cuda.dispatchers": "CUDADispatcher"},
    "testing": {
        "weft.dsl.cuda.testing": "CUDATestCase ContextResettingTestCase skip_on_cudasim skip_unless_cudasim unittest"
    },
}


def _lazy(name: str, files: dict[str, str]) -> ModuleType:
    names = " ".join(files.values()).split()
    module = _namespace(name, "Module that contains objects of weft under the names of Numba.", {"__all__": names})
    module.__dict__["__getattr__"] = lazy_names(module.__dict__, files)
    return module


def _make() -> dict[str, ModuleType]:
    made: dict[str, Any] = {
        "types": types,
        "errors": errors,
        "args": hints,
        "vector_types": vector_types,
        "libdevice": libdevice,
        "random": random,
        **{space: names.NAMES[space] for space in ("cg", "fp16", "bf16")},
    }
    inner = {
        name: _namespace(f"cudadrv.{name}", "Module that contains objects of weft.cuda under the names of Numba.", rows)
        for name, rows in _DRIVER.items()
    }
    made["cudadrv"] = _namespace(
        "cudadrv", "Module from which programs for Numba import errors and classes.", dict(inner)
    )
    made |= {f"cudadrv.{name}": module for name, module in inner.items()}
    made |= {name: inner[name] for name in ("devicearray", "devices", "driver", "nvvm")}  # also reachable as attributes
    made |= {name: _lazy(name, files) for name, files in _LOADED.items()}
    made["core"] = _namespace("core", "Module from which programs for Numba import errors.", {"errors": errors})
    made["core.errors"] = errors
    return made


MODULES: dict[str, ModuleType] = _make()

# Names of Numba CUDA that weft.cuda does not have, and the alternatives.
LACKING: dict[str, str] = {
    **dict.fromkeys(
        (
            "set_memory_manager",
            "BaseCUDAMemoryManager",
            "HostOnlyCUDAMemoryManager",
            "GetIpcHandleMixin",
            "MemoryPointer",
        ),
        "memory comes from weft's own stream-ordered pool, and other managers cannot be plugged in: share their memory "
        "by __cuda_array_interface__ (cuda.as_cuda_array)",
    ),
    "extending": "new types and functions for kernels are plain Python: dataclasses, and functions under @weft.device",
}
