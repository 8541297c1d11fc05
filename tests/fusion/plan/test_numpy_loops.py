"""Tests of single operations that NumPy's inner loops compute.

The results are bit-identical to those of kernels and of NumPy, for every layout and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics
from weft.fusion.plan import numpy_loops
from weft.fusion.run import execute
from weft.runtime import override

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(11)
DTYPES = ["bool", "uint8", "int32", "float32", "float64", "complex64", "complex128"]
SHAPES = [(200_000,), (400, 600), (3000, 100), (70_000, 3), (3, 70_000), (60, 70, 80)]

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "roll": lambda xp, x: xp.roll(x, 7),
    "roll rows": lambda xp, x: xp.roll(x, 5, 0),
    "roll columns": lambda xp, x: xp.roll(x, -1, -1),
    "concatenate": lambda xp, x: xp.concatenate([x, x[::-1], x[:1]]),
    "concatenate columns": lambda xp, x: xp.concatenate([x, x], -1),
    "stack": lambda xp, x: xp.stack([x, x], -1),
    "pad": lambda xp, x: xp.pad(x, 2, constant_values=1),
    "pad unevenly": lambda xp, x: xp.pad(x, [(0, 3)] + [(1, 0)] * (x.ndim - 1)),
    "take": lambda xp, x: xp.take(x, xp.asarray(np.arange(x.shape[0])[::-1] // 2), axis=0),
    "argmax": lambda xp, x: xp.argmax(x),
    "argmin of rows": lambda xp, x: xp.argmin(x, -1),
    "argmax of columns": lambda xp, x: xp.argmax(x, 0),
    "count": lambda xp, x: xp.count_nonzero(x),
    "one flag": lambda xp, x: xp.isfinite(x),  # (for integers, the result is a constant)
    "sum": lambda xp, x: (x > 50).sum(),
}


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return RNG.random(shape) > 0.5
    if kind == "c":
        return (RNG.random(shape) + 1j * RNG.random(shape)).astype(dtype)
    return (RNG.random(shape) * 100).astype(dtype)


LAYOUTS: list[Callable[[Any], Any]] = [lambda a: a, lambda a: a.T, lambda a: a[..., ::-1], lambda a: a[..., ::2]]


def check(
    operation: Callable[[Any, Any], Any],
    x: np.ndarray,
    layouts: list[Callable[[Any], Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare weft's results with NumPy's. Weft computes each result by NumPy's loops, on one and on three threads, and by its own kernel.

    The functions in `layouts` return contiguous or strided operands.
    """
    for layout in layouts:
        wanted = operation(np, layout(x))
        found = []
        for threads in (1, 3):
            with override(threads=threads):
                found.append(np.asarray(operation(wf, layout(wf.asarray(x)))))
        with monkeypatch.context() as patch:
            patch.setattr(numpy_loops, "TABLE", {})
            patch.setattr(execute, "_plans", type(execute._plans)())
            patch.setattr("weft.fusion.plan.plan_cache._known", {})
            found.append(np.asarray(operation(wf, layout(wf.asarray(x)))))
        for each in found:
            np.testing.assert_array_equal(each, np.asarray(wanted), strict=True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_loops_and_kernels_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, shape in enumerate(SHAPES):
        dtype = DTYPES[(k + len(name)) % len(DTYPES)]
        check(OPERATIONS[name], values(shape, dtype), LAYOUTS[(k + len(name)) % 2 :: 2], monkeypatch)
    # (each operation has every shape, dtype and layout, and every shape and every dtype have every layout)
    for k, dtype in enumerate(DTYPES):
        check(OPERATIONS[name], values((250, 400), dtype), [LAYOUTS[0], LAYOUTS[1 + (k + len(name)) % 3]], monkeypatch)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(100_000,), (50, 3000), (40_000, 4), (30, 40, 50)])
