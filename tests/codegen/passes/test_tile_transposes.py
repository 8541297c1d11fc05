"""Tests of loop tiling for expressions such as ``a[i, j] + b[j, i]``, which read one array in row order and the other in column order."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import weft as wf
from tests.codegen.kernels import HOST
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.tile_transposes import ROOM, tile_size, tile_transposes


def sum_with_transposed(dtype: type = np.float32, *, alone: bool = True, square: bool = False) -> Kernel:
    """Return the kernel ``out[i, j] = a[i, j] + b[j, i]``.

    If `square`, the kernel reads `b` at the flat index ``i + j * j`` instead.
    """
    b = KernelBuilder("kernel")
    rows, columns = b.scalar("rows"), b.scalar("columns")
    first = b.pointer("a", dtype, noalias=True)
    second = b.pointer("b", dtype, noalias=alone)
    out = b.pointer("out", dtype, writable=True)
    with b.loop(rows, "parallel") as i:
        line = b.op("multiply", i.index, columns)
        with b.loop(columns, "parallel") as j:
            at = b.op("add", line, j.index)
            far = b.op("multiply", j.index, j.index if square else rows)
            other = b.load(second, b.op("add", i.index, far))
            b.store(out, at, b.op("add", b.load(first, at), other))
    return b.finish()


def tiled(kernel: Kernel) -> Kernel:
    """Return the kernel after the pass and verification."""
    found = tile_transposes(choose_lanes(kernel, HOST))
    verify_kernel(found)
    return found


def copies(kernel: Kernel) -> int:
    return sum(o.opcode == "transposed" for o in kernel.walk())


@pytest.mark.parametrize("shape", [(3, 4), (30, 3), (5, 40), (17, 19)])
def test_it_computes_the_same(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[tile_size.__module__], "MOST_SIZE", 8)
    a, b = np.random.default_rng(0).random((2, shape[0] * shape[1])).astype(np.float32)
    out = np.zeros_like(a)
    kernel = tiled(sum_with_transposed())
    assert copies(kernel) == 1
    interpret_kernel(kernel, [*shape, a, b, out])
    assert np.array_equal(out.reshape(shape), a.reshape(shape) + b.reshape(shape[::-1]).T)


def test_complex_numbers_beside_a_transposed_operand() -> None:
    a = np.arange(1 << 18, dtype=np.float32).reshape(512, 512)  # large enough that tiling pays off
    b = np.arange(1 << 18, dtype=np.complex64).reshape(512, 512) * np.complex64(1j)
    with wf.device("cpu"):
        assert np.array_equal(np.asarray(wf.asarray(a).T + wf.asarray(b)), a.T + b)


def test_parts_begin_with_a_tile() -> None:
    kernel = tiled(sum_with_transposed())
    size = kernel.attributes["grain"]
    outer = next(o for o in kernel.walk() if o.opcode == "for")
    assert outer.attributes["step"] == size
    assert tile_size([4]) == size


def test_what_the_kernel_may_write_is_not_copied() -> None:
    assert copies(tiled(sum_with_transposed(alone=False))) == 0


def test_distances_that_grow_are_no_columns() -> None:
    assert copies(tiled(sum_with_transposed(square=True))) == 0


@pytest.mark.parametrize(("columns", "expected"), [(2, 0), (4, 0), (5, 1)])
def test_points_of_few_coordinates_are_read_without_a_tile(columns: int, expected: int) -> None:
    b = KernelBuilder("kernel")
    rows = b.scalar("rows")
    points, out = b.pointer("points", np.float64, noalias=True), b.pointer("out", np.float64, writable=True)
    with b.loop(b.constant(columns), "parallel") as i:
        line = b.op("multiply", i.index, rows)
        with b.loop(rows, "parallel") as j:
            value = b.load(points, b.op("add", i.index, b.op("multiply", j.index, b.constant(columns))))
            b.store(out, b.op("add", line, j.index), value)
    assert copies(tiled(b.finish())) == expected


def test_rows_of_a_tile_are_fetched_ahead() -> None:
    kernel = tiled(sum_with_transposed())
    fetched = [o for o in kernel.walk() if o.opcode == "fetch"]
    assert [o.operands[0].name for o in fetched] == ["a"]
    (loop,) = [o for o in kernel.walk() if o.opcode == "for" and fetched[0] in o.regions[0].operations]
    assert index_steps(loop.regions[0].operations, loop.regions[0].parameters[0])[fetched[0].operands[1]] == 1


@pytest.mark.parametrize("sizes", [[1], [2], [4], [8], [4, 4], [8, 8, 8, 8]])
def test_tiles_fit_their_room(sizes: list[int]) -> None:
    size = tile_size(sizes)
    assert size * size * sum(sizes) <= ROOM
    assert size & (size - 1) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int16, bool])
@pytest.mark.parametrize("shape", [(1, 5), (16, 16), (65, 63), (100, 300), (300, 100), (2, 600)])
def test_compiled_tiles_of_every_type(dtype: type, shape: tuple[int, int]) -> None:
    source = np.random.default_rng(1).random(shape[0] * shape[1]) * 100
    a, b = source.reshape(shape).astype(dtype), source[::-1].reshape(shape[::-1]).astype(dtype)
    with wf.device("cpu"):
        x, y = wf.asarray(a), wf.asarray(b)
        assert np.array_equal(x + y.T, a + b.T)
        assert np.array_equal(x[1:, 1:] * y.T[1:, 1:], a[1:, 1:] * b.T[1:, 1:])


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_axes_in_any_order(axes: tuple[int, int, int]) -> None:
    a = np.random.default_rng(2).random((5, 70, 80)).astype(np.float32)
    with wf.device("cpu"):
        assert np.array_equal(wf.asarray(a).transpose(axes) * 2, a.transpose(axes) * 2)


@pytest.mark.parametrize(("dtype", "rows"), [(np.uint8, 256), (np.int8, 300), (np.uint16, 1 << 16)])
def test_narrow_index_that_wraps(dtype: type, rows: int) -> None:
    a, b = np.random.default_rng(3).random((rows, 16)), np.random.default_rng(4).random((16, 50_000))
    with wf.device("cpu"):
        x, y = wf.array(a), wf.array(b)
        found = np.asarray(x[(wf.arange(50_000) * 3).astype(dtype)].T + y)
        assert np.array_equal(found, a[(np.arange(50_000) * 3).astype(dtype)].T + b)
