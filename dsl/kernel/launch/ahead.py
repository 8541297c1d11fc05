"""Ahead-of-time compilation of kernels and device functions to PTX.

In: a Python function and a signature. Out: the PTX text and the result type. If the compute capability is given, no
driver is called. `inspection.architecture` selects the default architecture.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import Target, lower_stages, obtain_code, print_kernel, resolve_target
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.specialize import Options, Specialization, specialize
from weft.dsl.kernel.language.types import one_signature
from weft.dsl.kernel.launch.arguments import from_type
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher, make_options
from weft.dsl.kernel.launch.inspection import architecture
from weft.dsl.kernel.library.intrinsics import NeedsLaunch
from weft.runtime import counted, setting


def compile_ptx(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = False,
    fastmath: bool = False,
    cc: Any = None,
    opt: Any = True,
    abi: str | None = None,
    abi_info: dict[str, Any] | None = None,
    launch_bounds: Any = None,
    **ignored: Any,
) -> tuple[str, Any]:
    """Compile a kernel or device function to PTX, and return the PTX and the result type.

    Parameters
    ----------
    pyfunc : function
    sig : str, tuple of types or Signature
        The signature, such as ``"void(float32[:], float32[:])"``. The result type of a device function may be omitted.
    device : bool
        Whether to compile a device function, which other GPU code can call. Otherwise, a kernel is compiled.
    cc : tuple of int or str, optional
        Compute capability, such as ``(8, 0)``. The default is that of weft's default device if this device is a GPU.
        Otherwise, the environment variable ``NUMBA_CUDA_DEFAULT_PTX_CC`` sets the default, which is 7.5 if the variable
        is not set.
    abi : {"c", "numba"}
        Calling convention of a device function.
    abi_info : dict, optional
        ``{"abi_name": name}`` sets the name of the symbol.

    Returns
    -------
    ptx : str
    resty : Type

    Raises
    ------
    KernelError
        If the function cannot be compiled.

    Examples
    --------
    >>> square = lambda x: x * x
    >>> ptx, returned = cuda.compile_ptx(square, 'float32(float32)', device=True, cc=(9, 0))
    >>> '.target sm_90' in ptx, returned
    (True, float32)
    """
    given = {"debug": debug, "lineinfo": lineinfo, "fastmath": fastmath, "launch_bounds": launch_bounds}
    options = make_options({**given, "weak_scalars": _has_weak_scalars(pyfunc)})
    device = device or isinstance(pyfunc, DeviceFunction)
    target = resolve_target(architecture(cc))
    made = _specialized(pyfunc, sig, target, options, device, abi)
    name = (abi_info or {}).get("abi_name")
    if name:
        made.kernel.name = name
    code = obtain_code(target, made.kernel, print_kernel(made.kernel))
    returned = types.from_dtype(made.returns) if made.returns is not None else types.void
    return code.code.decode(), returned


def _has_weak_scalars(pyfunc: Any) -> bool:
    """Return whether Python numbers are weak in a function."""
    if isinstance(pyfunc, KernelDispatcher):
        return not pyfunc.options.numba
    weak = setting("weak_scalars")
    return bool(pyfunc.options.get("weak_scalars", weak) if isinstance(pyfunc, DeviceFunction) else weak)


def stages_of(pyfunc: Any, sig: Any, cc: Any = None) -> dict[str, str]:
    """Return the code of a device function after each compilation stage, as a dict.

    The stages are ``kernel``, ``llvm`` and ``asm``.
    """
    target = resolve_target(architecture(cc))
    return lower_stages(_specialized(pyfunc, sig, target, make_options(pyfunc.options), True, "c").kernel, target)


def _specialized(
    pyfunc: Any, sig: Any, target: Target, options: Options, device: bool, abi: str | None
) -> Specialization:
    """Compile a function to kernel IR for the argument types of a signature."""
    signature = one_signature(sig)
    function: Any = pyfunc.py_func if isinstance(pyfunc, (KernelDispatcher, DeviceFunction)) else pyfunc
    descriptors = tuple(from_type(kind) for kind in signature.arguments)
    count = function.__code__.co_argcount + function.__code__.co_kwonlyargcount
    if len(descriptors) != count:
        raise KernelTypeError(
            f"{function.__name__} takes {counted(count, 'argument')}, but the signature has {len(descriptors)}"
        )
    wanted = signature.result
    if abi not in (None, "c", "numba"):
        raise KernelTypeError(f"the ABI is 'c' or 'numba', not {abi!r}")
    if not device and wanted is not None and not isinstance(wanted, types.NoneType):
        raise KernelTypeError(f"a kernel returns nothing (void), but the signature says {wanted}")
    result = None if wanted is None or isinstance(wanted, types.NoneType) else getattr(wanted, "dtype", None)
    try:
        return specialize(
            function,
            descriptors,
            target,
            np.dtype(np.int64),
            options,
            reporting=False,
            device=(result, abi or "c") if device else None,
        )
    except NeedsLaunch as needed:
        raise KernelTypeError(
            "this shape depends on the launch, and nothing is launched here: give a constant", needed.args[0]
        ) from None


def compile_ptx_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[str, Any]:
    """Compile a function to PTX for the current GPU.

    Without a GPU, the architecture is the default of `compile_ptx`.

    Examples
    --------
    >>> def axpy(a, x, y):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         y[i] += a * x[i]
    >>> ptx, returned = cuda.compile_ptx_for_current_device(axpy, 'void(float32, float32[::1], float32[::1])')
    >>> '.entry' in ptx
    True
    """
    return compile_ptx(pyfunc, sig, **options)


def compile(
    pyfunc: Any, sig: Any, output: str = "ptx", abi: str = "c", device: bool = True, **options: Any
) -> tuple[Any, Any]:
    """Compile a device function or a kernel, and return the PTX and the result type.

    Parameters
    ----------
    output : {"ptx"}
    device : bool
        Whether to compile a device function. Otherwise, a kernel is compiled.

    Examples
    --------
    >>> def square(x):
    ...     return x * x
    >>> code, returned = cuda.compile(square, 'float32(float32)', cc=(9, 0))
    >>> returned
    float32
    """
    if output != "ptx":
        raise KernelTypeError(f"code is given as 'ptx', not {output!r}: LTO-IR needs NVIDIA's compiler")
    return compile_ptx(pyfunc, sig, device=device, abi=abi, **options)


def compile_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[Any, Any]:
    """Compile a function for the current GPU. The arguments and the results are those of `compile`.

    Without a GPU, the architecture is the default of `compile_ptx`.

    Examples
    --------
    >>> def square(x):
    ...     return x * x
    >>> code, returned = cuda.compile_for_current_device(square, 'float32(float32)')
    >>> returned
    float32
    """
    return compile(pyfunc, sig, **options)


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> tuple[list[Any], Any]:
    """Compile a function. Return a list that contains only the code from `compile`, and the result type.

    Examples
    --------
    >>> def square(x):
    ...     return x * x
    >>> (code,), returned = cuda.compile_all(square, 'float32(float32)', cc=(9, 0))
    >>> returned
    float32
    """
    code, result = compile(pyfunc, sig, **options)
    return [code], result
