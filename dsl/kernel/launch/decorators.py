"""`cuda.jit`: Numba's decorator, implemented by weft's."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, kernel

_REJECTED = {
    "argtypes": "give a signature",
    "restype": "give a signature",
    "bind": "kernels are loaded when they are first launched",
}


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Make a kernel, or with ``device=True`` a function callable from kernels.

    Parameters
    ----------
    func_or_sig : function, or signature(s)
        As for `weft.kernel`.
    device : bool
    **options
        As for `weft.kernel`. Numba's ``inline``, ``opt``, ``cache``, ``link`` and similar options have no effect.
    """
    for name, remedy in _REJECTED.items():
        if name in options:
            raise KernelTypeError(f"jit has no option {name!r}: {remedy}")
    if device:
        if isinstance(func_or_sig, (FunctionType, DeviceFunction, KernelDispatcher)):
            return DeviceFunction(func_or_sig.py_func if isinstance(func_or_sig, KernelDispatcher) else func_or_sig)
        return lambda inner: DeviceFunction(inner, () if func_or_sig is None else func_or_sig)
    if func_or_sig is None or isinstance(func_or_sig, FunctionType):
        return kernel(func_or_sig, **options)
    return kernel(func_or_sig, **options)


def declare_device(name: str, sig: Any, **options: Any) -> Any:
    """Raise KernelTypeError: functions of other object code cannot be linked."""
    raise KernelTypeError(
        f"{name}: functions of other object code cannot be linked; write it as a @weft.device function"
    )


def literal_unroll(container: Any) -> Any:
    """Return the container. Loops over tuples are always unrolled."""
    return container
