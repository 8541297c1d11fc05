"""Tests of planned kernels with GPU schedules on device `simt`.

Results are compared with NumPy, and between variants of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import resolve_target
from weft.codegen.schedules.columns import ColumnReduction
from weft.codegen.schedules.lookback import LookbackScan
from weft.codegen.schedules.rows import EachRow
from weft.codegen.schedules.scans import RowScan
from weft.codegen.schedules.scatter import PrivateScatter
from weft.codegen.schedules.tiles import TransposedTiles
from weft.fusion import kernels_of
from weft.fusion.lower import kernels as lower_kernels
from weft.fusion.plan import plan_cache
from weft.fusion.plan.steps import SizeSpecialization
from weft.fusion.run import planning

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    with wf.device("simt"):
        yield


def attributes(result: wf.Array) -> dict[str, Any]:
    (kernel,) = kernels_of([result._storage], resolve_target("sm_90"))
    return kernel.attributes


def softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.usefixtures("cold_cache")
@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        (lambda x: softmax(wf, x), 5),  # short and long rows, with and without whole vectors; the first length
        (lambda x: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1], 3),
        (lambda x: (x * 2.5 + 1).sum(axis=1), 5),
    ],
)
def test_many_sizes_share_few_kernels(function: Callable[[wf.Array], wf.Array], kernels: int) -> None:
    with wf.profile() as p:
        for length in RNG.integers(65, 1000, 40):
            wf.evaluate(function(wf.asarray(np.ones((7, length), np.float32))))
    assert sum(c.note.stage == "compile" for c in p.compilations) <= kernels


# -- rows -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cold_cache")
def test_any_number_of_parts_is_folded_by_one_kernel() -> None:
    source = RNG.random(16_384 * 40, np.float32)
    with wf.profile() as p:
        for parts in (3, 4, 5, 8, 17, 20, 32, 40):
            np.testing.assert_allclose(wf.asarray(source[: parts * 16_384]).sum(), source[: parts * 16_384].sum(), 1e-5)
    assert sum(c.note.stage == "compile" for c in p.compilations) <= 2  # for the first sizes, and for any other sizes


@pytest.mark.parametrize(
    ("rows", "length"), [(1, 64), (9, 100), (3, 1023), (64, 1028), (64, 4096), (64, 4097), (64, 20_002)]
)
def test_rows_that_are_gone_over_three_times(rows: int, length: int) -> None:
    x = RNG.standard_normal((rows, length)).astype(np.float32)
    found = np.asarray(softmax(wf, wf.asarray(x)))
    np.testing.assert_allclose(found, softmax(np, x.astype(np.float64)), rtol=1e-5)


def test_the_schedule_of_a_row_follows_from_its_length() -> None:
    def threads(length: int) -> tuple[int, int]:
        found = attributes(softmax(wf, wf.asarray(np.zeros((64, length), np.float32))))["schedule"]
        return found.threads, found.kept

    assert threads(1000) == (32, 8)  # a warp with eight vectors per thread in registers
    assert threads(4096) == (256, 4)
    assert threads(30_000)[1] == 0  # too long for registers


def test_whole_vectors_need_rows_of_whole_vectors() -> None:
    even = attributes(softmax(wf, wf.asarray(np.zeros((3, 1000), np.float32))))
    odd = attributes(softmax(wf, wf.asarray(np.zeros((3, 1001), np.float32))))
    assert len(even["schedule"].vectors) == 2
    assert not odd["schedule"].vectors


@pytest.mark.parametrize("length", [260, 1300, 4100])
def test_sizes_that_are_compiled_in_change_no_bit(length: int) -> None:
    x = RNG.standard_normal((5, length)).astype(np.float32)
    a = wf.asarray(x)
    first = np.asarray(softmax(wf, a))
    # use the kernel for another length of its class, and then for this length
    other = wf.asarray(np.ascontiguousarray(x[:, : length - 4]))
    np.asarray(softmax(wf, other))
    padded = wf.asarray(np.pad(x, ((0, 0), (0, 4))))
    general = np.asarray(softmax(wf, padded[:, :length]))  # the stride of rows is larger, so these sizes are new
    assert first.tobytes() == general.tobytes()


def test_many_lengths_share_few_kernels() -> None:
    found = set()
    for length in range(1, 2000, 37):
        known = dict(attributes(softmax(wf, wf.asarray(np.zeros((2, length), np.float32)))))
        known.pop("exact", None)
        found.add(str(sorted(known.items())))
    assert len(found) <= 12


# -- long reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_537, 100_000, 131_072])
def test_long_folds_are_one_launch(size: int) -> None:
    x = RNG.integers(-1000, 1000, size)
    a = wf.asarray(x)
    assert attributes(a.sum())["merged"]
    assert int(a.sum()) == x.sum()
    assert int(a.argmax()) == x.argmax()


@pytest.mark.parametrize(("shape", "axis"), [((3, 70_001), 1), ((40, 70_000), 1), ((2, 3, 80_000), 2)])
def test_long_folds_of_a_few_rows_are_one_launch(shape: tuple[int, ...], axis: Any) -> None:
    x = RNG.integers(-1000, 1000, shape)
    a = wf.asarray(x)
    assert attributes(a.sum(axis=axis))["merged"]
    np.testing.assert_array_equal(np.asarray(a.sum(axis=axis)), x.sum(axis=axis))
    np.testing.assert_array_equal(np.asarray((a * a).max(axis=axis)), (x * x).max(axis=axis))


def test_partial_results_are_folded_by_a_warp_or_by_the_block() -> None:
    x = np.ones(1100 * 16_384, np.int8)
    a = wf.asarray(x)
    assert attributes(a[: 16_384 * 100].sum())["schedule"].finish == (32, 2, True)
    assert attributes(a.sum())["schedule"].finish == (512, 2, True)
    assert int(a.sum()) == x.size


def test_a_block_that_folds_several_results_meets_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # (otherwise, only rows of 8 M elements are split like this)
    monkeypatch.setattr("weft.codegen.schedules.split_reductions.FEW_PARTS", 1)
    x = RNG.random((3, 40_000), np.float32)
    with wf.device("simt::sanitized"):
        a = wf.asarray(x)
        found = a.sum(axis=1)
        assert attributes(found)["schedule"].finish[0] == 512
        np.testing.assert_allclose(found, x.sum(axis=1, dtype=np.float64), rtol=1e-6)


def test_sizes_that_are_compiled_in_change_no_bit_of_a_long_fold() -> None:
    x = RNG.standard_normal(12 * 32_768).astype(np.float32)
    first = float(wf.asarray(x).sum())
    for start in range(1, 4):  # not aligned to vectors: special kernels first, and then the kernel for any size
        assert float(wf.asarray(np.concatenate([x[:start], x]))[start:].sum()) == first


def test_sums_have_the_same_bits_every_time() -> None:
    a = wf.asarray(RNG.standard_normal(200_003).astype(np.float32))
    assert len({float((a * a).sum()) for _ in range(5)}) == 1


def test_several_folds_of_the_same_elements_are_one_kernel() -> None:
    x = RNG.standard_normal(100_000)
    a = wf.asarray(x)
    most, mean, squares = a.max(), a.mean(), (a * a).sum()
    wf.evaluate(most, mean, squares)
    assert float(most) == x.max()
    np.testing.assert_allclose([float(mean), float(squares)], [x.mean(), (x * x).sum()], rtol=1e-9)


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100, 3), (37, 130), (5, 1000), (70, 4, 9), (333, 131)])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_folds_across_rows_have_numpys_bits(shape: tuple[int, ...], dtype: Any) -> None:
    x = RNG.integers(0, 100, shape).astype(dtype)
    a = wf.asarray(x)
    assert isinstance(attributes(a.sum(axis=0))["schedule"], ColumnReduction)
    np.testing.assert_array_equal(np.asarray(a.sum(axis=0) * 2), x.sum(axis=0) * 2)
    np.testing.assert_array_equal(np.asarray(a.argmax(axis=0)), x.argmax(axis=0))
    np.testing.assert_array_equal(np.asarray(a - a.max(axis=0)), x - x.max(axis=0))


def test_columns_are_read_as_vectors() -> None:
    def side(found: dict[str, Any]) -> tuple[int, int]:
        return found["schedule"].side, found["schedule"].lanes

    whole = attributes(wf.asarray(np.zeros((300, 200), np.float32)).sum(axis=0))
    odd = attributes(wf.asarray(np.zeros((300, 201), np.float32)).sum(axis=0))
    narrow = attributes(wf.asarray(np.zeros((300, 20), np.float32)).sum(axis=0))
    wide = attributes(wf.asarray(np.zeros((6, 40_000), np.float32)).sum(axis=0))
    assert side(wide) == (32, 4)
    assert side(whole) == side(odd) == (8, 4)  # smaller tiles for more blocks
    assert len(whole["schedule"].vectors) == 2
    assert not odd["schedule"].vectors
    assert side(narrow) == (8, 4)


@pytest.mark.parametrize("shape", [(70_000, 3), (5000, 100), (3000, 1000), (3, 2000, 40)])
def test_long_folds_across_rows_are_shared_by_blocks(shape: tuple[int, ...]) -> None:
    x = RNG.integers(-1000, 1000, shape)
    a = wf.asarray(x)
    axis = len(shape) - 2
    first, second = kernels_of([a.sum(axis=axis)._storage], resolve_target("sm_90"))
    assert isinstance(first.attributes["schedule"], ColumnReduction)
    assert isinstance(second.attributes["schedule"], ColumnReduction)
    np.testing.assert_array_equal(np.asarray(a.sum(axis=axis) + 1), x.sum(axis=axis) + 1)
    np.testing.assert_array_equal(np.asarray(a.argmin(axis=axis)), x.argmin(axis=axis))


def test_a_few_very_long_rows_are_shared_by_blocks() -> None:
    x = np.ones((70, 530_000), np.int8)
    a = wf.asarray(x)
    assert "merged" in attributes(a.sum(axis=1))
    assert "merged" not in attributes(a[:, :70_000].sum(axis=1))
    assert np.asarray(a.sum(axis=1)).tolist() == [530_000] * 70


@pytest.mark.parametrize("columns", [20, 300])
def test_a_column_is_folded_in_one_order(columns: int) -> None:
    x = RNG.standard_normal((777, columns)).astype(np.float32)
    a, b = wf.asarray(x), wf.asarray(np.pad(x, ((0, 0), (1, 0))))[:, 1:]  # the vectors of b are not aligned
    first = np.asarray(a.sum(axis=0))
    assert np.asarray(b.sum(axis=0)).tobytes() == first.tobytes()
    together = wf.evaluate(a.sum(axis=0), (a * 2).max(axis=0), a.astype(np.float64).sum(axis=0))
    assert np.asarray(together[0]).tobytes() == first.tobytes()


# -- scatters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "length"), [(1, 3), (1003, 64), (4097, 5000), (70_001, 300)])
@pytest.mark.parametrize("op", ["add", "subtract", "maximum", "bitwise_xor"])
def test_integers_are_reduced_by_all_threads(size: int, length: int, op: str) -> None:
    where = RNG.integers(-length, length, size).astype(np.int32)
    for values in (RNG.integers(-100, 100, size), 1):
        wanted, found = np.ones(length, np.int64), wf.ones(length, dtype=np.int64)
        getattr(np, op).at(wanted, where, values)
        getattr(np, op).at(found, wf.asarray(where), wf.asarray(values) if size > 1 else values)
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("length", [5, 20_000])
def test_reductions_into_one_element_count_each(length: int) -> None:
    found = wf.zeros(length, dtype=np.int32)
    np.add.at(found, np.broadcast_to(wf.asarray(np.array([3])), (1000,)), 2)
    assert np.asarray(found).tolist() == [2000 * (k == 3) for k in range(length)]


def test_few_accumulators_are_private_to_blocks() -> None:
    def scattered(length: int, dtype: Any) -> dict[str, Any]:
        result, where = wf.asarray(np.zeros(length, dtype)), wf.asarray(np.zeros(100_000, np.int32))
        np.add.at(result, where, 1)
        return attributes(result)

    assert scattered(100, np.int64)["schedule"] == PrivateScatter(128)
    assert scattered(8192, np.int64)["schedule"] == PrivateScatter(8192)  # 32-bit counters, as only ones are added
    assert not isinstance(scattered(9000, np.int64)["schedule"], PrivateScatter)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_numbers_are_counted_on_the_device(dtype: Any) -> None:
    x = RNG.integers(0, 60, 5000).astype(dtype)
    for least in (0, 64):
        found = np.bincount(wf.asarray(x) + 1, minlength=least)
        kernels = kernels_of([found._storage], resolve_target("sm_90"))
        assert kernels[-1].attributes["schedule"] == PrivateScatter(64)
        np.testing.assert_array_equal(np.asarray(found), np.bincount(x + 1, minlength=least))
    with pytest.raises(ValueError, match="negative"):
        np.bincount(wf.asarray(np.array([1, -2])))


# -- scans -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "length"), [(1, 128), (3, 1000), (2, 1025), (70, 130), (1, 5001)])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_running_sums_of_integers_have_numpys_bits(rows: int, length: int, dtype: Any) -> None:
    x = RNG.integers(0, 100, (rows, length)).astype(dtype)
    found = np.cumsum(x, axis=1) * 3
    np.testing.assert_array_equal(np.asarray(wf.cumsum(wf.asarray(x) + 0, axis=1) * 3), found)


def test_a_block_goes_along_a_row() -> None:
    x = RNG.random((3, 1000)).astype(np.float32)
    result = wf.cumsum(wf.asarray(x), axis=1)
    assert isinstance(attributes(result)["schedule"], RowScan)
    np.testing.assert_allclose(np.asarray(result), np.cumsum(x.astype(np.float64), axis=1), rtol=1e-5)


# -- elements ------------------------------------------------------------------------------------------

SHAPES = [(64, 128), (16, 1024), (33, 47), (100, 60), (7, 515)]
POINTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "crossing": lambda x, y: x + y.T,
    "crossing twice": lambda x, y: (x.T + y) * x.T,
    "rows": lambda x, y: x * 2 + x[0],
    "columns": lambda x, y: x - x[:, :1],
    "stencil": lambda x, y: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] - x[:-2, 1:-1],
    "backwards": lambda x, y: x[:, ::-1] + x[0],
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_pointwise_programs_have_numpys_bits(name: str, dtype: Any) -> None:
    for shape in SHAPES:
        x, y = (RNG.random(s).astype(dtype) for s in (shape, shape[::-1]))
        found = np.asarray(POINTWISE[name](wf.asarray(x), wf.asarray(y)))
        np.testing.assert_array_equal(found, POINTWISE[name](x, y))


def test_transposes_go_through_tiles() -> None:
    x = wf.asarray(np.zeros((128, 128), np.float32))
    found = attributes(x + wf.asarray(np.zeros((128, 128), np.float32)).T)["schedule"]
    assert (found.side, found.lanes, found.whole) == (64, 4, True)
    assert attributes((x[1:, 1:].T * 2).copy())["schedule"] == TransposedTiles(32, 1, whole=False)


@pytest.mark.parametrize("size", [1, 3, 4, 1023, 1025])
def test_lines_have_numpys_bits(size: int) -> None:
    x = RNG.random(size).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(wf.asarray(x) * 3 - 1), x * 3 - 1)


@pytest.fixture(params=["these sizes", "any sizes"])
def forget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that clears the caches of plans and of specialized sizes.

    The next kernels are then specialized for their exact sizes. For the parameter "any sizes", all kernels work for any
    sizes, and the function does nothing.
    """

    def new() -> None:
        monkeypatch.setattr(lower_kernels, "_met", set())
        monkeypatch.setattr(plan_cache, "_known", type(plan_cache._known)())

    if request.param == "any sizes":
        monkeypatch.setattr(planning, "_may_be_special", lambda form: SizeSpecialization(False, False))
        return lambda: None
    return new


