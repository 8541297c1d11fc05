"""Errors and warnings. A message states what was requested, what is wrong, where, and what to do."""

from __future__ import annotations

import sys
import warnings
from typing import TypeVar

Kind = TypeVar("Kind", bound=type[BaseException])


def public_error(kind: Kind) -> Kind:
    """Set the module of an exception class to `weft`, which exports it. Tracebacks and pickles use this name."""
    kind.__module__ = "weft"
    return kind


@public_error
class WeftError(Exception):
    """Base class of weft's errors."""


@public_error
class OutOfMemoryError(WeftError, MemoryError):
    """Raised if a device has no memory left, even after caches were freed.

    Attributes
    ----------
    requested, held : int
        Bytes requested, and bytes that weft holds on the device.
    total : int or None
        Total bytes of the device.
    limit : int or None
        The limit set by `weft.memory.limit`.
    largest : tuple of (int, str)
        The largest live arrays: their bytes, and the source line that created them.
    """

    def __init__(
        self,
        device: str,
        requested: int,
        held: int,
        total: int | None = None,
        limit: int | None = None,
        largest: tuple[tuple[int, str], ...] = (),
    ) -> None:
        bounds = [f"{held:,} bytes are held by arrays"]
        if total is not None:
            bounds.append(f"the device has {total:,}")
        if limit is not None:
            bounds.append(f"weft.memory.limit allows {limit:,}")
        lines = [
            f"{device}: no memory for {requested:,} bytes ({', '.join(bounds)}); "
            "delete arrays that are no longer needed and evaluate again: nothing pending was lost"
        ]
        if largest:
            lines.append("the largest live arrays:")
            lines += [f"  {nbytes:>15,} bytes, {place}" for nbytes, place in largest]
        super().__init__("\n".join(lines))
        self.requested = requested
        self.held = held
        self.total = total
        self.limit = limit
        self.largest = largest


@public_error
class DeviceNotFoundError(WeftError, LookupError):
    """Raised if there is no device with this name on the machine."""


@public_error
class DeviceMismatchError(WeftError, ValueError):
    """Raised for an operation on arrays of different devices."""


@public_error
class DeviceLostError(WeftError, RuntimeError):
    """Raised if an earlier error has made the device's context unusable. Other devices still work."""


@public_error
class CudaError(WeftError, RuntimeError):
    """Raised if a call of the CUDA driver fails.

    Attributes
    ----------
    call, name : str
        The driver function, and the error's name.
    code : int
    """

    def __init__(self, call: str, code: int, name: str, detail: str = "") -> None:
        super().__init__(f"{call} failed with {name} ({code}){': ' + detail if detail else ''}")
        self.call = call
        self.code = code
        self.name = name


@public_error
class CompileError(WeftError, RuntimeError):
    """Raised if code generation rejects a kernel, or if a tool that it needs is missing."""


@public_error
class MissingAssemblerError(CompileError):
    """Raised if nvJitLink, which assembles PTX without a driver, is not installed."""


@public_error
class KernelFault(WeftError, RuntimeError):
    """Raised if an explicit kernel cannot continue because its threads wait for each other."""

    def __init__(self, kernel: str, detail: str) -> None:
        super().__init__(f"kernel {kernel}: {detail}")
        self.kernel = kernel


@public_error
class SettingError(WeftError, ValueError):
    """Raised if an environment variable has an invalid value."""


@public_error
class CacheWarning(UserWarning):
    """Warning that the disk cache cannot be used. The program continues without it."""


@public_error
class VerificationError(WeftError, AssertionError):
    """Raised if a plan and the interpreter give different bits for a program (setting ``verify``)."""


@public_error
class OptimizerWarning(UserWarning):
    """Warning that planning or compiling has failed. The program was interpreted, with the same result."""


@public_error
class PerformanceWarning(UserWarning):
    """Warning that an operation works, but slower than it could."""


@public_error
class HostFallbackWarning(PerformanceWarning):
    """Warning that NumPy computes an operation on a GPU's arrays on the host.

    The setting `host_fallback` (WEFT_HOST_FALLBACK) silences it, or raises it as an error.
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning at the user's line, which is the innermost frame outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
