"""Tests of the analysis of how values change with a loop index."""

from __future__ import annotations

import numpy as np

from weft.codegen import KernelBuilder
from weft.codegen.passes.index_steps import index_steps, program_order


def test_steps_of_index_arithmetic() -> None:
    b = KernelBuilder("f")
    x, n = b.pointer("x", np.int32), b.scalar("n")
    with b.loop(n, "parallel") as i:
        two = b.constant(2)
        doubled = b.op("multiply", i.index, two)
        backwards = b.op("subtract", n, i.index)
        shifted = b.op("add", doubled, backwards)
        scaled = b.op("multiply", n, i.index)
        gathered = b.load(x, i.index)
        nothing = b.op("subtract", shifted, i.index)
        uniform = b.op("add", n, two)
    body = b.finish().body.operations
    steps = index_steps(body, i.index)
    assert [steps.get(v, 0) for v in (i.index, doubled, backwards, shifted)] == [1, 2, -1, 1]
    assert steps[scaled] is None
    assert steps[gathered] is None
    assert nothing not in steps
    assert uniform not in steps


def test_steps_through_inner_loops() -> None:
    b = KernelBuilder("f")
    n = b.scalar("n")
    with b.loop(n, "parallel") as i:
        with b.loop(n, "serial", initial=[n]) as j:
            inside = b.op("add", i.index, j.index)
            carried = b.op("add", j.carried[0], i.index)
            j.yield_(carried)
        with b.loop(i.index, "serial") as k:
            varying = b.op("add", k.index, n)
    steps = index_steps(b.finish().body.operations, i.index)
    assert steps[inside] == 1
    assert steps[carried] is None
    assert j.index not in steps
    assert steps[k.index] is None
    assert steps[varying] is None


def test_program_order() -> None:
    b = KernelBuilder("f")
    n = b.scalar("n")
    first = b.op("add", n, n)
    with b.loop(n, "serial"):
        second = b.op("add", first, n)
        with b.loop(n, "serial"):
            third = b.op("add", second, n)
        fourth = b.op("add", second, n)
    fifth = b.op("add", first, n)
    found = [o.results[0] for o in program_order(b.finish().body.operations) if o.opcode == "add"]
    assert found == [first, second, third, fourth, fifth]


def test_what_a_fold_finds_may_be_anything() -> None:
    b = KernelBuilder("f")
    x, n = b.pointer("x", np.int32), b.scalar("n")
    with b.loop(n, "parallel") as i:
        with b.loop(n, "reduce", initial=[b.constant(0)], combine=("maximum",)) as j:
            found = b.cast(b.load(x, b.op("add", i.index, j.index)), np.int64)
            j.yield_(b.op("maximum", j.carried[0], b.cast(found, b.kernel.index_dtype)))
        index = b.op("add", i.index, j.results[0])
    steps = index_steps(b.finish().body.operations, i.index)
    assert steps[j.results[0]] is None
    assert steps[index] is None
