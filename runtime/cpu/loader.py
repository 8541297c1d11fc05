"""Loader of object code for the CPU.

All external symbols are resolved before linking.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from weft.runtime.cpu import elf
from weft.runtime.errors import CompileError
from weft.runtime.object_code import NO_SCHEDULE, BlockSchedule, ObjectCode

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
# The runtime's own functions and memory that host code may use: module and name. Few programs use them.
_OWN = {
    "weft_print": ("printing", "ADDRESS"),
    "weft_trace_log": ("trace_log", "LOG"),
    "weft_trace_full": ("trace_log", "FULL"),
}


def _load(module: str) -> Any:
    return import_module(f"weft.runtime.cpu.{module}")


@cache
def _libraries() -> list[ctypes.CDLL]:
    found = []
    for name in ("libm.so.6", "libmvec.so.1"):
        with suppress(OSError):  # (other C libraries than glibc have neither)
            found.append(ctypes.CDLL(name))
    return [*found, ctypes.CDLL(None)]


@cache
def _address(symbol: str) -> int:
    """Return the address of an external symbol, or 0 if no library defines the symbol."""
    if symbol in _OWN:
        module, name = _OWN[symbol]
        found = getattr(_load(module), name)
    else:
        found = next((getattr(library, symbol) for library in _libraries() if hasattr(library, symbol)), None)
    return ctypes.cast(found, ctypes.c_void_p).value or 0 if found is not None else 0


@cache
def _functions_of_llvms_own() -> dict[str, int]:
    """Return the addresses of functions, such as memset, that LLVM may call in place of a loop."""
    return {name: _address(name) for name in ("memcpy", "memmove", "memset")}


def external_addresses(symbols: Sequence[str]) -> dict[str, int]:
    """Return the addresses of external symbols. Raises CompileError if any symbol is undefined."""
    outside = {symbol: _address(symbol) for symbol in symbols}
    missing = [symbol for symbol, address in outside.items() if not address]
    if missing:
        raise CompileError(f"this machine's C library has no {', '.join(missing)}")
    return outside


class HostFunction:
    """A kernel that has been loaded for execution on the CPU.

    Attributes
    ----------
    call : callable
        The entry function, which keeps the code of the kernel alive.
    grain : int
        Chunks of the outermost loop begin at multiples of this number.
    spans : dict
        The elements of operands that one iteration of the outermost loop reads, as `codegen.passes.find_spans` returns
        them.
    cost : int
        The approximate number of instructions per element.
    schedule : BlockSchedule
        The block schedule of a fused kernel with a GPU schedule. For other kernels, `NO_SCHEDULE`.
    sites : tuple of str
        Descriptions of the synchronization points of a user-written kernel.
    strided : bool
        Whether the kernel has strided loops whose iterations the threads of a block or of the grid run together.
    loops : bool
        Whether the kernel has loops (so that few threads may take long) and its effect does not depend on the order of
        the blocks.
    private : bool
        Whether each call to the entry function creates private copies of arrays.
    trace, traced
        For an instrumented kernel, the number of words per event, and descriptions of the instrumented sites.
    """

    def __init__(self, call: Callable[[int, int, int], None], address: int, code: ObjectCode) -> None:
        self.call = call
        self.address = address
        self.name = code.entry
        self.parallel = bool(code.launch.get("parallel"))
        self.grain: int = code.launch.get("grain", 1)
        self.spans: dict[int, tuple[Any, Any]] = {k: (n, read) for k, n, read in code.launch.get("spans", ())}
        self.cost: int = code.launch.get("cost", 0)
        self.cooperative = bool(code.launch.get("cooperative"))
        self.schedule = BlockSchedule.of(code) if "block" in code.launch else NO_SCHEDULE
        self.sites: tuple[str, ...] = tuple(code.launch.get("sites", ()))
        self.strided = bool(code.launch.get("strided"))
        self.loops = bool(code.launch.get("loops"))
        self.private = bool(code.launch.get("private"))
        self.trace: int = code.launch.get("trace", 0)
        self.traced: tuple[Any, ...] = tuple(code.launch.get("traced", ()))


def load_object(code: ObjectCode) -> HostFunction:
    """Link and load an object file, and return its kernel. Raises CompileError if a symbol is missing."""
    memory, (address,) = link_symbols(code.code, external_addresses(code.symbols), (code.entry,))
    call = ENTRY(address)
    call.memory = memory  # type: ignore[attr-defined]
    return HostFunction(call, address, code)


def link_symbols(code: bytes, outside: Mapping[str, int], names: Sequence[str]) -> tuple[Any, list[int]]:
    """Link an object file, and return the linked code and the addresses of the given symbols.

    The code stays loaded as long as the first result exists.
    """
    memory: Any
    try:
        memory = elf.link(code, {**_functions_of_llvms_own(), **outside})
        addresses = [memory.symbols.get(name, 0) for name in names]
    except elf.UnsupportedObjectError:
        memory, addresses = _load("mcjit").link(code, outside, names)
    for name, address in zip(names, addresses, strict=True):
        if not address:
            raise CompileError(f"the object code has no entry {name}")
    return memory, addresses
