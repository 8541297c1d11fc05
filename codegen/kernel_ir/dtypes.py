"""The dtypes that kernels support.

Invariant: bfloat16 is treated as a float here, although it is a dtype of the ml_dtypes package whose `kind` is not "f".
The package is not imported until the dtype is used.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_CODES = "?bBhHiIlLqQefdFD"


def is_bfloat16(dtype: np.dtype) -> bool:
    """Return whether a dtype is the bfloat16 of ml_dtypes."""
    return dtype.char == "E" and dtype.name == "bfloat16"


def is_supported(dtype: np.dtype) -> bool:
    """Return whether kernels support a dtype: bool, integers, 16- to 64-bit floats, complex64 and complex128."""
    return dtype.char in _CODES or is_bfloat16(dtype)


def native_dtype(dtype: np.dtype) -> np.dtype:
    """Return NumPy's own dtype object for a supported dtype, in native byte order."""
    return np.dtype(dtype.type)


def dtype_kind(dtype: np.dtype) -> str:
    """Return a dtype's kind character as in NumPy, and "f" for bfloat16."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def is_half(dtype: np.dtype) -> bool:
    """Return whether a dtype is a 16-bit float, whose arithmetic is done in float32 and then rounded."""
    return dtype.char == "e" or is_bfloat16(dtype)


def widened(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a sum's accumulator: float32 for 16-bit floats, otherwise the dtype itself."""
    return np.dtype(np.float32) if is_half(dtype) else dtype


@cache
def bfloat16() -> np.dtype:
    """Return the bfloat16 dtype. Raises ImportError if ml_dtypes is not installed."""
    from ml_dtypes import bfloat16 as scalar_type

    return np.dtype(scalar_type)
