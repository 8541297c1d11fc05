"""Kernel launches of a plan, with arguments packed in advance except those that change between runs.

In: the launches of a plan. Out: `Launch` objects. A device that starts several launches in one call combines them
into `PreparedLaunches`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True)
class Launch:
    """One kernel launch over a table of buffers.

    Attributes
    ----------
    function
        What `Device.load` returned.
    parallel, work
        As `Device.launch` takes them.
    slots : array of int64
        The arguments, but for those that `patches` and `scalars` name.
    patches : list of (slot, place, byte offset)
        Arguments that are the address of what lies at a place of the table.
    scalars : list of (slot, place)
        Arguments that are an integer of the table: the bits of a number.
    nbytes : int
        Bytes that it reads and writes.
    origin : (code, int) or None
        Where the user's program asked for it.
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
    """Launches that are prepared once and started together."""

    def run(self, table: list[Any]) -> None:
        """Start the launches with the buffers of a table.

        Its last item is how many of them an interrupt came behind; on a device whose launches return when they are done it
        is kept, and the rest is started.
        """
        ...
