"""Kernel launches of a plan. All arguments except those that change between runs are packed in advance.

In: the launches of a plan. Out: `Launch` objects. A device that starts several launches in one call combines them
into `PreparedLaunches`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True)
class Launch:
    """A launch of a kernel, whose buffers are taken from a table.

    Attributes
    ----------
    function
        What `Device.load` returned.
    parallel, work
        As for `Device.launch`.
    slots : array of int64
        The arguments, except those in `patches` and `scalars`.
    patches : list of (slot, place, byte offset)
        Arguments that are the address of the buffer at index `place` of the table, plus an offset.
    scalars : list of (slot, place)
        Arguments that are the integer at index `place` of the table: the bits of a scalar.
    nbytes : int
        Bytes that the kernel reads and writes.
    origin : (code, int) or None
        The user's source location.
    """

    function: Any
    parallel: tuple[int, ...]
    work: int
    slots: array[int]
    patches: list[tuple[int, int, int]]
    scalars: list[tuple[int, int]]
    nbytes: int
    origin: Any


class PreparedLaunches(Protocol):
    """Launches that are prepared once, and started together."""

    def run(self, table: list[Any]) -> None:
        """Start the launches with the buffers of a table.

        The last item of the table is the number of launches that were already started when an interrupt occurred. A
        synchronous device updates this number, and starts only the remaining launches.
        """
        ...
