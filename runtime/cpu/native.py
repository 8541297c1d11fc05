"""Native functions of the runtime's own: LLVM text to an address.

In: text that defines one function and refers to nothing outside. Out: its address. Always true: the code is kept in the
disk cache, so that a process which finds it there does not load llvmlite for it.
"""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from typing import Any

from weft.runtime.cache import disk_cache, key_material
from weft.runtime.cpu.loader import load_object
from weft.runtime.errors import CompileError
from weft.runtime.object_code import ObjectCode
from weft.runtime.undisturbed import undisturbed


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A loaded function: its address, and what keeps the code."""

    address: int
    memory: Any


def obtain_native(entry: str, text: str) -> NativeFunction:
    """The function `entry` that `text` defines. Raises CompileError where it cannot be compiled or loaded."""
    cache = disk_cache()
    key = key_material(f"native {platform.machine()} {platform.system()}", text)
    code = cache.get(key) if cache is not None else None
    if code is None:
        code = ObjectCode("object", entry, undisturbed(lambda: _compile(text)), "host", ())
        if cache is not None:
            cache.put(key, code)
    loaded = load_object(code)
    return NativeFunction(ctypes.cast(loaded.call, ctypes.c_void_p).value or 0, loaded)  # type: ignore[arg-type]


def _compile(text: str) -> bytes:
    """An object file for any processor of this machine's kind."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the runtime's own code is not valid: {error}") from None
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small")
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))
