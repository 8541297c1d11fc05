"""Linking of kernels with separately compiled code.

In: a function's name and signature, and files or their contents. Out: an object that kernels call. In Numba's calling
convention, ``extern "C" __device__ int name(result* r, arguments...)`` writes its result through the first pointer and
returns 0. In the C convention, ``name`` returns its result. Kernels that call linked functions run only on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.values import ArrayValue, Constant, ScalarValue, describe
from weft.runtime import ForeignCode, counted, register_foreign

SUFFIXES = {
    ".cu": "cu",
    ".ptx": "ptx",
    ".cubin": "cubin",
    ".fatbin": "fatbin",
    ".o": "object",
    ".a": "library",
    ".lib": "library",
    ".ltoir": "ltoir",
}


class LinkableCode:
    """Base class of separately compiled code that can be passed to the ``link=`` option.

    Parameters
    ----------
    data : bytes or str
        The contents of the file.
    name : str, optional
        Name of the code in error messages.
    """

    kind: ClassVar[Any] = ""

    def __init__(self, data: bytes | str, name: str | None = None, **callbacks: Any) -> None:
        if any(callbacks.values()):
            raise KernelTypeError(
                f"{type(self).__name__} takes no {next(iter(callbacks))}: kernels are loaded when launched"
            )
        if not self.kind:
            raise TypeError(
                "LinkableCode has subclasses for each form of code: CUSource, PTXSource, Cubin, Fatbin, ..."
            )
        self.name = name or f"<{type(self).__name__}>"
        self.data = data.encode() if isinstance(data, str) else bytes(data)


def _form(name: str, kind: str, doc: str) -> type[LinkableCode]:
    return type(name, (LinkableCode,), {"kind": kind, "__doc__": doc, "__module__": __name__})


CUSource = _form("CUSource", "cu", "CUDA C++ source text, which is compiled by NVRTC.")
PTXSource = _form("PTXSource", "ptx", "PTX source text.")
Cubin = _form("Cubin", "cubin", "A cubin, which contains relocatable machine code for one GPU architecture.")
Fatbin = _form("Fatbin", "fatbin", "A fatbin, which contains machine code and PTX for several GPU architectures.")
Object = _form("Object", "object", "A host object file that contains device code.")
Archive = _form("Archive", "library", "A static library that contains device code.")
LTOIR = _form("LTOIR", "ltoir", "LTO-IR, which is code that the linker optimizes.")


def link_digests(link: Any) -> tuple[str, ...]:
    """Register the items of the ``link=`` option, and return a digest of each item.

    Raises KernelTypeError for an item that is neither a path nor a `LinkableCode`, or if the suffix of a path is
    unknown. Raises OSError if a file cannot be read.
    """
    items = link if isinstance(link, (list, tuple, set, frozenset)) else [link]
    return tuple(register_foreign(_read(item)) for item in items)


def _read(item: object) -> ForeignCode:
    if isinstance(item, LinkableCode):
        return ForeignCode(item.kind, item.name, item.data)
    if not isinstance(item, (str, Path)):
        raise KernelTypeError(f"link= takes paths and objects such as cuda.CUSource, not {type(item).__name__}")
    path = Path(item)
    kind: Any = SUFFIXES.get(path.suffix)
    if kind is None:
        raise KernelTypeError(f"{path}: files to link are {', '.join(SUFFIXES)}")
    return ForeignCode(kind, path.name, path.read_bytes())


class ForeignFunction:
    """A separately compiled function that kernels can call, created by `declare_device`."""

    def __init__(self, name: str, signature: types.Signature, links: Sequence[str], abi: str) -> None:
        self.__name__ = name
        self.signature = signature
        self.abi = abi
        self.links = tuple(links)

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.__name__} is a function of GPU code: only kernels on a GPU call it")

    def __repr__(self) -> str:
        return f"<foreign function {self.__name__}{self.signature}>"

    def compile_call(self, call: Invocation, *arguments: Any) -> Any:
        """Compile a kernel's call to this function."""
        c, wanted = call.c, self.signature.arguments
        if c.target is None or c.target.kind != "cuda":
            c.fail(f"{self.__name__} is a function of linked GPU code: this kernel needs a GPU")
        if len(arguments) != len(wanted):
            c.fail(f"{self.__name__} takes {counted(len(wanted), 'argument')}, but {len(arguments)} were given")
        operands = [_operand(call, self.__name__, a, kind) for a, kind in zip(arguments, wanted, strict=True)]
        result = getattr(self.signature.result, "dtype", None)
        called: dict[str, Any] = {"symbol": self.__name__, "links": self.links}
        if self.abi == "c":
            results = c.builder.emit("external", operands, [] if result is None else [result], **called)
            return ScalarValue(results[0], False, result.kind == "u") if result is not None else Constant(None)
        with c.at_top():
            pointer = c.builder.local(result if result is not None else np.dtype(np.int64))
        c.builder.emit("external", [pointer, *operands], [np.dtype(np.int32)], **called)
        if result is None:
            return Constant(None)
        return ScalarValue(c.builder.load(pointer, c.builder.constant(0)), False, result.kind == "u")


