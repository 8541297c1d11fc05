"""Numba's decorators such as `cuda.jit` and `cuda.vectorize`, with Numba's type rules."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.dsl import kernel as face  # for names that are loaded on first use
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
    """Convert a function to a kernel or, with ``device=True``, to a device function.

    Parameters
    ----------
    func_or_sig : function, or signature(s)
        The function or the signatures, as in `weft.kernel`.
    device : bool
        Whether to create a device function, which kernels can call.
    weak_scalars : bool
        Whether Python numbers take the dtype of the other operand, as in NumPy 2 and `weft.kernel`. By default, Python
        numbers are int64 and float64, and integer arithmetic uses 64 bits, as in Numba. The setting
        ``WEFT_WEAK_SCALARS`` changes the default.
    **options
        The options of `weft.kernel`. Numba's options ``inline``, ``opt``, ``cache`` and similar options have no effect.

    Examples
    --------
    >>> @cuda.jit
    ... def axpy(a, x, y):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         y[i] += a * x[i]
    >>> y = np.ones(3, np.float32)
    >>> axpy[1, 32](2.0, np.arange(3, dtype=np.float32), y)
    >>> y
    array([1., 3., 5.], dtype=float32)
    """
    for name, remedy in _REJECTED.items():
        if name in options:
            raise KernelTypeError(f"jit has no option {name!r}: {remedy}")
    options.setdefault("weak_scalars", setting("weak_scalars"))
    func_or_sig = face.from_numba(func_or_sig)
    if not device:
        return kernel(func_or_sig, **options)
    make_options(options)  # raises an error for unknown options
    if isinstance(func_or_sig, (FunctionType, DeviceFunction, KernelDispatcher)):
        return DeviceFunction(func_or_sig, **options)
    return lambda inner: DeviceFunction(inner, () if func_or_sig is None else func_or_sig, **options)


def vectorize(function: Any = None, signatures: Any = None, **options: Any) -> Any:
    """Convert a function of scalars to an elementwise function of arrays.

    The type rules are those of Numba. Otherwise, this function is like `weft.vectorize`.

    Examples
    --------
    >>> @cuda.vectorize(['float32(float32, float32)'])
    ... def hypotenuse(x, y):
    ...     return (x * x + y * y) ** 0.5
    >>> hypotenuse(np.float32([3, 5]), np.float32([4, 12]))
    array([ 5., 13.], dtype=float32)
    """
    options.setdefault("weak_scalars", setting("weak_scalars"))
    return vectorized.vectorize(function, signatures, **options)


def guvectorize(function: Any = None, layout: Any = None, **options: Any) -> Any:
    """Create a generalized ufunc from a function of arrays.

    The type rules are those of Numba. Otherwise, this function is like `weft.guvectorize`.

    Examples
    --------
    >>> @cuda.guvectorize(['void(float64[:], float64[:])'], '(n)->()')
    ... def total(x, out):
    ...     out[0] = 0
    ...     for i in range(x.size):
    ...         out[0] += x[i]
    >>> total(np.ones((2, 3)))
    array([3., 3.])
    """
    options.setdefault("weak_scalars", setting("weak_scalars"))
    return generalized.guvectorize(function, layout, **options)


def literal_unroll(container: Any) -> Any:
    """Return a tuple unchanged.

    Numba requires this function for loops over tuples whose items differ in type. weft unrolls all loops over tuples.

    Examples
    --------
    >>> cuda.literal_unroll((1, 2.0))
    (1, 2.0)
    """
    return container
