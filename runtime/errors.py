"""Weft's errors and warnings.

A message states what was requested, what is wrong, where, and what to do.
"""

from __future__ import annotations

import sys
import warnings
from typing import TypeVar

Kind = TypeVar("Kind", bound=type[BaseException])


def public_error(kind: Kind) -> Kind:
    """Decorate an exception class so that its module is `weft` in tracebacks and pickles."""
    kind.__module__ = "weft"
    return kind


@public_error
class WeftError(Exception):
    """Base class of weft's errors.

    Examples
    --------
    >>> try:
    ...     x = wf.ones(3).to("tpu")
    ... except wf.WeftError as error:
    ...     print(type(error).__name__)
    DeviceNotFoundError
    """


@public_error
class OutOfMemoryError(WeftError, MemoryError):
    """Raised if an allocation fails even after weft has released its cached memory.

    Attributes
    ----------
    requested, held : int
        Bytes requested, and bytes that existing arrays use on the device.
    total : int or None
        Total bytes of the device.
    limit : int or None
        The limit set by `weft.memory.limit`.
    largest : tuple of (int, str)
        For each of the largest live arrays, the size in bytes and the source line that created the array.

    Examples
    --------
    >>> x = wf.asarray(np.ones(100_000))
    >>> wf.memory.limit(1000)
    >>> try:
    ...     wf.evaluate(x + 1)
    ... except wf.OutOfMemoryError as error:
    ...     print(error.requested, error.limit)
    800000 1000
    >>> wf.memory.limit(None)  # returns the previous limit
    1000
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
            lines += [f"  {nbytes:>15,} bytes, {location}" for nbytes, location in largest]
        super().__init__("\n".join(lines))
        self.requested = requested
        self.held = held
        self.total = total
        self.limit = limit
        self.largest = largest


@public_error
class DeviceNotFoundError(WeftError, LookupError):
    """Raised if this machine has no device with the given name.

    Examples
    --------
    >>> wf.ones(3).to("tpu")
    Traceback (most recent call last):
        ...
    weft.DeviceNotFoundError: no device 'tpu'; devices are called cpu, cuda:0, cuda:1, ..., simt, null
    """


@public_error
class DeviceMismatchError(WeftError, ValueError):
    """Raised for an operation on arrays that are on different devices.

    Examples
    --------
    >>> wf.ones(3).to("simt") + wf.ones(3).to("cpu")
    Traceback (most recent call last):
        ...
    weft.DeviceMismatchError: add of arrays on cpu and simt: move one, for example with .to('cpu')
    """


@public_error
class DeviceLostError(WeftError, RuntimeError):
    """Raised if an earlier error has made a device unusable. Other devices can still be used.

    Examples
    --------
    >>> try:
    ...     total = float(wf.ones(1_000_000).sum())
    ... except wf.DeviceLostError:  # only on a GPU
    ...     with wf.device("cpu"):
    ...         total = float(wf.ones(1_000_000).sum())
    >>> total
    1000000.0
    """


@public_error
class CudaError(WeftError, RuntimeError):
    """Raised if a function of the CUDA driver or of a CUDA library fails.

    Attributes
    ----------
    call, name : str
        The function that failed, and the name of the error.
    code : int

    Examples
    --------
    >>> try:
    ...     total = float(wf.ones(1_000_000).sum())
    ... except wf.CudaError as error:  # only on a GPU
    ...     print(error.call, error.name)
    """

    def __init__(self, call: str, code: int, name: str, detail: str = "") -> None:
        super().__init__(f"{call} failed with {name} ({code}){': ' + detail if detail else ''}")
        self.call = call
        self.code = code
        self.name = name


@public_error
class CompileError(WeftError, RuntimeError):
    """Raised if a kernel cannot be compiled, for example because a tool is missing.

    Examples
    --------
    >>> @cuda.jit
    ... def double(x):
    ...     x[cuda.grid(1)] *= 2
    >>> cuda.compile_ptx(double, "void(float64[:])", cc=(99, 0))
    Traceback (most recent call last):
        ...
    weft.CompileError: no target 'sm_990'; there are host, ...
    """


@public_error
class MissingAssemblerError(CompileError):
    """Raised if nvJitLink, which assembles PTX without a driver, is not installed.

    Examples
    --------
    >>> try:
    ...     text = str(wf.explain(wf.ones(100_000) + 1, stage="asm", target="sm_90"))
    ... except wf.MissingAssemblerError as error:
    ...     print(error)  # the command that installs nvJitLink
    """


@public_error
class KernelFault(WeftError, RuntimeError):
    """Raised if a user-written kernel cannot continue, because its threads wait for each other.

    Examples
    --------
    >>> @wf.kernel
    ... def swap(x):
    ...     if cuda.threadIdx.x == 0:
    ...         cuda.syncthreads()  # the other thread waits at another barrier
    ...     else:
    ...         cuda.syncthreads()
    ...     x[cuda.threadIdx.x] += 1
    >>> swap[1, 2](np.zeros(2))
    Traceback (most recent call last):
        ...
    weft.KernelFault: kernel swap: block (0, 0, 0): thread (0, 0, 0) waits at barrier, ...
    """

    def __init__(self, kernel: str, detail: str) -> None:
        super().__init__(f"kernel {kernel}: {detail}")
        self.kernel = kernel


@public_error
class SettingError(WeftError, ValueError):
    """Raised if a setting is unknown, or if its value is invalid or cannot be used.

    Examples
    --------
    >>> try:
    ...     print(wf.ones(1_000_000).sum())
    ... except wf.SettingError as error:  # for example with WEFT_NUM_THREADS=many
    ...     print(error)
    1000000.0
    """


@public_error
class CacheWarning(UserWarning):
    """Issued if the disk cache or a cache entry cannot be used.

    The program continues without the cache or the entry.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", wf.CacheWarning)  # end the program if its kernels cannot be cached
    ...     print(wf.ones(1_000_000).sum())
    1000000.0
    """


@public_error
class VerificationError(WeftError, AssertionError):
    """Raised if a plan and the interpreter compute different results.

    Results are compared only while verification is enabled.

    Examples
    --------
    >>> try:  # with WEFT_VERIFY=1, or under weft run --verify
    ...     print(wf.ones(1_000_000).sum())
    ... except wf.VerificationError as error:
    ...     print(error)  # names a report for an issue
    1000000.0
    """


@public_error
class OptimizerWarning(UserWarning):
    """Issued if planning or compiling fails. Slower code then computes the same result.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", wf.OptimizerWarning)
    ...     print(wf.ones(1_000_000).sum())
    1000000.0
    >>> [str(warning.message) for warning in caught]  # each message names a report for an issue
    []
    """


@public_error
class PerformanceWarning(UserWarning):
    """Issued if an operation is slower than it could be. The result is correct.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", wf.PerformanceWarning)
    ...     print(wf.vectorize(lambda x: str(x)[0])(np.arange(12.0, 15.0)))  # cannot be compiled, so NumPy calls it
    ['1' '1' '1']
    """


@public_error
class HostFallbackWarning(PerformanceWarning):
    """Issued if an operation on GPU arrays is executed by NumPy on the host.

    The operands or results are on a GPU or on `simt`. The `host_fallback` setting (WEFT_HOST_FALLBACK) can disable the
    warning or turn it into an error.

    Examples
    --------
    >>> import warnings
    >>> x = wf.ones((200, 200)).to("simt")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", wf.HostFallbackWarning)
    ...     q, r = wf.linalg.qr(x)
    >>> caught[0].category.__name__
    'HostFallbackWarning'
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning at the user's line, the innermost line outside of weft's code."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
