"""Loading host object code: every outside symbol is found before anything is linked."""

from __future__ import annotations

import ctypes
import ctypes.util
import threading
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import llvmlite.binding as llvm

from weft.runtime.cpu.printing import CALLBACK
from weft.runtime.cpu.watching import FULL, LOG
from weft.runtime.errors import CompileError
from weft.runtime.object_code import BlockSchedule, ObjectCode

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_lock = threading.Lock()
# Functions and memory of ours that host code may use.
_OWN: dict[str, Any] = {"weft_print": CALLBACK, "weft_watch_log": LOG, "weft_watch_full": FULL}


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = [ctypes.CDLL(ctypes.util.find_library("m") or None)]
    try:
        found.append(ctypes.CDLL("libmvec.so.1"))
    except OSError:
        return tuple(found)
    return tuple(found)


@cache
def _provide(symbol: str) -> bool:
    """Tell the linker where `symbol` lies; whether anything has it."""
    if symbol in _OWN:
        llvm.add_symbol(symbol, ctypes.cast(_OWN[symbol], ctypes.c_void_p).value)
        return True
    for library in _libraries():
        if hasattr(library, symbol):
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            assert address is not None
            llvm.add_symbol(symbol, address)
            return True
    return False


class HostFunction:
    """A loaded kernel: `call` is its entry, kept alive with the engine that holds the code.

    `sites` tells of the places where threads of an explicit kernel meet, `schedule` how a GPU's schedule is launched.
    """

    __slots__ = ("_engine", "call", "cooperative", "name", "parallel", "schedule", "sites")

    def __init__(self, engine: Any, call: Callable[[int, int, int], None], code: ObjectCode) -> None:
        self._engine = engine
        self.call = call
        self.name = code.entry
        self.parallel = bool(code.launch.get("parallel"))
        self.cooperative = bool(code.launch.get("cooperative"))
        self.schedule = BlockSchedule.of(code)
        self.sites: tuple[str, ...] = tuple(code.launch.get("sites", ()))


def load_object(code: ObjectCode) -> HostFunction:
    """Link and load an object file. Raises CompileError where it needs a symbol that the machine lacks."""
    missing = [symbol for symbol in code.symbols if not _provide(symbol)]
    if missing:
        raise CompileError(f"this machine's C library has no {', '.join(missing)}")
    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # an engine takes possession of its module and machine, so both are new
        module = llvm.parse_assembly("")
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.code))
        engine.finalize_object()
        address = engine.get_function_address(code.entry)
    if not address:
        raise CompileError(f"the object code has no entry {code.entry}")
    return HostFunction(engine, _ENTRY(address), code)
