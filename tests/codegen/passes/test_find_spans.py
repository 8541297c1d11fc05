"""Tests of `find_spans`: which elements one iteration of the outermost loop reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.codegen import Kernel, KernelBuilder
from weft.codegen.kernel_ir.operation import Value
from weft.codegen.passes.find_spans import find_spans

Index = Callable[[KernelBuilder, Value, Value, Value], Value]


def line(index: Index) -> Kernel:
    """Return the kernel ``out[i] = x[index(i, size, n)]`` for i < n.

    The parameters of the kernel are n, size, x and out.
    """
    b = KernelBuilder("line")
    n, size = b.scalar("n"), b.scalar("size")
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    with b.loop(n, "parallel") as i:
        b.store(out, i.index, b.load(x, index(b, i.index, size, n)))
    return b.finish()


def rows(stride: str, *, cut: bool = False) -> Kernel:
    """Return a kernel that sums each row of a matrix. If `cut` is true, the kernel sums consecutive blocks of a single row instead.

    A row has `columns` elements. `stride` names the kernel parameter that is the distance between the starts of
    consecutive rows or blocks.
    """
    b = KernelBuilder("rows")
    sizes = {name: b.scalar(name) for name in ("n", "columns", "stride")}
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    zero = b.constant(0.0, np.float64)
    with b.loop(sizes["n"], "parallel") as i:
        first = b.op("multiply", i.index, sizes[stride])
        if cut:
            end = b.op("minimum", b.op("add", first, sizes[stride]), sizes["columns"])
            with b.loop(end, "reduce", start=first, initial=[zero], combine=("add",)) as j:
                j.yield_(b.op("add", j.carried[0], b.load(x, j.index)))
        else:
            with b.loop(sizes["columns"], "reduce", initial=[zero], combine=("add",)) as j:
                j.yield_(b.op("add", j.carried[0], b.load(x, b.op("add", j.index, first))))
        b.store(out, i.index, j.results[0])
    return b.finish()


def test_one_element_per_iteration() -> None:
    assert find_spans(line(lambda b, i, size, n: i)) == {2: (1, 1)}


def test_rows() -> None:
    assert find_spans(rows("stride")) == {3: ("p2", "p1")}
    assert find_spans(rows("columns")) == {3: ("p1", "p1")}
    assert find_spans(rows("stride", cut=True)) == {3: ("p2", "p2")}


@pytest.mark.parametrize(
    "index",
    [
        lambda b, i, size, n: b.op("add", i, b.constant(1, i.type)),
        lambda b, i, size, n: b.op("subtract", n, i),
        lambda b, i, size, n: b.op("add", b.op("multiply", i, size), size),
        lambda b, i, size, n: b.op("multiply", size, n),
        lambda b, i, size, n: b.op("multiply", i, size),
    ],
)
def test_other_indices(index: Index) -> None:
    assert find_spans(line(index)) == {}


def test_an_operand_that_is_read_in_two_ways() -> None:
    b = KernelBuilder("both")
    n = b.scalar("n")
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    with b.loop(n, "parallel") as i:
        ahead = b.load(x, b.op("add", i.index, b.constant(1, i.index.type)))
        b.store(out, i.index, b.op("add", b.load(x, i.index), ahead))
    assert find_spans(b.finish()) == {}


def test_an_operand_outside_the_loop() -> None:
    b = KernelBuilder("outside")
    n = b.scalar("n")
    x, out = b.pointer("x", np.float64), b.pointer("out", np.float64, writable=True)
    first = b.load(x, b.constant(0, n.type))
    with b.loop(n, "parallel") as i:
        b.store(out, i.index, b.op("add", b.load(x, i.index), first))
    assert find_spans(b.finish()) == {}
