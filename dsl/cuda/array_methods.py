"""Methods of Numba's device arrays, added to `Array` when `weft.cuda` is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.codegen import OPS
from weft.dsl.arrays.array import Array, whole, wrap
from weft.dsl.cuda.array_creation import copy_to_device, copy_to_host
from weft.dsl.cuda.memory_array import DeviceAddress, MemoryArray
from weft.dsl.cuda.sharing import get_ipc_handle
from weft.dsl.kernel.language.types import layout_of
from weft.fusion import exclusive, realise


def is_c_contiguous(self: Array) -> bool:
    """Return whether the elements are C-contiguous."""
    return layout_of(self.shape, self.strides, self.itemsize) == "C"


def is_f_contiguous(self: Array) -> bool:
    """Return whether the elements are Fortran-contiguous."""
    return layout_of(self.shape[::-1], self.strides[::-1], self.itemsize) == "C"


def split(self: Array, section: int, stream: Any = 0) -> Iterator[Array]:
    """Return views of `section` elements each of a 1-D array. The last view may be shorter."""
    if self.ndim != 1:
        raise ValueError(f"only arrays of one axis are split, not of {self.ndim}")
    return (self[k : k + section] for k in range(0, self.size, section))


def bind(self: Array, stream: Any = 0) -> Array:
    """Return another array over the same storage. `stream` is ignored, since arrays may be used in any stream."""
    return wrap(self._storage, self._view)


def getitem(self: Array, item: Any, stream: Any = 0) -> Any:
    """Return ``self[item]``."""
    return self[item]


def setitem(self: Array, key: Any, value: Any, stream: Any = 0) -> None:
    """Assign ``self[key] = value``."""
    self[key] = value


_own_view = Array.view


def view(self: Array, dtype: Any = None, type: Any = None) -> Any:
    """Return a view, as `numpy.ndarray.view`. Another dtype gives a `MemoryArray` over the same memory."""
    if dtype is not None and (
        np.dtype(dtype) == object or not np.dtype(dtype).isnative
    ):  # a class; what no kernel takes
        return _own_view(self, dtype, type)
    if dtype is None or np.dtype(dtype) == self.dtype:
        return wrap(self._storage, self._view)
    shape, strides, offset = self._view or whole(self._storage)
    size = self.itemsize
    return MemoryArray(self._storage, self.dtype, shape, tuple(s * size for s in strides), offset * size).view(dtype)


def _interface(self: Any) -> dict[str, Any]:
    """Return the CUDA array interface, version 3. Evaluates the array. Raises AttributeError on the CPU."""
    export = getattr(self.device, "exported_stream", None)
    if export is None:
        raise AttributeError(f"__cuda_array_interface__ is for arrays on a GPU; this one is on {self.device.name}")
    if isinstance(self, Array):
        storage, offset = self._storage, (self._view or whole(self._storage))[2] * self.itemsize
    else:
        storage, offset = self.storage, self.offset
    address = exclusive(storage).address + offset  # the receiver of the address may write there
    return {
        "shape": self.shape,
        "strides": None if self.is_c_contiguous() else self.strides,
        "data": (address if self.size else 0, False),
        "typestr": self.dtype.str,
        "descr": self.dtype.descr,
        "stream": export(),
        "version": 3,
    }


METHODS: dict[str, Any] = {
    "copy_to_host": copy_to_host,
    "copy_to_device": copy_to_device,
    "is_c_contiguous": is_c_contiguous,
    "is_f_contiguous": is_f_contiguous,
    "split": split,
    "bind": bind,
    "getitem": getitem,
    "setitem": setitem,
    "view": view,
    "get_ipc_handle": get_ipc_handle,
    "device_ctypes_pointer": property(
        lambda self: DeviceAddress(realise(self._storage).address + (self._view or (0, 0, 0))[2] * self.itemsize, self),
        doc="Where the first element lies.",
    ),
    "gpu_data": property(lambda self: self.device_ctypes_pointer, doc="Where the first element lies."),
    "stream": property(lambda self: 0, doc="0: arrays belong to no stream, and may be used in any."),
    "alloc_size": property(lambda self: self.nbytes, doc="Bytes of the elements."),
    "__cuda_array_interface__": property(_interface),
}


def _values(self: MemoryArray, wanted: str) -> Array:
    """Return the elements as a weft array for arithmetic. Raises AttributeError for arrays of records."""
    if self.dtype.names is not None or not hasattr(Array, wanted):
        raise AttributeError(f"a {type(self).__name__} of {self.dtype} has no attribute {wanted!r}")
    return self.copy()


def _of_values(self: MemoryArray, name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(_values(self, name), name)


def _operator(name: str) -> Any:
    def method(self: MemoryArray, *others: Any) -> Any:
        return getattr(_values(self, name), name)(*others)

    return method


def install() -> None:
    """Attach these methods to `Array`, and the shared ones to `MemoryArray`.

    For operators and other attributes of `Array`, a `MemoryArray` copies its elements to an `Array`.
    """
    for name, method in METHODS.items():
        setattr(Array, name, method)
    for row in OPS.values():
        for name in (f"__{row.dunder}__", f"__r{row.dunder}__"):
            if row.dunder and name in vars(Array):
                setattr(MemoryArray, name, _operator(name))
    MemoryArray.__getattr__ = _of_values  # type: ignore[attr-defined]
    for name in ("get_ipc_handle", "__cuda_array_interface__"):
        setattr(MemoryArray, name, METHODS[name])


install()
