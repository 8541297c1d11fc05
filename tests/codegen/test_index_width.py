"""Tests of the size limit of kernels that compute indices in 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen import choose_index_dtype
from weft.codegen.index_width import LIMIT
from weft.codegen.machines import GPU
from weft.codegen.schedules.scatter import MOST_BLOCKS

BEYOND = [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**40]


@pytest.mark.parametrize("size", BEYOND)
def test_large_spans_and_extents_need_64_bits(size: int) -> None:
    assert choose_index_dtype([size], [10]) == np.int64
    assert choose_index_dtype([10], [size]) == np.int64
    assert choose_index_dtype([10, size, 3], []) == np.int64


def test_32_bits_up_to_the_limit() -> None:
    assert choose_index_dtype([LIMIT - 1], [LIMIT - 2]) == np.int32
    assert choose_index_dtype([LIMIT], []) == np.int64
    assert choose_index_dtype([], [LIMIT - 1]) == np.int64
    assert choose_index_dtype([], []) == np.int32


def test_the_limit_leaves_room_for_a_block_of_threads_and_lanes() -> None:
    # the maximum index beyond the extent of a kernel: 1024 threads with 16 lanes or unrolled iterations each
    assert LIMIT + 1024 * 16 < 2**31


def test_the_limit_leaves_room_for_a_stride_of_the_grid() -> None:
    assert LIMIT + MOST_BLOCKS * GPU.block < 2**31