# Views: the shape of the underlying array, and the view of it that has the tested shape.
VIEWS: dict[str, tuple[Callable[[int, int], tuple[int, ...]], Callable[[Any, int, int], Any]]] = {
    "whole": (lambda r, c: (r, c), lambda a, r, c: a),
    "from an odd element": (lambda r, c: (r * c + 3,), lambda a, r, c: a[3:].reshape(r, c)),
    "inside": (lambda r, c: (r + 2, c + 3), lambda a, r, c: a[1:-1, 2:-1]),
    "longer rows": (lambda r, c: (r, c + 4), lambda a, r, c: a[:, :c]),
    "every other": (lambda r, c: (2 * r, 2 * c), lambda a, r, c: a[::2, ::2]),
    "across": (lambda r, c: (c, r), lambda a, r, c: a.T),
    "backwards": (lambda r, c: (r, c), lambda a, r, c: a[::-1, ::-1]),
    "one channel": (lambda r, c: (r, c, 3), lambda a, r, c: a[:, :, 1]),
}
MOVED: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x - x[:1],
    "row and column": lambda x: x * x[:, :1] + x[-1:],
    "nine points": lambda x: sum(x[i : i - 2 or None, j : j - 2 or None] * (i + j) for i in range(3) for j in range(3)),
    "points along": lambda x: x[:, 2:] + x[:, :-2] * x[:, 1:-1],
    "points below": lambda x: x[2:] + x[:-2] * x[1:-1],
}
# sizes near whole vectors, warps, blocks and tiles
EDGES = [(9, 4), (33, 12), (31, 65), (18, 68), (5, 130), (6, 260), (0, 64), (7, 0)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", MOVED)
def test_vectors_stay_inside_arrays(
    forget: Callable[[], None], name: str, view: str, request: pytest.FixtureRequest
) -> None:
    """Test in instrumented kernels that vector accesses are aligned and within bounds.

    For each program and view, kernels for exact sizes have one dtype, and kernels for any sizes have the other. Each
    test has every other pair of sizes.
    """
    form, seen = VIEWS[view]
    turn = list(MOVED).index(name) + list(VIEWS).index(view) + ("any sizes" in request.node.callspec.id)
    dtype = (np.float32, np.uint8)[turn % 2]
    with wf.device("simt::sanitized"):
        for r, c in EDGES[turn % 2 :: 2]:  # (every program and every view has all sizes)
            x = RNG.integers(0, 9, form(r, c)).astype(dtype)
            if "point" in name and min(r, c) == 0:
                continue
            forget()
            wanted = MOVED[name](seen(x, r, c))
            np.testing.assert_array_equal(np.asarray(MOVED[name](seen(wf.asarray(x), r, c))), wanted)


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("shape", [(9, 64), (33, 68), (6, 260), (33, 131)])
def test_what_is_beside_a_view_is_not_written(forget: Callable[[], None], shape: tuple[int, int], offset: int) -> None:
    r, c = shape
    forget()
    wide = (c + 7) // 4 * 4  # all rows begin at an aligned address
    x, canvas = RNG.random((r, wide)).astype(np.float32), np.full((r + 2, wide), 7, np.float32)
    with wf.device("simt::sanitized"):
        found, a = wf.asarray(canvas.copy()), wf.asarray(x)[:, :c]
        found[1:-1, offset : offset + c] = a - a[0]
        wf.evaluate(found)
        found[1:-1, offset : offset + c] *= a[0]
        canvas[1:-1, offset : offset + c] = (x[:, :c] - x[0, :c]) * x[0, :c]
        np.testing.assert_array_equal(np.asarray(found), canvas)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_channels_have_numpys_bits(forget: Callable[[], None], channels: int, dtype: Any) -> None:
    mean, scale = RNG.random((2, channels)).astype(np.float32)
    with wf.device("simt::sanitized"):
        for shape in [(1, 1), (5, 7), (3, 352), (0, 3)]:
            image = RNG.integers(0, 256, (*shape, channels)).astype(dtype)
            a = wf.asarray(image)
            for part in (slice(None), slice(1, None), slice(None, None, -1)):
                forget()
                found = (a[..., part] * np.float32(0.1) - mean[part]) / (scale[part] + 1)
                wanted = (image[..., part] * np.float32(0.1) - mean[part]) / (scale[part] + 1)
                np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("shape", [(5000, 64), (70, 200), (3, 500, 70), (300, 4096), (200, 70_000)])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_running_folds_of_columns_go_by_bands(shape: tuple[int, ...], dtype: Any) -> None:
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    axis = len(shape) - 2
    result = np.cumsum(wf.asarray(x), axis=axis) * 2
    kernels = kernels_of([result._storage], resolve_target("sm_90"))
    columns = x.size // shape[axis]
    assert len(kernels) == (1 if columns >= 1 << 16 else 2)
    assert not isinstance(
        kernels[-1].attributes["schedule"], (RowScan, LookbackScan, EachRow)
    )  # a thread iterates over its own column
    wanted = np.cumsum(x.astype(np.float64), axis=axis) * 2
    if dtype == np.int64:
        np.testing.assert_array_equal(np.asarray(result), wanted)
    else:
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-4, atol=1e-3)
        again = np.asarray(np.cumsum(wf.asarray(x), axis=axis) * 2)
        assert again.tobytes() == np.asarray(result).tobytes()


