"""Kernel launches of a plan, prepared once for all runs.

In: the launches of a plan. Out: `Launch` objects. A device that starts several launches in one call combines them
into `PreparedLaunches`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True, eq=False, repr=False)
class Launch:
    """A plan's launch of one kernel, with buffers taken from a table.

    Attributes
    ----------
    function
        What `Device.load` returned.
    parallel, work
        As for `Device.launch`.
    arguments : array of int64
        The arguments, except those in `patches` and `scalars`.
    patches : list of (argument, slot, byte offset)
        Arguments that are the address of the buffer at index `slot` of the table, plus an offset.
    scalars : list of (argument, slot)
        Arguments that are the integer at index `slot` of the table: the bits of a scalar.
    nbytes : int
        Bytes that the kernel reads and writes.
    origin : (code, int) or None
        The user's source location.
    """

    function: Any
    parallel: tuple[int, ...]
    work: int
    arguments: array[int]
    patches: list[tuple[int, int, int]]
    scalars: list[tuple[int, int]]
    nbytes: int
    origin: Any


class PreparedLaunches(Protocol):
    """Protocol for a sequence of prepared kernel launches that start together."""

    def run(self, table: list[Any]) -> None:
        """Start the prepared kernels. They take their buffers and their scalar arguments from the list `table`.

        The last item of the table is the number of launches that were already started when an interrupt occurred. A
        synchronous device updates this number, and starts only the remaining launches.
        """
