"""Heat conduction in a rod. One kernel launch computes all time steps.

The two buffers are swapped inside the kernel. After each step, `cg.this_grid().sync()`
makes all threads of the grid wait for each other. The temperatures of the end points are fixed.

Usage: heat_rod.py [points] [steps]
"""

import sys

import numpy as np

from weft import cuda


@cuda.jit
def diffuse(old, new, number, steps):
    grid = cuda.cg.this_grid()
    here = cuda.grid(1)
    for _ in range(steps):
        if 0 < here < old.size - 1:
            new[here] = old[here] + number * (old[here - 1] - 2 * old[here] + old[here + 1])
        grid.sync()
        old, new = new, old


def main(points=1001, steps=200):
    number = 0.25  # diffusivity * time step / spacing**2; stable below 0.5
    start = np.zeros(points)
    start[0] = 1.0
    old, new = cuda.to_device(start), cuda.to_device(start)
    threads = 256
    diffuse[-(-points // threads), threads](old, new, number, steps)
    result = (old if steps % 2 == 0 else new).copy_to_host()

    expected = start.copy()
    for _ in range(steps):
        expected[1:-1] += number * (expected[:-2] - 2 * expected[1:-1] + expected[2:])
    assert np.allclose(result, expected, rtol=1e-12, atol=1e-300)
    return result


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
