"""The choice of the width of index arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

# Spans and extents below this limit allow 32-bit indices. The margin is for one block of threads or lanes, and for one
# stride of the grid of a scatter: a loop computes the index after its last iteration.
LIMIT = 2**31 - 2**19


def choose_index_dtype(byte_spans: Iterable[int], extents: Iterable[int]) -> np.dtype:
    """Return int32 if it can represent all indices and byte offsets of a launch, otherwise int64.

    Values that almost exceed the range of int32 also need int64.
    """
    if all(span < LIMIT for span in byte_spans) and all(extent + 1 < LIMIT for extent in extents):
        return np.dtype(np.int32)
    return np.dtype(np.int64)
