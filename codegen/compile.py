"""Compilation of a kernel for a target, to object code or to the text of each stage."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.codegen.host_target import host_target
from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.kernel_ir.text import print_kernel
from weft.codegen.kernel_ir.verify import verify_kernel
from weft.codegen.target import Target, cuda_target, newest_architecture
from weft.runtime import CompileError, ObjectCode, load_llvm, source_digest, uninterruptible

# Architecture whose schedules device `simt` runs by default.
SIMT_ARCHITECTURE = "sm_90"


def _backend(kind: str) -> Any:
    # imported here so that `import weft` does not load llvmlite
    load_llvm()
    return import_module("weft.codegen.llvm.host" if kind == "cpu" else "weft.codegen.llvm.nvptx")


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return a digest of the code generator's source. It prevents the reuse of code that an older version cached."""
    return source_digest(Path(__file__).parent)


def resolve_target(name: str, newest_ptx: int | None = None) -> Target:
    """Return the target of a name such as "host", "sm_90" or "simt:sm_90".

    "cpu" is the host. "simt:sm_90" runs the schedules of that GPU on the host. A suffix "backward" or "sanitized" after a
    second colon selects how threads run.

    If `newest_ptx` is given (as LLVM counts PTX versions), a GPU's architecture may be unknown. The target is then the
    newest known architecture whose code the GPU can run, and whose PTX the driver can read.
    """
    place, _, rest = name.partition(":")
    if name in ("host", "cpu"):
        target = host_target()
    elif place == "simt":
        architecture, _, way = rest.partition(":")
        if way not in ("", "backward", "sanitized"):
            raise CompileError(f"threads run backward or sanitized, not {way!r}")
        schedule = cuda_target(architecture or SIMT_ARCHITECTURE)
        called = ":".join(part for part in ("simt", schedule.name, way) if part)
        target = replace(
            host_target(), name=called, schedule=schedule, backward=way == "backward", sanitized=way == "sanitized"
        )
    else:
        target = cuda_target(name if newest_ptx is None else newest_architecture(name, newest_ptx))
    return target


def compile_kernel(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a logical or a threaded kernel for a target.

    Raises TypeError for operations that the target cannot compute, and CompileError for other failures.
    """
    verify_kernel(kernel)
    backend = _backend(target.kind)
    compiled = backend.compile_host if target.kind == "cpu" else backend.compile_nvptx
    code: ObjectCode = uninterruptible(lambda: compiled(kernel, target), (target, print_kernel(kernel)))
    return code


def lower_stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """Return the texts of the stages ``kernel``, ``llvm`` and ``asm``. On a GPU, ``asm`` is PTX."""
    verify_kernel(kernel)
    backend = _backend(target.kind)
    rest = backend.host_stages(kernel, target) if target.kind == "cpu" else backend.nvptx_stages(kernel, target)
    return {"kernel": print_kernel(kernel), **rest}
