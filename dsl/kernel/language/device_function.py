"""Device functions, and the base class of kernels."""

from __future__ import annotations

import functools
import sys
from types import FunctionType
from typing import Any

import weft.runtime as runtime
from weft.dsl import kernel as face  # for names that are loaded on first use
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.types import as_signatures
from weft.runtime import Device, counted


def reduce_function(held: Any, *arguments: Any) -> Any:
    """Implement ``__reduce__`` for a decorated function.

    A function that can be imported by its name is pickled as this name, and any other function as its type and
    `arguments`. cloudpickle sends functions of ``__main__`` by value, because the other process has another
    ``__main__``.
    """
    elsewhere = held.__module__ == "__main__" and "cloudpickle" in sys.modules
    found: Any = sys.modules.get(held.__module__)
    for part in held.__qualname__.split("."):
        found = getattr(found, part, None)
    return held.__qualname__ if found is held and not elsewhere else (type(held), arguments)


class DeviceFunction:
    """A function that can be called both in kernels and in Python.

    If the function has signatures, a call in a kernel uses the signature that fits best. The arguments are cast to the
    argument types of this signature, and the result is cast to its result type.
    """

    __name__: str
    signatures: Any

    def __init__(self, function: Any, signatures: Any = (), **options: Any) -> None:
        if isinstance(function, (DeviceFunction, KernelFunction)):
            function = function.py_func
        function = face.from_numba(function)
        if not isinstance(function, FunctionType):
            raise TypeError(f"a device function is made of a Python function, not of {type(function).__name__}")
        self.function: FunctionType = function
        self.options = options
        functools.update_wrapper(self, function)
        self.signatures = as_signatures(signatures) if signatures else ()
        count = function.__code__.co_argcount
        for signature in self.signatures:
            if len(signature.arguments) != count:
                raise KernelTypeError(
                    f"{function.__name__} takes {counted(count, 'argument')}, but the signature {signature} has {len(signature.arguments)}"
                )

    @property
    def py_func(self) -> FunctionType:
        """The original Python function."""
        return self.function

    @property
    def targetoptions(self) -> dict[str, Any]:
        """Options of the decorator, under the names that Numba uses."""
        return self.options | {"device": True}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    def __getitem__(self, configuration: Any) -> Any:
        raise TypeError(
            f"{self.function.__name__} is a device function: kernels call it; to launch it, make it a kernel with @weft.kernel"
        )

    def inspect_llvm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the LLVM IR for one signature of the function, or a dict for all signatures."""
        return self._stage("llvm", signature, cc)

    def inspect_asm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the PTX for one signature of the function, or a dict for all signatures."""
        return self._stage("asm", signature, cc)

    inspect_ptx = inspect_asm

    def inspect_sass(self, signature: Any = None, cc: Any = None) -> Any:
        """Raise RuntimeError, because a device function has no machine code of its own."""
        raise RuntimeError("Cannot inspect SASS of a device function: inspect a kernel that calls it")

    def _stage(self, name: str, signature: Any, cc: Any) -> Any:
        if signature is not None:
            return face.stages_of(self, signature, cc)[name]
        if not self.signatures:
            raise TypeError(
                f"{self.function.__name__} is compiled where it is called, for what it is called with: give a signature"
            )
        return {s.arguments: face.stages_of(self, s, cc)[name] for s in self.signatures}

    def __reduce__(self) -> Any:
        return reduce_function(self, self.function, self.signatures)

    def __repr__(self) -> str:
        return f"<weft device function {self.function.__name__}>"


class KernelFunction:
    """Base class of kernels, the objects that `weft.kernel` returns."""

    __name__: str
    py_func: FunctionType


def device(function: Any = None, *signature: Any, **options: Any) -> Any:
    """Make a function callable from kernels (``@weft.device``).

    If the argument is the name of a device, as in ``with weft.device("cpu")``, return a context manager that sets the
    device of new arrays.

    Each call to a device function is inlined and compiled for the types of its arguments. Recursive functions are
    compiled as separate functions. Kernels can also call plain Python functions without this decorator.

    Parameters
    ----------
    function : function, name of a device, or signature(s)
        If signatures such as ``"float32(float32, int32)"`` are given, the arguments and the result are cast to the
        types of the signature.

    Returns
    -------
    DeviceFunction, decorator, or context manager

    Examples
    --------
    >>> with wf.device('cpu'):
    ...     x = wf.zeros(2)
    >>> x.device.name
    'cpu'
    """
    if options:
        face.make_options(options)  # raises an error for unknown options
    if isinstance(function, (FunctionType, DeviceFunction, KernelFunction)):
        return DeviceFunction(function, **options)
    if isinstance(function, Device) or (isinstance(function, str) and "(" not in function):
        return runtime.device(function)
    given = function if not signature else [function, *signature]
    return lambda inner: DeviceFunction(inner, () if given is None else given, **options)
