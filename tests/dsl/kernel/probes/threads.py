"""Test kernels for threads, shared memory, barriers, atomics and launches."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe
from weft import cuda, float32, float64, int32

N = 64
NUMBERS = np.arange(N) * 7 % 64 - 20
SPREAD = np.random.default_rng(5).normal(size=N)


def becomes(*arrays):
    """Return an oracle for a test whose last arguments should become equal to `arrays`. The oracle writes the expected results to its arguments."""

    def oracle(*arguments):
        for argument, array in zip(arguments[-len(arrays) :], arrays, strict=True):
            argument[...] = array

    return oracle


# -- thread indices -------------------------------------------------------------------------------


@probe(np.zeros((12, 7), np.int64), launch=(3, 4), want=becomes([[i, i % 4, i // 4, 4, 3, 12, 0] for i in range(12)]))
def thread_numbers(out):
    i = cuda.grid(1)
    out[i, 0] = i
    out[i, 1] = cuda.threadIdx.x
    out[i, 2] = cuda.blockIdx.x
    out[i, 3] = cuda.blockDim.x
    out[i, 4] = cuda.gridDim.x
    out[i, 5] = cuda.gridsize(1)
    out[i, 6] = cuda.threadIdx.y + cuda.blockIdx.z


@probe(
    np.zeros((6, 8)),
    launch=((2, 3), (4, 2)),
    want=becomes(np.fromfunction(lambda y, x: x * 100 + y + 8 * 6 * 1000, (6, 8))),
)
def grid_of_two_axes(out):
    x, y = cuda.grid(2)
    width, height = cuda.gridsize(2)
    out[y, x] = x * 100 + y + width * height * 1000


@probe(
    np.zeros((4, 3, 4)),
    launch=((2, 1, 2), (2, 3, 2)),
    want=becomes(np.fromfunction(lambda z, y, x: x + 10 * y + 100 * z, (4, 3, 4))),
)
def grid_of_three_axes(out):
    x, y, z = cuda.grid(3)
    if z < cuda.gridsize(3)[2]:
        out[z, y, x] = (
            cuda.threadIdx.x
            + cuda.blockIdx.x * cuda.blockDim.x
            + 10 * (cuda.threadIdx.y + cuda.blockIdx.y * cuda.blockDim.y)
            + 100 * z
        )


@probe(np.zeros(40, np.int64), launch=(1, 40), want=becomes(np.arange(40) % 32 + 32 * 100))
def lane_and_warp_size(out):
    out[cuda.threadIdx.x] = cuda.laneid + cuda.warpsize * 100


@probe(FLOATS, OUT, launch=(2, 2), want=lambda x, out: out.__setitem__(slice(0, 8), x + 1))
def grid_stride_loop(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] + 1


# -- shared memory and barriers -------------------------------------------------------------------


@probe(
    NUMBERS,
    np.zeros(2, np.int64),
    launch=(2, 32),
    want=lambda x, out: out.__setitem__(slice(0, 2), x.reshape(2, 32).sum(1)),
)
def shared_reduction(x, out):
    part = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


SIDE = 4


@probe(
    np.arange(16.0).reshape(4, 4), np.zeros((4, 4)), launch=(1, (4, 4)), want=lambda m, out: out.__setitem__(..., m.T)
)
def shared_matrix(m, out):
    tile = cuda.shared.array((SIDE, SIDE + 1), float32)
    x, y = cuda.grid(2)
    tile[y, x] = m[y, x]
    cuda.syncthreads()
    out[y, x] = tile[x, y]


@probe(NUMBERS, np.zeros(N, np.int64), launch=(1, N, 0, 8 * N), want=lambda x, out: out.__setitem__(..., x[::-1]))
def dynamic_shared(x, out):
    part = cuda.shared.array(0, np.int64)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    out[t] = part[N - 1 - t] if part.size == N else -1


@probe(NUMBERS, np.zeros(N), launch=(1, N, 0, 12 * N), want=lambda x, out: out.__setitem__(..., x[::-1] + 0.5 * x))
def dynamic_shared_views(x, out):
    whole = cuda.shared.dynamic((2, N // 2), np.int32)
    halves = cuda.shared.dynamic(N, float64, offset=4 * N)
    t = cuda.threadIdx.x
    whole[t // (N // 2), t % (N // 2)] = x[t]
    halves[t] = 0.5 * x[t]
    cuda.syncthreads()
    r = N - 1 - t
    out[t] = whole[r // (N // 2), r % (N // 2)] + halves[t]


@probe(
    NUMBERS,
    np.zeros(N, np.int64),
    launch=(4, 16),
    ahead=False,
    want=lambda x, out: out.__setitem__(..., x.reshape(4, 16)[:, ::-1].ravel()),
)
def shared_shape_from_launch(x, out):
    part = cuda.shared.array(cuda.blockDim.x, np.int64)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = part[part.size - 1 - t]


def _scans(x, out):
    for block in range(4):
        out[16 * block : 16 * block + 16] = np.cumsum(x[16 * block : 16 * block + 16])


@probe(NUMBERS, np.zeros(N, np.int64), launch=(4, 16), want=_scans)
def barrier_in_loop(x, out):
    part = cuda.shared.array((2, 16), np.int64)
    t = cuda.threadIdx.x
    part[0, t] = x[cuda.grid(1)]
    now = 0
    step = 1
    while step < 16:
        cuda.syncthreads()
        part[1 - now, t] = part[now, t] + part[now, t - step] if t >= step else part[now, t]
        now = 1 - now
        step *= 2
    cuda.syncthreads()
    out[cuda.grid(1)] = part[now, t]


@probe(NUMBERS, np.zeros(40, np.int64), launch=(1, 48), want=lambda x, out: out.__setitem__(..., x[:40] + x[:40][::-1]))
def threads_that_left_before_barrier(x, out):
    part = cuda.shared.array(40, np.int64)
    t = cuda.threadIdx.x
    if t >= 40:
        return
    part[t] = x[t]
    cuda.syncthreads()
    out[t] = part[t] + part[39 - t]


def _votes(x, out):
    positive = x > 0
    for block in range(2):
        mine = positive[32 * block : 32 * block + 32]
        out[3 * block : 3 * block + 3] = mine.sum(), mine.all(), mine.any()


@probe(NUMBERS, np.zeros(6, np.int64), launch=(2, 32), want=_votes)
def barriers_that_vote(x, out):
    v = x[cuda.grid(1)] > 0
    count = cuda.syncthreads_count(v)
    every = cuda.syncthreads_and(v)
    some = cuda.syncthreads_or(v)
    if cuda.threadIdx.x == 5:
        b = 3 * cuda.blockIdx.x
        out[b] = count
        out[b + 1] = every != 0
        out[b + 2] = some != 0


@probe(INTS, IOUT, launch=(1, 8), want=lambda x, out: out.__setitem__(..., np.roll(x, 1)))
def fences(x, out):
    t = cuda.threadIdx.x
    out[(t + 1) % 8] = x[t]
    cuda.threadfence_block()
    cuda.threadfence()
    cuda.threadfence_system()


# -- atomics --------------------------------------------------------------------------------------

EACH = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)
WHOLE = NUMBERS + 20


@probe(
    *(np.zeros(1, dtype) for dtype in EACH),
    launch=(2, 32),
    want=lambda *cells: [cell.__setitem__(0, 64 * 3) for cell in cells],
)
def atomic_add(a, b, c, d, e, f):
    cuda.atomic.add(a, 0, 3)
    cuda.atomic.add(b, 0, np.uint32(3))
    cuda.atomic.add(c, 0, 3)
    cuda.atomic.add(d, 0, np.uint64(3))
    cuda.atomic.add(e, 0, 3.0)
    cuda.atomic.add(f, 0, 3)


@probe(
    np.zeros(1, np.int64),
    np.zeros(64, np.int64),
    launch=(2, 32),
    want=lambda count, seen: [count.__setitem__(0, 64), seen.__setitem__(slice(None), 64)],
)
def atomic_load(count, seen):
    cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    seen[cuda.grid(1)] = 64 if cuda.atomic.load(count, 0) >= 32 else 0


@probe(np.zeros(1, np.float16), launch=(1, 32), want=becomes(np.float16(16)))
def atomic_add_float16(out):
    cuda.atomic.add(out, 0, np.float16(0.5))


@probe(
    *(np.full(1, 200, dtype) for dtype in EACH),
    launch=(2, 32),
    want=lambda *cells: [cell.__setitem__(0, 200 - 64) for cell in cells],
)
def atomic_sub(a, b, c, d, e, f):
    cuda.atomic.sub(a, 0, 1)
    cuda.atomic.sub(b, 0, 1)
    cuda.atomic.sub(c, 0, 1)
    cuda.atomic.sub(d, 0, 1)
    cuda.atomic.sub(e, 0, 1)
    cuda.atomic.sub(f, 0, 1)


def _extremes(signed, unsigned, single, double, out):
    signed[:] = [NUMBERS.min(), NUMBERS.max()]
    unsigned[:] = [WHOLE.min(), WHOLE.max()]
    single[:] = [SPREAD.astype(np.float32).min(), SPREAD.astype(np.float32).max()]
    double[:] = [SPREAD.min(), SPREAD.max()]


@probe(
    np.array([5, 5], np.int32),
    np.array([5, 5], np.uint64),
    np.zeros(2, np.float32),
    np.zeros(2),
    (NUMBERS.astype(np.int32), WHOLE.astype(np.uint64), SPREAD.astype(np.float32), SPREAD),
    launch=(2, 32),
    want=_extremes,
)
def atomic_min_and_max(signed, unsigned, single, double, values):
    i = cuda.grid(1)
    cuda.atomic.min(signed, 0, values[0][i])
    cuda.atomic.max(signed, 1, values[0][i])
    cuda.atomic.min(unsigned, 0, values[1][i])
    cuda.atomic.max(unsigned, 1, values[1][i])
    cuda.atomic.min(single, 0, values[2][i])
    cuda.atomic.max(single, 1, values[2][i])
    cuda.atomic.min(double, 0, values[3][i])
    cuda.atomic.max(double, 1, values[3][i])


HOLES = np.where(np.arange(N) % 3 == 0, np.nan, SPREAD)


@probe(
    HOLES, np.array([1.0, 1.0]), launch=(2, 32), want=becomes(np.array([min(1.0, np.nanmin(HOLES)), np.nanmax(HOLES)]))
)
def atomic_nanmin_and_nanmax(x, out):
    i = cuda.grid(1)
    cuda.atomic.nanmin(out, 0, x[i])
    cuda.atomic.nanmax(out, 1, x[i])


def _bits(x, out, wide):
    for cells in (out, wide):
        cells[:] = [np.bitwise_and.reduce(x) & 255, np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)]


@probe(
    WHOLE.astype(np.uint32),
    np.array([255, 0, 0], np.uint32),
    np.array([255, 0, 0], np.int64),
    launch=(2, 32),
    want=_bits,
)
def atomic_bits(x, out, wide):
    v = x[cuda.grid(1)]
    cuda.atomic.and_(out, 0, v)
    cuda.atomic.or_(out, 1, v)
    cuda.atomic.xor(out, 2, v)
    cuda.atomic.and_(wide, 0, np.int64(v))
    cuda.atomic.or_(wide, 1, np.int64(v))
    cuda.atomic.xor(wide, 2, np.int64(v))


@probe(np.array([32], np.int32), np.zeros(33, np.int32), launch=(1, 32), want=lambda cell, seen: seen.fill(1))
def atomic_exchange(cell, seen):
    # each thread exchanges its number for another one, and the last number stays in the cell
    t = cuda.threadIdx.x
    cuda.atomic.add(seen, cuda.atomic.exch(cell, 0, t), 1)
    cuda.syncthreads()
    if t == 0:
        seen[cell[0]] += 1
        cell[0] = 32


def _wrapping(out, wide):
    # 64 increments from 0 modulo 10, and 64 decrements from 5 modulo 10
    out[:] = [64 % 10, (5 - 64) % 10]
    wide[:] = out


@probe(np.array([0, 5], np.uint32), np.array([0, 5], np.uint64), launch=(2, 32), want=_wrapping)
def atomic_increment_and_decrement(out, wide):
    cuda.atomic.inc(out, 0, 9)
    cuda.atomic.dec(out, 1, 9)
    cuda.atomic.inc(wide, 0, 9)
    cuda.atomic.dec(wide, 1, 9)


@probe(
    np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int32), launch=(2, 32), want=becomes([64], [64], [1])
)
def atomic_compare_and_swap(cell, wide, first):
    # a counter that uses only compare-and-swap
    done = False
    while not done:
        old = cell[0]
        done = cuda.atomic.cas(cell, 0, old, old + 1) == old
    if cuda.atomic.compare_and_swap(first, 0, 1) == 0:
        cuda.atomic.add(wide, 0, 63)
    if cuda.grid(1) == 0:
        cuda.atomic.add(wide, 0, 1)


@probe(np.zeros((2, 3)), launch=(2, 32), want=becomes([[0, 0, 64], [0, 0, 32]]))
def atomic_with_tuple_index(out):
    cuda.atomic.add(out, (0, 2), 1.0)
    if cuda.blockIdx.x == 1:
        cuda.atomic.add(out, (1, 2), 1.0)


@probe(np.zeros(1, np.int32), np.zeros(N, np.int32), launch=(2, 32), want=becomes([64], np.ones(64)))
def atomic_returns_old_value(counter, seen):
    index = cuda.atomic.add(counter, 0, 1)
    seen[index] += 1


@probe(
    WHOLE % 8,
    np.zeros(8, np.int32),
    launch=(2, 32),
    want=lambda x, out: out.__setitem__(..., np.bincount(x, minlength=8)),
)
def atomic_in_shared_memory(x, out):
    counts = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        counts[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(counts, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(out, t, counts[t])


# -- launches -------------------------------------------------------------------------------------


@probe(
    FLOATS,
    OUT,
    keywords={"factor": 2.0, "offset": 1},
    want=lambda x, out, factor, offset: out.__setitem__(..., x * 2 + 1),
)
def keywords_at_launch(x, out, offset, factor):
    for i in range(x.size):
        out[i] = x[i] * factor + offset


@probe(FLOATS, OUT)
def default_argument_of_kernel(x, out, factor=3):
    for i in range(x.size):
        out[i] = x[i] * factor


@probe(FLOATS, OUT, options={"fastmath": True, "max_registers": 32, "launch_bounds": (64, 2), "lineinfo": True})
def options_of_kernel(x, out):
    for i in range(x.size):
        out[i] = x[i] + 1


@probe(FLOATS, OUT, options={"debug": True, "opt": False})
def debug_kernel(x, out):
    for i in range(x.size):
        assert i < 100
        out[i] = x[i] + 1


@probe(IOUT, True, 3, 2.5, 1 + 2j, np.int8(-3), np.uint16(65535), np.float32(0.5))
def scalar_arguments(out, flag, whole, real, z, small, wide, single):
    out[0] = flag
    out[1] = whole
    out[2] = int(real * 2)
    out[3] = int(z.real + z.imag)
    out[4] = small
    out[5] = wide
    out[6] = int(single * 4)


@probe(FLOATS, OUT, launch=(1, 1, 0, 0), want=lambda x, out: out.__setitem__(..., x))
def cache_hints(x, out):
    out[0] = cuda.ldca(x, 0)
    out[1] = cuda.ldcg(x, 1)
    out[2] = cuda.ldcs(x, 2)
    out[3] = cuda.ldcv(x, 3)
    cuda.stcg(out, 4, x[4])
    cuda.stcs(out, 5, x[5])
    cuda.stwb(out, 6, x[6])
    cuda.stwt(out, 7, x[7])
