"""Namespace and methods of the Python array API standard.

In: arrays of weft and of other libraries. Out: the namespace, its capabilities, and arrays on other devices. Invariant:
dtypes and functions of dtypes are NumPy's.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, convert
from weft.dsl.arrays.shared_arrays import import_memory
from weft.dsl.functions import creation
from weft.dsl.immediate.callers import sees_numpy
from weft.runtime import Device, default_device, devices, get_device

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
API_VERSION = VERSIONS[-1]
# Module of array-api-compat, or of a library's copy of array-api-compat, that finds namespaces. array-api-compat wraps
# NumPy's namespace.
_WRAPPERS = ".common._helpers"


def array_namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    """Return the namespace of the array API standard, or raise ValueError for an unknown version.

    Under `weft run`, libraries, and program modules that do not import weft, get the namespace of NumPy's arrays, since
    they may mix NumPy arrays and weft arrays.
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API standard is not known; there are {', '.join(VERSIONS)}"
        )
    if not sees_numpy(2):
        return sys.modules["weft"]
    package, found, _ = str(sys._getframe(1).f_globals.get("__name__")).partition(_WRAPPERS)
    return import_module(f"{package}.numpy") if found else np


def to_device(self: Array, device: Device, /, *, stream: object = None) -> Array:
    """Return the array on a device, as a copy unless the array is already there."""
    if stream is not None:
        raise ValueError("streams order themselves here: there is none to be given")
    return creation.to_device(self, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Convert an array of another library to a weft array through the DLPack protocol.

    If the input is in host memory and the result is on the CPU device, the two share memory if possible, unless `copy`
    is true. GPU memory is used without a copy if the input has ``__cuda_array_interface__``, unless `copy` is true.
    Raises BufferError if `copy` is false and a copy is necessary.

    Examples
    --------
    >>> wf.from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    if isinstance(x, Array) or hasattr(x, "__cuda_array_interface__"):
        found = x if isinstance(x, Array) else creation.asarray(x, copy=copy or None)
        if copy is False and device is not None and found.device is not get_device(device):
            raise BufferError(f"this memory cannot be shared with device {device}: it has to be copied")
        found = x.copy() if copy and found is x else found
    else:
        values = np.from_dlpack(x)
        target = default_device() if device is None else get_device(device)
        shared = import_memory(values) if not copy and target.name == "cpu" else None
        if shared is None and copy is False:
            raise BufferError("this memory cannot be shared: it has to be copied")
        found = convert(values, target) if shared is None else shared
    return found if device is None else creation.to_device(found, device)


class NamespaceInfo:
    """The object that ``__array_namespace_info__()`` returns."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities that the array API standard defines, by name."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of new arrays."""
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the default dtype of each kind, such as "integral"."""
        return np.__array_namespace_info__().default_dtypes()  # type: ignore[return-value]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Return the supported dtypes of one kind, or of all kinds, by name."""
        return np.__array_namespace_info__().dtypes(kind=kind)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that can hold arrays, including an emulated device if it is the default."""
        return tuple(dict.fromkeys((*devices(), default_device())))
