"""Memory that CPU arrays share with other code through NumPy, DLPack and the buffer protocol.

In: a weft array, or memory of another library. Out: a NumPy array over a weft array's memory, or a weft array over the
other library's memory. Invariant: both sides see each other's writes, in the order of the program
(`fusion/record/shared_memory.py`). No memory is shared during an operation or an evaluation, since sharing would end
the recording.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from weft.codegen import is_supported
from weft.dsl.arrays.array import VALUE_READS, Array, ReadOnly, Scalar, is_writable, layout, wrap, wrap_view
from weft.dsl.arrays.foreign_memory import READ_ONLY, storage_at_address
from weft.dsl.arrays.parts import Part, owner_of
from weft.dsl.immediate.host_values import is_free, values_of
from weft.fusion import Storage, export_memory, exporter_of, keep_shared, recording, share, share_memory
from weft.runtime import IMMEDIATE, Buffer, address_of, default_device, get_device

_CPU_DEVICE = (1, 0)  # DLPack's device type and device number


def shared_array(array: Array) -> np.ndarray | None:
    """Return a NumPy array over an array's memory, or None if the array cannot share its memory."""
    if isinstance(array, Part):
        owner = shared_array(owner_of(array))
        return None if owner is None else getattr(owner, array._name)
    if type(array) is Array and (device := array._device) is not None and device.name == "cpu":
        VALUE_READS[0] += 1
        array._exported = True
        return array._values[...]  # type: ignore[index]
    if type(array) is Scalar or _is_busy():
        return None
    storage = array._storage
    if storage.device.name != "cpu" or 0 in array.shape:
        return None
    VALUE_READS[0] += 1
    exporter = _share_small(array) if storage.host is None else exporter_of(storage)
    if exporter is not None:
        return _over(array, exporter)
    shape, strides, offset = layout(array)
    width = storage.dtype.itemsize
    values = share_memory(storage).array(storage.dtype, shape, tuple([s * width for s in strides]), offset * width)
    values.flags.writeable = is_writable(array)
    return values


def _share_small(array: Array) -> np.ndarray | None:
    """Share the memory of a small array as a NumPy array, or return None for other arrays."""
    buffer = array._storage.buffer
    values = None if buffer is None else buffer.values
    del buffer  # (`is_free` counts references)
    if values is None or values.size > IMMEDIATE[0] or not is_free(array):
        return None
    if not (values.flags.owndata and values.flags.carray):
        return None
    return export_memory(array._storage, values)


def _over(array: Array, exporter: np.ndarray) -> np.ndarray:
    """Return a NumPy array over an array's memory, with `exporter` as its base."""
    own = values_of(array)
    assert own is not None
    offset = 0 if array._view is None else array._view[2] * own.itemsize
    values: np.ndarray = np.ndarray(own.shape, own.dtype, exporter, offset, own.strides)  # type: ignore[arg-type]
    if type(array) is ReadOnly or not own.flags.writeable:
        values.flags.writeable = False
    return values


def _sharing_storage(array: Array) -> Storage:
    """Return the storage whose memory an array shares. For a `Part`, this is the storage of the complex array."""
    return (array._owner if isinstance(array, Part) else array)._storage


def _keep_shared(array: Array) -> None:
    """Mark an array's memory as shared for as long as its storage exists."""
    storage = _sharing_storage(array)
    keep_shared(storage, share_memory(storage))


def _is_busy() -> bool:
    """Return whether this thread is executing an operation, an evaluation or a garbage collection."""
    epoch = recording.epoch
    return recording.held or recording.interrupted is not None or (epoch is not None and bool(epoch.stage))


def exported(array: Array) -> np.ndarray:
    """Return a NumPy array over an array's memory, or the result of `Array.numpy` if the memory cannot be shared."""
    values = shared_array(array)
    return array.numpy() if values is None else values


