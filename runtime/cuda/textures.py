"""Texture objects of the CUDA driver.

In: the elements on the host and the sampling modes. Out: a handle for kernels. Invariant: the texture object and the
CUDA array exist until the `TextureObject` is no longer referenced and all kernels launched before have ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.runtime.cuda.driver import Driver

FORMATS = {
    "float32": "CU_AD_FORMAT_FLOAT",
    "int32": "CU_AD_FORMAT_SIGNED_INT32",
    "uint32": "CU_AD_FORMAT_UNSIGNED_INT32",
    "int16": "CU_AD_FORMAT_SIGNED_INT16",
    "uint16": "CU_AD_FORMAT_UNSIGNED_INT16",
    "int8": "CU_AD_FORMAT_SIGNED_INT8",
    "uint8": "CU_AD_FORMAT_UNSIGNED_INT8",
}
READ_AS_INTEGER, NORMALIZED_COORDINATES = 1, 2  # flags of a texture


class TextureObject:
    """A texture object, with the CUDA array that contains its elements.

    Parameters
    ----------
    driver : Driver
    values : ndarray
        The elements, C-contiguous, of one to three axes; the last axis is the texture's x.
    filter, address : str
        "point" or "linear"; "clamp", "border", "wrap" or "mirror".
    normalized : bool
        Whether coordinates run from 0 to 1.

    Attributes
    ----------
    handle : int
        The driver's handle, which kernels take as an argument.
    """

    __slots__ = ("_array", "_driver", "handle")

    def __init__(self, driver: Driver, values: np.ndarray, filter: str, address: str, normalized: bool) -> None:
        self._driver, self.handle = driver, 0
        self._array = driver.call("cuArray3DCreate", _array_of(driver.table, values))
        driver.call("cuMemcpy3D", _copy_of(driver.table, values, self._array))
        resource, texture = _descriptors(driver.table, self._array, values.ndim, filter, address)
        texture.flags = (values.dtype.kind != "f") * READ_AS_INTEGER | normalized * NORMALIZED_COORDINATES
        self.handle = int(driver.call("cuTexObjectCreate", resource, texture, None))

    def __del__(self) -> None:
        if self.handle:
            self._driver.quietly("cuCtxSynchronize")
            self._driver.quietly("cuTexObjectDestroy", self.handle)
        if hasattr(self, "_array"):
            self._driver.quietly("cuArrayDestroy", self._array)


def _extents(values: np.ndarray) -> tuple[int, int, int]:
    """Return the width, height and depth of an array, with 0 for missing axes."""
    return (*values.shape[::-1], 0, 0)[:3]


def _array_of(table: Any, values: np.ndarray) -> Any:
    """Return the driver's descriptor of a CUDA array for the elements of `values`."""
    made = table.CUDA_ARRAY3D_DESCRIPTOR()
    made.Width, made.Height, made.Depth = _extents(values)
    made.Format = getattr(table.CUarray_format, FORMATS[values.dtype.name])
    made.NumChannels = 1
    return made


def _copy_of(table: Any, values: np.ndarray, array: Any) -> Any:
    """Return the driver's descriptor of a copy from the host array `values` to a CUDA array."""
    width, height, depth = _extents(values)
    made = table.CUDA_MEMCPY3D()
    made.srcMemoryType = table.CUmemorytype.CU_MEMORYTYPE_HOST
    made.srcHost = values.ctypes.data
    made.srcPitch, made.srcHeight = width * values.itemsize, max(height, 1)
    made.dstMemoryType = table.CUmemorytype.CU_MEMORYTYPE_ARRAY
    made.dstArray = array
    made.WidthInBytes, made.Height, made.Depth = width * values.itemsize, max(height, 1), max(depth, 1)
    return made


def _descriptors(table: Any, array: Any, axes: int, filter: str, address: str) -> tuple[Any, Any]:
    """Return the driver's descriptors of a texture's memory and of its sampling modes."""
    resource = table.CUDA_RESOURCE_DESC()
    resource.resType = table.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    texture = table.CUDA_TEXTURE_DESC()
    mode = getattr(table.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{address.upper()}")
    # a texture of fewer axes is sampled at 0 along the others: with a border there, linear filtering would halve it
    clamp = table.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP
    texture.addressMode = [mode] * axes + [clamp] * (3 - axes)
    texture.filterMode = getattr(table.CUfilter_mode, f"CU_TR_FILTER_MODE_{filter.upper()}")
    return resource, texture
