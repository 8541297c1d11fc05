"""Tests of warps, groups, memory, atomics and scalars in kernels that run as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.dsl.kernel.python_mode import FULL, by_thread, f32, run
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.kernel_errors import DivergenceError, KernelError

# -- warps -----------------------------------------------------------------------------------------


def shuffled(path: str, operand: int, width: int = 32, mask: int = FULL, threads: int = 32) -> list[int]:
    shuffle = cuda.NAMES[path]

    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if mask >> cuda.laneid & 1:
            out[t] = shuffle(mask, 10 * t, operand, width)

    out = np.full(threads, -1, np.int64)
    run(kernel, 1, threads, out)
    return out.tolist()


def test_shuffles() -> None:
    lanes = range(32)
    assert shuffled("shfl_sync", 5) == [50] * 32
    assert shuffled("shfl_sync", 37) == [50] * 32
    assert shuffled("shfl_sync", 9, 8) == [10 * (k - k % 8 + 1) for k in lanes]
    assert shuffled("shfl_up_sync", 3) == [10 * (k - 3 if k >= 3 else k) for k in lanes]
    assert shuffled("shfl_down_sync", 3, 16) == [10 * (k + 3 if k % 16 < 13 else k) for k in lanes]
    assert shuffled("shfl_xor_sync", 1) == [10 * (k ^ 1) for k in lanes]
    # a lane may read from lower groups, but not from higher groups
    assert shuffled("shfl_xor_sync", 8, 8) == [10 * (k ^ 8 if k & 8 else k) for k in lanes]


def test_a_lane_outside_the_mask_gives_my_own() -> None:
    mask = 0b10110
    out = shuffled("shfl_down_sync", 1, mask=mask, threads=8)
    assert out == [-1, 20, 20, -1, 40, -1, -1, -1]


def test_a_short_last_warp_shuffles_with_the_full_mask() -> None:
    assert shuffled("shfl_up_sync", 1, threads=36)[32:] == [320, 320, 330, 340]


def test_the_least_warp_sum() -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        value = x[cuda.grid(1)]
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(FULL, value, step)
            step //= 2
        if cuda.laneid == 0:
            cuda.atomic.add(out, 0, value)

    x, out = np.arange(128, dtype=f32), np.zeros(1, f32)
    run(kernel, 2, 64, x, out)
    assert out[0] == x.sum()


def test_halves_of_a_warp_go_different_ways() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = cuda.reduce_add_sync(0xFFFF, t)
        else:
            out[t] = cuda.reduce_max_sync(0xFFFF0000, t)
            cuda.syncwarp(0xFFFF0000)
        cuda.syncwarp()
        out[t] += cuda.shfl_xor_sync(FULL, 1000 * t, 16)

    out = np.zeros(32, np.int64)
    run(kernel, 1, 32, out)
    assert out.tolist() == [120 + 1000 * (t + 16) for t in range(16)] + [31 + 1000 * (t - 16) for t in range(16, 32)]


def test_votes_of_a_warp() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 2 == 0:
            mask = 0x55555555
            out[t, 0] = cuda.all_sync(mask, t < 32)
            out[t, 1] = cuda.any_sync(mask, t == 31)
            out[t, 2] = cuda.eq_sync(mask, t > 40)
            out[t, 3] = cuda.ballot_sync(mask, t < 8)
            out[t, 4] = cuda.eq_sync(mask, t > 4)

    out = np.zeros((32, 5), np.int64)
    run(kernel, 1, 32, out)
    assert np.array_equal(out[::2], np.tile([1, 0, 1, 0b1010101, 0], (16, 1)))
    assert not out[1::2].any()


def test_match() -> None:
    assert by_thread(lambda: cuda.match_any_sync(FULL, cuda.threadIdx.x % 2)).tolist() == [0x55555555, 0xAAAAAAAA] * 16
    assert by_thread(lambda: cuda.match_all_sync(0xFF, 3.5) == (0xFF, True), 8).tolist() == [1] * 8
    assert by_thread(lambda: cuda.match_all_sync(0xFF, cuda.threadIdx.x) == (0, False), 8).tolist() == [1] * 8


def test_active_mask_is_of_the_lanes_that_run_together() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 3 == 0:
            out[t] = cuda.activemask()
        else:
            out[t] = cuda.activemask()

    out = np.zeros(40, np.int64)
    run(kernel, 1, 40, out)
    third = sum(1 << k for k in range(0, 32, 3))
    assert out[:32].tolist() == [third if k % 3 == 0 else FULL & ~third for k in range(32)]
    assert out[32] | out[33] == 0xFF and not out[32] & out[33]


def test_reductions_of_a_warp() -> None:
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 32).astype(np.int32)

    def over(path: str) -> int:
        return int(by_thread(lambda: cuda.NAMES[path](FULL, x[cuda.laneid]))[7])

    assert over("reduce_min_sync") == x.min()
    assert over("reduce_max_sync") == x.max()
    assert over("reduce_add_sync") == int(x.sum(dtype=np.int32))
    assert over("reduce_and_sync") == np.bitwise_and.reduce(x)
    assert over("reduce_or_sync") == np.bitwise_or.reduce(x)
    assert over("reduce_xor_sync") == np.bitwise_xor.reduce(x)


def test_lanes_below_mine() -> None:
    assert by_thread(cuda.lanemask_lt).tolist() == [(1 << k) - 1 for k in range(32)]


def test_a_mask_without_the_caller() -> None:
    with pytest.raises(KernelError, match=r"lane 1 calls it, but its mask 0x00000001"):
        run(lambda: cuda.syncwarp(1), 1, 2)


def test_a_mask_that_names_lanes_elsewhere() -> None:
    def kernel() -> None:
        if cuda.threadIdx.x < 4:
            cuda.shfl_sync(0xFF, 1, 0)
        else:
            cuda.syncthreads()

    with pytest.raises(DivergenceError, match=r"wait at cuda\.shfl_sync\(mask=0x000000ff\)"):
        run(kernel, 1, 8)


def test_lanes_that_ended_are_not_waited_for() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t >= 20:
            return
        out[t] = cuda.ballot_sync(FULL, True)

    out = np.zeros(32, np.int64)
    run(kernel, 1, 32, out)
    assert out.tolist() == [(1 << 20) - 1] * 20 + [0] * 12


def test_values_that_cannot_be_combined() -> None:
    def kernel() -> None:
        if cuda.threadIdx.x < 2:
            cuda.reduce_and_sync(0b111, np.uint64(1) if cuda.threadIdx.x else np.int64(1))

    with pytest.raises(TypeError, match="bitwise_and"):
        run(kernel, 1, 3)


# -- cooperative groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_tiles(width: int) -> None:
    def kernel(out: np.ndarray) -> None:
        block = cuda.cg.this_thread_block()
        tile = cuda.cg.tiled_partition(block, width)
        t = block.thread_rank()
        value = t
        step = width // 2
        while step > 0:
            value += tile.shfl_down(value, step)
            step //= 2
        tile.sync()
        out[t, 0] = tile.shfl(value, 0)
        out[t, 1] = tile.reduce_add(t)
        out[t, 2] = tile.thread_rank() + 100 * tile.meta_group_rank()
        out[t, 3] = tile.ballot(tile.thread_rank() % 2 == 0)
        out[t, 4] = tile.meta_group_size()
        block.sync()

    out = np.zeros((64, 5), np.int64)
    run(kernel, 1, (8, 8), out)
    t = np.arange(64)
    sums = t.reshape(-1, width).sum(1).repeat(width)
    even = sum(1 << k for k in range(0, width, 2))
    assert np.array_equal(out[:, 0], sums)
    assert np.array_equal(out[:, 1], sums)
    assert np.array_equal(out[:, 2], t % width + 100 * (t // width))
    assert out[:, 3].tolist() == [even] * 64
    assert out[:, 4].tolist() == [64 // width] * 64


def test_coalesced_threads() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 3 == 1:
            group = cuda.cg.coalesced_threads()
            out[t] = 100 * group.size() + group.thread_rank() + 10000 * group.shfl(t, 2)

    out = np.zeros(32, np.int64)
    run(kernel, 1, 32, out)
    assert out[1::3].tolist() == [70000 + 1100 + k for k in range(11)]


@pytest.mark.parametrize(("size", "error"), [(3, ValueError), (64, ValueError)])
def test_tiles_that_cannot_be(size: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="a tile has 1, 2, 4, 8, 16 or 32 lanes"):
        run(lambda: cuda.cg.tiled_partition(cuda.cg.this_block(), size), 1, 32)


# -- memory ------------------------------------------------------------------------------------------


def test_dynamic_shared_memory() -> None:
    def kernel(out: np.ndarray) -> None:
        flat = cuda.shared.array(0, np.int32)
        grid = cuda.shared.dynamic((2, 3), np.int32, offset=8)
        t = cuda.threadIdx.x
        flat[t] = t
        cuda.syncthreads()
        if t == 0:
            out[0] = flat.size
            for i in range(2):
                for j in range(3):
                    out[1 + 3 * i + j] = grid[i, j]

    out = np.zeros(7, np.int32)
    run(kernel, 1, 8, out, shared=32)
    assert out.tolist() == [8, 2, 3, 4, 5, 6, 7]


def test_dynamic_shared_memory_that_is_too_small() -> None:
    with pytest.raises(KernelError, match="bytes 0 to 40 of dynamic shared memory, but the launch asked for 32"):
        run(lambda: cuda.shared.dynamic(10, np.float32), 1, 1, shared=32)


def test_blocks_do_not_share_and_memory_starts_undefined() -> None:
    def kernel(out: np.ndarray) -> None:
        held = cuda.shared.array(shape=(1,), dtype=f32)
        out[cuda.blockIdx.x] = held[0]
        held[0] = 5

    out = np.zeros(2, f32)
    run(kernel, 2, 1, out)
    assert np.isnan(out).all()


def test_local_arrays_are_each_threads_own() -> None:
    def kernel(out: np.ndarray) -> None:
        mine = cuda.local.array((2, 2), np.int32)
        for i in range(4):
            mine[i // 2, i % 2] = cuda.threadIdx.x + i
        cuda.syncthreads()
        out[cuda.threadIdx.x] = mine.sum()

    out = np.zeros(3, np.int32)
    run(kernel, 1, 3, out)
    assert out.tolist() == [6, 10, 14]


def test_local_arrays_of_a_recursion_differ() -> None:
    def down(n: int) -> int:
        held = cuda.local.array(1, np.int64)
        held[0] = n
        rest = down(n - 1) if n > 0 else 0
        return held[0] + rest

    assert by_thread(lambda: down(4), 2).tolist() == [10, 10]


def test_constant_memory() -> None:
    table = np.array([1, 2, 4], f32)

    def kernel(out: np.ndarray) -> None:
        held = cuda.const.array_like(table)
        out[cuda.threadIdx.x] = held[cuda.threadIdx.x] + 1

    def write() -> None:
        cuda.const.array_like(table)[0] = 1

    out = np.zeros(3, f32)
    run(kernel, 1, 3, out)
    assert out.tolist() == [2, 3, 5]
    with pytest.raises(ValueError, match="read-only"):
        run(write, 1, 1)


def test_elements_are_converted_as_kernels_do() -> None:
    def kernel(u: np.ndarray, i: np.ndarray, x: np.ndarray) -> None:
        u[0], u[1], u[2] = -1, 300.7, float("nan")
        i[0], i[1], i[2] = 2**31, -1e30, 2.9
        x[0] = 0.1 * x[1]

    u, i, x = np.zeros(3, np.uint8), np.zeros(3, np.int32), np.array([0, 3], f32)
    run(kernel, 1, 1, u, i, x)
    assert u.tolist() == [255, 255, 0]
    assert i.tolist() == [-(2**31), -(2**31), 2]
    assert x[0] == f32(0.1) * f32(3)


def test_reading_an_element_gives_a_scalar() -> None:
    seen: list[type] = []

    def kernel(x: np.ndarray, pair: Any) -> None:
        seen.extend([type(x[0]), type(x[0] * 2.0), type(x.sum()), type(pair.y[0]), type(x[0] + cuda.threadIdx.x)])

    class Pair(NamedTuple):
        x: int
        y: np.ndarray

    run(kernel, 1, 1, np.ones(2, f32), Pair(1, np.ones(1, np.int8)))
    assert seen == [f32, f32, f32, np.int8, f32]


def test_records() -> None:
    kind = np.dtype([("s0", np.uint64), ("v", f32, (2,))])

    def kernel(states: Any, out: np.ndarray) -> None:
        states[0]["s0"] = 3
        states[1].s0 += np.uint64(1)
        states["v"][0, 1] = 2.5
        out[0] = states.s0[0] + states[1]["s0"]
        held = cuda.shared.array(2, kind)
        held[0] = states[0]
        out[1] = held[0].s0

    states, out = np.zeros(2, kind), np.zeros(2, np.uint64)
    run(kernel, 1, 1, states, out)
    assert states["s0"].tolist() == [3, 1]
    assert states["v"].tolist() == [[0, 2.5], [0, 0]]
    assert out.tolist() == [4, 3]


def test_cache_hints_are_plain_accesses() -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        cuda.stcg(out, (0, 1), cuda.ldca(x, 1) + cuda.ldcg(x, 0) + cuda.ldcs(x, 0) + cuda.ldlu(x, 0) + cuda.ldcv(x, 0))
        cuda.stcs(out, (0, 0), 1)
        cuda.stwb(out, (1, 0), 2)
        cuda.stwt(out, (1, 1), 3)

    out = np.zeros((2, 2), f32)
    run(kernel, 1, 1, np.array([1, 10], f32), out)
    assert out.tolist() == [[1, 14], [2, 3]]


# -- atomics -------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "dtype", "start", "values", "end"),
    [
        ("add", np.int32, 2**31 - 1, (1,), -(2**31)),
        ("add", np.float16, 2048, (1, 1), 2048),
        ("sub", np.uint32, 0, (1,), 2**32 - 1),
        ("min", np.int64, 5, (7, 3, 4), 3),
        ("max", np.uint64, 5, (2**64 - 1, 3), 2**64 - 1),
        ("max", np.float64, NAN, (3,), NAN),
        ("max", np.float64, 3, (NAN, 4), 4),
        ("nanmax", np.float64, NAN, (3, NAN, 2), 3),
        ("nanmin", np.float32, 3, (NAN, 2), 2),
        ("and_", np.int32, 0b1110, (0b0111,), 0b0110),
        ("or_", np.uint64, 0b1000, (0b0011,), 0b1011),
        ("xor", np.int64, 0b1100, (0b1010,), 0b0110),
        ("exch", np.float32, 1, (2, 3), 3),
        ("inc", np.uint32, 0, (2, 2), 2),
        ("inc", np.uint32, 2, (2,), 0),
        ("inc", np.uint32, 9, (2,), 0),
        ("dec", np.uint64, 0, (5,), 5),
        ("dec", np.uint64, 9, (5,), 5),
        ("dec", np.uint64, 4, (5,), 3),
    ],
)
def test_atomics(name: str, dtype: Any, start: float, values: tuple[Any, ...], end: float) -> None:
    def kernel(x: np.ndarray, old: np.ndarray) -> None:
        for i in range(len(values)):
            found = getattr(cuda.atomic, name)(x, (0, 1), values[i])
            if i == 0:
                old[0] = found

    x, old = np.zeros((1, 2), dtype), np.zeros(1, dtype)
    x[0, 1] = start
    run(kernel, 1, 1, x, old)
    assert np.array_equal(x[0, 1], dtype(end), equal_nan=True)
    assert np.array_equal(old[0], dtype(start), equal_nan=True)
    assert x[0, 0] == 0


def test_compare_and_swap() -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        out[0] = cuda.atomic.cas(x, 1, 5, 6)
        out[1] = cuda.atomic.cas(x, 1, 5, 7)
        out[2] = cuda.atomic.compare_and_swap(x[:1], 0, 9)

    x, out = np.array([0, 5], np.int64), np.zeros(3, np.int64)
    run(kernel, 1, 1, x, out)
    assert out.tolist() == [5, 6, 0]
    assert x.tolist() == [9, 6]


def test_a_lock_made_of_atomics() -> None:
    def kernel(lock: np.ndarray, total: np.ndarray) -> None:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(10)
        before = total[0]
        cuda.nanosleep(10)  # lets other threads run
        total[0] = before + 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)

    total = np.zeros(1, np.int32)
    run(kernel, 2, 20, np.zeros(1, np.int32), total)
    assert total[0] == 40


def test_atomics_want_one_element() -> None:
    def kernel(x: np.ndarray) -> None:
        cuda.atomic.add(x, 0, 1)

    with pytest.raises(TypeError, match="one index for each of 2 axes"):
        run(kernel, 1, 1, np.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"atomic\.inc takes uint32 and uint64, not int32"):
        run(lambda x: cuda.atomic.inc(x, 0, 1), 1, 1, np.zeros(2, np.int32))
    with pytest.raises(IndexError):
        run(lambda x: cuda.atomic.add(x, 7, 1), 1, 1, np.zeros(2, np.int32))


# -- bit operations and scalars --------------------------------------------------------------------------


def test_bits() -> None:
    def one(function: Callable[[], Any]) -> int:
        return int(by_thread(function, 1, np.uint64)[0])

    assert one(lambda: cuda.popc(np.int32(-1))) == 32
    assert one(lambda: cuda.popc(-1)) == 64
    assert one(lambda: cuda.clz(np.int32(1))) == 31
    assert one(lambda: cuda.clz(np.uint64(0))) == 64
    assert one(lambda: cuda.ffs(np.int32(0))) == 0
    assert one(lambda: cuda.ffs(np.uint64(1 << 40))) == 41
    assert one(lambda: cuda.brev(np.uint32(1))) == 1 << 31
    assert one(lambda: cuda.brev(np.uint64(2))) == 1 << 62
    assert one(lambda: cuda.selp(cuda.threadIdx.x == 0, 3, 4)) == 3


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 50)).astype(f32)
    c = -(a * b)

    def kernel(a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
        i = cuda.grid(1)
        out[i] = cuda.fma(a[i], b[i], c[i])

    out = np.zeros(50, f32)
    run(kernel, 5, 10, a, b, c, out)
    assert out.tolist() == (a.astype(float) * b + c).astype(f32).tolist()
    assert out.any()


def test_roots_keep_their_dtype() -> None:
    seen: list[Any] = []
    run(lambda: seen.extend([cuda.cbrt(f32(8)), cuda.rsqrt(f32(4)), cuda.rsqrt(4), cuda.cbrt(8.0)]), 1, 1)
    assert seen == [2, 0.5, 0.5, 2]
    assert [type(x) for x in seen] == [f32, f32, float, float]


def test_half_precision() -> None:
    half = np.float16
    seen: list[Any] = []

    def kernel() -> None:
        h = cuda.fp16
        seen.extend([h.hadd(half(1), half(2)), h.hfma(half(2), half(3), half(1)), h.hmax(half(NAN), half(2))])
        seen.extend([h.hrcp(half(4)), h.hrint(half(2.5)), h.hexp10(half(2)), h.hdiv(half(1), half(3)), h.hneg(half(1))])
        seen.append(h.hlt(half(1), half(2)))

    run(kernel, 1, 1)
    assert seen == [3, 7, 2, 0.25, 2, 100, half(1) / half(3), -1, True]
    assert [type(x) for x in seen] == [half] * 8 + [np.bool_]
