"""The module ``weft.memory``: functions that show, limit and release device memory.

The functions take a device, by default the default device. A limit applies to the sum of the memory of arrays and the
cached memory. An evaluation that would exceed the limit raises `OutOfMemoryError` and changes no array. Invariant: the
interface is the same on all devices.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import weft.fusion as fusion
import weft.runtime as runtime

_UNCHANGED: Any = object()


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Memory usage of one device, in bytes.

    Attributes
    ----------
    device : str
    held : int
        Bytes held by arrays.
    kept : int
        Bytes of free blocks that are cached for reuse. `empty` releases these blocks.
    peak : int
        Maximum of `held` since the start of the process.
    limit : int or None
        Maximum of the sum of `held` and `kept`, or None if it is not limited.
    free, total : int
        Free and total bytes of the device's memory. Other programs may also use this memory.

    Examples
    --------
    >>> info = wf.memory.info()
    >>> info.held <= info.peak
    True
    """

    device: str
    held: int
    kept: int
    peak: int
    limit: int | None
    free: int
    total: int

    def __str__(self) -> str:
        limit = "none" if self.limit is None else fusion.show_bytes(self.limit)
        return (
            f"{self.device}: {fusion.show_bytes(self.held)} held by arrays (at most {fusion.show_bytes(self.peak)} so far), "
            f"{fusion.show_bytes(self.kept)} kept for reuse, limit {limit}; "
            f"{fusion.show_bytes(self.free)} of {fusion.show_bytes(self.total)} free"
        )


def _device(device: Any) -> runtime.Device:
    return runtime.default_device() if device is None else runtime.get_device(device)


def info(device: Any = None) -> MemoryInfo:
    """Return the memory usage of a device, in bytes.

    Parameters
    ----------
    device : str or Device, optional
        The device, by default the default device.

    Returns
    -------
    MemoryInfo
        The memory usage, in bytes. ``print`` shows it with units.

    Examples
    --------
    >>> x = wf.evaluate(wf.ones(100_000))
    >>> wf.memory.info('cpu').held >= x.nbytes
    True
    """
    chosen = _device(device)
    memory = chosen.memory
    return MemoryInfo(chosen.name, memory.held, memory.kept, memory.peak, memory.limit, *chosen.memory_info())


def limit(nbytes: int | None = _UNCHANGED, device: Any = None) -> int | None:
    """Set the limit of weft's memory on a device, and return the previous limit.

    Parameters
    ----------
    nbytes : int or None, optional
        The limit in bytes. None removes the limit. If omitted, the limit is unchanged. If arrays and cached memory
        exceed the new limit, the cached memory is released.
    device : str or Device, optional
        The device, by default the default device.

    Returns
    -------
    int or None
        The previous limit.

    Examples
    --------
    >>> before = wf.memory.limit(2**30)
    >>> wf.memory.limit(before)
    1073741824
    """
    memory = _device(device).memory
    before = memory.limit
    if nbytes is not _UNCHANGED:
        if nbytes is not None and operator.index(nbytes) < 0:
            raise ValueError(f"a limit is a number of bytes, 0 or more, or None; not {nbytes}")
        memory.limit = None if nbytes is None else operator.index(nbytes)
        if memory.limit is not None and memory.held + memory.kept > memory.limit:
            memory.empty()
    return before


def empty(device: Any = None) -> int:
    """Release the cached memory that no array uses, and return the size of this memory in bytes.

    Parameters
    ----------
    device : str or Device, optional
        The device, by default the default device.

    Returns
    -------
    int
        The number of bytes released.

    Examples
    --------
    >>> released = wf.memory.empty()
    >>> wf.memory.info().kept
    0
    """
    return _device(device).memory.empty()


def largest(count: int = 5, device: Any = None) -> tuple[tuple[int, str], ...]:
    """Return the sizes and source lines of the largest buffers on a device.

    Parameters
    ----------
    count : int
        Maximum number of buffers.
    device : str or Device, optional
        The device, by default the default device.

    Returns
    -------
    tuple of (int, str)
        The size of each buffer in bytes, and the source line that created the buffer, if known.

    Examples
    --------
    >>> x = wf.evaluate(wf.ones(1_000_000))
    >>> nbytes, line = wf.memory.largest(1)[0]
    >>> nbytes >= x.nbytes
    True
    """
    return runtime.largest_buffers(_device(device).name, count)


__all__ = ["MemoryInfo", "empty", "info", "largest", "limit"]
