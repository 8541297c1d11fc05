"""The Python array API standard's namespace and methods.

In: arrays of weft and of other libraries. Out: the namespace, its capabilities, and arrays on other devices.
Invariant: dtypes are NumPy's, and so are the answers about them.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, convert
from weft.dsl.functions import creation
from weft.runtime import Device, default_device, devices

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
API_VERSION = VERSIONS[-1]


def array_namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    """Return the module with the standard's functions. Raises ValueError for an unknown version."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API standard is not known; there are {', '.join(VERSIONS)}"
        )
    return sys.modules["weft"]


def to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
    """Copy the array to a device, as `Array.to`. An array that is already there is returned unchanged."""
    if stream is not None:
        raise ValueError("streams order themselves here: there is none to be given")
    return creation.to_device(self, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Convert another library's array to a weft array.

    Host memory is copied. GPU memory is used without a copy if the array has ``__cuda_array_interface__``.

    Examples
    --------
    >>> wf.from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    if isinstance(x, Array) or hasattr(x, "__cuda_array_interface__"):
        found = x if isinstance(x, Array) else convert(x)
        found = found.copy() if copy else found
    elif copy is False:
        raise BufferError("the memory of the host is not shared with other libraries: it has to be copied")
    else:
        found = convert(np.from_dlpack(x))
    return found if device is None else creation.to_device(found, device)


class NamespaceInfo:
    """The result of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Return the optional capabilities: boolean indexing, data-dependent shapes and the maximum number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of new arrays."""
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the default dtype of each kind."""
        return np.__array_namespace_info__().default_dtypes()  # type: ignore[return-value]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """Return the supported dtypes by name: all of them, or those of one kind."""
        return np.__array_namespace_info__().dtypes(kind=kind)

    def devices(self) -> list[Device]:
        """Return the devices that can hold arrays."""
        return devices()
