"""Failure records of user-written kernels on the CPU.

A kernel that cannot continue writes the reason into its record. The record's words are the kind of failure (0: none),
the block, and two threads with the synchronization points at which they wait. The words of `fault_words` follow.
"""

from __future__ import annotations

from array import array

from weft.runtime.cpu import fault_words, interrupts
from weft.runtime.cpu.loader import HostFunction
from weft.runtime.errors import KernelFault


class FaultRecord:
    """The failure record of a kernel launch."""

    __slots__ = ("_words", "address")

    def __init__(self) -> None:
        self._words = array("q", bytes(8 * fault_words.END))
        self.address = self._words.buffer_info()[0]
        found = interrupts.guard()
        if found is not None:
            self._words[fault_words.POLL], self._words[fault_words.SHARED] = found.asked, found.shared

    def check(self, function: HostFunction, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        """Raise KernelFault if the kernel has reported a failure.

        If an exception from a signal handler stopped the kernel, raise that exception instead.
        """
        if self._words[fault_words.STOP]:
            interrupts.raise_again(self._words)
        if not self._words[0]:
            return
        _, block_number, first, first_site, second, second_site = self._words[:6]
        sites = [*function.sites, "another branch"]
        where = f"block {_coordinates(block_number, grid)}"
        waits = [f"thread {_coordinates(first, block)} waits at {sites[first_site]}"]
        if second >= 0:
            waits.append(f"thread {_coordinates(second, block)} at {sites[second_site]}")
        hint = "" if " in line " in "".join(sites) else " (debug=True adds the lines)"
        raise KernelFault(function.name, f"{where}: {', '.join(waits)}: they wait for each other forever{hint}")


def _coordinates(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)
