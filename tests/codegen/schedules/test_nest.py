"""Tests of the GPU schedules' analysis of a logical kernel."""

from __future__ import annotations

import numpy as np

from tests.codegen import kernels
from weft.codegen import Kernel, KernelBuilder
from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.schedules.nest import find_nest, is_spread, prefers_columns, pressure, reduction_chain


def _spread(kernel: Kernel) -> list[Operation]:
    return [o for o in find_nest(kernel).item if is_spread(o)]


def test_levels_of_a_nest() -> None:
    nest = find_nest(kernels.space())
    assert [level.extent.name for level in nest.levels] == ["a", "b", "c"]
    assert [o.opcode for o in nest.levels[1].before] == ["multiply", "constant"]
    assert [o.opcode for o in nest.item] == ["add", "load", "multiply", "store"]


def test_a_loop_that_does_not_nest_perfectly_belongs_to_the_item() -> None:
    b = KernelBuilder("f")
    out, n = b.pointer("out", np.int32, writable=True), b.scalar("n")
    with b.loop(n, "parallel") as i:
        with b.loop(i.index, "parallel") as j:
            b.store(out, j.index, j.index)
    nest = find_nest(b.finish())
    assert len(nest.levels) == 1
    assert [o.opcode for o in nest.item] == ["constant", "for"]


def test_columns_where_the_domain_is_contiguous() -> None:
    for kernel, expected in (
        (kernels.rows(), False),
        (kernels.columns(), True),
        (kernels.deep_fold(), True),
        (kernels.centred(), False),
        (kernels.whole(), False),
    ):
        assert prefers_columns(find_nest(kernel), _spread(kernel)) is expected


def test_chains_of_folds() -> None:
    assert len(reduction_chain(_spread(kernels.deep_fold())[0])) == 2
    assert len(reduction_chain(_spread(kernels.rows())[0])) == 1


def test_a_fold_whose_inner_bounds_change_is_no_chain() -> None:
    b = KernelBuilder("triangle")
    x, out, n = b.pointer("x", np.int32), b.pointer("out", np.int32, writable=True), b.scalar("n")
    with b.loop(n, "reduce", initial=[b.constant(0)], combine=("add",)) as i:
        with b.loop(i.index, "reduce", initial=i.carried, combine=("add",)) as j:
            j.yield_(b.op("add", j.carried[0], b.load(x, j.index)))
        i.yield_(*j.results)
    b.store(out, b.constant(0), i.results[0])
    assert len(reduction_chain(_spread(b.finish())[0])) == 1


def test_pressure_counts_what_is_alive_at_once() -> None:
    def chain(parallel: bool, dtype: str) -> int:
        b = KernelBuilder("f")
        x, out = b.pointer("x", dtype), b.pointer("out", dtype, writable=True)
        index = b.constant(0)
        if parallel:
            loaded = [b.load(x, b.constant(k)) for k in range(8)]
            total = loaded[0]
            for value in loaded[1:]:
                total = b.op("add", total, value)
        else:
            total = b.load(x, index)
            for k in range(1, 8):
                total = b.op("add", total, b.load(x, b.constant(k)))
        b.store(out, index, total)
        return pressure(b.finish().body.operations)

    assert chain(True, "f4") == 9
    assert chain(False, "f4") == 3
    assert chain(True, "f8") == 18
