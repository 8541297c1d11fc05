"""Tests of operations that move data.

Concatenations, repetitions, reshapes and gathers are fused into the kernel that reads their result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import print_kernel
from weft.codegen.passes.index_steps import index_steps
from weft.fusion import kernels_of, range_of, reset_statistics, statistics
from weft.fusion.graph.index_map import bound_form

RANDOM = np.random.default_rng(5)
A = RANDOM.random((12, 20)).astype(np.float32)
B = RANDOM.random((12, 20)).astype(np.float32)
C = RANDOM.random((4, 6, 8)).astype(np.float32)
V = RANDOM.random(64).astype(np.float32)
W = RANDOM.random(64).astype(np.float32)
INDEX = RANDOM.integers(-64, 64, 100)

Program = Callable[[Any, Callable[[Any], Any]], Any]


def interleaved(xp: Any, c: Any) -> Any:
    out = xp.zeros((12, 20), np.float32)
    out[2:-1, 3:] = c(A)[2:-1, 3:] * 2
    return out + 1


def turned_part(xp: Any, c: Any) -> Any:
    out = xp.ones(64, np.float32)
    out[40:10:-1] = c(V)[:30] * 2
    return out * 3


def stencil_of_padded(xp: Any, c: Any) -> Any:
    p = xp.pad(c(A), 1)
    return p[1:-1, 1:-1] * 4 - p[2:, 1:-1] - p[:-2, 1:-1] - p[1:-1, 2:] - p[1:-1, :-2]


def rolled_neighbours(xp: Any, c: Any) -> Any:
    a = c(A)
    return xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1) - 4 * a


def flux(xp: Any, c: Any) -> Any:
    """Return the differences of padded fluxes at adjacent cell faces, as in finite-volume codes."""
    a = c(A) * 2
    f = xp.zeros((12, 21), np.float32)
    f[:, 1:-1] = a[:, 1:] - a[:, :-1]
    return f[:, 1:] - f[:, :-1]


def turned_twice(xp: Any, c: Any) -> Any:
    return (c(C) * 2).reshape(8, 24).T.reshape(6, 32)[1:] + 1


# programs that become one kernel, without intermediate arrays
ONE: dict[str, Program] = {
    "concatenate": lambda xp, c: xp.concatenate([c(V) * 2, c(W) + 1]) * 3,
    "concatenate three, along rows": lambda xp, c: xp.concatenate([c(A), c(B) + 1, c(A) * c(B)], 1) + 1,
    "ends": lambda xp, c: xp.concatenate([c(V)[:1], (c(V)[1:] + c(V)[:-1]) / 2, c(V)[-1:]]) * 2,
    "concatenate of concatenate": lambda xp, c: xp.concatenate([xp.concatenate([c(V), c(W)]), c(V) * 2])[5:-5] + 1,
    "maximum of parts": lambda xp, c: xp.concatenate([c(A) * 2, c(B) + 1], 1).max(1),
    "part of parts": lambda xp, c: xp.concatenate([c(V) * 2, c(W) + 1])[10:50] * 3,
    "stack": lambda xp, c: xp.stack([c(A) * 2, c(B) + 1]).max(0),
    "stack last": lambda xp, c: xp.stack([c(A) * 2, c(B) + 1], -1) * 2,
    "complex parts": lambda xp, c: xp.concatenate([c(V) * 2j, c(W) + 1j]) + 1,
    "small parts": lambda xp, c: xp.concatenate([c(V) > 0.5, c(W) > 0.5]) | (xp.arange(128) == 3),
    "written box": interleaved,
    "written backwards": turned_part,
    "pad": lambda xp, c: xp.pad(c(A) * 2, ((1, 2), (0, 3)), constant_values=7) * 3,
    "pad edge": lambda xp, c: xp.pad(c(A) * 2, 2, mode="edge") * 3,
    "stencil of padded": stencil_of_padded,
    "roll": lambda xp, c: xp.roll(c(V) * 2, 3) + c(V),
    "roll flat": lambda xp, c: xp.roll(c(A) * 2, 5) + c(A),
    "rolled neighbours": rolled_neighbours,
    "flux": flux,
    "repeat": lambda xp, c: xp.repeat(c(V) * 2, 3) + 1,
    "repeat rows": lambda xp, c: xp.repeat(c(A) * 2, 2, 0) + 1,
    "tile": lambda xp, c: xp.tile(c(A) * 2, (2, 3)) + 1,
    "kron": lambda xp, c: xp.kron(c(A)[:4, :4], c(B)[:3, :3]) + 1,
    "diagonal": lambda xp, c: xp.diagonal(c(A) * 2, 3) + 1,
    "reshape": lambda xp, c: (c(A) * 2).reshape(16, 15) + 1,
    "reshape of transposed": lambda xp, c: (c(A).T * 2).reshape(-1) + 1,
    "reshape of part": lambda xp, c: (c(A) * 2)[1:-1, 2:].reshape(-1) + 1,
    "reshaped twice": turned_twice,
    "pixel shuffle": lambda xp, c: (c(C) * 2).reshape(2, 2, 6, 8).transpose(2, 0, 3, 1).reshape(12, 16) + 1,
    "pooling": lambda xp, c: (c(A) * 2).reshape(6, 2, 10, 2).max((1, 3)),
    "gather": lambda xp, c: (c(V) * 2)[c(INDEX) % 64] + 1,
    "gather rows": lambda xp, c: (c(A) * 2)[c(INDEX) % 12, 3:] + 1,
    "gather in two": lambda xp, c: (c(A) * 2)[INDEX % 12, :, None][:, INDEX % 20] + 1,
    "gather of parts": lambda xp, c: xp.concatenate([c(V) * 2, c(W)])[INDEX] + 1,
    "take, clipped": lambda xp, c: xp.take(c(V) * 2, c(INDEX), mode="clip") + 1,
    "bytes as index": lambda xp, c: xp.tile(c(V), 4)[(c(V) * 255).astype(np.uint8)] + 1,
}


def framed(xp: Any, c: Any) -> Any:
    a = c(A) * 2
    a[0] = a[1]
    a[-1] = a[-2]
    a[:, 0] = 0
    a[:, -1] = 1
    return a


def written_in_between(xp: Any, c: Any) -> Any:
    out = xp.zeros((12, 20))
    out[2:5] = c(A)[2:5]
    before = out * 2
    out[3:8, 2:] = 7
    return out, before


def rows_alone(xp: Any, c: Any) -> Any:
    out = xp.zeros((12, 20))
    out[2:5] = 1
    copied = out.copy()
    out[3:8, 2:] = 7
    return out, copied, out.sum(1)


def row_by_row(xp: Any, c: Any) -> Any:
    out = xp.zeros((12, 20))
    for k in range(12):
        out[k] = c(A)[k] * k
    return out


def every_other(xp: Any, c: Any) -> Any:
    out = xp.zeros((12, 20))
    out[::2] = c(A)[::2]
    out[1::2, ::3] = 5
    return out


def through_views(xp: Any, c: Any) -> Any:
    out = xp.zeros(24)
    out[3:20] = xp.arange(17.0)
    view = out[::-1]
    view[2:9] = 4
    out[[1, 2]] = 9
    return out, view


# programs with concatenated or stacked results, and their number of kernels
RESULTS: dict[str, tuple[int, Program]] = {
    "concatenate": (1, lambda xp, c: xp.concatenate([c(V) * 2, c(W) + 1])),
    "stack": (1, lambda xp, c: xp.stack([c(A) * 2, c(B) + 1])),
    "pad": (1, lambda xp, c: xp.pad(c(A) * 2, 1)),
    "diagonal matrix": (1, lambda xp, c: xp.diag(c(V) * 2, 3) + 1),
    "framed": (1, framed),
    "written in between": (1, written_in_between),
    "rows alone": (3, rows_alone),
    "row by row": (13, row_by_row),
    "every other": (3, every_other),
    "through views": (4, through_views),
}


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", RESULTS)
def test_results_put_together(name: str, device: str) -> None:
    most, program = RESULTS[name]
    wanted = program(np, lambda x: x.copy())
    with wf.device(device):
        found = program(wf, wf.asarray)
        found, wanted = ((r,) if not isinstance(r, tuple) else r for r in (found, wanted))
        reset_statistics()
        wf.evaluate(*found)
        assert statistics()["kernels"] <= most
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)


def run(program: Program) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the result of a program on weft, and the statistics of its evaluation."""
    reset_statistics()
    result = np.asarray(program(wf, wf.asarray))
    return result, statistics()


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    wanted = ONE[name](np, lambda x: x.copy())
    with wf.device("cpu"):
        result, counted = run(ONE[name])
    np.testing.assert_array_equal(result, wanted, strict=True)
    assert counted["kernels"] == 1
    assert counted["plans"] <= 1


