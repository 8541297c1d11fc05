"""Copy and compute in two streams, and measure the time with events.

Usage: streams_and_events.py [elements]
"""

import sys

import numpy as np

from weft import cuda


@cuda.jit
def square(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * x[i]


def main(n=50_000):
    halves = [np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64) + n]
    streams = [cuda.stream() for _ in halves]
    begin, end = cuda.event(), cuda.event()
    results = [cuda.pinned_array(n, dtype=np.float64) for _ in halves]

    begin.record(stream=streams[0])
    for half, stream, result in zip(halves, streams, results, strict=True):
        d_half = cuda.to_device(half, stream=stream)
        square[(n + 255) // 256, 256, stream](d_half)
        d_half.copy_to_host(result, stream=stream)
    for stream in streams:
        stream.synchronize()
    end.record(stream=streams[0])
    end.synchronize()

    assert cuda.event_elapsed_time(begin, end) >= 0.0
    assert np.array_equal(np.concatenate(results), np.arange(2.0 * n) ** 2)
    return results


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
