"""Sum an array with warp shuffles.

Each thread adds the elements of a grid-stride loop. Each warp combines the sums of its threads with shuffles, and one
lane adds the result to the total. Shared memory and barriers are not needed, because the 32 lanes of a warp read each
other's values directly.

Usage: warp_sum.py [elements]
"""

import sys

import numpy as np

from weft import cuda

ALL_LANES = 0xFFFFFFFF


@cuda.jit(device=True)
def sum_of_warp(value):
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(ALL_LANES, value, offset)
        offset //= 2
    return value  # only lane 0 has the complete sum


@cuda.jit
def add_up(x, total):
    own = 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    own = sum_of_warp(own)
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, own)


def main(n=100_003):
    x = cuda.to_device(np.arange(n, dtype=np.int64))
    total = cuda.to_device(np.zeros(1, np.int64))
    add_up[8, 128](x, total)
    result = int(total.copy_to_host()[0])
    assert result == n * (n - 1) // 2
    return result


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