@pytest.mark.parametrize(
    "name", ["concatenate of concatenate", "stencil of padded", "reshaped twice", "gather of parts"]
)
def test_gpu_schedules(name: str) -> None:
    wanted = ONE[name](np, lambda x: x.copy())
    with wf.device("simt"):
        np.testing.assert_array_equal(run(ONE[name])[0], wanted, strict=True)


# reshapes of transposed reshapes, in which remainders of divisions must be proved to be within an axis
RESHAPES: dict[str, Callable[[Any], Any]] = {
    "columns cut": lambda c: (c * 2).reshape(8, 24).T.reshape(6, 32)[1:] + 1,
    "twice transposed": lambda c: (c * 2).reshape(12, 16).T.reshape(8, 24).T.reshape(-1) + 1,
    "every other row": lambda c: (c * 2).reshape(12, 16)[::2].T.reshape(-1)[3:] + 1,
    "repeated": lambda c: (c * 2).repeat(3).reshape(-1, 8)[:, ::2] + 1,
    "odd lengths": lambda c: (c * 2).reshape(32, 6).T.reshape(48, 4)[:, 1:3].reshape(-1) + 1,
    "backwards": lambda c: (c * 2).reshape(-1)[::-1].reshape(12, 16).T.reshape(64, 3) + 1,
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes(name: str) -> None:
    with wf.device("cpu"):
        result, counted = run(lambda xp, c: RESHAPES[name](c(C)))
    np.testing.assert_array_equal(result, RESHAPES[name](C), strict=True)
    assert counted["kernels"] == 1


def test_remainders_are_bounded() -> None:
    # 3 * (i % 8) + j, where i < 40 and j < 3: the maximum is 3 * 7 + 2
    quotient = ((0, ((0, 1),)), 8)
    assert bound_form((0, ((-1, -24), (0, 3), (1, 1))), {0: quotient}, (40, 3)) == (0, 23)
    assert bound_form((5, ((-1, 2), (0, 1))), {0: quotient}, (40, 3)) == (3, 54)


def test_long_chains_of_parts_are_stored() -> None:
    parts = [V * k for k in range(20)]
    with wf.device("cpu"):
        result, counted = run(lambda xp, c: xp.concatenate([c(p) for p in parts]) + 1)
    np.testing.assert_array_equal(result, np.concatenate(parts) + 1)
    assert counted["kernels"] > 1


def test_a_division_is_left_out_where_loops_can_be_cut() -> None:
    with wf.device("cpu"):
        x = wf.asarray(A)
        transposed = (x.T * 2).reshape(-1) + 1
        (kernel,) = kernels_of([transposed._storage])
        assert "floor_divide" not in print_kernel(kernel)
        odd = (x.T * 2).reshape(16, 15)[:, ::2] + 1
        (kernel,) = kernels_of([odd._storage])
        assert "floor_divide" in print_kernel(kernel)
        np.testing.assert_array_equal(odd, (A.T * 2).reshape(16, 15)[:, ::2] + 1)


@pytest.mark.usefixtures("cold_cache")
def test_sizes_compile_nothing() -> None:
    with wf.device("cpu"):
        counts = []
        for n in range(40, 60):
            x = wf.asarray(np.arange(float(n)))
            reset_statistics()
            result = np.asarray(wf.roll(x * 2, 3).reshape(2, -1).T.reshape(-1) + 1) if n % 2 == 0 else x
            counts.append(statistics()["compilations"])
            if n % 2 == 0:
                wanted = np.roll(np.arange(float(n)) * 2, 3).reshape(2, -1).T.reshape(-1) + 1
                np.testing.assert_array_equal(result, wanted)
    assert sum(counts) <= 2


# -- pending indices ------------------------------------------------------------------------------


def test_index_errors_come_where_the_index_is_used() -> None:
    with wf.device("cpu"):
        x, index = wf.asarray(V), wf.asarray(INDEX)
        with pytest.raises(IndexError, match="index 127 is out of bounds for axis 0 with size 64"):
            x[index * 0 + 127]
        with pytest.raises(IndexError, match="index -65 is out of bounds for axis 0 with size 64"):
            x[index * 0 - 65]
        with pytest.raises(IndexError, match="axis 1 with size 20"):
            wf.asarray(A)[:, index * 0 + 20] = 3
        np.testing.assert_array_equal(x[index * 1], V[INDEX])


def test_an_index_that_has_to_be_checked_does_not_cut_the_program() -> None:
    def program(xp: Any, c: Any) -> Any:
        y = c(V) * 2 + 1
        return (y * 3)[c(INDEX) * 1] + y[5]

    with wf.device("cpu"):
        result, counted = run(program)
    np.testing.assert_array_equal(result, program(np, lambda x: x))
    assert counted["kernels"] == 2  # one for the index, and one for the rest


def test_values_from_before_an_update_beside_which_a_mask_was_looked_at() -> None:
    def program(xp: Any, c: Any) -> Any:
        x = c(V) * 2
        before = x[::2] + 1
        x[x > 1] += 1
        middle = x * 3
        x[(c(INDEX) * 1)[:5]] = 0
        return before, middle, x

    with wf.device("cpu"):
        results = program(wf, wf.asarray)
        for result, wanted in zip(results, program(np, lambda x: x), strict=True):
            np.testing.assert_array_equal(np.asarray(result), wanted)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: x % 7, (0, 6)),
        (lambda x: x % -7, None),
        (lambda x: (x & 15) * 2 - 3, (-3, 27)),
        (lambda x: wf.clip(x, 2, 9) // 2, (1, 4)),
        (lambda x: wf.where(x > 3, x % 5, 8), (0, 8)),
        (lambda x: wf.arange(10) * 3 + 1, (1, 28)),
        (lambda x: x * 2, None),
        (lambda x: (x % 100).astype(np.int8) + np.int8(100), None),
        (lambda x: x.reshape(4, 25).argmax(1) + 1, (1, 25)),
        (lambda x: wf.abs(x % 9 - 4), (0, 4)),
        (lambda x: wf.clip(x / 2, -3.5, 9.9).astype(np.int8), (-3, 9)),
        (lambda x: wf.maximum(x / 2, 5.0).astype(np.int32), (0, 2**31 - 1)),  # NaN becomes 0
        (lambda x: wf.clip(x / 2, -1, 1e9).astype(np.int16), (-1, 2**15 - 1)),
    ],
)
def test_ranges(make: Callable[[Any], Any], wanted: tuple[int, int] | None) -> None:
    with wf.device("cpu"):
        found = make(wf.asarray(INDEX))
        node = found._storage.expr
        limits = np.iinfo(node.dtype)
        assert range_of(node) == (wanted or (limits.min, limits.max))
        low, high = range_of(node)
        assert low <= np.asarray(found).min()
        assert high >= np.asarray(found).max()


@pytest.mark.parametrize("n", [64, 2048])
def test_transposed_values_are_written_in_order(n: int) -> None:
    with wf.device("cpu"):
        x = wf.zeros((n, n), np.float32)
        wf.evaluate(x)
        result = x.T * 2 + 1
        (kernel,) = kernels_of([result._storage])
    *_, inner = (o for o in kernel.walk() if o.opcode == "for")
    steps = index_steps(inner.regions[0].operations, inner.regions[0].parameters[0])
    (store,) = (o for o in kernel.walk() if o.opcode == "store")
    assert steps[store.operands[1]] == 1


def test_one_array_is_read_by_quotients_with_different_factors() -> None:
    source = np.random.default_rng(1)
    points, mass = source.standard_normal((30, 3)), np.arange(1.0, 31)

    def pairs(points: Any, mass: Any) -> Any:
        away = points[None, :, :] - points[:, None, :]
        return mass[None, :] * mass[:, None] / ((away**2).sum(axis=-1) + 0.01)

    found = pairs(wf.asarray(points), wf.asarray(mass)).diagonal().sum()
    np.testing.assert_allclose(float(found), pairs(points, mass).diagonal().sum(), rtol=1e-14)
