"""Tests that loops over concatenated or shifted arrays are split.

The middle range then needs no selections.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.codegen.kernels import HOST
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.kernel_ir.operation import Operation, program_order
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.split_borders import split_borders

split_borders_module = import_module("weft.codegen.passes.split_borders")


def rolled() -> Kernel:
    """Return the kernel ``out[i, j] = (x[i - 1, j] if i >= first else y[j]) + (x[i, j] if j <= last else y[i])``."""
    b = KernelBuilder("rolled")
    rows, columns, first, last = (b.scalar(name) for name in ("rows", "columns", "first", "last"))
    x, y = (b.pointer(name, np.float64, noalias=True) for name in "xy")
    out = b.pointer("out", np.float64, writable=True, noalias=True)
    with b.loop(rows, "parallel") as i:
        below = b.op("greater_equal", i.index, first, dtype=np.bool_)
        line = b.op("multiply", i.index, columns)
        with b.loop(columns, "parallel") as j:
            at = b.op("add", line, j.index)
            with b.if_(below, [np.dtype(float)], True) as one:
                one.yield_(b.load(x, b.op("subtract", at, columns)))
            with b.else_() as other:
                other.yield_(b.load(y, j.index))
            before = b.op("less_equal", j.index, last, dtype=np.bool_)
            with b.if_(before, [np.dtype(float)], True) as two:
                two.yield_(b.load(x, at))
            with b.else_() as other:
                other.yield_(b.load(y, i.index))
            b.store(out, at, b.op("add", one.results[0], two.results[0]))
    return b.finish()


def loops(kernel: Kernel) -> list[Operation]:
    return [o for o in kernel.walk() if o.opcode == "for"]


def joined(parts: int, between: bool = False) -> Kernel:
    """Return a kernel that concatenates arrays: ``out[i] = x_k[i - bound_k]``, where the array x_k begins at bound_k.

    For each i, k is the largest number less than `parts` with ``bound_k <= i``, where bound_0 is 0. If `between`, the
    kernel subtracts ``x_0[i - 3] if 3 <= i <= bound_1 else 7`` from the result.
    """
    b = KernelBuilder("joined")
    length = b.scalar("length")
    bounds = [b.scalar(f"bound{k}") for k in range(1, parts)]
    sources = [b.pointer(f"x{k}", np.float64, noalias=True) for k in range(parts)]
    out = b.pointer("out", np.float64, writable=True, noalias=True)

    def part(k: int, index: Any) -> Any:
        """Emit a load of the element at `index` in the concatenation of the arrays 0 to `k`."""
        if not k:
            return b.load(sources[0], index)
        with b.if_(b.op("greater_equal", index, bounds[k - 1], dtype=np.bool_), [np.dtype(float)], True) as one:
            one.yield_(b.load(sources[k], b.op("subtract", index, bounds[k - 1])))
        with b.else_() as other:
            other.yield_(part(k - 1, index))
        return one.results[0]

    with b.loop(length, "parallel") as i:
        value = part(parts - 1, i.index)
        if between:
            tests = [
                b.op("greater_equal", i.index, b.constant(3), dtype=np.bool_),
                b.op("less_equal", i.index, bounds[0], dtype=np.bool_),
            ]
            with b.if_(b.op("bitwise_and", *tests, dtype=np.bool_), [np.dtype(float)], True) as two:
                two.yield_(b.load(sources[0], b.op("subtract", i.index, b.constant(3))))
            with b.else_() as other:
                other.yield_(b.constant(7.0, np.float64))
            value = b.op("subtract", value, two.results[0])
        b.store(out, i.index, value)
    return b.finish()


def test_the_middle_has_no_choices() -> None:
    kernel = split_borders(choose_lanes(rolled(), HOST))
    verify_kernel(kernel)
    outer, *inner = loops(kernel)
    found = [[o.opcode for o in program_order(loop.regions[0].operations)].count("if") for loop in inner]
    assert found == [0, 0, 2] and all(loop.attributes["lanes"] for loop in inner)
    assert outer.attributes["role"] == "parallel"


def test_blocks_of_one_part_have_no_choices() -> None:
    kernel = split_borders(choose_lanes(joined(3), HOST))
    verify_kernel(kernel)
    outer, *inner = loops(kernel)
    assert outer.attributes["step"] == kernel.attributes["grain"] == split_borders_module.BLOCK
    found = [[o.opcode for o in program_order(loop.regions[0].operations)].count("if") for loop in inner]
    assert found == [0, 0, 0, 1, 2] and all(loop.attributes["lanes"] for loop in inner)


@pytest.mark.parametrize(("parts", "copies"), [(2, 3), (8, 15), (9, 2)])
def test_copies_of_a_loop_are_limited(parts: int, copies: int) -> None:
    kernel = split_borders(choose_lanes(joined(parts), HOST))
    assert len(loops(kernel)) == 1 + copies


@pytest.mark.parametrize("parts", [2, 3, 5, 10])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("most", [0, split_borders_module.MOST])
def test_each_index_of_a_block_is_gone_over_once(
    parts: int, between: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_borders_module, "BLOCK", 16)
    rng = np.random.default_rng(parts)
    before, after = joined(parts, between), choose_lanes(joined(parts, between), HOST)
    monkeypatch.setattr(split_borders_module, "TESTS", most)
    after = split_borders(after)
    verify_kernel(after)
    for length in (0, 1, 15, 16, 17, 200):
        for _ in range(4):
            bounds = sorted(int(n) for n in rng.integers(-2, length + 3, parts - 1))
            # (all reads are inside the arrays, since parts are read from their first element on)
            sources = [rng.random(length + 10) for _ in range(parts)]
            found = []
            for kernel in (before, after):
                out = np.full(length, np.nan)
                interpret_kernel(kernel, [length, *bounds, *sources, out])
                found.append(out)
            np.testing.assert_array_equal(*found)
            assert not np.isnan(found[0]).any()


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (4, 70)])
@pytest.mark.parametrize("first", [0, 1, 3, 9])
@pytest.mark.parametrize("last", [-1, 0, 1, 50, 99])
def test_each_index_is_gone_over_once(size: tuple[int, int], first: int, last: int) -> None:
    rows, columns = size
    rng = np.random.default_rng(0)
    x, y = rng.random((rows + 1) * columns), rng.random(max(size))
    found = []
    for kernel in (rolled(), split_borders(choose_lanes(rolled(), HOST))):
        out = np.full(rows * columns, np.nan)
        with np.errstate(all="ignore"):
            interpret_kernel(kernel, [rows, columns, max(first, 1), last, x, y, out])
        found.append(out)
    assert not np.isnan(found[0]).any()
    np.testing.assert_array_equal(*found)


def test_a_fold_keeps_its_loops() -> None:
    """Test that a reduction keeps its loops.

    The order of a reduction must not depend on how its input is concatenated.
    """
    b = KernelBuilder("folded")
    rows, columns, first = (b.scalar(name) for name in ("rows", "columns", "first"))
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    with b.loop(rows, "parallel") as i:
        below = b.op("greater_equal", i.index, first, dtype=np.bool_)
        with b.loop(columns, "reduce", initial=[b.constant(0, np.float64)], combine=("add",)) as j:
            with b.if_(below, [np.dtype(float)], True) as one:
                one.yield_(b.load(x, j.index))
            with b.else_() as other:
                other.yield_(b.load(x, i.index))
            j.yield_(b.op("add", j.carried[0], one.results[0]))
        b.store(out, i.index, j.results[0])
    assert len(loops(split_borders(choose_lanes(b.finish(), HOST)))) == 2


@pytest.mark.parametrize("shape", [(1, 5), (2, 2), (17, 33), (40, 7), (3, 5, 70)])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_rolls_and_joins_of_every_size(shape: tuple[int, ...], dtype: Any) -> None:
    def program(xp: Any, x: Any) -> list[Any]:
        last = x.ndim - 1
        return [
            xp.roll(x, 1, 0) + xp.roll(x, -1, last),
            xp.roll(x, (1, -2), (0, last)) - x,
            xp.concatenate([x[..., -1:], x, x[..., :1]], last) + 1,
            xp.concatenate([x, x + 1, x * 2], last) + xp.concatenate([x * 3, x, x], last),
            xp.pad(x, 1) + xp.pad(x, 1, mode="edge"),
        ]

    x = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
    for found, wanted in zip(program(wf, wf.asarray(x)), program(np, x), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
