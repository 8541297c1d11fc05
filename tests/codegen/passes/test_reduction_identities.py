"""Tests that combining a value with a reduction's identity returns the value."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracle.interpret import interpret_kernel
from weft.codegen import KernelBuilder, combine_accumulators
from weft.codegen.passes.reduction_identities import reduction_identities

SINGLE = ["add", "multiply", "minimum", "maximum"]
VALUES = {
    "f": [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40],
    "i": [0, 1, -1, 100, -128, 127],
    "u": [0, 1, 255, 17],
    "b": [False, True],
}


def _folded(name: str, first: tuple, second: tuple, types: list[np.dtype]) -> list[np.generic]:
    b = KernelBuilder("f")
    outs = [b.pointer(f"out{k}", t, writable=True) for k, t in enumerate(types)]
    mine = tuple(b.constant(v, t) for v, t in zip(first, types, strict=True))
    theirs = tuple(b.constant(v, t) for v, t in zip(second, types, strict=True))
    for out, value in zip(outs, combine_accumulators(b, name, mine, theirs), strict=True):
        b.store(out, b.constant(0), value)
    arrays = [np.zeros(1, t) for t in types]
    interpret_kernel(b.finish(), arrays)
    return [a[0] for a in arrays]


REDUCTIONS = [
    *((name, dtype) for name in SINGLE for dtype in ("f4", "f8", "f2", "i1", "u1", "?")),
    *((name, "?") for name in ("logical_and", "logical_or")),
    *((name, dtype) for name in ("bitwise_and", "bitwise_or", "bitwise_xor") for dtype in ("i1", "u1", "?")),
]


@pytest.mark.parametrize(("name", "dtype"), REDUCTIONS)
def test_identity_on_either_side(name: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    (identity,) = reduction_identities((name,), [kind])
    assert identity.dtype == kind
    for number in VALUES[kind.kind]:
        value = kind.type(number)
        for result in (_folded(name, (identity,), (value,), [kind]), _folded(name, (value,), (identity,), [kind])):
            assert result[0].tobytes() == value.tobytes() or (value != value and result[0] != result[0])


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", ["f4", "i1", "?"])
def test_identity_of_pairs(name: str, dtype: str) -> None:
    types = [np.dtype(dtype), np.dtype(np.int64)]
    identity = tuple(reduction_identities((name,), types))
    for number in VALUES[types[0].kind]:
        pair = (types[0].type(number), np.int64(5))
        for result in (_folded(name, identity, pair, types), _folded(name, pair, identity, types)):
            assert result[1] == 5
            np.testing.assert_array_equal(result[0], pair[0])


def test_several_folds_in_order() -> None:
    types = [np.dtype("f4"), np.dtype("i2"), np.dtype("i8"), np.dtype("c8")]
    found = reduction_identities(("add", "argmax", "add"), types)
    assert [v.dtype for v in found] == types
    assert np.signbit(found[0])
    assert found[1] == -32768
    assert found[2] == 2**63 - 1
