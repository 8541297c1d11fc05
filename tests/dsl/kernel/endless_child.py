"""A program with kernels that run until the handler of a signal ends them.

`test_interrupts` runs this program, and reads its output.
"""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import signal
import time

import numpy as np

from weft import cuda


@cuda.jit
def waits(x, go, after):
    """Wait until ``go[0]`` is not 0. Blocks with an index below `after` do not wait."""
    i = cuda.grid(1)
    while cuda.blockIdx.x >= after and go[0] == 0:
        x[i] += 0
    x[i] = 1


@cuda.jit
def meets(x):
    while cuda.syncthreads_or(x[0] == 0):
        x[cuda.threadIdx.x] += 0


@cuda.jit
def exchanges(x):
    """Loop while `x[0]` is 0. In each iteration, half of the lanes wait at a warp barrier.

    Because of this divergent barrier, the threads are compiled to coroutines.
    """
    t = cuda.threadIdx.x
    while x[0] == 0:
        if t % 2 == x[1]:
            cuda.syncwarp(0x55555555 if x[1] == 0 else 0xAAAAAAAA)
    cuda.syncthreads()


@cuda.jit
def goes_through_many(x, rows, columns):
    i = cuda.grid(1)
    total = 0.0
    for _ in range(rows):
        for k in range(columns):
            total += x[k % 4] * 1.5
    x[i] = total


@cuda.jit
def spins(lock):
    """Wait in the second block for a lock that the first block never releases."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass


@cuda.jit
def prints(x):
    while x[0] == 0:
        print("on and on", x[1])
        x[1] += 1


class Silent:
    """An output that discards all text. Each write takes a millisecond."""

    def write(self, text):
        time.sleep(0.001)


class Closed:
    """An output that has been closed."""

    def write(self, text):
        raise BrokenPipeError("closed")


class Quick:
    """An output whose writes take no time."""

    def write(self, text):
        pass


def ended(kernel, *arguments, after=0.1):
    """Run a kernel that a timer signal interrupts. Return how it ended: the error's text, or "through" if there was no error.

    The text ends with " late" if the kernel ended more than 20 s after the signal.
    """
    begun = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        kernel(*arguments)
    except TimeoutError as error:
        late = time.perf_counter() - begun - after
        return f"{error}" + (" late" if late > 20 else "")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "through"


def raises(*_):
    raise TimeoutError("ended")


def main():
    """Print a line for each case: its name, and how its kernels ended."""
    zeros, shut = np.zeros(64 * 256), np.zeros(4)
    for kernel in (waits[1, 1], waits[64, 256]):
        kernel(zeros + 0, shut + 1, 0)  # compile before the timer starts
    signal.signal(signal.SIGALRM, raises)
    print("one", ended(waits[1, 1], zeros, shut, 0))
    print("again", ended(waits[1, 1], zeros, shut, 0))
    print("many", ended(waits[64, 256], zeros, shut, 0))
    print("first", ended(waits[64, 256], zeros, shut, 63), ended(waits[64, 256], zeros, shut, 1))
    meets[2, 64](zeros + 1)
    print("meets", ended(meets[2, 64], np.zeros(64)))
    exchanges[1, 64](np.array([1.0, 0.0, *[0.0] * 62]))
    print("exchanges", ended(exchanges[1, 64], np.zeros(64)))
    goes_through_many[1, 1](np.zeros(4), 1, 1)
    print("loops", ended(goes_through_many[1, 1], np.zeros(4), 1 << 30, 1 << 10))
    spins[1, 1](np.zeros(1, np.int32))
    print("lock", ended(spins[2, 1], np.zeros(1, np.int32)))

    prints[1, 1](np.ones(2))
    with contextlib.redirect_stdout(Silent()):
        how = ended(prints[1, 1], np.zeros(2))
    print("prints", how)
    with contextlib.redirect_stdout(Quick()):
        every = {ended(prints[1, 1], np.zeros(2), after=0.002 + 1e-5 * k) for k in range(100)}
    print("prints all the time", *every)
    try:
        with contextlib.redirect_stdout(Closed()):
            prints[1, 1](np.zeros(2))
    except BrokenPipeError as error:
        print("output", error)

    go = np.zeros(64 * 256)

    def lets_go(*_):
        go[0] = 1

    zeros[:] = 0
    signal.signal(signal.SIGALRM, lets_go)
    print("goes on", ended(waits[64, 256], zeros, go, 0), zeros.sum() == zeros.size)


if __name__ == "__main__":
    main()
