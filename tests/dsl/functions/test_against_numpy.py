"""Tests that functions have NumPy's results, dtypes and errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS
from weft.runtime import override

VALUES: dict[str, Any] = {
    "float64": np.array([0.0, -2.5]),
    "float16": np.array([0.0, -2.5], np.float16),
    "int64": np.array([0, 7]),
    "uint16": np.array([0, 3], np.uint16),
    "bool": np.array([True, False]),
    "complex128": np.array([1 + 2j, -1j]),
}


def close(found: Any, wanted: Any, ulp: float) -> None:
    wanted = np.asarray(wanted)
    found = np.asarray(found)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind not in "fc" or (not ulp and wanted.dtype.kind == "f"):
        np.testing.assert_array_equal(found, wanted)
        return
    eps = np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(
        found,
        wanted,
        rtol=max(ulp, 16 if wanted.dtype.kind == "c" else 1) * eps,
        atol=0 if wanted.dtype.kind == "f" else 8 * eps,
        equal_nan=True,
    )


@pytest.mark.parametrize("row", [r for r in OPS.values() if r.ufunc], ids=lambda r: r.name)
def test_rows_compute_with_what_numpy_does(row: Any) -> None:
    """Test that each row of the op table computes with NumPy's dtypes. If NumPy raises TypeError, weft must raise it, too.

    The values are tested in tests/codegen/ops/test_every_row.py.
    """
    for values in VALUES.values():
        operands = [values] * row.arity
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                dtype = getattr(np, row.ufunc)(*operands).dtype
        except TypeError:
            with pytest.raises(TypeError):
                getattr(wf, row.name)(*map(wf.asarray, operands))
            continue
        assert getattr(wf, row.name)(*map(wf.asarray, operands)).dtype == dtype


@pytest.mark.parametrize("n", [3, 100_000])
def test_sinc_takes_its_operand_by_keyword(n: int) -> None:
    x = np.linspace(-1, 1, n)
    np.testing.assert_allclose(wf.sinc(x=wf.asarray(x)), np.sinc(x=x), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_neighbours_of_floats(dtype: str) -> None:
    most, least = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    x = np.array(
        [0.0, -0.0, 1, -1, 2, least, -least, np.finfo(dtype).tiny, most, -most, np.inf, -np.inf, np.nan], dtype
    )
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x[:, None], x)
    wanted = np.where(
        x[:, None] == x, x, wanted
    )  # (for zeros of both signs, NumPy before 2.5 returned the first zero for float16)
    found = np.asarray(wf.nextafter(wf.asarray(x)[:, None], wf.asarray(x)))
    close(found, wanted, 0)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
def test_common_multiples_wrap_around(dtype: str) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([least, least + 1, 0, 1, 64, 96, most - 1, most], dtype)
    close(wf.lcm(wf.asarray(x)[:, None], wf.asarray(x)), np.lcm(x[:, None], x), 0)
    close(wf.gcd(wf.asarray(x)[:, None], wf.asarray(x)), np.gcd(x[:, None], x), 0)


SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (0,), (3, 5), (4, 0), (2, 3, 4), (130, 3), (2, 1000)]
REDUCTIONS = (
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "argmin",
    "argmax",
    "count_nonzero",
    "ptp",
    "nansum",
    "nanmax",
)


# Shapes for every dtype, each with another reduction schedule. Further shapes need not be tested for every dtype.
EVERY_DTYPE = ((), (7,), (3, 5), (2, 1000))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(1)
    for dtype in ("float64", "uint8", "float32", "int32", "bool", "float16")[: 6 if shape in EVERY_DTYPE else 2]:
        values = np.asarray(source.integers(0, 3, shape)).astype(dtype)
        for axis in [None, *range(len(shape)), *[-1] * bool(shape)]:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    wanted = getattr(np, name)(values, axis=axis)
            except (ValueError, TypeError) as error:
                with pytest.raises(type(error)):
                    getattr(wf, name)(wf.asarray(values), axis=axis)
                continue
            found = getattr(wf, name)(wf.asarray(values), axis=axis)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype, (dtype, axis)
            tolerance = 2e-3 if np.asarray(wanted).dtype == np.float16 else 1e-5
            if dtype == "float16" and name in ("var", "std"):
                tolerance = 1e-2  # NumPy rounds the deviations to float16 before it squares them
            np.testing.assert_allclose(found, wanted, rtol=tolerance, equal_nan=True)


def test_sums_are_accurate_and_the_same_for_any_number_of_threads() -> None:
    values = np.random.default_rng(2).random(1 << 20).astype(np.float32)
    exact = float(values.astype(np.float64).sum())
    x = wf.asarray(values)
    sums = {float(x.sum()) for _ in range(5)}
    assert len(sums) == 1
    assert abs(sums.pop() - exact) < 20 * np.finfo(np.float32).eps * exact


MANIPULATIONS = {
    "reshape": lambda xp, x: x.reshape(-1, 2),
    "transpose": lambda xp, x: x.transpose(2, 0, 1),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, -1),
    "swapaxes": lambda xp, x: xp.swapaxes(x, 0, 2),
    "squeeze": lambda xp, x: xp.squeeze(x[:1]),
    "expand_dims": lambda xp, x: xp.expand_dims(x, (0, 2)),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (5, *x.shape)),
    "concatenate": lambda xp, x: xp.concatenate([x, x * 2, x[:, :1]], axis=1),
    "stack": lambda xp, x: xp.stack([x, x + 1], axis=-1),
    "vstack": lambda xp, x: xp.vstack([x, x]),
    "hstack": lambda xp, x: xp.hstack([x, x]),
    "split": lambda xp, x: xp.split(x, 2, axis=2)[1],
    "array_split": lambda xp, x: xp.array_split(x, 3, axis=2)[0],
    "pad": lambda xp, x: xp.pad(x, ((1, 0), (2, 1), (0, 3)), constant_values=4),
    "pad edge": lambda xp, x: xp.pad(x, 1, mode="edge"),
    "pad reflect": lambda xp, x: xp.pad(x, 1, mode="reflect"),
    "roll": lambda xp, x: xp.roll(x, (1, -2), axis=(0, 2)),
    "roll flat": lambda xp, x: xp.roll(x, 5),
    "flip": lambda xp, x: xp.flip(x, (0, 2)),
    "rot90": lambda xp, x: xp.rot90(x, 3),
    "repeat": lambda xp, x: xp.repeat(x, 3, axis=1),
    "repeat each": lambda xp, x: xp.repeat(x, [1, 0, 2], axis=1),
    "tile": lambda xp, x: xp.tile(x, (2, 1, 3)),
    "diff": lambda xp, x: xp.diff(x, axis=0),
    "diagonal": lambda xp, x: xp.diagonal(x[0], 1),
    "trace": lambda xp, x: xp.trace(x[0]),
    "diag": lambda xp, x: xp.diag(x[0, 0], -1),
    "tril": lambda xp, x: xp.tril(x[0]),
    "where": lambda xp, x: xp.where(x > 5, x, -x),
    "clip": lambda xp, x: xp.clip(x, 2, 9),
    "take": lambda xp, x: xp.take(x, [2, 0], axis=2),
    "cumsum": lambda xp, x: xp.cumsum(x, axis=1),
    "cumprod": lambda xp, x: xp.cumprod(x, axis=-1),
    "einsum": lambda xp, x: xp.einsum("ijk,ilk->jl", x, x),
    "tensordot": lambda xp, x: xp.tensordot(x, x, axes=([0, 2], [0, 2])),
    "matmul": lambda xp, x: x @ xp.swapaxes(x, 1, 2),
    "dot": lambda xp, x: xp.dot(x[0], x[0].T),
    "outer": lambda xp, x: xp.outer(x[0, 0], x[1, 1]),
    "kron": lambda xp, x: xp.kron(x[0], x[1]),
    "meshgrid": lambda xp, x: xp.meshgrid(x[0, 0], x[0, :, 0])[1],
    "sort": lambda xp, x: xp.sort(-x, axis=0),
    "argsort": lambda xp, x: xp.argsort(-x, axis=1),
    "unique": lambda xp, x: xp.unique(x // 3),
    "norm": lambda xp, x: xp.linalg.norm(x, axis=2),
    "fft": lambda xp, x: xp.fft.fft(x, axis=2),
    "linspace": lambda xp, x: xp.linspace(0, 1, 7) + x[0, 0, 0],
    "eye": lambda xp, x: xp.eye(3, 4, 1),
    "indices": lambda xp, x: xp.indices((2, 3)),
    "isclose": lambda xp, x: xp.isclose(x, x + 1e-12),
    "round": lambda xp, x: xp.round(x / 7, 2),
    "sign of zero": lambda xp, x: xp.copysign(1.0, (x * -0.0).sum(axis=0)),
}


@pytest.mark.parametrize("name", MANIPULATIONS)
def test_manipulation(name: str) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    wanted = MANIPULATIONS[name](np, values)
    found = MANIPULATIONS[name](wf, wf.asarray(values))
    assert isinstance(found, wf.Array)
    assert np.asarray(found).dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-12)


def test_numpy_protocols() -> None:
    x = wf.arange(5.0)
    assert isinstance(np.sin(x), wf.Array)
    assert isinstance(np.concatenate([x, x]), wf.Array)
    assert isinstance(np.ones(5) + x, wf.Array)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(5.0))
    assert wf.float32 is np.float32
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 1


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 4, 5), (1, 4)])
def test_borders_repeat_what_is_inside(shape: tuple[int, ...], mode: Any) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    for width in (1, 2, 3, (0, 2), (3, 0), 9):
        wanted = np.pad(x, width, mode=mode)
        np.testing.assert_array_equal(np.asarray(wf.pad(wf.asarray(x), width, mode=mode)), wanted, strict=True)
        doubled = wf.pad(wf.asarray(x) * 2, width, mode=mode) + 1
        np.testing.assert_array_equal(np.asarray(doubled), wanted * 2 + 1, strict=True)


def test_every_integer_is_a_number() -> None:
    x = wf.asarray(np.arange(6).reshape(2, 3))
    for name in ("isnan", "isinf", "isfinite"):
        for value in (x, x > 2, x.astype(np.uint8)):
            found = getattr(wf, name)(value)
            np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(value.numpy()), strict=True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_complex_extremes_on_several_threads(axis: Any, dtype: str) -> None:
    rng = np.random.default_rng(4)
    x = (rng.integers(0, 30, (30, 70, 80)) + 1j * rng.integers(0, 30, (30, 70, 80))).astype(dtype)
    x[3, 4, 5] = x[20, 60, 70] = complex(np.nan, 1)
    views: list[Any] = [lambda a: a, lambda a: a[5:20], lambda a: a[..., ::-1], lambda a: a.T]
    for view in views:
        for threads in (1, 3):
            with override(threads=threads):
                for op in ("max", "min") if isinstance(axis, tuple) else ("max", "min", "argmax", "argmin"):
                    found, wanted = getattr(wf, op)(view(wf.asarray(x)), axis=axis), getattr(np, op)(view(x), axis=axis)
                    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted), strict=True)


def test_rows_are_sorted_on_several_threads() -> None:
    x = np.random.default_rng(5).standard_normal((300, 20, 90)).astype(np.float32)
    for threads in (1, 3):
        with override(threads=threads):
            for axis in (0, 1, -1, None):
                for kind in (None, "stable"):
                    found = wf.sort(wf.asarray(x)[..., ::2], axis=axis, kind=kind)
                    np.testing.assert_array_equal(np.asarray(found), np.sort(x[..., ::2], axis=axis), strict=True)


def test_the_bounds_of_clip_are_promoted_together() -> None:
    """Test that the dtype of ``clip`` follows from the operand and both bounds.

    For a uint8 array, separate promotion of the bounds 3.5 and a float16 array would result in float64.
    """
    x, high = np.array([1, 9], np.uint8), np.array(4, np.float16)
    found = wf.clip(wf.asarray(x), 3.5, wf.asarray(high))
    np.testing.assert_array_equal(np.asarray(found), np.clip(x, 3.5, high), strict=True)
    found = wf.clip(wf.asarray(x), np.int16([2, 3]), 4.5)
    np.testing.assert_array_equal(np.asarray(found), np.clip(x, np.int16([2, 3]), 4.5), strict=True)


def outcome(call: Any) -> Any:
    """Return the dtype and the value of a call's result, or the class of its error."""
    try:
        found = np.asarray(call())
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)
    return found.dtype, found.tolist()


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "f4", "c8", "?"])
def test_a_reductions_start_is_cast_to_its_dtype(dtype: str, name: str, immediate: int) -> None:
    x = np.array([3, 1, 0]).astype(dtype)
    with override(immediate=immediate):
        for initial in (2.5, -3.5, 300, 2**70, 1j, "x", True, [1], np.float64(2.5), np.array(2.5), np.int8(-1)):
            for options in ({}, {"axis": 0, "keepdims": True}):
                expected = outcome(lambda: getattr(np, name)(x, initial=initial, **options))  # noqa: B023
                found = outcome(lambda: getattr(wf, name)(wf.asarray(x), initial=initial, **options))  # noqa: B023
                assert found == expected


