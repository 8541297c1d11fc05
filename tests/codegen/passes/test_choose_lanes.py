"""Tests of `choose_lanes`, which marks loops for vectorization on the host."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import kernels
from tests.codegen.kernels import HOST, numbers
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, print_kernel, verify_kernel
from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.target import Target


def marked(kernel: Kernel) -> list[Operation]:
    """Return the loops that the pass marks for vectorization. Check that the pass does not change its input."""
    before = print_kernel(kernel)
    chosen = choose_lanes(kernel, HOST)
    verify_kernel(chosen)
    assert print_kernel(kernel) == before
    return [o for o in chosen.walk() if o.attributes.get("lanes")]


@pytest.mark.parametrize(("dtype", "lanes"), [("f4", 16), ("f8", 8), ("i1", 64), ("f2", 32), ("c16", 8), ("?", 64)])
def test_lanes_fill_two_registers(dtype: str, lanes: int) -> None:
    (loop,) = marked(kernels.line(dtype))
    # indices are 4 bytes wide
    assert loop.attributes["lanes"] in (lanes, 16)
    assert loop.attributes["role"] == "parallel"


def test_the_contiguous_loop_is_chosen() -> None:
    (loop,) = marked(kernels.rows())
    assert loop.attributes["role"] == "reduce"
    (loop,) = marked(kernels.columns())
    assert loop.attributes["role"] == "parallel"
    (loop,) = marked(kernels.space())
    assert [v.name for v in loop.operands[1:]] == ["c"]


def test_loops_in_order_have_no_lanes() -> None:
    assert not [o for o in marked(kernels.scan()) if o.attributes["role"] == "scan"]


def test_a_loop_around_bounds_that_differ_has_none() -> None:
    b = KernelBuilder("triangle")
    x, out, n = b.pointer("x", np.float32), b.pointer("out", np.float32, writable=True), b.scalar("n")
    with b.loop(n, "parallel") as i:
        first = b.load(x, i.index)
        with b.loop(i.index, "serial", initial=[first]) as j:
            j.yield_(b.op("add", j.carried[0], first))
        b.store(out, i.index, j.results[0])
    assert marked(b.finish()) == []


def test_folds_get_identities_and_a_way_to_combine() -> None:
    (loop,) = marked(kernels.rows("f8", ("add", "argmax")))
    assert len(loop.results) == 3
    assert len(loop.operands) == 2 + 2 * 3
    assert len(loop.regions) == 2
    assert len(loop.regions[1].parameters) == 6


def test_marked_kernels_compute_the_same() -> None:
    x = numbers(7 * 30, "f8")
    kernel = kernels.rows("f8", ("add", "argmax"))
    results = []
    for form in (kernel, choose_lanes(kernel, HOST)):
        out = [np.zeros(7), np.zeros(7), np.zeros(7, np.int64)]
        interpret_kernel(form, [x, 7, 30, *out])
        results.append([o.tobytes() for o in out])
    assert results[0] == results[1]


@pytest.mark.parametrize(("constants", "lanes"), [(3, 16), (20, 8)])
def test_constants_that_fill_the_registers_leave_one_vector_a_turn(constants: int, lanes: int) -> None:
    b = KernelBuilder("polynomial", np.int64)
    n, x = b.scalar("n", np.int64), b.pointer("x", np.float64, noalias=True)
    out = b.pointer("out", np.float64, writable=True)
    factors = [b.constant(1.0 + k, np.float64) for k in range(constants)]
    with b.loop(n, "parallel") as loop:
        y = at = b.load(x, loop.index)
        for factor in factors:
            y = b.op("add", b.op("multiply", y, at), factor)
        b.store(out, loop.index, y)
    target = Target("host", "cpu", "x86_64-unknown-linux-gnu", "x86-64", "", 64, 1)
    (loop_made,) = (o for o in choose_lanes(b.finish(), target).body.operations if o.opcode == "for")
    assert loop_made.attributes["lanes"] == lanes