def test_chosen_folds_of_columns_are_numpys() -> None:
    x = RNG.standard_normal((700, 65)).astype(np.float32)
    np.testing.assert_array_equal(
        np.asarray(np.maximum.accumulate(wf.asarray(x) + 1, axis=0)), np.maximum.accumulate(x + 1)
    )


@pytest.mark.parametrize("shape", [(64, 200), (5000, 7), (9000,), (3, 20_000)])
def test_running_folds_of_running_folds(shape: tuple[int, ...]) -> None:
    """Test scans of another scan's result, along short and long columns and along long rows."""
    x = RNG.integers(-20, 20, shape)
    x[: shape[0] // 3] += 25
    axis = 0 if shape[0] > 3 else 1
    found = wf.cumsum(wf.minimum.accumulate(wf.asarray(x), axis), axis)
    np.testing.assert_array_equal(np.asarray(found), np.cumsum(np.minimum.accumulate(x, axis), axis))
    turned = wf.cumprod(wf.where(found > 0, -1, 1), axis) * found
    right = np.cumsum(np.minimum.accumulate(x, axis), axis)
    np.testing.assert_array_equal(np.asarray(turned), np.cumprod(np.where(right > 0, -1, 1), axis) * right)


@pytest.mark.parametrize("shape", [(48, 8), (7, 5, 8), (2, 200, 64)])
def test_elements_at_indices_that_a_column_computes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    with wf.device("simt"):
        y = wf.asarray(x)
        found = wf.take_along_axis(y, y.argmax(-2, keepdims=True), -2)
    np.testing.assert_array_equal(np.asarray(found), np.take_along_axis(x, x.argmax(-2, keepdims=True), -2))
