"""Tests that kernels compiled for the CPU behave like plain Python."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.dsl.kernel.python_mode import FULL, f32
from weft import cuda
from weft.dsl.kernel.language.names import Intrinsic
from weft.runtime import override

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")

NAN = float("nan")


def agree(function: Callable[..., None], grid: Any, block: Any, *arguments: np.ndarray, shared: int = 0) -> None:
    """Run a kernel as plain Python and compiled. Assert that both runs change the arrays alike."""
    kernel = weft.kernel(function)
    wanted, found = ([array.copy() for array in arguments] for _ in range(2))
    with override(kernel_python=True):
        kernel[grid, block, 0, shared](*wanted)
    kernel[grid, block, 0, shared](*found)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(other, one)
    assert any(not np.array_equal(one, before) for one, before in zip(wanted, arguments, strict=True))


def blank(*shape: int) -> np.ndarray:
    return np.full(shape, -1, np.int64)


# -- warps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 8, 32])
@pytest.mark.parametrize("name", ["shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"])
def test_shuffles(name: str, width: int) -> None:
    shuffle = getattr(cuda, name)

    def kernel(operands: np.ndarray, out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        for k in range(operands.size):
            out[k, t] = shuffle(FULL, 10 * t, operands[k], width)

    agree(kernel, 1, 40, np.array([0, 1, 5, 16, 31, 32, 37, -1]), blank(8, 40))


def test_votes_under_a_partial_mask() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 2 == 0:
            mask = 0x55555555
            out[t, 0] = cuda.all_sync(mask, t < 32)
            out[t, 1] = cuda.any_sync(mask, t == 31)
            out[t, 2] = cuda.eq_sync(mask, t > 40)
            out[t, 3] = cuda.ballot_sync(mask, t < 8)
            out[t, 4] = cuda.match_any_sync(mask, t % 4)
            lanes, same = cuda.match_all_sync(mask, t // 64)
            out[t, 5] = lanes
            out[t, 6] = same
        cuda.syncwarp()
        out[t, 7] = cuda.lanemask_lt()
        out[t, 8] = ~cuda.ballot_sync(FULL, t > 5)
        out[t, 9] = cuda.syncthreads_count(t % 3 == 0)
        out[t, 10] = cuda.syncthreads_and(t < 40) + 2 * cuda.syncthreads_or(t == 39)
        out[t, 11] = cuda.laneid

    agree(kernel, 1, 40, blank(40, 12))


@pytest.mark.parametrize("late", [0, 2, 3, 31, 35])
def test_lanes_wait_for_one_lane_that_is_late(late: int) -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        mine = t == late
        mask = cuda.ballot_sync(FULL, mine)
        if mine:
            out[t, 0] = cuda.reduce_add_sync(mask, 7)
        out[t, 1] = cuda.ballot_sync(FULL, True)
        out[t, 2] = cuda.shfl_sync(FULL, t + 100, 0)

    agree(kernel, 1, 36, blank(36, 3))


def test_threads_that_ended_and_lanes_that_run_together() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t >= 20 and t < 37:
            return
        out[t, 0] = cuda.ballot_sync(FULL, True)
        out[t, 1] = cuda.syncthreads_count(True)
        if t % 3 == 0:
            out[t, 2] = cuda.activemask()
        else:
            out[t, 2] = cuda.activemask()

    agree(kernel, 1, 40, blank(40, 3))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, f32])
def test_reductions_of_a_warp(dtype: Any) -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 4 != 1:
            mask = 0xDDDDDDDD
            out[t, 0] = cuda.reduce_add_sync(mask, x[t])
            out[t, 1] = cuda.reduce_min_sync(mask, x[t])
            out[t, 2] = cuda.reduce_max_sync(mask, x[t])

    x = np.random.default_rng(5).integers(0, 100, 40).astype(dtype)
    agree(kernel, 1, 40, x, np.zeros((40, 3), dtype))


# -- cooperative groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 4, 32])
def test_tiles(width: int) -> None:
    def kernel(out: np.ndarray) -> None:
        block = cuda.cg.this_thread_block()
        tile = cuda.cg.tiled_partition(block, width)
        t = block.thread_rank()
        out[t, 0] = tile.shfl(t, 2) + 100 * tile.shfl_down(t, 1)
        out[t, 1] = tile.reduce_add(t)
        out[t, 2] = tile.thread_rank() + 100 * tile.meta_group_rank()
        out[t, 3] = tile.ballot(tile.thread_rank() % 2 == 0)
        out[t, 4] = tile.meta_group_size() + tile.size()
        out[t, 5] = tile.shfl_up(t, 1) + 100 * tile.shfl_xor(t, 1)
        out[t, 6] = tile.any(t == 3) * 2 + tile.all(t < 60)
        tile.sync()
        out[t, 7] = tile.match_any(t % 3)
        lanes, same = tile.match_all(t // 16)
        out[t, 8] = lanes
        out[t, 9] = same
        out[t, 10] = tile.reduce_min(t) + 100 * tile.reduce_max(t)
        out[t, 11] = tile.reduce_and(t) + 100 * tile.reduce_or(t) + 10000 * tile.reduce_xor(t)
        block.sync()
        x, y, z = block.thread_index()
        out[t, 12] = x + 10 * y + 100 * z + 1000 * block.dim_threads()[0] + 10000 * block.size()
        out[t, 13] = block.group_index()[1]

    agree(kernel, 1, (8, 4, 2), blank(64, 14))


def test_coalesced_threads() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if t % 3 == 1:
            group = cuda.cg.coalesced_threads()
            out[t, 0] = 100 * group.size() + group.thread_rank() + 10000 * group.shfl(t, 2)
            out[t, 1] = group.any(t == 4) * 2 + group.all(t > 0)
            out[t, 2] = group.reduce_add(t) + 1000 * group.reduce_min(t)
            group.sync()
            out[t, 3] = group.reduce_max(t)

    agree(kernel, 1, 32, blank(32, 4))


def test_the_grid() -> None:
    def kernel(out: np.ndarray) -> None:
        grid = cuda.cg.this_grid()
        r = grid.thread_rank()
        out[r, 0] = grid.size() + 1000 * grid.num_blocks() + 10000 * grid.block_rank()
        grid.sync()
        out[r, 1] = out[(r + 5) % 96, 0]

    agree(kernel, (2, 2), (4, 3, 2), blank(96, 2))


# -- atomics ---------------------------------------------------------------------------------------

WHOLE_DTYPES = (np.int32, np.uint32, np.int64, np.uint64)
WHOLE = ("add", "sub", "min", "max", "nanmin", "nanmax", "and_", "or_", "xor", "exch")
REAL = ("add", "sub", "min", "max", "nanmin", "nanmax", "exch")
ATOMICS = [
    *((name, dtype) for dtype in WHOLE_DTYPES for name in WHOLE),
    *((name, dtype) for dtype in (np.uint32, np.uint64) for name in ("inc", "dec")),
    *((name, dtype) for dtype in (f32, np.float64) for name in REAL),
    ("add", np.float16),
    ("sub", np.float16),
]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("name", "dtype"), ATOMICS)
def test_atomics(name: str, dtype: Any, shared: bool) -> None:
    operation = getattr(cuda.atomic, name)

    def kernel(x: np.ndarray, values: np.ndarray, old: np.ndarray) -> None:
        t = cuda.threadIdx.x
        if shared:
            held = cuda.shared.array(30, dtype)
            held[t] = x[t, 0]
            old[t] = operation(held, t, values[t])
            x[t, 0] = held[t]
        else:
            old[t] = operation(x, (t, 0), values[t])

    if dtype in WHOLE_DTYPES:
        top = np.iinfo(dtype).max
        corners = np.array([0, 1, 2, 5, top], dtype)
    else:
        corners = np.array([0, -2.5, 3, 1000, NAN], dtype)
    starts, values = (grid.ravel() for grid in np.meshgrid(corners, corners))
    agree(kernel, 1, len(starts), starts.reshape(-1, 1), values, np.full(len(starts), 77, dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, f32, np.float64])
def test_compare_and_swap(dtype: Any) -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        out[t, 0] = cuda.atomic.cas(x, t, 2, 7)
        out[t, 1] = cuda.atomic.cas(x, -1 - t, 3, 8)
        if t == 0:
            out[0, 2] = cuda.atomic.compare_and_swap(x[:1], 7, 9)

    agree(kernel, 1, 1, np.array([2, 3], dtype), np.zeros((4, 3), dtype))


# -- bit operations and scalars ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_bits(dtype: Any) -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        out[t, 0] = cuda.popc(x[t])
        out[t, 1] = cuda.clz(x[t])
        out[t, 2] = cuda.ffs(x[t])
        out[t, 3] = cuda.brev(x[t])

    info = np.iinfo(dtype)
    agree(kernel, 1, 6, np.array([0, 1, 6, info.max, info.min, info.max - 5], dtype), np.zeros((6, 4), np.uint64))


@pytest.mark.parametrize("value", [0, 1, -1, 40])
def test_bits_of_pythons_own_integers(value: int) -> None:
    def kernel(out: np.ndarray) -> None:
        out[0] = cuda.popc(value)
        out[1] = cuda.clz(value)
        out[2] = cuda.ffs(value)
        out[3] = cuda.brev(value)

    agree(kernel, 1, 1, np.full(4, 5, np.uint64))


@pytest.mark.parametrize("dtype", [f32, np.float64])
def test_fma(dtype: Any) -> None:
    def kernel(a: np.ndarray, out: np.ndarray) -> None:
        i = cuda.grid(1)
        out[0, i] = cuda.fma(a[0, i], a[1, i], -(a[0, i] * a[1, i]))
        out[1, i] = cuda.selp(a[0, i] > 0, a[0, i], a[1, i])

    agree(kernel, 2, 32, np.random.default_rng(0).normal(size=(2, 64)).astype(dtype), np.zeros((2, 64), dtype))


def test_what_is_stored_is_converted() -> None:
    def kernel(u: np.ndarray, i: np.ndarray, h: np.ndarray) -> None:
        t = cuda.threadIdx.x
        u[t] = -1 - t
        i[t] = 3.99 * 10.0 ** (4 * t)
        h[t] = 70000 + t

    agree(kernel, 1, 4, np.zeros(4, np.uint8), np.zeros(4, np.int32), np.zeros(4, np.int16))


# -- memory and vectors --------------------------------------------------------------------------------


def test_dynamic_shared_memory() -> None:
    def kernel(out: np.ndarray) -> None:
        flat = cuda.shared.array(0, np.int32)
        table = cuda.shared.dynamic((2, 3), np.int32, offset=8)
        t = cuda.threadIdx.x
        flat[t] = t
        cuda.syncthreads()
        out[t] = table[t % 2, t % 3] + 100 * flat.size

    agree(kernel, 1, 8, blank(8), shared=64)


def test_vectors() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        v = cuda.float32x4(t, 1.5, cuda.float32x2(2, 3))
        w = v * 2 + cuda.float4(1, 1, 1, 1)
        w.x += 5
        out[t, 0] = w.x
        out[t, 1] = w.y + w.z
        out[t, 2] = 1 / w.w
        u = cuda.int2(t, -3)
        out[t, 3] = (u // 2).y
        out[t, 4] = (-u).x
        out[t, 5] = (u / 2).y
        out[t, 6] = (u * cuda.float2(0.5, 0.25)).y
        out[t, 7] = v == w
        out[t, 8] = cuda.uchar2(300 + t, 2).x

    agree(kernel, 1, 4, np.zeros((4, 9), f32))


def test_half_precision() -> None:
    def kernel(out: np.ndarray) -> None:
        t = cuda.threadIdx.x
        a = np.float16(t + 1.5)
        out[t, 0] = cuda.fp16.hadd(a, a)
        out[t, 1] = cuda.fp16.hfma(a, a, a)
        out[t, 2] = cuda.fp16.hrcp(a)
        out[t, 3] = cuda.fp16.hmax(a, np.float16(2))
        out[t, 4] = cuda.fp16.hlt(a, np.float16(2))
        out[t, 5] = cuda.fp16.hsqrt(a)

    agree(kernel, 1, 2, np.zeros((2, 6), np.float16))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_polar_coordinates_without_a_number(dtype: str) -> None:
    def polar(r: Any, phi: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < r.size:
            out[i] = cmath.rect(r[i], phi[i])

    edges = [0.0, -0.0, 2.5, -1.0, math.inf, -math.inf, math.nan]
    pairs = [(r, phi) for r in edges for phi in edges if not (r and r == r and math.isinf(phi))]
    out = np.zeros(len(pairs), np.complex128)
    r, phi = np.array(pairs, dtype).T
    weft.kernel(polar)[1, 64](r.copy(), phi.copy(), out)
    wanted = np.array([cmath.rect(*pair) for pair in pairs])
    for found, right in ((out.real, wanted.real), (out.imag, wanted.imag)):
        np.testing.assert_allclose(found, right, rtol=1e-6)
        zeros = right == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(right[zeros]))


# -- dtypes ------------------------------------------------------------------------------------------------

_REFUSED: list[tuple[str, Callable[..., Any]]] = [
    *((f"atomic.{name}", getattr(cuda.atomic, name)) for name in "add min nanmax exch and_ inc".split()),
    ("atomic.load", lambda x, i, value: cuda.atomic.load(x, i)),
    ("atomic.cas", lambda x, i, value: cuda.atomic.cas(x, i, value, value)),
    ("atomic.compare_and_swap", lambda x, i, value: cuda.atomic.compare_and_swap(x, value, value)),
    ("reduce_add_sync", lambda x, i, value: cuda.reduce_add_sync(1, value)),
    ("reduce_and_sync", lambda x, i, value: cuda.reduce_and_sync(1, value)),
    ("match_any_sync", lambda x, i, value: cuda.match_any_sync(1, value)),
    ("ldcg", lambda x, i, value: cuda.ldcg(x, i)),
    ("stcg", lambda x, i, value: cuda.stcg(x, i, value)),
    ("cbrt", lambda x, i, value: cuda.cbrt(value)),
    ("fma", lambda x, i, value: cuda.fma(value, value, value)),
]


@pytest.mark.parametrize(("name", "function"), _REFUSED, ids=[name for name, _ in _REFUSED])
def test_python_mode_takes_the_dtypes_of_compiled_kernels(name: str, function: Callable[..., Any]) -> None:
    if not isinstance(function, Intrinsic):
        function = weft.device(function)

    def kernel(x: Any) -> None:
        function(x, 0, x[0])

    for dtype in (np.int16, np.float16, np.complex64):
        taken = []
        for mode in (True, False):
            try:
                with override(kernel_python=mode):
                    weft.kernel(kernel)[1, 1](np.ones(1, dtype))
            except TypeError:
                taken.append(False)
            else:
                taken.append(True)
        assert taken[0] == taken[1], dtype


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0] * cuda.cbrt(2.3),
        lambda x: x[0] * cuda.fma(1.1, 2.3, 0.7),
        lambda x: cuda.fma(np.float16(x[0]), np.float16(x[1]), np.float16(x[1])) / 3,
        lambda x: cuda.cbrt(np.int8(x[0])),
        lambda x: x[0] * weft.sqrt(2.3),
        lambda x: x[0] * math.frexp(x[1])[0] / 3,
        lambda x: abs(complex(x[0], x[1])) / 3,
        lambda x: cmath.sqrt(x[0]).real / 3,
        lambda x: cmath.polar(x[1])[0] / 3,
        lambda x: cmath.log(x[2]).real,
        lambda x: math.pow(int(x[2]), -1),
        lambda x: x[0] * round(2.345678, x.size),
        lambda x: math.pow(0, -1) * x[0],
        lambda x: math.pow(-8, 1 / 3) * x[0],
        lambda x: math.fmod(5, int(x[2])),
        lambda x: math.floor(x[1] / x[2]),
        lambda x: math.ceil(x[2] / x[2]),
        lambda x: math.trunc(-x[1] / x[2]),
        lambda x: round(x[1] / x[2]),
    ],
)
def test_dtypes_and_special_values_of_functions(function: Any) -> None:
    function = weft.device(function)

    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        out[0] = function(x)

    agree(kernel, 1, 1, f32([1.3, 2.3, 0]), np.full(1, -1.0))


def test_arrays_that_are_assigned_are_converted() -> None:
    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        out[:] = x

    for dtype in (np.uint8, np.int64):
        agree(kernel, 1, 1, np.array([1e20, NAN, -5.7]), np.ones(3, dtype))


@pytest.mark.parametrize("name", ["max", "mean", "sum"])
def test_reductions_of_bfloat16(name: str) -> None:
    brain = pytest.importorskip("ml_dtypes").bfloat16

    def kernel(x: Any, out: np.ndarray) -> None:
        out[0] = getattr(x, name)() * 1.1

    agree(kernel, 1, 1, np.array([1.5, 2.25, -0.3], brain), np.zeros(1))


def test_shared_arrays_of_a_device_function() -> None:
    @weft.device
    def scratch(n: int) -> Any:
        return cuda.shared.array(n, np.float32)

    def kernel(out: np.ndarray) -> None:
        scratch(2)[0] = 1
        scratch(2)[1] = 2
        scratch(3)[0] = 9
        array = scratch(2)
        out[0] = array[0] + array[1]
        out[1] = cuda.shared.array((2, 0), np.float32).ndim

    agree(kernel, 1, 1, blank(2))


def test_arrays_made_in_kernels() -> None:
    def kernel(out: np.ndarray) -> None:
        held = cuda.shared.array(1, np.uint32)
        held[0] = 1
        cuda.atomic.cas(held, 0, 1, -1)
        x = np.ones(2, np.uint32)
        x[0] = held[0]
        same, copy = np.asarray(x), np.array(x)
        same[1] += 1
        out[0], out[1], out[2] = x[0], x[1], copy[1]

    agree(kernel, 1, 1, blank(3))
