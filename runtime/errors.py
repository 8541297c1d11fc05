"""Errors and warnings. A message says what was asked, what is wrong, where, and what to do."""

from __future__ import annotations

import sys
import warnings


class WeftError(Exception):
    """Base of the library's own errors."""


class OutOfMemoryError(WeftError, MemoryError):
    """A device has no memory left, even after freeing caches and one retry.

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


class DeviceNotFoundError(WeftError, LookupError):
    """The named device does not exist on this machine."""


class DeviceMismatchError(WeftError, ValueError):
    """One operation has arrays of different devices."""


class DeviceLostError(WeftError, RuntimeError):
    """An earlier error made the device's context unusable; other devices still work."""


class CudaError(WeftError, RuntimeError):
    """A driver call failed.

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


class CompileError(WeftError, RuntimeError):
    """Code generation rejected a kernel, or a required tool is missing."""


class MissingAssemblerError(CompileError):
    """nvJitLink, which assembles PTX without a driver, is not installed."""


class KernelFault(WeftError, RuntimeError):
    """An explicit kernel cannot continue because its threads wait for each other."""

    def __init__(self, kernel: str, detail: str) -> None:
        super().__init__(f"kernel {kernel}: {detail}")
        self.kernel = kernel


class SettingError(WeftError, ValueError):
    """An environment variable has an invalid value."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used; the program continues without it."""


class VerificationError(WeftError, AssertionError):
    """A plan and the interpreter gave different bits for the same program (setting ``verify``)."""


class OptimizerWarning(UserWarning):
    """Planning or compiling failed; the program was interpreted instead, with the same result."""


class PerformanceWarning(UserWarning):
    """An operation works, but slower than it could."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line: the innermost frame outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
