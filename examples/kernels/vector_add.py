"""Add two vectors in device memory, with one thread per element.

Usage: vector_add.py [elements]
"""

import sys

import numpy as np

from weft import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def main(n=100_000):
    source = np.random.default_rng(1)
    x = source.random(n, dtype=np.float32)
    y = source.random(n, dtype=np.float32)

    d_x = cuda.to_device(x)
    d_y = cuda.to_device(y)
    d_out = cuda.device_array_like(d_x)

    threads = 128
    blocks = (n + threads - 1) // threads
    add[blocks, threads](d_x, d_y, d_out)

    out = d_out.copy_to_host()
    assert np.array_equal(out, x + y)
    return out


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
