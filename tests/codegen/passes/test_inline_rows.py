"""Tests of the pass `inline_rows`. It inlines user functions, which are rows (entries) of the op table.

The indices of such a function get the index dtype of the kernel.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracle.interpret import interpret_kernel
from weft.codegen import KernelBuilder, OpDef, add_user_op, verify_kernel
from weft.codegen.passes.inline_rows import inline_rows

F8 = np.dtype(np.float64)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_indices_have_the_index_dtype_of_the_kernel(index: type) -> None:
    f = KernelBuilder("f")
    with f.function("f", [F8], [F8]) as (x,):
        held = f.local(F8, 2)
        f.store(held, f.constant(0), f.op("add", x, x))
        f.store(held, f.constant(1), x)
        f.yield_(f.load(held, f.cast(x, np.int32)))
    (body,) = f.kernel.functions
    name = f"user_function_for_{index.__name__}"
    add_user_op(OpDef(name, "Doubles 0.5.", loops=("d->d",), body=body, straight=False))

    b = KernelBuilder("k", index, "threaded")
    values, out = b.pointer("values", F8), b.pointer("out", F8, writable=True)
    (i,) = b.emit("thread_index", (), (np.dtype(index),), axis=0)
    b.store(out, i, b.op(name, b.load(values, i)))
    inlined = inline_rows(b.finish(), straight=False)
    verify_kernel(inlined)
    given, found = np.array([0.5, 1.0]), np.zeros(2)
    interpret_kernel(inlined, [given, found], block=(2,))
    np.testing.assert_array_equal(found, [1.0, 1.0])
