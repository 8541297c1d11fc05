"""Scale a vector in place. There are fewer threads than elements, and the arguments are NumPy arrays.

Each thread starts at the element with its own index, and advances by the number of threads. If the device is a GPU,
the launch copies the arrays to the GPU and back.

Usage: stride_loop.py [elements]
"""

import sys

import numpy as np

from weft import cuda


@cuda.jit
def saxpy(a, x, y):
    first = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    step = cuda.blockDim.x * cuda.gridDim.x
    for i in range(first, x.shape[0], step):
        y[i] = a * x[i] + y[i]


def main(n=10_007):
    x = np.arange(n, dtype=np.float64)
    y = np.ones(n)
    saxpy[8, 64](2.0, x, y)
    assert np.array_equal(y, 2.0 * np.arange(n) + 1.0)
    return y


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
