"""Tests of loads and stores that access consecutive elements in each iteration."""

from __future__ import annotations

import re
from array import array

import numpy as np
import pytest

import weft as wf
from weft.codegen import Kernel, KernelBuilder, lower_stages, obtain_function, resolve_target
from weft.codegen.passes.find_interleaved import find_interleaved
from weft.fusion import kernels_of
from weft.runtime import get_device


def reversed_groups(dtype: type, count: int, in_place: bool = False) -> Kernel:
    """Return a kernel that reverses each group of `count` elements.

    The copies are executed one after the other. Thus in place, the second half of each group keeps its values.
    """
    b = KernelBuilder("reverse")
    x = b.pointer("x", dtype, writable=in_place, noalias=not in_place)
    out = x if in_place else b.pointer("out", dtype, writable=True)
    n = b.scalar("n")
    with b.loop(n, "parallel") as i:
        first = b.op("multiply", i.index, b.constant(count))
        places = [b.op("add", first, b.constant(k)) for k in range(count)]
        for k in range(count):
            b.store(out, places[k], b.load(x, places[count - 1 - k]))
    return b.finish()


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int16, np.int64, bool])
@pytest.mark.parametrize("in_place", [False, True])
def test_same_values_as_one_by_one(dtype: type, count: int, in_place: bool) -> None:
    device = get_device("cpu")
    function = obtain_function(device, reversed_groups(dtype, count, in_place))
    for n in (1, 3, 16, 64, 131, 200):
        x = (np.random.default_rng(n).random((n, count)) * 9).astype(dtype)
        wanted, result = x[:, ::-1].copy(), x.copy()
        if in_place:
            wanted[:, (count + 1) // 2 :] = x[:, (count + 1) // 2 :]
            for k in range(count // 2):
                wanted[:, count - 1 - k] = wanted[:, k]
        addresses = [result.ctypes.data] if in_place else [x.ctypes.data, result.ctypes.data]
        device.launch(function, (n,), n, array("q", [*addresses, n]))
        np.testing.assert_array_equal(result, wanted)


def groups(kernel: Kernel) -> list[tuple[str, int]]:
    """Return the opcodes and the numbers of members of the groups in a kernel's loop."""
    (loop,) = [o for o in kernel.walk() if o.opcode == "for"]
    unwritten = [p.value for p in kernel.parameters if p.noalias and not p.writable]
    found = find_interleaved(loop.regions[0], unwritten)
    return [(o.opcode, len(group)) for o, group in found.items() if o is group[0]]


def test_stores_pass_only_loads_of_unwritten_memory() -> None:
    assert groups(reversed_groups(np.float32, 3)) == [("load", 1), ("store", 3), ("load", 1), ("load", 1)]
    assert ("store", 1) in groups(reversed_groups(np.float32, 3, in_place=True))
    assert ("store", 3) not in groups(reversed_groups(np.float32, 3, in_place=True))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_stored_as_vectors(dtype: type) -> None:
    x = wf.asarray(np.ones(100_000, dtype))
    (kernel,) = kernels_of([(x * x)._storage])
    body = lower_stages(kernel, resolve_target("host"))["llvm"].split("\nbody", 2)[1]
    assert re.search(r"store <\d+ x (float|double)>", body)
    assert "extractelement" not in body
