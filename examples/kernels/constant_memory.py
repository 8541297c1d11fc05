"""A filter whose coefficients are in constant memory.

Usage: constant_memory.py [samples]
"""

import sys

import numpy as np

from weft import cuda

WEIGHTS = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0


@cuda.jit
def smooth(samples, out):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i >= out.size:
        return
    total = 0.0
    for k in range(weights.size):
        j = i + k - weights.size // 2
        # Samples beyond the ends have the value of the nearest sample.
        total += weights[k] * samples[min(max(j, 0), samples.size - 1)]
    out[i] = total


def main(n=1000):
    samples = np.random.default_rng(3).integers(0, 256, n).astype(np.float64)
    d_out = cuda.device_array(n)
    smooth.forall(n)(cuda.to_device(samples), d_out)

    out = d_out.copy_to_host()
    padded = np.pad(samples, 2, mode="edge")
    wanted = sum(w * padded[k : k + n] for k, w in enumerate(WEIGHTS))
    assert np.array_equal(out, wanted)
    return out


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