def as_numpy(self: Array, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """Implement ``__array__``.

    The result shares the array's memory if possible, unless a copy or a cast is requested.
    """
    other = dtype is not None and np.dtype(dtype) != self.dtype
    values = None if copy or other else shared_array(self)
    if values is not None:
        return values
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    own = values_of(self)
    if own is None:
        own = self.numpy()
    else:
        VALUE_READS[0] += 1
    return own.astype(dtype) if other else own.copy() if copy or own.flags.writeable else own


def export_dlpack(
    self: Array, *, stream: object = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """Implement ``__dlpack__``. CPU memory is shared if possible. GPU arrays are copied to the CPU."""
    if dl_device is not None and tuple(dl_device) != _CPU_DEVICE:
        raise BufferError(f"arrays are exported to the CPU, {_CPU_DEVICE}, not to the device {dl_device}")
    values = None if copy else shared_array(self)
    if values is not None and not values.flags.writeable and not copy and max_version is None:
        values = None  # (the unversioned protocol has no read-only arrays)
    if values is None:
        if copy is False and self.size and type(self) is not Scalar:  # (a scalar or an empty array never changes)
            raise BufferError("this array cannot be exported without a copy")
        values = np.array(self.numpy())
    return values.__dlpack__() if max_version is None else values.__dlpack__(max_version=max_version)


def import_memory(values: np.ndarray) -> Array | None:
    """Return a weft array over the memory of a NumPy array, or None if that is not possible."""
    dtype = values.dtype
    if not values.size or not dtype.isnative or not is_supported(dtype) or address_of(values) % dtype.itemsize:
        return None
    if any(s < 0 or s % dtype.itemsize for s in values.strides):
        return None
    storage, view = storage_at_address(
        get_device("cpu"), address_of(values), dtype, values.shape, values.strides, values
    )
    keep_shared(storage, share(storage, storage.buffer))  # type: ignore[arg-type]
    if not values.flags.writeable:
        READ_ONLY[storage] = None
    return wrap(storage, view, Array if values.flags.writeable else ReadOnly)


def share_buffer(values: np.ndarray) -> Array | np.ndarray | None:
    """Return a weft array over the memory of a writable buffer, such as a `bytearray`.

    `values` is NumPy's array over the buffer. If weft cannot use the memory, for example because the memory is not
    aligned, return `values` itself. Return None if the memory is not that of a buffer, or if only a copy is possible.
    """
    flags = values.flags
    is_buffer = values.base is not None and not isinstance(values.base, np.ndarray)
    if not is_buffer or not flags.c_contiguous or not flags.writeable or _is_busy() or default_device().name != "cpu":
        return None
    shared = import_memory(values)
    return values if shared is None else shared


def view_as(array: Array, change: Callable[[np.ndarray], np.ndarray]) -> Array | None:
    """Call `change` to create a NumPy view of a weft array. Return the view as a weft array, or None if weft cannot share the view's memory."""
    seen = shared_array(array)
    if seen is None:
        return None
    values = change(seen)
    dtype, owner = values.dtype, share_memory(_sharing_storage(array))
    memory, width = owner.buffer, dtype.itemsize
    start = address_of(values) - memory.address
    if start % width or any(s % width for s in values.strides):
        return None
    count = memory.nbytes // width
    buffer = Buffer(memory.device, memory.address, count * width, owner)
    storage = Storage((count,), dtype, memory.device, buffer)
    keep_shared(storage, share(storage, buffer))
    if _sharing_storage(array) in READ_ONLY:
        READ_ONLY[storage] = None
    view = values.shape, tuple(s // width for s in values.strides), start // width
    return wrap_view(storage, view, Array if is_writable(array) else ReadOnly)


def interface(self: Array) -> dict[str, Any]:
    """Implement ``__array_interface__``.

    The memory remains shared, since the address may be used at any later time.

    Raises AttributeError for bfloat16, and for arrays that cannot share their memory, such as scalars and GPU arrays.
    """
    frame = sys._getframe(1)
    if _failures and (kept := _failures.pop((id(self), id(frame), frame.f_lasti), None)) is not None:
        raise kept
    values = None if self.dtype.kind == "V" else shared_array(self)
    if values is None:
        raise AttributeError("__array_interface__ is for arrays in memory of the CPU")
    _keep_shared(self)
    return values.__array_interface__


def pointer(self: Array) -> Any:
    """Return an object like `numpy.ndarray.ctypes`, which passes the evaluated elements to C code.

    The memory of the array remains shared, because weft cannot determine when C code no longer uses the address.
    """
    values = shared_array(self)
    if values is None:
        return self.numpy().ctypes
    _keep_shared(self)
    return values.ctypes


# -- the buffer protocol --------------------------------------------------------------------

_WRITABLE, _STRIDES = 1, 0x18  # of a request: `inspect.BufferFlags`


def get_buffer(self: Array, flags: int, /) -> memoryview:
    """Implement the buffer protocol in Python 3.12 and later. Raises BufferError for an unsupported request."""
    try:
        return _requested(self, flags).data
    except BaseException as error:
        _keep_failure(self, sys._getframe(1), error)
        raise


def release_buffer(self: Array, view: memoryview, /) -> None:
    """Do nothing when a buffer is released. Without this method, `numpy.frombuffer` does not keep the buffer alive."""


def _requested(array: Array, flags: int) -> np.ndarray:
    """Return the NumPy array that answers a buffer request.

    A reader that does not support strides gets an array in C order, copied if necessary. Raises BufferError for a
    request to write to a read-only array.
    """
    values = exported(array)
    if flags & _WRITABLE and not values.flags.writeable:
        raise BufferError("this array is read-only")
    if flags & _STRIDES != _STRIDES and not values.flags.c_contiguous and not flags & _WRITABLE:
        values = np.ascontiguousarray(values)
    return values


_BUFFER_OF_TYPE = 160  # offset of `tp_as_buffer` in a type object of CPython's 64-bit ABI


def _fill_buffer(array: Any, view: int, flags: int) -> int:
    """Fill a ``Py_buffer`` structure for a buffer request in Python 3.11. Return 0, or -1 on failure."""
    try:
        return int(_GET(_requested(array, flags), view, flags))
    except BaseException as error:  # (an exception that leaves a callback is lost, and the result is undefined)
        _keep_failure(array, sys._getframe(1), error)
        return -1


# NumPy ignores errors of the buffer protocol, and then reads `__array_interface__`, which raises the error kept here.
# The key is the array's identity and the caller's frame and instruction. At most one error is kept.
_failures: dict[tuple[int, int, int], BaseException] = {}


def _keep_failure(array: Array, frame: FrameType, error: BaseException) -> None:
    """Store an array's evaluation error, so that `interface` can raise it after the buffer request.

    All other errors only mean that the array cannot be a buffer.
    """
    if not isinstance(error, (BufferError, ValueError, TypeError)):
        _failures.clear()
        _failures[id(array), id(frame), frame.f_lasti] = error.with_traceback(None)


_GET = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_FILL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(_fill_buffer)
_RELEASE = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(lambda array, view: None)


def install_buffer(*classes: type) -> None:
    """Add the buffer protocol to array classes in Python 3.11, which has no ``__buffer__`` method."""
    if sys.version_info >= (3, 12):
        return
    for kind in classes:
        table = ctypes.c_int64.from_address(id(kind) + _BUFFER_OF_TYPE).value
        for k, function in enumerate((_FILL, _RELEASE)):
            ctypes.c_void_p.from_address(table + 8 * k).value = ctypes.cast(function, ctypes.c_void_p).value
