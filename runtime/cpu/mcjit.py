"""Linking of object code with LLVM.

LLVM links code for machines, and with relocations, that the linker in `elf` does not support.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from weft.runtime.fork_locks import renew_in_children

_lock = threading.RLock()
renew_in_children(sys.modules[__name__])


def link(code: bytes, outside: Mapping[str, int], names: Sequence[str]) -> tuple[Any, list[int]]:
    """Link an object file with LLVM.

    Return an object that keeps the code alive, and the addresses of the symbols `names` (0 if missing).
    """
    with _lock:
        for symbol, address in outside.items():
            llvm.add_symbol(symbol, address)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # an engine takes ownership of its module and machine, so both are new
        module = llvm.parse_assembly("")
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, [engine.get_function_address(name) for name in names]
