"""Arrays of any dtype, including records and dates, that can be copied and passed to kernels.

In: a storage, and the interpretation of its bytes. Out: a `MemoryArray`, which kernels accept and the host can copy.
Invariant: a `MemoryArray` refers to the storage, not to the storage's current memory. After any write, it therefore
contains the same bytes as weft arrays over the same storage.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.dsl.arrays.array import Array, convert, whole
from weft.dsl.arrays.foreign_memory import extent_of
from weft.dsl.cuda.streams import as_queue
from weft.dsl.kernel.language.types import ArrayType, RecordType, Type, from_dtype, is_packed, layout_of
from weft.fusion import Storage, exclusive, realise
from weft.runtime import Buffer, Device

BYTE = np.dtype(np.uint8)


def lacks_arithmetic(dtype: np.dtype) -> bool:
    """Return whether `dtype` is a dtype of records, dates or text. Only user-written kernels compute with them."""
    return dtype.names is not None or dtype.kind in "mMSU"


class DeviceAddress(ctypes.c_void_p):
    """The address of an array in device memory, which can be compared with other addresses."""

    def __init__(self, address: int, array: Any = None) -> None:
        super().__init__(address)
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ctypes.c_void_p) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class DeviceArrayMethods:
    """Methods of Numba's device arrays, shared by `Array` and `MemoryArray`."""

    __slots__ = ()

    def is_c_contiguous(self: Any) -> bool:
        """Return whether the elements are C-contiguous.

        Examples
        --------
        >>> cuda.to_device(np.ones((2, 3))).is_c_contiguous()
        True
        """
        return is_packed(self.shape, self.strides, self.itemsize)

    def is_f_contiguous(self: Any) -> bool:
        """Return whether the elements are Fortran-contiguous.

        Examples
        --------
        >>> cuda.to_device(np.ones((2, 3))).is_f_contiguous()
        False
        """
        return is_packed(self.shape[::-1], self.strides[::-1], self.itemsize)

    def split(self: Any, section: int, stream: object = 0) -> Iterator[Any]:
        """Split a 1-D array into views of `section` elements each.

        The last view may be shorter.

        Examples
        --------
        >>> [part.size for part in cuda.to_device(np.arange(5)).split(2)]
        [2, 2, 1]
        """
        if self.ndim != 1:
            raise ValueError(f"only arrays of one axis are split, not of {self.ndim}")
        if section < 1:
            raise ValueError(f"the views have at least 1 element, not {section}")
        return (self[k : k + section] for k in range(0, self.size, section))

    def getitem(self: Any, item: object, stream: object = 0) -> Any:
        """Return ``self[item]``, like the method of Numba's device arrays.

        Examples
        --------
        >>> cuda.to_device(np.arange(3)).getitem(slice(1, 3))
        array([1, 2])
        """
        return self[item]

    def setitem(self: Any, key: Any, value: Any, stream: Any = 0) -> None:
        """Assign ``self[key] = value``, like the method of Numba's device arrays.

        Examples
        --------
        >>> x = cuda.to_device(np.arange(3))
        >>> x.setitem(0, 9)
        >>> x
        array([9, 1, 2])
        """
        self[key] = value

    @property
    def device_ctypes_pointer(self) -> DeviceAddress:
        """The address of the first element in the device's memory.

        Examples
        --------
        >>> cuda.to_device(np.arange(3)).device_ctypes_pointer.value > 0
        True
        """
        storage, offset = storage_of(self)
        return DeviceAddress(exclusive(storage).address + offset, self)  # the caller may write to this address

    @property
    def gpu_data(self) -> DeviceAddress:
        """The address of the first element in the device's memory, like `device_ctypes_pointer`.

        Examples
        --------
        >>> cuda.to_device(np.arange(3)).gpu_data.value > 0
        True
        """
        return self.device_ctypes_pointer

    @property
    def stream(self) -> int:
        """Return 0, the default stream, because arrays have no stream of their own. Any stream can use an array.

        Examples
        --------
        >>> cuda.to_device(np.arange(3)).stream
        0
        """
        return 0

    @property
    def alloc_size(self: Any) -> int:
        """Total size of the elements in bytes.

        Examples
        --------
        >>> cuda.to_device(np.arange(3)).alloc_size
        24
        """
        return self.nbytes  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class MemoryArray(DeviceArrayMethods):
    """An array of any dtype that can be copied and passed to kernels.

    A 0-d array of records is a single record. Arithmetic on an array of numbers uses a copy of the array
    (`array_methods`). Arrays of records, dates and text have no arithmetic.

    Attributes
    ----------
    storage : Storage
    dtype : numpy.dtype
    shape, strides : tuple of int
        Strides in bytes.
    offset : int
        Byte offset of the first element in the storage.
    """

    storage: Storage
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def make(device: Device, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> MemoryArray:
        """Return an uninitialized array in new memory on a device."""
        nbytes = extent_of(shape, strides, dtype.itemsize)
        buffer = device.allocate(nbytes)
        buffer.unwritten = True
        return MemoryArray(Storage((nbytes,), BYTE, device, buffer), dtype, shape, strides)

    @property
    def kernel_type(self) -> Type:
        """The type of this array as an argument of a kernel."""
        kind = from_dtype(self.dtype)
        if not self.shape and isinstance(kind, RecordType):
            return kind
        return ArrayType(kind, self.ndim, layout_of(self.shape, self.strides, self.dtype.itemsize))

    @property
    def device(self) -> Device:
        """Device that holds the array."""
        return self.storage.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Total size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    _numba_type_ = kernel_type

    @property
    def T(self) -> MemoryArray:
        """View of the array with the axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single record")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<{self.dtype} array of shape {self.shape} on {self.device.name}>"

    # -- views ----------------------------------------------------------------------------------

    def _viewed(self, make_view: Callable[[np.ndarray], np.ndarray]) -> MemoryArray:
        """Return a view of this array.

        The given function specifies the view: it returns the corresponding view of a NumPy array.

        The function must not access the memory of the NumPy array, which has the layout of this array.
        """
        shadow = as_strided(np.empty(1, self.dtype), self.shape, self.strides)
        view = make_view(shadow)
        moved = view.__array_interface__["data"][0] - shadow.__array_interface__["data"][0]
        return MemoryArray(self.storage, view.dtype, view.shape, view.strides, self.offset + moved)

    def _at(self, key: Any) -> MemoryArray:
        if not (isinstance(key, str) or (isinstance(key, list) and all(isinstance(name, str) for name in key))):
            items = key if isinstance(key, tuple) else (key,)
            for item in items:
                if isinstance(item, bool) or not (
                    item is None or item is Ellipsis or isinstance(item, (int, np.integer, slice))
                ):
                    raise TypeError(f"arrays of records take integers, slices and field names as indices, not {item!r}")
            key = items if Ellipsis in items else (*items, Ellipsis)
        return self._viewed(lambda shadow: shadow[key])

    def __getitem__(self, key: object) -> Any:
        part = self._at(key)
        return part.numpy()[()] if not part.shape and part.dtype.names is None else part

    def __setitem__(self, key: object, value: object) -> None:
        self._at(key).fill(value)

    def transpose(self, axes: Any = None) -> MemoryArray:
        """Return a view with permuted axes, by default in reverse order."""
        return self._viewed(lambda shadow: shadow.transpose(axes))

    def squeeze(self, axis: Any = None, stream: object = 0) -> MemoryArray:
        """Return a view without the given axes, by default without the axes of length 1."""
        return self._viewed(lambda shadow: shadow.squeeze(axis))

    def reshape(self, *shape: Any, order: Any = "C") -> MemoryArray:
        """Return a view with another shape.

        Raises ValueError unless the array is C-contiguous and `order` is "C" or "A".
        """
        if not self.is_c_contiguous() or order not in ("C", "A"):
            raise ValueError("only arrays without gaps, in C order, can be reshaped in place: copy_to_host first")
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        flat = MemoryArray(self.storage, self.dtype, (self.size,), (self.itemsize,), self.offset)
        return flat._viewed(lambda shadow: shadow.reshape(wanted))

    def ravel(self, order: Any = "C", stream: Any = 0) -> MemoryArray:
        """Return a 1-D view, like ``reshape(-1)``."""
        return self.reshape(-1, order=order)

    def view(self, dtype: Any) -> MemoryArray:
        """Return a view of the same memory in another dtype, like `numpy.ndarray.view`."""
        return self._viewed(lambda shadow: shadow.view(np.dtype(dtype)))

    def bind(self, stream: object = 0) -> MemoryArray:
        """Return this array. `stream` is ignored, because an array can be used in any stream."""
        return self

    # -- copies ---------------------------------------------------------------------------------

    def _span(self) -> tuple[int, int]:
        """Return the start and end offsets of the array's bytes in the buffer."""
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(r for r in reach if r < 0)
        return low, self.offset + sum(r for r in reach if r > 0) + self.itemsize

    def _fetch(self, buffer: Buffer, queue: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Copy the array's bytes from the device to the host, including gaps between its elements.

        Return an array of these bytes, and a view of this array with the dtype and layout of the `MemoryArray`.
        """
        low, high = self._span()
        raw = np.empty(high - low, BYTE)
        self.device.claim(buffer, queue)
        self.device.read(buffer.address + low, raw, queue)
        return raw, np.ndarray(self.shape, self.dtype, raw.data, self.offset - low, self.strides)

    def numpy(self) -> np.ndarray:
        """Return the elements as a new NumPy array."""
        return self.copy_to_host()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a NumPy array of a device array is always a copy")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def copy(self) -> Any:
        """Return a copy: a `MemoryArray` if the elements are records, dates or text, and otherwise an `Array`."""
        values = self.numpy()
        if not lacks_arithmetic(self.dtype):
            return convert(values)
        made = MemoryArray.make(self.device, self.dtype, self.shape, values.strides)
        made.copy_to_device(values)
        return made

    def copy_to_host(self, ary: np.ndarray | None = None, stream: object = 0) -> np.ndarray:
        """Copy the elements to a new NumPy array or to `ary`."""
        if ary is not None:
            check_fit(self, ary)
        if not self.size:
            return np.empty(self.shape, self.dtype) if ary is None else ary
        values = self._fetch(realise(self.storage), as_queue(stream) if ary is None else None)[1]
        if ary is None:
            return values
        values = values.reshape(ary.shape)
        if isinstance(ary, np.void):  # a single record, which NumPy does not accept as an output
            for name in self.dtype.names or ():
                ary[name] = values[name]
        else:
            np.copyto(ary, values)
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:
        """Copy a host array or device array of the same dtype to this array's memory.

        The shapes may differ in axes of length 1.
        """
        source = ary.copy_to_host() if isinstance(ary, MemoryArray) else np.asarray(ary)
        check_fit(self, source)
        self.fill(source.reshape(self.shape), stream)

    def fill(self, value: object, stream: object = 0) -> None:
        """Set the elements to `value`, which is broadcast to the shape of the array."""
        if not self.size:
            return
        buffer, queue = exclusive(self.storage), None
        if self.is_c_contiguous():
            raw = values = np.empty(self.shape, self.dtype)
            start, queue = self.offset, as_queue(stream)
        else:
            raw, values = self._fetch(buffer)
            start = self._span()[0]
        values[...] = value.numpy() if isinstance(value, Array) else value
        self.device.claim(buffer, queue, written=True)
        self.device.write(buffer.address + start, raw, queue)


def storage_of(array: Any) -> tuple[Storage, int]:
    """Return the storage of a device array, and the byte offset of the array's first element in the storage."""
    if isinstance(array, MemoryArray):
        return array.storage, array.offset
    return array._storage, (array._view or whole(array._storage))[2] * array.itemsize


def check_fit(device_array: Any, other: Any) -> None:
    """Raise an error if the source and the destination of a copy differ in dtype or shape.

    As in Numba, the shapes may differ in axes of length 1.
    """
    if other.dtype != device_array.dtype:
        raise TypeError(f"incompatible dtype: {device_array.dtype} on the device, {other.dtype} given; use .astype")
    if [n for n in other.shape if n != 1] != [n for n in device_array.shape if n != 1]:
        raise ValueError(f"incompatible shape: {device_array.shape} on the device, {other.shape} given")
