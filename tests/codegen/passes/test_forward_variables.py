"""Tests that variables with one store become values.

The tests also check that index arithmetic is marked as free of overflow.
"""

from __future__ import annotations

import numpy as np

from weft.codegen import Kernel, KernelBuilder, print_kernel, verify_kernel
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.mark_addresses import mark_addresses

INT = np.dtype(np.int32)


def builder() -> KernelBuilder:
    return KernelBuilder("kernel", np.int32, "threaded", explicit=True)


def count(kernel: Kernel, opcode: str) -> int:
    return sum(o.opcode == opcode for o in kernel.walk())


def test_a_variable_written_once_is_its_value() -> None:
    b = builder()
    x, zero = b.pointer("x", INT, writable=True), b.constant(0)
    first, second = b.local(INT), b.local(INT)
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    b.store(first, zero, t)
    b.store(second, zero, b.op("add", b.load(first, zero), t))
    with b.if_(b.op("less", t, zero, dtype=bool)):
        b.store(x, b.load(first, zero), b.load(second, zero))
    kernel = forward_variables(b.finish())
    verify_kernel(kernel)
    assert count(kernel, "load") == 0
    assert count(kernel, "store") == 1
    (store,) = (o for o in kernel.walk() if o.opcode == "store")
    assert store.operands[1] is t


def test_other_variables_stay() -> None:
    b = builder()
    x, zero = b.pointer("x", INT, writable=True), b.constant(0)
    early, twice, branch, given = (b.local(INT) for _ in range(4))
    (t,) = b.emit("thread_index", (), (INT,), axis=0)
    with b.loop(t, "serial"):
        b.store(x, zero, b.load(early, zero))  # the value of the previous iteration
        b.store(early, zero, t)
    b.store(twice, zero, t)
    b.store(twice, zero, zero)
    with b.if_(b.op("less", t, zero, dtype=bool)):
        b.store(branch, zero, t)
    b.store(given, zero, t)
    b.emit("atomic", (given, zero, t), (INT,), kind="add")
    for variable in (twice, branch, given):
        b.store(x, zero, b.load(variable, zero))
    kernel = b.finish()
    text = print_kernel(kernel)
    assert print_kernel(forward_variables(kernel)) == text


def test_addresses_do_not_wrap() -> None:
    b = builder()
    x, n = b.pointer("x", INT, writable=True), b.scalar("n", np.int64)
    row = b.cast(n, INT)
    index = b.op("add", b.op("multiply", row, b.constant(3)), b.constant(1))
    tested = b.cast(n, INT)  # tested before it is used as an address
    other = b.op("add", tested, b.constant(1))
    with b.if_(b.op("less", tested, b.constant(5), dtype=bool)):
        b.store(x, other, b.load(x, index))
    kernel = mark_addresses(b.finish())
    verify_kernel(kernel)
    casts = [o for o in kernel.walk() if o.opcode == "cast"]
    assert [bool(o.attributes.get("nowrap")) for o in casts] == [True, False]
    sums = [o for o in kernel.walk() if o.opcode in ("add", "multiply")]
    assert all(o.attributes.get("nowrap") for o in sums)


def test_a_sum_that_is_stored_may_wrap() -> None:
    b = builder()
    x, n = b.pointer("x", INT, writable=True), b.scalar("n", INT)
    total = b.op("add", n, n)
    b.store(x, total, total)
    kernel = mark_addresses(b.finish())
    assert not any(o.attributes.get("nowrap") for o in kernel.walk())
