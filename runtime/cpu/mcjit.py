"""Linking host object code with LLVM, on machines for which `elf` does not."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm

_lock = threading.Lock()


def link(code: bytes, outside: Mapping[str, int], entry: str) -> tuple[Any, int]:
    """Load an object file: what keeps the code alive, and the address of `entry`, 0 where it is not there."""
    with _lock:
        for symbol, address in outside.items():
            llvm.add_symbol(symbol, address)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # an engine takes possession of its module and machine, so both are new
        module = llvm.parse_assembly("")
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, engine.get_function_address(entry)
