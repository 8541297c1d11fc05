"""Compilation of kernels to object code for a CPU or a GPU."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import import_module
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.kernel_ir.text import print_kernel
from weft.codegen.kernel_ir.verify import verify_kernel
from weft.codegen.target import Target
from weft.runtime import ObjectCode, SettingError, load_llvm, setting, uninterruptible


def _backend(kind: str) -> Any:
    # imported here so that `import weft` does not load llvmlite
    load_llvm()
    return import_module("weft.codegen.llvm.host" if kind == "cpu" else "weft.codegen.llvm.nvptx")


def compile_kernel(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a kernel to object code for a CPU or a GPU.

    Raises InvalidKernelError for an invalid kernel, TypeError for ops that are not defined for complex numbers, and
    CompileError for other failures.
    """
    verify_kernel(kernel)
    backend = _backend(target.kind)
    code: ObjectCode = uninterruptible(lambda: backend.compile_code(kernel, target), (target, print_kernel(kernel)))
    return code


def lower_stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """Return the text of a kernel after each stage of compilation, by stage name.

    The stages are ``kernel``, ``llvm`` and ``asm``. On a GPU, ``asm`` is PTX, and ``threaded`` precedes ``llvm``.
    """
    verify_kernel(kernel)
    return {"kernel": print_kernel(kernel), **_backend(target.kind).stages(kernel, target)}


def show_stages(target: Target, kernel: Kernel, text: str) -> None:
    """Print and save the compilation stages of a kernel, as the user's settings request.

    The setting WEFT_DEBUG names the stages to print. WEFT_DUMP names a folder to which all stages are written.
    """
    wanted = [name for name in setting("debug") if name in ("kernel", "llvm", "asm")]
    folder = setting("dump")
    if not wanted and not folder:
        return
    stages = lower_stages(kernel, target)
    for name in wanted:
        print(f"-- {name}\n{stages[name]}", file=sys.stderr)
    if folder:
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        try:
            os.makedirs(folder, exist_ok=True)
            for name, content in stages.items():
                with open(os.path.join(folder, f"{kernel.name}-{digest}.{target.name}.{name}"), "w") as file:
                    file.write(content)
        except OSError as error:
            raise SettingError(f"WEFT_DUMP={folder!r}: kernels cannot be written there: {error}") from None
