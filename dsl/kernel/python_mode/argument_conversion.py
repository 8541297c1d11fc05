"""Conversion and promotion of scalars in Python mode, as in compiled kernels.

In: a Python or NumPy scalar and a dtype. Out: a NumPy scalar of that dtype. Invariant: in conversions to integers,
integers wrap, out-of-range floats saturate, and NaN becomes 0, as for a `cast` of the kernel IR.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, find_op
from weft.dsl.kernel.python_mode.simulate_bfloat16 import Brain, beside_brains, wide


def convert(value: Any, dtype: np.dtype) -> Any:
    """Convert a scalar to another dtype, like the `cast` operation of kernel IR."""
    value = wide(value)
    if dtype.names is not None:
        return np.asarray(value, dtype)[()]
    if hasattr(value, "__index__") and not isinstance(value, (np.generic, np.ndarray)):
        value = int(value) if not isinstance(value, bool) else value
    if isinstance(value, (complex, np.complexfloating)) and dtype.kind not in "cb":
        value = value.real
    if dtype.kind not in "iu":
        return np.asarray(value).astype(dtype)[()]
    limits = np.iinfo(dtype)
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return dtype.type(0)
        if math.isinf(value):
            return dtype.type(limits.max if value > 0 else limits.min)
        return dtype.type(min(max(int(value), limits.min), limits.max))
    return dtype.type((int(value) - limits.min) % (1 << limits.bits) + limits.min)


def common_dtype(*values: Any) -> np.dtype:
    """Return the dtype to which an operation in Python mode promotes its operands.

    Python numbers are weakly typed, as in NumPy 2.
    """
    numbers = beside_brains(values)
    numbers = tuple(int(v) if hasattr(v, "__index__") and not isinstance(v, (np.generic, bool)) else v for v in numbers)
    return np.result_type(*numbers)


def float_dtype(values: tuple[Any, ...]) -> np.dtype | None:
    """Return the result dtype of a floating-point function, or None if all arguments are Python numbers."""
    if not any(isinstance(value, (np.generic, Brain)) for value in values):
        return None
    found = common_dtype(*values)
    return found if dtype_kind(found) == "f" else np.result_type(found, np.float16)


def fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Compute ``a * b + c`` with a single rounding, as a float32 or float64. Raises TypeError for complex numbers."""
    dtype = common_dtype(a, b, c)
    if dtype.kind == "c":
        raise TypeError("fma does not take complex numbers")
    dtype = np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)
    return find_op("fma").reference(*(convert(v, dtype) for v in (a, b, c)))  # type: ignore[misc]
