"""Test kernels for warps, cooperative groups, vector types and random numbers.

The oracles compute the results of all threads with NumPy. `x` has one element per thread, 32 elements per warp.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, OUT, probe
from tests.dsl.kernel.probes.threads import NUMBERS, N, becomes
from weft import cuda
from weft.cuda import random

FULL = 0xFFFFFFFF
LANE = np.arange(N) % 32
FIRST = np.arange(N) - LANE
WARP = NUMBERS.astype(np.int32)
EVEN = 0x55555555


@probe(WARP, np.zeros((4, N), np.int32), launch=(1, N), want=lambda x, out: out.__setitem__(..., [
    x[FIRST + 5],
    np.where(LANE >= 3, x[np.maximum(np.arange(N) - 3, 0)], x),
    np.where(LANE < 29, x[np.minimum(np.arange(N) + 3, N - 1)], x),
    x[FIRST + (LANE ^ 9)],
]))  # fmt: skip
def shuffles(x, out):
    i = cuda.grid(1)
    v = x[i]
    out[0, i] = cuda.shfl_sync(FULL, v, 5)
    out[1, i] = cuda.shfl_up_sync(FULL, v, 3)
    out[2, i] = cuda.shfl_down_sync(FULL, v, 3)
    out[3, i] = cuda.shfl_xor_sync(FULL, v, 9)


def _every_dtype(a, b, c, d, e):
    for array in (a, b, c, d, e):
        array[:] = array[FIRST + (LANE + 1) % 32]


@probe(
    *(NUMBERS.astype(t) for t in (np.int64, np.uint32, np.float32, np.float64, np.uint64)),
    launch=(2, 32),
    want=_every_dtype,
)
def shuffles_of_every_dtype(a, b, c, d, e):
    i = cuda.grid(1)
    source = (cuda.laneid + 1) % 32
    a[i] = cuda.shfl_sync(FULL, a[i], source)
    b[i] = cuda.shfl_sync(FULL, b[i], source)
    c[i] = cuda.shfl_sync(FULL, c[i], source)
    d[i] = cuda.shfl_sync(FULL, d[i], source)
    e[i] = cuda.shfl_sync(FULL, e[i], source)


@probe(
    WARP.astype(np.float32),
    np.zeros(2, np.float32),
    launch=(2, 32),
    want=lambda x, out: out.__setitem__(..., x.reshape(2, 32).sum(1)),
)
def warp_sum(x, out):
    v = x[cuda.grid(1)]
    step = 16
    while step > 0:
        v += cuda.shfl_down_sync(FULL, v, step)
        step //= 2
    if cuda.laneid == 0:
        out[cuda.blockIdx.x] = v


@probe(WARP, np.zeros((4, N), np.int64), launch=(1, N), want=lambda x, out: out.__setitem__(..., [
    np.repeat((x.reshape(2, 32) > -100).all(1), 32),
    np.repeat((x.reshape(2, 32) > 42).any(1), 32),
    np.repeat([False, False], 32),
    np.repeat([sum(1 << k for k in range(32) if row[k] > 10) for row in x.reshape(2, 32)], 32),
]))  # fmt: skip
def votes(x, out):
    i = cuda.grid(1)
    out[0, i] = cuda.all_sync(FULL, x[i] > -100)
    out[1, i] = cuda.any_sync(FULL, x[i] > 42)
    out[2, i] = cuda.eq_sync(FULL, x[i] > 10)
    out[3, i] = cuda.ballot_sync(FULL, x[i] > 10)


@probe(WARP, np.zeros(N, np.int64), launch=(1, N), want=lambda x, out: out.__setitem__(
    ..., np.where(LANE % 2 == 0, [sum(1 << k for k in range(0, 32, 2) if x[f + k] > 10) for f in FIRST], -1)
))  # fmt: skip
def votes_of_some_lanes(x, out):
    i = cuda.grid(1)
    out[i] = -1
    if cuda.laneid % 2 == 0:
        out[i] = cuda.ballot_sync(EVEN, x[i] > 10)


@probe(WARP % 4, np.zeros((3, N), np.int64), launch=(1, N), want=lambda x, out: out.__setitem__(..., [
    [sum(1 << k for k in range(32) if x[f + k] == v) for f, v in zip(FIRST, x, strict=True)],
    np.zeros(N),
    np.full(N, FULL + 1),
]))  # fmt: skip
def matches(x, out):
    i = cuda.grid(1)
    out[0, i] = cuda.match_any_sync(FULL, x[i])
    lanes, same = cuda.match_all_sync(FULL, x[i])
    out[1, i] = np.int64(lanes) + same
    lanes, same = cuda.match_all_sync(FULL, cuda.blockIdx.x)
    out[2, i] = np.int64(lanes) + same


@probe(np.zeros((2, N), np.int64), launch=(1, N), want=becomes([(1 << LANE) - 1, np.full(N, FULL)]))
def lane_masks(out):
    i = cuda.grid(1)
    out[0, i] = cuda.lanemask_lt()
    out[1, i] = cuda.activemask()


@probe(WARP, np.zeros((6, N), np.int32), launch=(1, N), want=lambda x, out: out.__setitem__(..., [
    np.repeat([f.reduce(row) for row in x.reshape(2, 32)], 32)
    for f in (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
]))  # fmt: skip
def warp_reductions(x, out):
    i = cuda.grid(1)
    out[0, i] = cuda.reduce_add_sync(FULL, x[i])
    out[1, i] = cuda.reduce_min_sync(FULL, x[i])
    out[2, i] = cuda.reduce_max_sync(FULL, x[i])
    out[3, i] = cuda.reduce_and_sync(FULL, x[i])
    out[4, i] = cuda.reduce_or_sync(FULL, x[i])
    out[5, i] = cuda.reduce_xor_sync(FULL, x[i])


@probe(WARP, np.zeros(N, np.int32), launch=(1, N), want=lambda x, out: out.__setitem__(..., x[FIRST + (LANE + 1) % 32]))
def warp_barrier(x, out):
    part = cuda.shared.array(N, np.int32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncwarp()
    out[t] = part[t - cuda.laneid + (cuda.laneid + 1) % 32]


def _doubled(x, out):
    x *= 2
    out[:] = x[::-1]


@probe(np.arange(N), np.zeros(N, np.int64), launch=(4, 16), want=_doubled)
def grid_barrier(x, out):
    i = cuda.grid(1)
    x[i] *= 2
    cuda.cg.this_grid().sync()
    out[i] = x[N - 1 - i]


@probe(WARP, np.zeros((4, N), np.int64), launch=(2, 32), want=lambda x, out: out.__setitem__(..., [
    LANE, np.full(N, 32), LANE % 8, x.reshape(8, 8)[:, [2]].repeat(8, 1).ravel(),
]))  # fmt: skip
def blocks_and_tiles(x, out):
    i = cuda.grid(1)
    block = cuda.cg.this_thread_block()
    tile = cuda.cg.tiled_partition(block, 8)
    out[0, i] = block.thread_rank()
    out[1, i] = block.size()
    block.sync()
    out[2, i] = tile.thread_rank()
    out[3, i] = tile.shfl(x[i], 2)


# -- vector types ---------------------------------------------------------------------------------


def _vectors(out):
    out[:] = [1, 2, 3, 6, 10, 3, 1.5, 4]


@probe(OUT, want=_vectors)
def vector_types(out):
    a = cuda.float32x2(1.0, 2.0)
    b = cuda.float32x4(a, 3.0, 4.0)
    out[0] = b.x
    out[1] = b.y
    out[2] = b.z
    c = cuda.float3(a.x, a.y, 3.0)
    out[3] = c.x + c.y + c.z
    d = cuda.int32x3(2, 3, 5)
    out[4] = d.x * d.z
    e = cuda.uchar2(255, 4)
    out[5] = np.uint8(e.x + np.uint8(4))
    f = cuda.double2(0.5, 1.0)
    out[6] = f.x + f.y
    out[7] = b.w


@probe(OUT, want=lambda out: out.__setitem__(slice(0, 6), [3, 5, 2.5, 8, 7, 1]))
def vector_arithmetic(out):
    a = cuda.float64x2(1.0, 2.0)
    b = cuda.float64x2(2.0, 3.0)
    c = a + b
    out[0] = c.x
    out[1] = c.y
    d = 0.5 * c + a
    out[2] = d.x
    b.x = 7.0
    b.y += 5
    out[3] = b.y
    out[4] = b.x
    out[5] = a.x


# -- random numbers -------------------------------------------------------------------------------

STATES = np.array([(1234567, 987654321), (5, 6)], [("s0", np.uint64), ("s1", np.uint64)])
WORD = (1 << 64) - 1


def _next(state):
    s0, s1 = int(state["s0"]), int(state["s1"])
    result = (s0 + s1) & WORD
    s1 ^= s0
    turned = ((s0 << 55) | (s0 >> 9)) & WORD
    state["s0"] = turned ^ s1 ^ ((s1 << 14) & WORD)
    state["s1"] = ((s1 << 36) | (s1 >> 28)) & WORD
    return result


def _random(states, out, single):
    for i in range(2):
        out[i] = (_next(states[i : i + 1][0]) >> 11) * 2.0**-53
        single[i] = np.float32((_next(states[i : i + 1][0]) >> 11) * 2.0**-53)


@probe(STATES, np.zeros(2), np.zeros(2, np.float32), launch=(1, 2), want=_random)
def random_numbers(states, out, single):
    i = cuda.grid(1)
    out[i] = random.xoroshiro128p_uniform_float64(states, i)
    single[i] = random.xoroshiro128p_uniform_float32(states, i)


@probe(FLOATS, OUT, want=lambda x, out: out.__setitem__(..., x))
def nothing_but_a_copy(x, out):
    cuda.syncthreads()
    for i in range(x.size):
        out[i] = x[i]
