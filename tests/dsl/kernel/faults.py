"""Kernels with one deliberate fault each, for tests of the sanitizer.

The comment ``# fault`` marks the lines that the report may name. A race has two such lines. `kind` is one of the
sanitizer's kinds: ``"out of bounds"``, ``"uninitialized"``, ``"race"``, ``"divergent barrier"``, ``"misaligned"``. The
kernels are realistic, and would be correct without the fault.
"""

# mypy: ignore-errors

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft import cuda, float32, float64


@dataclass(frozen=True)
class Fault:
    """A kernel with a fault, its launch, and the expected report.

    `array` is the name of the array in the report. `index` is the reported index, or None if several indices are
    correct. `blank` contains the positions of arguments that are replaced by uninitialized device arrays.
    """

    function: Callable[..., Any]
    kind: str
    array: str
    index: tuple[int, ...] | None
    arguments: tuple[Any, ...]
    launch: tuple[Any, ...]
    blank: tuple[int, ...]

    @property
    def lines(self) -> set[int]:
        """The numbers of the source lines that the report may name."""
        lines, first = inspect.getsourcelines(self.function)
        return {first + k for k, text in enumerate(lines) if "# fault" in text}


FAULTS: list[Fault] = []


def fault(
    kind: str,
    array: str = "",
    index: tuple[int, ...] | None = None,
    *arguments: Any,
    launch: tuple[Any, ...] = (1, 8),
    blank: tuple[int, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds a `Fault` with the function to `FAULTS`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        FAULTS.append(Fault(function, kind, array, index, arguments, launch, blank))
        return function

    return enter


X = np.arange(8.0)
OUT = np.zeros(8)
MATRIX = np.zeros((3, 4))
TABLE = np.arange(4.0)

# -- out of bounds --------------------------------------------------------------------------------


@fault("out of bounds", "x", (8,), X, OUT)
def read_behind_the_end(x, out):
    i = cuda.grid(1)
    out[i] = x[i + 1] - x[i]  # fault


@fault("out of bounds", "out", (8,), X, OUT, launch=(1, 9))
def write_behind_the_end(x, out):
    i = cuda.grid(1)
    out[i] = 2.0  # fault


@fault("out of bounds", "x", (-9,), X, OUT)
def read_before_the_start(x, out):
    i = cuda.grid(1)
    out[i] = x[i - 9] if i == 0 else x[i]  # fault


@fault("out of bounds", "out", (-10,), X, OUT)
def write_before_the_start(x, out):
    i = cuda.grid(1)
    if i == 3:
        out[i - 13] = x[i]  # fault


@fault("out of bounds", "m", (0, 4), MATRIX, launch=(1, (5, 3)))
def column_too_many(m):
    # inside the memory, but in another row
    x, y = cuda.grid(2)
    if y < m.shape[0]:
        m[y, x] = x  # fault


@fault("out of bounds", "m", (3, 0), MATRIX, launch=(1, (4, 4)))
def row_too_many(m):
    x, y = cuda.grid(2)
    m[y, x] = x  # fault


@fault("out of bounds", "part", (8,), X, OUT)
def shared_array_too_short(x, out):
    part = cuda.shared.array(8, float64)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    out[t] = part[t + 1]  # fault


@fault("out of bounds", "part", (6,), X, OUT, launch=(1, 8, 0, 48))
def dynamic_shared_memory_too_short(x, out):
    part = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    part[t] = x[t]  # fault
    cuda.syncthreads()
    out[t] = part[0]


@fault("out of bounds", "own", (4,), X, OUT)
def local_array_too_short(x, out):
    own = cuda.local.array(4, float64)
    for k in range(5):
        own[k] = x[k]  # fault
    out[cuda.grid(1)] = own[0]


@fault("out of bounds", "view", (4,), X, OUT)
def slice_too_short(x, out):
    view = x[2:6]
    i = cuda.grid(1)
    out[i] = view[i] if i < 5 else 0.0  # fault


@fault("out of bounds", "table", (4,), OUT)
def constant_array_too_short(out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[min(i, 4)]  # fault


@fault("out of bounds", "out", (9,), np.array([1, 9, 3, 2]), OUT, launch=(1, 4))
def atomic_behind_the_end(where, out):
    cuda.atomic.add(out, where[cuda.grid(1)], 1.0)  # fault


# -- uninitialized reads --------------------------------------------------------------------------


@fault("uninitialized", "part", (7,), X, OUT)
def shared_element_nobody_wrote(x, out):
    part = cuda.shared.array(8, float64)
    t = cuda.threadIdx.x
    if t < 7:
        part[t] = x[t]
    cuda.syncthreads()
    out[t] = part[t]  # fault


@fault("uninitialized", "own", (3,), X, OUT)
def local_sum_without_a_start(x, out):
    own = cuda.local.array(4, float64)
    for k in range(3):
        own[k] = 0.0
    for k in range(4):
        own[k] += x[k]  # fault
    out[cuda.grid(1)] = own[0]


@fault("uninitialized", "counts", (0,), X, np.zeros(8), blank=(1,))
def device_array_as_if_zero(x, counts):
    i = cuda.grid(1)
    counts[i] = counts[i] + x[i]  # fault


@fault("uninitialized", "counts", (0,), np.zeros(2, np.int32), blank=(0,))
def atomic_on_fresh_memory(counts):
    cuda.atomic.add(counts, 0, 1)  # fault


# -- races ----------------------------------------------------------------------------------------


@fault("race", "flag", (0,), X, OUT)
def two_writers_of_shared_memory(x, out):
    flag = cuda.shared.array(1, float64)
    t = cuda.threadIdx.x
    flag[0] = x[t]  # fault
    cuda.syncthreads()
    out[t] = flag[0]


@fault("race", "part", None, X, OUT)
def neighbour_read_without_barrier(x, out):
    part = cuda.shared.array(8, float64)
    t = cuda.threadIdx.x
    part[t] = x[t]  # fault
    out[t] = part[7 - t]  # fault


@fault("race", "part", None, np.arange(64.0), np.zeros(1), launch=(1, 64))
def reduction_without_inner_barrier(x, out):
    part = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    s = 32
    while s > 0:
        if t < s:
            part[t] += part[t + s]  # fault
        s //= 2
    if t == 0:
        out[0] = part[0]


@fault("race", "tile", None, np.arange(32.0), OUT)
def tile_overwritten_too_early(x, out):
    tile = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = 0.0
    for k in range(4):
        tile[t] = x[8 * k + t]  # fault
        cuda.syncthreads()
        for j in range(8):
            total += tile[j]  # fault
    out[t] = total


@fault("race", "x", None, X)
def shift_in_place_within_a_block(x):
    t = cuda.threadIdx.x
    if t + 1 < x.size:
        x[t] = x[t + 1]  # fault


@fault("race", "total", (0,), X, np.zeros(1), launch=(4, 2))
def sum_between_blocks_without_atomics(x, total):
    if cuda.threadIdx.x == 0:
        total[0] += x[cuda.grid(1)]  # fault


@fault("race", "x", None, np.arange(64.0), np.zeros(64), launch=(4, 16))
def neighbours_of_another_block(x, out):
    i = cuda.grid(1)
    x[i] = 2 * x[i]  # fault
    cuda.syncthreads()
    out[i] = x[(i + 1) % x.size]  # fault


@fault("race", "count", (0,), np.zeros(1, np.int64), np.zeros(8), launch=(4, 2))
def plain_read_beside_atomics(count, out):
    cuda.atomic.add(count, 0, 1)  # fault
    out[cuda.grid(1)] = count[0]  # fault


@fault("race", "part", None, np.arange(32.0), np.zeros(32), launch=(1, 32))
def lanes_without_a_warp_barrier(x, out):
    part = cuda.shared.array(32, float64)
    t = cuda.threadIdx.x
    part[t] = x[t]  # fault
    out[t] = part[t ^ 1]  # fault


# -- barriers in divergent flow -------------------------------------------------------------------


@fault("divergent barrier", "", None, X, OUT)
def barrier_in_a_branch(x, out):
    t = cuda.threadIdx.x
    if t < 4:
        out[t] = x[t]
        cuda.syncthreads()  # fault
    else:
        out[t] = -x[t]


@fault("divergent barrier", "", None, X, OUT, launch=(1, 12))
def barrier_after_an_early_return(x, out):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    out[t] = x[t]
    cuda.syncthreads()  # fault


@fault("divergent barrier", "", None, X, OUT)
def loop_of_different_counts(x, out):
    t = cuda.threadIdx.x
    for _ in range(t):
        cuda.syncthreads()  # fault
    out[t] = x[t]


@fault("divergent barrier", "", None, X, OUT)
def different_barriers(x, out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        cuda.syncthreads()  # fault
        out[t] = x[t]
    else:
        out[t] = 2 * x[t]
        cuda.syncthreads()  # fault


@fault("divergent barrier", "", None, X, np.zeros(8, np.int64))
def vote_in_a_branch(x, out):
    t = cuda.threadIdx.x
    if x[t] > 2:
        out[t] = cuda.syncthreads_count(x[t] > 4)  # fault


# -- alignment ------------------------------------------------------------------------------------


@fault("misaligned", "", None, np.arange(8, dtype=np.float32), np.zeros(2), 1, launch=(1, 2))
def view_at_an_odd_offset(x, out, start):
    pairs = x[start : start + 6].view(np.float64)
    i = cuda.grid(1)
    out[i] = pairs[i]  # fault


@fault("misaligned", "", None, X, OUT, launch=(1, 8, 0, 80))
def dynamic_view_at_an_odd_offset(x, out):
    part = cuda.shared.dynamic(8, float64, offset=4)  # fault
    t = cuda.threadIdx.x
    part[t] = x[t]  # fault
    cuda.syncthreads()
    out[t] = part[t]
