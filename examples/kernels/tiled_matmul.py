"""Multiply matrices in tiles. Each block repeatedly loads two tiles into shared memory and multiplies them.

Usage: tiled_matmul.py [rows] [inner] [columns]
"""

import sys

import numpy as np

from weft import cuda, float32

TILE = 16


@cuda.jit
def matmul(a, b, c):
    tile_a = cuda.shared.array(shape=(TILE, TILE), dtype=float32)
    tile_b = cuda.shared.array(shape=(TILE, TILE), dtype=float32)

    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y

    total = float32(0.0)
    for k in range((a.shape[1] + TILE - 1) // TILE):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if y < a.shape[0] and tx + k * TILE < a.shape[1]:
            tile_a[ty, tx] = a[y, tx + k * TILE]
        if x < b.shape[1] and ty + k * TILE < b.shape[0]:
            tile_b[ty, tx] = b[ty + k * TILE, x]
        cuda.syncthreads()

        for j in range(TILE):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()

    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def main(rows=70, inner=45, columns=52):
    source = np.random.default_rng(2)
    # Small integers, so that every sum is exact in float32, in any order.
    a = source.integers(-8, 8, (rows, inner)).astype(np.float32)
    b = source.integers(-8, 8, (inner, columns)).astype(np.float32)
    d_c = cuda.device_array((rows, columns), dtype=np.float32)

    blocks = ((columns + TILE - 1) // TILE, (rows + TILE - 1) // TILE)
    matmul[blocks, (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), d_c)

    c = d_c.copy_to_host()
    assert np.array_equal(c, a @ b)
    return c


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
