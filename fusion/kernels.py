"""From kernel IR to functions a device can launch, each compiled once.

In: a device and a logical kernel. Out: what `Device.load` returned for its code. The key is the
kernel's text form, the target and the versions of what generates code: in memory first, then on disk.
"""

from __future__ import annotations

from typing import Any

from weft.codegen import Kernel, compile_kernel, print_kernel
from weft.fusion.statistics import STATISTICS
from weft.runtime import CodeCache, Device, DiskCache, disk_cache, key_material

_functions = CodeCache()


def obtain_function(device: Device, kernel: Kernel) -> Any:
    """The loaded function of `kernel` on `device`."""
    text = print_kernel(kernel)
    return _functions.get_or_build(
        (device.name, device.target, text), lambda: device.load(obtain_code(device.target, kernel, text))
    )


def obtain_code(target: Any, kernel: Kernel, text: str) -> Any:
    """The object code of `kernel` for `target`, from the disk cache or made now."""
    cache: DiskCache | None = disk_cache()
    key = key_material(target, text)
    code = cache.get(key) if cache is not None else None
    if code is None:
        STATISTICS.compilations += 1
        code = compile_kernel(kernel, target)
        if cache is not None:
            cache.put(key, code)
    return code