def test_positions_of_extremes_that_are_alike(op: str, shape: tuple[int, ...]) -> None:
    lowest = {"f": -np.inf, "i": -(2**31), "u": 0, "b": False}
    highest = {"f": np.inf, "i": 2**31 - 1, "u": 255, "b": True}
    for dtype in ("float64", "float32", "int32", "uint8", "bool"):
        kind = np.dtype(dtype).kind
        for filled in (lowest[kind], highest[kind]):
            x = np.full(shape, filled, dtype)
            for axis in (None, 0, -1):
                ours, theirs = getattr(wf, op)(wf.asarray(x), axis=axis), getattr(np, op)(x, axis=axis)
                np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)
            x.reshape(-1)[-7::3] = not filled if kind == "b" else x.dtype.type(5)
            if kind == "f":
                x.reshape(-1)[[70, 5000]] = np.nan
            for axis in (None, 0, -1):
                ours, theirs = getattr(wf, op)(wf.asarray(x), axis=axis), getattr(np, op)(x, axis=axis)
                np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)
                halved = getattr(wf, op)(wf.asarray(x)[::-1], axis=axis), getattr(np, op)(x[::-1], axis=axis)
                np.testing.assert_array_equal(np.asarray(halved[0]), halved[1], strict=True)


@pytest.mark.usefixtures("cold_cache")
def test_a_lone_copy_compiles_nothing() -> None:
    x = wf.asarray(values((1000, 332), "uint8"))
    wf.evaluate(x)

    def swapped() -> Any:
        return wf.stack([x[:, 1::2], x[:, ::2]], -1)

    reset_statistics()
    wf.evaluate(swapped())
    assert statistics()["kernels"] == statistics()["compilations"] == 0
    assert "NumPy's loop" in str(wf.explain(swapped()))
    # (fused with other operations, it is a selection inside a kernel)
    reset_statistics()
    wanted = np.stack([x.numpy()[:, 1::2], x.numpy()[:, ::2]], -1)
    np.testing.assert_array_equal(np.asarray(swapped() + 1), wanted + np.uint8(1))
    assert statistics()["kernels"] == 1


@pytest.mark.parametrize("dtype", ["uint8", "complex64"])
def test_boxes_that_overlap_are_copied_in_order(dtype: str) -> None:
    def program(m: ModuleType, x: Any) -> Any:
        y = m.empty(x.shape, dtype)
        y[:, 0] = x[:, 1]
        y[100:200, 0] = x[500:600, 1]
        y[:, 1] = x[::-1, 0]
        return y

    x = values((2_000_000, 2), dtype)
    with override(threads=3, interpret="never"):
        assert ("NumPy's loop" in str(wf.explain(program(wf, wf.asarray(x))))) is (dtype == "uint8")
        np.testing.assert_array_equal(np.asarray(program(wf, wf.asarray(x))), program(np, x))


def test_a_plan_with_a_loop_is_found_for_other_sizes() -> None:
    for n in (50_000, 60_001, 70_002, 80_000):
        x = values((n,), "uint8")
        a = wf.asarray(x)
        np.testing.assert_array_equal(np.asarray(wf.roll(a, n // 3)), np.roll(x, n // 3))
        np.testing.assert_array_equal(np.asarray(wf.roll(a[1:], n // 5)), np.roll(x[1:], n // 5))
        assert int(wf.argmax(a > 98)) == np.argmax(x > 98)
        assert int(wf.count_nonzero(a[::2])) == np.count_nonzero(x[::2])


@pytest.mark.parametrize(("dtype", "step", "by_numpy"), [("uint8", 2, True), ("uint8", 1, False), ("int32", 2, False)])
def test_single_bytes_that_are_apart_are_copied_by_numpy(dtype: str, step: int, by_numpy: bool) -> None:
    x = values((200_000,), dtype)
    a = wf.asarray(x)[::step]
    stacked = wf.stack([a, a[::-1]], -1)
    assert ("NumPy's loop" in str(wf.explain(stacked))) is by_numpy
    np.testing.assert_array_equal(np.asarray(stacked), np.stack([x[::step], x[::step][::-1]], -1))
