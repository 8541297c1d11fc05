"""Warnings about operations on GPU arrays that NumPy executes on the host.

In: an operation, the bytes that are copied for it, and the user's source location. Out: a warning or an error,
depending on the `host_fallback` setting. Invariant: an operation on one source line causes one warning, or
a few in a program with more than `LIMIT` warnings.
"""

from __future__ import annotations

import warnings
from typing import Any

from weft.runtime.allocation_report import source_line
from weft.runtime.device import Device
from weft.runtime.errors import HostFallbackWarning
from weft.runtime.settings import setting

# The file, the line and the name of each operation that was reported. At most `LIMIT`.
_reported: set[tuple[str, int, str]] = set()
LIMIT = 10_000


def is_gpu(device: Device) -> bool:
    """Return whether a device is a GPU or an emulated GPU."""
    return device.name.partition(":")[0] in ("cuda", "simt")


def report_fallback(device: Device, operation: str, nbytes: int, location: Any, draws: bool = False) -> None:
    """Warn that an operation on arrays of `device` is computed on the host.

    Parameters
    ----------
    device : Device
    operation : str
    nbytes : int
        Bytes of the arguments and results that are copied between the device and the host.
    location : tuple of (code, int)
        The user's source location: a code object, and the offset of an instruction.
    draws : bool, default False
        Whether the operation draws random numbers. Other draws of the same method may run on the device.

    Raises
    ------
    HostFallbackWarning
        If the `host_fallback` setting is "raise".
    """
    rule = setting("host_fallback")
    if rule == "ignore":
        return
    if draws:
        message = f"{operation} draws these numbers on the host: {nbytes:,} bytes are copied to {device.name}"
    else:
        message = (
            f"{operation} has no implementation for {device.name}: {nbytes:,} bytes are copied between the device and the "
            "host, where NumPy computes the result"
        )
    message += " (WEFT_HOST_FALLBACK=ignore silences this, raise makes it an error)"
    if rule == "raise":
        raise HostFallbackWarning(message)
    file, line = source_line(location)
    key = file, line, operation
    if key not in _reported:
        if len(_reported) >= LIMIT:
            _reported.clear()
        _reported.add(key)
        warnings.warn_explicit(message, HostFallbackWarning, file, line)
