"""Arrays for kernels in Python mode.

In: NumPy arrays. Out: views of them. Invariant: assigned values are converted as in compiled kernels (integers wrap,
and floats saturate in integer arrays). Fields of records are also attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import is_bfloat16
from weft.dsl.kernel.python_mode.argument_conversion import convert
from weft.dsl.kernel.python_mode.simulate_bfloat16 import seen


class KernelArray(np.ndarray):
    """A NumPy array for Python mode that casts assigned values as compiled kernels do."""

    def __setitem__(self, index: Any, value: object) -> None:
        if self.dtype.names is None and not isinstance(value, (np.ndarray, list, tuple)):
            value = convert(value, self.dtype)
        elif self.dtype.kind in "iu" and (given := np.asarray(value)).dtype.kind not in "biu":
            converted = [convert(number, self.dtype) for number in given.reshape(-1)]
            value = np.array(converted, self.dtype).reshape(given.shape)
        super().__setitem__(index, value)

    def __getattr__(self, name: str) -> Any:
        if self.dtype.names is None or name not in self.dtype.names:
            raise AttributeError(f"an array of {self.dtype} has no attribute {name!r}")
        return self[name]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else super().__array_wrap__(array, context, return_scalar)


class BrainArray(KernelArray):
    """A `KernelArray` of bfloat16 whose elements and reduction results are `Brain` scalars."""

    def __getitem__(self, index: Any) -> Any:
        return seen(super().__getitem__(index))


def _reduction(name: str) -> Any:
    method = getattr(np.ndarray, name)
    return lambda self, *arguments, **options: seen(method(self, *arguments, **options))


for _name in ("max", "mean", "min", "prod", "sum"):
    setattr(BrainArray, _name, _reduction(_name))


def as_kernel_array(array: np.ndarray) -> KernelArray:
    """Return a view of a NumPy array as a `KernelArray`."""
    if array.dtype.names is not None:
        array = array.view(np.dtype((np.record, array.dtype)))
    return array.view(BrainArray if is_bfloat16(array.dtype) else KernelArray)


def make_array(shape: tuple[int, ...], dtype: np.dtype) -> KernelArray:
    """Return an array filled with the values that simulate uninitialized memory.

    The elements are NaN, -1, the largest unsigned integer, or True.
    """
    made = np.empty(shape, dtype)
    made.reshape(-1).view(np.uint8)[...] = 1 if dtype.kind == "b" else 0xFF
    return as_kernel_array(made)
