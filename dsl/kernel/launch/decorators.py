"""Numba's decorators `cuda.jit`, `cuda.vectorize` and `cuda.guvectorize`: weft's decorators, but with Numba's type
rules."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, kernel, make_options
from weft.dsl.kernel.library import generalized, vectorized
from weft.runtime import setting

_REJECTED = {
    "argtypes": "give a signature",
    "restype": "give a signature",
    "bind": "kernels are loaded when they are first launched",
}


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Make a function a kernel, or with ``device=True`` a function callable from kernels.

    Parameters
    ----------
    func_or_sig : function, or signature(s)
        As for `weft.kernel`.
    device : bool
    weak_scalars : bool
        Whether Python numbers take the dtype of the other operand, as in NumPy 2 and `weft.kernel`. By default (setting
        ``WEFT_WEAK_SCALARS``) they are int64 and float64, and integers compute in 64 bits, as in Numba.
    **options
        As for `weft.kernel`. Numba's ``inline``, ``opt``, ``cache`` and similar options have no effect.
    """
    for name, remedy in _REJECTED.items():
        if name in options:
            raise KernelTypeError(f"jit has no option {name!r}: {remedy}")
    options.setdefault("weak_scalars", setting("weak_scalars"))
    if not device:
        return kernel(func_or_sig, **options)
    make_options(options)  # raises an error for unknown options
    if isinstance(func_or_sig, KernelDispatcher):
        func_or_sig = func_or_sig.py_func
    if isinstance(func_or_sig, (FunctionType, DeviceFunction)):
        return DeviceFunction(func_or_sig, **options)
    return lambda inner: DeviceFunction(inner, () if func_or_sig is None else func_or_sig, **options)


def vectorize(function: Any = None, signatures: Any = None, **options: Any) -> Any:
    """Make a scalar function apply elementwise to arrays, as `weft.vectorize` does, but with Numba's type rules."""
    options.setdefault("weak_scalars", setting("weak_scalars"))
    return vectorized.vectorize(function, signatures, **options)


def guvectorize(function: Any = None, layout: Any = None, **options: Any) -> Any:
    """Make a generalized ufunc from a function of arrays, as `weft.guvectorize` does, but with Numba's type rules."""
    options.setdefault("weak_scalars", setting("weak_scalars"))
    return generalized.guvectorize(function, layout, **options)


def literal_unroll(container: Any) -> Any:
    """Return the container unchanged. Loops over tuples are always unrolled."""
    return container
