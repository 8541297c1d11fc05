"""Linking of libdevice, NVIDIA's math library for GPUs, into kernels.

In: a module that calls functions of libdevice. Out: the same module with these functions and their dependencies.
Invariant: each function is extracted from the library once, and cached in memory and on disk. Only an extraction reads
the whole library.
"""

from __future__ import annotations

from functools import cache, lru_cache

import llvmlite.binding as llvm

from weft.codegen.target import CUDA_TRIPLE
from weft.runtime import CompileError, ObjectCode, find_libdevice, key_material, obtain_entry

MISSING = (
    "libdevice was not found, which this kernel's math functions need: pip install 'weft[cuda13]' (or nvidia-nvvm)"
)
# Version of the extraction, which invalidates cached functions when it changes.
FORM = 1


def device_name(name: str, bits: int) -> str:
    """Return libdevice's name for a C library function of float32 or float64."""
    return f"__nv_{name}{'f' if bits == 32 else ''}"


def link(module: llvm.ModuleRef) -> None:
    """Link into `module` the libdevice functions that it calls.

    Raises CompileError if libdevice is missing, lacks a function, or has a function of another type.
    """
    added: set[str] = set()
    for wanted in [f for f in module.functions if f.is_declaration and f.name.startswith("__nv_")]:
        name, kind = wanted.name, str(wanted.global_value_type)
        found = _extracted(name, _library())
        if found.launch["type"] != kind:
            raise CompileError(f"{name} is {found.launch['type']}, not {kind}")
        module.link_in(llvm.parse_bitcode(found.code))
        added.update((name, *found.launch["needs"]))
    for thing in (*module.functions, *module.global_variables):
        if thing.name in added:
            thing.linkage = "internal"


@lru_cache(maxsize=1)
def _library() -> tuple[str, int, int]:
    """Return the path, size and modification time of libdevice, which identify its version.

    Raises CompileError if libdevice is missing.
    """
    path = find_libdevice()
    if path is None:
        raise CompileError(MISSING)
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns


@cache
def _extracted(name: str, library: tuple[str, int, int]) -> ObjectCode:
    """Return a libdevice function and its dependencies as bitcode."""
    key = key_material("libdevice", f"{FORM} {library} LLVM {llvm.llvm_version_info} {name}")
    return obtain_entry(key, lambda: _extract(name, library[0]))


@lru_cache(maxsize=1)
def _whole(path: str) -> llvm.ModuleRef:
    """Load libdevice as an LLVM module, from which single functions are extracted."""
    with open(path, "rb") as file:
        return llvm.parse_bitcode(file.read())


def _extract(name: str, path: str) -> ObjectCode:
    module = _whole(path).clone()
    defined = {thing.name: thing for thing in (*module.functions, *module.global_variables) if not thing.is_declaration}
    if name not in defined:
        raise CompileError(f"libdevice has no function {name}")
    for other, thing in defined.items():
        if other != name:
            thing.linkage = "linkonce_odr"  # functions that share a dependency share one copy
    machine = llvm.Target.from_triple(CUDA_TRIPLE).create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, builder)
    needs = [
        thing.name
        for thing in (*module.functions, *module.global_variables)
        if thing.name in defined and thing.name != name
    ]
    facts = {"type": str(module.get_function(name).global_value_type), "needs": needs}
    return ObjectCode("bitcode", name, module.as_bitcode(), "libdevice", (), (), facts)