def _operand(call: Invocation, name: str, value: Any, kind: Any) -> Any:
    """Convert an argument to its declared type: cast a scalar, or pass an array as a pointer."""
    c = call.c
    if not isinstance(kind, types.CPointer):
        return c.ir(c.cast(c.scalar(value), kind.dtype), kind.dtype)
    if not isinstance(value, ArrayValue):
        c.fail(f"{name} takes an array where {kind} is declared, not {describe(value)}")
    if value.dtype != kind.dtype.dtype or not arrays.is_contiguous(value):  # type: ignore[attr-defined]
        c.fail(f"{name} takes a contiguous array of {kind.dtype}, not {describe(value)}")
    if value.origin >= 0:
        c.written.add(value.origin)
    return value.pointer


def declare_device(
    name: str, sig: Any, link: Any = (), use_cooperative: bool = False, abi: str = "numba"
) -> ForeignFunction:
    """Declare a function of separately compiled code, so that kernels can call it.

    Parameters
    ----------
    name : str
        The symbol of the function, which must be declared as ``extern "C"``.
    sig : str or Signature
        The signature, such as ``"float32(float32, float32)"``. For a parameter of type ``CPointer(float32)``, the
        argument is a contiguous array, whose address is passed.
    link : path, `LinkableCode`, or a list of them
        Code that defines the function. Alternatively, pass the code to the decorator of the kernel:
        ``cuda.jit(link=[...])``.
    use_cooperative : bool
        This parameter has no effect. Launches of kernels with grid barriers are always cooperative.
    abi : {"numba", "c"}
        The calling convention of the function.

    Returns
    -------
    ForeignFunction

    Notes
    -----
    With Numba's calling convention, the function has the signature ``extern "C" __device__ int name(float* result,
    float x, float y)`` in CUDA C++. The function writes the result through the first pointer, and returns 0. With the C
    calling convention, its signature is ``extern "C" __device__ float name(float x, float y)``. On the CPU, the launch
    of a kernel that calls the function raises `KernelTypeError`.

    Examples
    --------
    >>> from weft import cuda
    >>> mul = cuda.declare_device("mul", "float32(float32, float32)", link="functions.cu")  # doctest: +SKIP
    """
    (signature,) = types.as_signatures(sig)
    for kind in signature.arguments:
        if not isinstance(kind, (types.ScalarType, types.CPointer)):
            raise KernelTypeError(f"{name}: foreign functions take numbers and CPointer(...), not {kind}")
    if signature.result is not None and not isinstance(signature.result, (types.ScalarType, types.NoneType)):
        raise KernelTypeError(f"{name}: foreign functions return a number or void, not {signature.result}")
    if abi not in ("c", "numba"):
        raise KernelTypeError(f"{name}: the ABI is 'c' or 'numba', not {abi!r}")
    return ForeignFunction(name, signature, link_digests(link) if link else (), abi)
