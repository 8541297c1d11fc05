"""Storages and views over memory that other libraries own.

In: addresses, shapes and strides in bytes, or a ``__cuda_array_interface__``. Out: a `Storage` and a view of the
storage. Invariant: a storage starts at an aligned address, as generated code expects, and keeps the owner of the memory
alive.
"""

from __future__ import annotations

from math import prod
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from weft.dsl.arrays.validation import as_dtype, as_shape
from weft.fusion import Storage, contiguous_strides
from weft.runtime import Buffer, Device, default_device, get_device

ALIGNMENT = 16  # alignment that generated code requires of a storage's start

# Read-only storages, each with a reference to the array that can make it writable again, or with None if the memory
# belongs to other code, such as a bytes object.
READ_ONLY: WeakKeyDictionary[Storage, ref[Any] | None] = WeakKeyDictionary()

Shown = tuple[Storage, tuple[tuple[int, ...], tuple[int, ...], int] | None]


def byte_strides(shape: tuple[int, ...], itemsize: int, strides: Any, order: str) -> tuple[int, ...]:
    """Check the strides of an array, given in bytes, and return them. If `strides` is None, return the strides of a contiguous array.

    Raises ValueError for an order other than "C" and "F", and for strides that are negative or do not fit the shape or
    the item size.
    """
    if order not in ("C", "F"):
        raise ValueError(f"the order of an array is 'C' or 'F', not {order!r}")
    if strides is None:
        plain = contiguous_strides(shape if order == "C" else shape[::-1])
        return tuple(s * itemsize for s in (plain if order == "C" else plain[::-1]))
    steps = (strides,) if isinstance(strides, int) else tuple(int(s) for s in strides)
    if len(steps) != len(shape):
        raise ValueError(f"{len(shape)} axes need as many strides, not {len(steps)}")
    if any(s < 0 or s % itemsize for s in steps):
        raise ValueError(f"strides are multiples of the {itemsize} bytes of an element, 0 or more; not {steps}")
    return steps


def extent_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return the number of bytes that an array's elements span, including gaps between them."""
    return itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if prod(shape) else 0


def storage_over(
    device: Device, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0
) -> Shown:
    """Return a storage over a buffer, and a view of this storage with the given layout.

    The first element is at byte `start`. Strides are in bytes. The view is None if it covers the whole storage.
    """
    size = dtype.itemsize
    steps = tuple(s // size for s in strides)
    if not start and steps == contiguous_strides(shape):
        return Storage(shape, dtype, device, buffer), None
    flat = Storage((buffer.nbytes // size,), dtype, device, buffer)
    return flat, (shape, steps if prod(shape) else contiguous_strides(shape), start // size)


def storage_at_address(
    device: Device, address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], owner: object
) -> Shown:
    """Return a storage over memory that another library owns. Also return a view of the storage, with the given shape and strides.

    The storage starts at the last aligned address up to `address`. Raises ValueError if `address` is not a multiple of
    the element size.
    """
    start = address % ALIGNMENT
    if start % dtype.itemsize and dtype.itemsize < ALIGNMENT:
        raise ValueError(f"memory of {dtype} elements starts at {address:#x}, which is no multiple of their size")
    nbytes = start + extent_of(shape, strides, dtype.itemsize)
    return storage_over(device, Buffer(device, address - start, nbytes, owner), dtype, shape, strides, start)


def storage_of_interface(desc: dict[str, Any], owner: object = None, sync: bool = True) -> Shown:
    """Return a storage over the memory of a CUDA array interface, and a view of this storage (see `storage_over`).

    The storage keeps `owner` alive. If `sync` is true, wait for the stream that the interface names.
    """
    if desc.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported: fill the masked elements first")
    dtype = as_dtype(np.dtype(desc["typestr"]))
    shape = as_shape(desc["shape"])
    steps = byte_strides(shape, dtype.itemsize, desc.get("strides"), "C")
    stream = desc.get("stream")
    if stream is not None and sync:
        default_device().create_stream(int(stream)).synchronize()
    address = int(desc["data"][0])
    return storage_at_address(_device_of_address(address), address, dtype, shape, steps, owner)


def _device_of_address(address: int) -> Device:
    """Return the GPU whose memory contains an address, or the default device if there is none."""
    device = default_device()
    number = device.owner_of(address) if address else None
    return device if number is None else get_device(f"cuda:{number}")
