"""Methods of Numba's device arrays, added to `Array` when `weft.cuda` is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import OPS, is_supported
from weft.dsl.arrays.array import Array, whole, wrap
from weft.dsl.cuda.array_creation import copy_to_device, copy_to_host
from weft.dsl.cuda.memory_array import DeviceArrayMethods, MemoryArray, lacks_arithmetic, storage_of
from weft.dsl.cuda.sharing import get_ipc_handle
from weft.fusion import exclusive


def bind(self: Array, stream: object = 0) -> Array:
    """Return another array object with the same storage.

    `stream` is ignored, because arrays can be used in any stream.

    Examples
    --------
    >>> x = cuda.to_device(np.arange(3))
    >>> x.bind(cuda.stream()).copy_to_host()
    array([0, 1, 2])
    """
    return wrap(self._storage, self._view)


_own_view = Array.view


def view(self: Array, dtype: Any = None, type: Any = None) -> Any:
    """Return a view, like `numpy.ndarray.view`.

    A view with another dtype is an `Array` if the array is on the CPU and not empty, and weft arrays support the dtype.
    Otherwise, it is a `MemoryArray` or, for a dtype in another byte order, a NumPy array.

    Examples
    --------
    >>> x = cuda.to_device(np.float32([1, 2]))
    >>> x.view(np.int32).copy_to_host()
    array([1065353216, 1073741824], dtype=int32)
    """
    if (
        dtype is None
        or type is not None
        or np.dtype(dtype) in (object, self.dtype)
        or not np.dtype(dtype).isnative
        or (self.device.name == "cpu" and self.size and is_supported(np.dtype(dtype)))
    ):
        # (a class, the same dtype, one that no kernel accepts, or a view on the CPU that can be an `Array`)
        return _own_view(self, dtype, type)
    shape, strides, offset = self._view or whole(self._storage)
    size = self.itemsize
    return MemoryArray(self._storage, self.dtype, shape, tuple(s * size for s in strides), offset * size).view(dtype)


def _interface(self: Any) -> dict[str, Any]:
    """Implement ``__cuda_array_interface__`` for an array, after evaluating it. Raises AttributeError on the CPU."""
    if self.device.exported_stream() is None:
        raise AttributeError(f"__cuda_array_interface__ is for arrays on a GPU; this one is on {self.device.name}")
    storage, offset = storage_of(self)
    address = exclusive(storage).address + offset  # the caller may write to this address
    stream = self.device.exported_stream()  # (waits for the other streams, in which the array may have been evaluated)
    return {
        "shape": self.shape,
        "strides": None if self.is_c_contiguous() else self.strides,
        "data": (address if self.size else 0, False),
        "typestr": self.dtype.str,
        "descr": self.dtype.descr,
        "stream": stream,
        "version": 3,
    }


METHODS: dict[str, Any] = {
    **{name: method for name, method in vars(DeviceArrayMethods).items() if not name.startswith("_")},
    "copy_to_host": copy_to_host,
    "copy_to_device": copy_to_device,
    "bind": bind,
    "view": view,
    "get_ipc_handle": get_ipc_handle,
    "__cuda_array_interface__": property(_interface),
}


def _of_values(self: MemoryArray, name: str) -> Any:
    """Copy a `MemoryArray` to an `Array`, and return an attribute of the copy, which only `Array` has.

    Raises AttributeError for arrays of records, dates or text, and for unknown names.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    if lacks_arithmetic(self.dtype) or not hasattr(Array, name):
        raise AttributeError(f"a {type(self).__name__} of {self.dtype} has no attribute {name!r}")
    return getattr(self.copy(), name)


def _operator(name: str) -> Any:
    def method(self: MemoryArray, *others: Any) -> Any:
        if lacks_arithmetic(self.dtype):
            raise TypeError(f"a device array of {self.dtype} has no arithmetic: call copy_to_host first")
        return getattr(self.copy(), name)(*others)

    return method


def install() -> None:
    """Add the methods of Numba's device arrays to `Array` and, where missing, to `MemoryArray`.

    For operators and other attributes of `Array`, a `MemoryArray` of numbers copies its elements to an `Array`.
    """
    for name, method in METHODS.items():
        setattr(Array, name, method)
    for definition in OPS.values():
        for name in (f"__{definition.dunder}__", f"__r{definition.dunder}__"):
            if definition.dunder and name in vars(Array):
                setattr(MemoryArray, name, _operator(name))
    MemoryArray.__getattr__ = _of_values  # type: ignore[attr-defined]
    for name in ("get_ipc_handle", "__cuda_array_interface__"):
        setattr(MemoryArray, name, METHODS[name])


install()
