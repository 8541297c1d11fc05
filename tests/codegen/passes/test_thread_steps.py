"""Tests of how addresses change from thread to thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.codegen import KernelBuilder, Value
from weft.codegen.passes.find_uniform import find_uniform
from weft.codegen.passes.thread_steps import ThreadSteps

INT = np.dtype(np.int32)
Index = Callable[[KernelBuilder, Value, Value, Value], Value]


@pytest.mark.parametrize(
    ("index", "step"),
    [
        (lambda b, t, n, x: t, 1),
        (lambda b, t, n, x: b.op("subtract", n, t), -1),
        (lambda b, t, n, x: b.op("multiply", t, b.constant(3)), 3),
        (lambda b, t, n, x: b.op("multiply", n, t), "symbolic"),
        (lambda b, t, n, x: b.op("add", b.op("multiply", n, t), t), "symbolic"),
        (lambda b, t, n, x: b.op("subtract", b.op("multiply", n, t), b.op("multiply", n, t)), None),
        (lambda b, t, n, x: b.cast(b.load(x, t), INT), "data"),
        (lambda b, t, n, x: b.op("multiply", b.cast(b.load(x, t), INT), b.constant(2)), "data"),
        (lambda b, t, n, x: b.op("bitwise_and", t, b.constant(31)), "bent"),
        (lambda b, t, n, x: b.op("multiply", b.op("bitwise_and", t, b.constant(31)), b.constant(2)), None),
        (lambda b, t, n, x: b.op("multiply", t, t), None),
        (lambda b, t, n, x: b.load(x, n), 0),
    ],
)
def test_steps(index: Index, step: object) -> None:
    b = KernelBuilder("kernel", np.int32, "threaded", explicit=True)
    x, n = b.pointer("x", np.int64, writable=True), b.scalar("n")
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    value = index(b, t, n, x)
    kernel = b.finish()
    assert ThreadSteps(kernel, find_uniform(kernel)).of(value) == step


def test_addresses_count_in_bytes() -> None:
    b = KernelBuilder("kernel", np.int32, "threaded", explicit=True)
    x = b.pointer("x", np.int32, writable=True)
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    zero = b.constant(0)
    near = b.load(b.offset(x, t), zero)
    parts = b.load(b.reinterpret(b.offset(x, t), np.int8), zero)
    kernel = b.finish()
    steps = ThreadSteps(kernel, find_uniform(kernel))
    loads = {o.results[0]: o for o in kernel.walk() if o.opcode == "load"}
    assert steps.walk_on([loads[near]], [])
    assert not steps.walk_on([loads[parts]], [])
