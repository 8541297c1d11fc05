"""Programs whose threads cooperate in a warp, a block or the grid."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.programs.definition import SOURCE, blocks, program, whole, zeros
from weft import cuda, float32, float64

FULL = 0xFFFFFFFF


def _block_sums(x, out):
    size = blocks(x.size, out.size)
    for k in range(out.size):
        out[k] = x[k * size : (k + 1) * size].sum()


@program(
    _block_sums, ((4, 64), (whole(256), zeros(4))), ((3, 64), (whole(192), zeros(3))), ((1, 64), (whole(64), zeros(1)))
)
def tree_reduction(x, out):
    part = cuda.shared.array(64, float64)
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


@program(
    lambda x, out: out.__setitem__(0, x.sum()),
    ((4, 64), (whole(1000), zeros(1))),
    ((2, 64), (whole(37), zeros(1))),
)
def reduction_with_strides_and_atomics(x, out):
    part = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    own = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    part[t] = own
    cuda.syncthreads()
    s = 32
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@program(
    lambda x, out: out.__setitem__(0, x.sum()),
    ((3, 64), (whole(500, dtype=np.float32), zeros(1, dtype=np.float32))),
    ((1, 32), (whole(500, dtype=np.int32), zeros(1, dtype=np.int32))),
    ((2, 96), (whole(90, dtype=np.int64), zeros(1, dtype=np.int64))),
)
def warp_reduction(x, out):
    own = x.dtype.type(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    step = 16
    while step > 0:
        own += cuda.shfl_down_sync(FULL, own, step)
        step //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, own)


@program(lambda a, b, out: out.__setitem__(0, a @ b), ((2, 64), (whole(128), whole(128), zeros(1))))
def dot_product(a, b, out):
    part = cuda.shared.array(2, float64)
    i = cuda.grid(1)
    own = a[i] * b[i]
    for step in (16, 8, 4, 2, 1):
        own += cuda.shfl_xor_sync(FULL, own, step)
    if cuda.laneid == 0:
        part[cuda.threadIdx.x // 32] = own
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, part[0] + part[1])


def _scans(x, out):
    out[...] = np.cumsum(x.reshape(-1, 32), axis=1).ravel()


@program(_scans, ((3, 32), (whole(96), zeros(96))), ((1, 32), (whole(32), zeros(32))))
def scan_by_doubling(x, out):
    part = cuda.shared.array((2, 32), float64)
    t = cuda.threadIdx.x
    now = 0
    part[0, t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < 32:
        value = part[now, t]
        if t >= step:
            value += part[now, t - step]
        part[1 - now, t] = value
        now = 1 - now
        cuda.syncthreads()
        step *= 2
    out[cuda.grid(1)] = part[now, t]


def _exclusive(x, out):
    rows = x.reshape(-1, 64)
    out[...] = (np.cumsum(rows, axis=1) - rows).ravel()


@program(_exclusive, ((2, 32), (whole(128), zeros(128))))
def scan_up_and_down(x, out):
    tree = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    base = 64 * cuda.blockIdx.x
    tree[2 * t] = x[base + 2 * t]
    tree[2 * t + 1] = x[base + 2 * t + 1]
    width = 1
    d = 32
    while d > 0:
        cuda.syncthreads()
        if t < d:
            a, b = width * (2 * t + 1) - 1, width * (2 * t + 2) - 1
            tree[b] += tree[a]
        width *= 2
        d //= 2
    if t == 0:
        tree[63] = 0.0
    d = 1
    while d < 64:
        width //= 2
        cuda.syncthreads()
        if t < d:
            a, b = width * (2 * t + 1) - 1, width * (2 * t + 2) - 1
            tree[a], tree[b] = tree[b], tree[a] + tree[b]
        d *= 2
    cuda.syncthreads()
    out[base + 2 * t] = tree[2 * t]
    out[base + 2 * t + 1] = tree[2 * t + 1]


def _warp_scan(x, out):
    out[...] = np.cumsum(x.reshape(-1, 32), axis=1).ravel()


@program(_warp_scan, ((2, 64), (whole(128, dtype=np.int32), zeros(128, dtype=np.int32))))
def scan_of_warps(x, out):
    i = cuda.grid(1)
    own = x[i]
    step = 1
    while step < 32:
        other = cuda.shfl_up_sync(FULL, own, step)
        if cuda.laneid >= step:
            own += other
        step *= 2
    out[i] = own


TILE = 8


@program(
    lambda a, b, c: np.matmul(a, b, out=c),
    (((2, 2), (TILE, TILE)), (whole(16, 16), whole(16, 16), zeros(16, 16))),
    (((2, 3), (TILE, TILE)), (whole(19, 5), whole(5, 13), zeros(19, 13))),
    (
        ((1, 1), (TILE, TILE)),
        (whole(3, 20, high=8, dtype=np.float32), whole(20, 4, high=8, dtype=np.float32), zeros(3, 4, dtype=np.float32)),
    ),
)
def tiled_product(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float64)
    tile_b = cuda.shared.array((TILE, TILE), float64)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for k in range((a.shape[1] + TILE - 1) // TILE):
        tile_a[ty, tx] = a[y, k * TILE + tx] if y < a.shape[0] and k * TILE + tx < a.shape[1] else 0
        tile_b[ty, tx] = b[k * TILE + ty, x] if k * TILE + ty < b.shape[0] and x < b.shape[1] else 0
        cuda.syncthreads()
        for j in range(TILE):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@program(
    lambda m, out: out.__setitem__(..., m.T),
    (((2, 3), (8, 8)), (whole(20, 15), zeros(15, 20))),
    (((1, 1), (8, 8)), (whole(8, 8, dtype=np.float32), zeros(8, 8, dtype=np.float32))),
)
def tiled_transpose(m, out):
    tile = cuda.shared.array((8, 9), float32)
    x, y = cuda.grid(2)
    if y < m.shape[0] and x < m.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = m[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 8 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 8 + cuda.threadIdx.y
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def _smooth(x, out):
    padded = np.pad(x, 2)
    out[...] = sum(padded[k : k + x.size] for k in range(5))


@program(_smooth, ((3, 32), (whole(96), zeros(96))), ((3, 32), (whole(70), zeros(70))))
def stencil_with_halo(x, out):
    part = cuda.shared.array(36, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t + 2] = x[i] if i < x.size else 0
    if t < 2:
        part[t] = x[i - 2] if i >= 2 and i - 2 < x.size else 0
        part[t + 34] = x[i + 32] if i + 32 < x.size else 0
    cuda.syncthreads()
    if i < out.size:
        total = 0.0
        for k in range(5):
            total += part[t + k]
        out[i] = total


@program(
    lambda x, counts: counts.__iadd__(np.bincount(x, minlength=counts.size)),
    ((3, 32), (SOURCE.integers(0, 16, 500), zeros(16, dtype=np.int32))),
    ((1, 20), (SOURCE.integers(0, 16, 11), zeros(16, dtype=np.int32))),
)
def histogram_in_shared_memory(x, counts):
    part = cuda.shared.array(16, np.int32)
    t = cuda.threadIdx.x
    if t < 16:
        part[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(part, x[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, part[t])


@program(lambda x: x.sort(), ((1, 64), (whole(64),)), ((1, 64), (whole(64, high=3, dtype=np.int32),)))
def bitonic_sort(x):
    t = cuda.threadIdx.x
    k = 2
    while k <= 64:
        j = k // 2
        while j > 0:
            cuda.syncthreads()
            other = t ^ j
            if other > t and (x[t] > x[other]) == (t & k == 0):
                x[t], x[other] = x[other], x[t]
            j //= 2
        k *= 2


@program(lambda x: x.sort(), ((1, 20), (whole(40),)))
def odd_even_sort(x):
    t = cuda.threadIdx.x
    for phase in range(x.size):
        i = 2 * t + phase % 2
        if i + 1 < x.size and x[i] > x[i + 1]:
            x[i], x[i + 1] = x[i + 1], x[i]
        cuda.syncthreads()


def _pick(x, out, count):
    kept = np.sort(x[x > 0])
    count[0] = kept.size
    out[: kept.size] = kept


@program(_pick, ((1, 64), (np.sort(whole(64)), zeros(64), zeros(1, dtype=np.int32))))
def compaction_with_votes(x, out, count):
    total = cuda.shared.array(2, np.int32)
    t = cuda.threadIdx.x
    keep = x[t] > 0
    lanes = cuda.ballot_sync(FULL, keep)
    if cuda.laneid == 0:
        total[t // 32] = cuda.popc(lanes)
    cuda.syncthreads()
    before = cuda.popc(lanes & cuda.lanemask_lt())
    if t >= 32:
        before += total[0]
    if keep:
        out[before] = x[t]
    if t == 0:
        count[0] = total[0] + total[1]


@program(
    lambda x, out: out.__setitem__(..., x.reshape(-1, 16)[:, ::-1].ravel()),
    ((2, 16, 0, 128), (whole(32), zeros(32))),
    ((4, 16, 0, 64), (whole(64, dtype=np.float32), zeros(64, dtype=np.float32))),
)
def reversed_in_dynamic_memory(x, out):
    part = cuda.shared.array(0, x.dtype)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = part[cuda.blockDim.x - 1 - t]


def _relax(x, steps):
    for _ in range(steps):
        x[1:-1] = (x[:-2] + x[2:]) / 2


@program(
    lambda x, spare, steps: _relax(x, steps), ((4, 16), (whole(64), zeros(64), 6)), ((2, 32), (whole(50), zeros(50), 3))
)
def relaxation_over_the_grid(x, spare, steps):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    inner = 0 < i < x.size - 1
    for _ in range(steps):
        value = (x[i - 1] + x[i + 1]) / 2 if inner else 0.0
        grid.sync()
        if inner:
            x[i] = value
        grid.sync()


def _rows(m, out):
    out[...] = m - m.max(axis=1, keepdims=True)


@program(_rows, ((5, 32), (whole(5, 40), zeros(5, 40))), ((1, 32), (whole(1, 7), zeros(1, 7))))
def rows_less_their_greatest(m, out):
    part = cuda.shared.array(32, float64)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    greatest = -np.inf
    for k in range(t, m.shape[1], 32):
        greatest = max(greatest, m[row, k])
    part[t] = greatest
    cuda.syncthreads()
    for s in (16, 8, 4, 2, 1):
        if t < s:
            part[t] = max(part[t], part[t + s])
        cuda.syncthreads()
    for k in range(t, m.shape[1], 32):
        out[row, k] = m[row, k] - part[0]


def _forces(position, out):
    for i in range(position.size):
        out[i] = np.sum(position - position[i])


@program(_forces, ((2, 16), (whole(32), zeros(32))), ((2, 16), (whole(20), zeros(20))))
def bodies_by_tiles(position, out):
    tile = cuda.shared.array(16, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    own = position[i] if i < position.size else 0.0
    total = 0.0
    for first in range(0, position.size, 16):
        tile[t] = position[first + t] if first + t < position.size else 0.0
        cuda.syncthreads()
        for k in range(min(16, position.size - first)):
            total += tile[k] - own
        cuda.syncthreads()
    if i < out.size:
        out[i] = total


@program(
    lambda x, out: out.__setitem__(..., x.reshape(-1, 8).sum(1).repeat(8)),
    ((2, 32), (whole(64, dtype=np.int32), zeros(64, dtype=np.int32))),
)
def sums_of_tiles(x, out):
    i = cuda.grid(1)
    tile = cuda.cg.tiled_partition(cuda.cg.this_thread_block(), 8)
    own = x[i]
    step = 4
    while step > 0:
        own += tile.shfl_xor(own, step)
        step //= 2
    out[i] = own
