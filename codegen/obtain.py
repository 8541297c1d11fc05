"""Loaded functions of kernels. Each kernel is compiled once.

In: a device and a kernel. Out: the result of `Device.load` for its code. A function is looked up by the kernel's text
form and the target, first in memory and then on disk.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.codegen.compile import code_version, compile_kernel, lower_stages
from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.kernel_ir.text import print_kernel
from weft.runtime import CodeCache, Device, SettingError, building, disk_cache, kernel_number, key_material, setting

if TYPE_CHECKING:
    from weft.codegen.target import Target

_functions = CodeCache()


class CompileCounts:
    """Counter of the kernels that this process compiled. Kernels found in a cache do not count."""

    compiled = 0


def kernel_digest(target: Target, kernel: Kernel) -> str:
    """Return the digest of a kernel and a target. It is the key of the code in memory and on disk."""
    return hashlib.sha256(_key(target, print_kernel(kernel))).hexdigest()


def is_loaded(device: Device, digest: str) -> bool:
    """Return whether the function of the kernel with this digest is in memory."""
    return _functions.get((device.name, digest)) is not None


def _key(target: Target, text: str) -> bytes:
    return key_material(target, f"{code_version()}\n{text}")


def obtain_function(device: Device, kernel: Kernel, digest: str = "") -> Any:
    """Return the loaded function of `kernel` on `device`. The kernel is compiled if its code is not cached."""
    digest = digest or kernel_digest(device.target, kernel)

    def build() -> Any:
        code = obtain_code(device.target, kernel, print_kernel(kernel))
        with building(kernel.name, code.target, "load", kernel_number(digest)):
            return device.load(code)

    return _functions.get_or_build((device.name, digest), build)


def find_function(device: Device, digest: str) -> Any | None:
    """Return the function with this digest, from memory or from the disk cache. Return None if neither has it."""

    def build() -> Any | None:
        cache = disk_cache()
        code = cache.find(digest) if cache is not None else None
        if code is None:
            return None
        with building(code.entry, code.target, "load", kernel_number(digest)):
            return device.load(code)

    return _functions.get_or_build((device.name, digest), build)


def show_stages(target: Target, kernel: Kernel, text: str) -> None:
    """Print the stages of a kernel that WEFT_DEBUG names, and write all stages to the folder that WEFT_DUMP names."""
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


def obtain_code(target: Target, kernel: Kernel, text: str) -> Any:
    """Return the object code of `kernel` for `target`. The kernel is compiled if its code is not cached on disk."""
    show_stages(target, kernel, text)
    cache = disk_cache()
    key = _key(target, text)
    code = cache.get(key) if cache is not None else None
    if code is None:
        CompileCounts.compiled += 1
        with building(kernel.name, target.name, "compile", kernel_number(hashlib.sha256(key).hexdigest())):
            code = compile_kernel(kernel, target)
        if cache is not None:
            cache.put(key, code)
    return code
