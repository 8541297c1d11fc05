"""A Monte Carlo estimate of pi. Each thread draws random points in a square, with its own random state.

The states belong to xoroshiro128+ generators, whose sequences do not overlap. The same seed gives the same result on
every device.

Usage: pi_by_chance.py [threads] [throws of each]
"""

import math
import sys

import numpy as np

from weft import cuda
from weft.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32


@cuda.jit
def throw(states, throws, inside):
    i = cuda.grid(1)
    if i >= inside.size:
        return
    hits = 0
    for _ in range(throws):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        if x * x + y * y <= 1:
            hits += 1
    inside[i] = hits


def main(threads=4096, throws=200):
    block = 128
    blocks = -(-threads // block)
    states = create_xoroshiro128p_states(blocks * block, seed=1)
    inside = cuda.device_array(threads, np.int64)
    throw[blocks, block](states, throws, inside)
    n = threads * throws
    estimate = 4 * int(inside.copy_to_host().sum()) / n
    # The estimate is four times the mean of n throws, each 1 with probability pi / 4. Allow five standard deviations.
    spread = 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / n)
    assert abs(estimate - math.pi) < 5 * spread
    return estimate


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
