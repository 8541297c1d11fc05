"""Tests of functions whose branches are replaced by selections."""

from __future__ import annotations

import numpy as np

from tests.oracle.interpret import interpret_kernel
from weft.codegen import KernelBuilder, flatten_branches
from weft.codegen.kernel_ir.operation import Function, Kernel

F8 = np.dtype(np.float64)
VALUES = np.array([-3.0, -1.0, -0.0, 0.0, 0.25, 1.0, 2.0, 7.5, np.inf, -np.inf])


def early_return() -> Function:
    """Return a function of x with an early return.

    The result is 2x if x > 1, x + 10 if x < 0, 1.25 if x = 0.25, and otherwise x.
    """
    b = KernelBuilder("f")
    with b.function("f", [F8], [F8]) as (x,):
        zero = b.constant(0)
        result, z = b.local(F8), b.local(F8)
        with b.scope("return"):
            with b.if_(b.op("greater", x, b.constant(1, F8), dtype=bool)):
                b.store(result, zero, b.op("add", x, x))
                b.leave("return")
            b.store(z, zero, x)
            with b.scope("inner"):
                with b.if_(b.op("less", x, b.constant(0, F8), dtype=bool)):
                    b.store(z, zero, b.op("add", x, b.constant(10, F8)))
                    b.leave("inner")
                with b.if_(b.op("equal", x, b.constant(0.25, F8), dtype=bool)):
                    b.store(z, zero, b.op("add", b.load(z, zero), b.constant(1, F8)))
            b.store(result, zero, b.load(z, zero))
        b.yield_(b.load(result, zero))
    return b.kernel.functions[0]


def run(function: Function) -> np.ndarray:
    b = KernelBuilder("k")
    b.kernel.level = "threaded"
    x, out = b.pointer("x", F8), b.pointer("out", F8, writable=True)
    b.kernel.functions.append(function)
    (i,) = b.emit("thread_index", (), (np.dtype(np.int32),), axis=0)
    b.store(out, i, b.call(function.name, b.load(x, i))[0])
    found = np.zeros_like(VALUES)
    interpret_kernel(b.finish(), [VALUES, found], block=(len(VALUES),))
    return found


def test_straight_form_is_equal_and_straight() -> None:
    branching = early_return()
    straight = flatten_branches(branching, np.dtype(np.int32))
    assert straight is not None
    names = {o.opcode for o in Kernel("k", [], straight.body, np.dtype(np.int32)).walk()}
    assert not names & {"if", "scope", "leave", "local", "load", "store"}
    wanted = np.where(VALUES > 1, 2 * VALUES, np.where(VALUES < 0, VALUES + 10, VALUES + (VALUES == 0.25)))
    np.testing.assert_array_equal(run(branching), wanted)
    np.testing.assert_array_equal(run(straight), wanted)


def test_loops_and_memory_stay_as_they_are() -> None:
    b = KernelBuilder("f")
    with b.function("f", [F8], [F8]) as (x,):
        with b.scope("done"), b.repeat():
            b.leave("done")
        b.yield_(x)
    assert flatten_branches(b.kernel.functions[0], np.dtype(np.int32)) is None
    b = KernelBuilder("f")
    with b.function("f", [F8], [F8]) as (x,):
        array = b.local(F8, 4)
        b.store(array, b.constant(2), x)
        b.yield_(b.load(array, b.constant(2)))
    assert flatten_branches(b.kernel.functions[0], np.dtype(np.int32)) is None
