"""libdevice: the math functions of the GPU, as bitcode that is linked into kernels that call them."""

from __future__ import annotations

from functools import lru_cache

import llvmlite.binding as llvm

from weft.runtime import CompileError, find_libdevice

MISSING = (
    "libdevice was not found, which this kernel's math functions need: pip install 'weft[cuda13]' (or nvidia-nvvm)"
)


@lru_cache(maxsize=1)
def bitcode() -> bytes:
    """libdevice's bitcode. Raises CompileError where it is missing."""
    path = find_libdevice()
    if path is None:
        raise CompileError(MISSING)
    return path.read_bytes()


def device_name(name: str, bits: int) -> str:
    """libdevice's name of a C library function for float32 or float64."""
    return f"__nv_{name}{'f' if bits == 32 else ''}"


def link(module: llvm.ModuleRef) -> None:
    """Link libdevice into `module` and keep of it only what is called.

    Raises CompileError where a function is called with other types than it has.
    """
    library = llvm.parse_bitcode(bitcode())
    for wanted in module.functions:
        if wanted.is_declaration and wanted.name.startswith("__nv_"):
            own = next((f for f in library.functions if f.name == wanted.name), wanted)
            if str(own.global_value_type) != str(wanted.global_value_type):
                raise CompileError(f"{own.name} is {own.global_value_type}, not {wanted.global_value_type}")
    names = [f.name for f in library.functions if not f.is_declaration]
    module.link_in(library)
    for name in names:
        module.get_function(name).linkage = "internal"
