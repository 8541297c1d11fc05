"""Counters of the memory accesses of a launch.

They count 32-byte sectors of global memory, and passes over the banks of shared memory.

In: accesses by the lanes of warps. Out: counts. Source: NVIDIA, CUDA C++ Best Practices Guide 13.0, sections 9.2.1 and
9.2.3.1. Invariant: data that several lanes of a warp request in the same access count once. Caches are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SECTOR, BANKS, WORD = 32, 32, 4


@dataclass(slots=True)
class Traffic:
    """The counters of one launch.

    Attributes
    ----------
    read, written : int
        Sectors of global memory.
    requests, passes : int
        Requests to shared memory (of at most 128 bytes), and passes over the banks that the requests need. The counts
        are equal if there are no bank conflicts: no two lanes request different words of the same bank.
    instructions : int
        Instructions executed by warps.
    """

    read: int = 0
    written: int = 0
    requests: int = 0
    passes: int = 0
    instructions: int = 0

    def note(self, space: str, at: np.ndarray, warp: np.ndarray, lane: np.ndarray, size: int, writes: bool) -> None:
        """Add one access to the counters. In the access, each of several lanes reads or writes `size` bytes."""
        if space == "global":
            sectors = warp.astype(np.int64) << 44 | (at >> np.uint64(5)).astype(np.int64)
            count = len(np.unique(sectors))
            if writes:
                self.written += count
            else:
                self.read += count
        elif space == "shared":
            lanes_at_once = 32 if size <= WORD else 32 * WORD // size
            request = warp.astype(np.int64) * 4 + lane // lanes_at_once
            words = (at // np.uint64(WORD)).astype(np.int64)[:, None] + np.arange(max(1, size // WORD))
            asked = np.unique((request[:, None] << 20 | words).ravel())
            at_bank = (asked >> 20) * BANKS + asked % BANKS
            _, first, times = np.unique(at_bank, return_index=True, return_counts=True)
            which = at_bank[first] // BANKS
            most = np.zeros(int(which.max()) + 1, np.int64)
            np.maximum.at(most, which, times)
            self.requests += int((most > 0).sum())
            self.passes += int(most.sum())
