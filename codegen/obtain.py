"""Kernels to functions that a device can launch, each compiled once.

In: a device and a kernel. Out: what `Device.load` made of its code. A function is found by the kernel's text form and the
target: in memory first, then on disk.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from weft.codegen.compile import code_version, compile_kernel, lower_stages
from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.kernel_ir.text import print_kernel
from weft.runtime import CodeCache, Device, SettingError, building, disk_cache, key_material, setting

_functions = CodeCache()


class Tally:
    """Kernels compiled in this process: those that no cache had."""

    compiled = 0


def is_loaded(device: Device, kernel: Kernel) -> bool:
    """Whether the kernel's function is in memory."""
    return _functions.get(_key(device, print_kernel(kernel))) is not None


def _key(device: Device, text: str) -> tuple[str, Any, str]:
    return device.name, device.target, text


def obtain_function(device: Device, kernel: Kernel) -> Any:
    """The loaded function of `kernel` on `device`."""
    text = print_kernel(kernel)

    def build() -> Any:
        code = obtain_code(device.target, kernel, text)
        with building(kernel.name, code.target, "load", hash(text)):
            return device.load(code)

    return _functions.get_or_build(_key(device, text), build)


def show_stages(target: Any, kernel: Kernel, text: str) -> None:
    """Print the stages that WEFT_DEBUG names, and write them all to the folder that WEFT_DUMP names."""
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
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, content in stages.items():
                (Path(folder) / f"{kernel.name}-{digest}.{target.name}.{name}").write_text(content)
        except OSError as error:
            raise SettingError(f"WEFT_DUMP={folder!r}: kernels cannot be written there: {error}") from None


def obtain_code(target: Any, kernel: Kernel, text: str) -> Any:
    """The object code of `kernel` for `target`, from the disk cache or made now."""
    show_stages(target, kernel, text)
    cache = disk_cache()
    key = key_material(target, f"{code_version()}\n{text}")
    code = cache.get(key) if cache is not None else None
    if code is None:
        Tally.compiled += 1
        with building(kernel.name, target.name, "compile", hash(text)):
            code = compile_kernel(kernel, target)
        if cache is not None:
            cache.put(key, code)
    return code