MANY = np.arange(9000) % 7
# Calls `call(m, A)`, where `m` is NumPy or weft, and `A` converts a NumPy array.
CALLS: dict[str, Any] = {
    "sum from a negative zero": lambda m, A: m.sum(A([[-0.0, -0.0], [0.0, -0.0]]), axis=1, initial=-0.0),
    "sum of nothing from a negative zero": lambda m, A: m.sum(A([]), initial=-0.0),
    "masked sum from a negative zero": lambda m, A: m.sum(A([3.0]), where=A([False]), initial=-0.0),
    "sum under a list": lambda m, A: m.sum(A([3, 4]), where=[1, 0]),
    "outputs in a tuple": lambda m, A: m.sum(A([[1.0]]), 0, out=(A([5.0]),)),
    "outputs of a reduction in a tuple": lambda m, A: m.add.reduce(A([[1.0]]), 0, out=(A([5.0]),)),
    "outputs of methods in a tuple": lambda m, A: [
        m.add.accumulate(A([1.0, 2]), out=(A([5.0, 5]),)),
        m.add.reduceat(A([1.0, 2]), [0, 1], out=(A([5.0, 5]),)),
    ],
    "outputs of functions in a tuple": lambda m, A: [
        m.clip(A([1.0, 2]), 0, 1, out=(A([5.0, 5]),)),
        m.clip(A([1.0, 2]), 0, 1, out=(None,)),
        m.nanmax(A([[1.0]]), 0, out=(A([5.0]),)),
        m.nanmin(A([[1.0]]), 0, out=(A([5.0]),)),
        m.matmul(A([[1.0]]), A([[2.0]]), out=(A([[5.0]]),)),
        m.cumulative_sum(A([1.0, 2]), out=(A([5.0, 5]),)),
    ],
    "outputs of a reduction of slices of another kind": lambda m, A: m.add.reduceat(A([1.5, 2]), [0, 1], out=A([5, 5])),
    "outputs by position and a mask": lambda m, A: m.spacing(A([1.0, 2]), A([5.0, 5]), where=A([True, False])),
    "pad by keywords": lambda m, A: m.pad(array=A([1, 2]), pad_width=1),
    "no output in a tuple": lambda m, A: m.add.reduce(A([[1.0]]), 0, out=(None,)),
    "scan of a scalar": lambda m, A: m.add.accumulate(A(3.0)),
    "bools without bounds": lambda m, A: m.clip(A([True, False]), None, None),
    "bools without bounds in an output": lambda m, A: m.clip(A([True]), None, None, out=A([True])),
    "round to a larger output": lambda m, A: m.round(A([1.5, 2.5]), out=A(np.zeros((2, 2)))),
    "int64 in uint64": lambda m, A: m.isin(A([2**53 + 1, -1, 5]), A(np.array([2**53, 5, 2**64 - 1], "u8"))),
    "uint64 not in int64": lambda m, A: m.isin(A(np.array([2**64 - 1, 2**53], "u8")), A([-1, 2**53 + 1]), invert=True),
    "unknown sort": lambda m, A: m.argsort(A([3, 1]), kind="fast"),
    "sort by two algorithms": lambda m, A: m.sort(A([3, 1]), kind="heapsort", stable=True),
    "partition at a float": lambda m, A: m.partition(A([3, 1]), 1.0),
    "partition at a bool": lambda m, A: m.partition(A([3, 1]), True),
    "unknown partition": lambda m, A: m.argpartition(A([3, 1]), 1, kind="fast"),
    "generator": lambda m, A: m.concatenate(A([k]) for k in range(2)),
    "copy under a list": lambda m, A: [x := A([1, 2, 3]), m.copyto(x, A([7]), where=[1, 0, 1])][0],
    "indices of other rows": lambda m, A: m.take_along_axis(A(np.ones((3, 2))), A([[0], [1]]), 1),
    "edges of no bin": lambda m, A: m.histogram(A(MANY), [3])[0],
    "no edges": lambda m, A: m.histogram(A(MANY), [])[0],
    "edges of no row": lambda m, A: m.histogram2d(A(MANY), A(MANY), [[3], [1, 2]])[0],
    "bool as a length": lambda m, A: m.bincount(A(MANY), minlength=True),
    "short sorter": lambda m, A: m.searchsorted(A([2, 1, 3]), A(MANY), sorter=A([1, 0])),
    "sorter beyond the end": lambda m, A: m.searchsorted(A([2, 1]), A(MANY), sorter=A([1, 2])),
    "sorter from the end": lambda m, A: m.searchsorted(A([2, 1]), A(MANY), sorter=[-1, 0]),
    "products over many axes": lambda m, A: m.tensordot(A([1, 2]), A(np.reshape([3, 4], (1,) * 32 + (2,))), 0).ravel(),
    "too many axes": lambda m, A: m.tensordot(A(np.ones((1,) * 34)), A(np.ones((1,) * 34)), 1),
    "infinite tolerance": lambda m, A: m.isclose(A([1.0, 2.0]), A([2.0, 2.0]), atol=np.inf),
    "mean of nothing but NaN": lambda m, A: m.nanmean(A(np.zeros((0, 3))), axis=0),
    "deviation of nothing but NaN": lambda m, A: m.nanstd(A([1.0]), ddof=1),
    "mask without an output": lambda m, A: m.add(A([1.0, 2.0]), 1, where=A([True, True])),
    "mask without a second output": lambda m, A: m.divmod(A([7, 8]), 2, where=A([True, True])),
    "mask and no output": lambda m, A: m.add(A([1.0, 2.0]), 1, out=None, where=A([True, True])),
    "mask in a list": lambda m, A: m.add(A([1.0, 2.0]), 1, out=None, where=[1, 2]),
    "mask and an output": lambda m, A: m.add(A([1.0, 2.0]), 1, A([3.0, 4.0]), where=A([True, False])),
}


@pytest.mark.filterwarnings("ignore::weft.HostFallbackWarning")
@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", CALLS)
def test_rare_calls_have_numpys_results_errors_and_warnings(name: str, device: str) -> None:
    def seen(m: Any, convert: Any) -> Any:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", wf.HostFallbackWarning)
            try:
                found = np.asarray(CALLS[name](m, convert))
            except (TypeError, ValueError, IndexError) as error:
                return next(kind for kind in (TypeError, ValueError, IndexError) if isinstance(error, kind)), str(error)
        # (NumPy 2.4 misspells a word)
        texts = [str(each.message).replace("unitialized", "uninitialized") for each in warned]
        return (
            found.dtype,
            repr(found.tolist()),
            [(each.category, text) for each, text in zip(warned, texts, strict=True)],
        )

    with wf.device(device):
        found, wanted = seen(wf, lambda values: wf.asarray(np.array(values))), seen(np, np.array)
    assert found[0] == wanted[0]
    assert found == wanted or isinstance(wanted[0], type)
