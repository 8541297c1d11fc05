"""Tests that interpreted reductions have the results of compiled plans."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.fusion.graph.expr import Expr
from weft.fusion.run.interpret import reductions
from weft.runtime import override


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_counts_are_the_same_as_in_plans(axis: int | None) -> None:
    x = np.random.default_rng(0).integers(0, 9, (300, 500)).astype(np.uint8)
    array = wf.asarray(x)
    for mode in ("always", "never"):
        with override(interpret=mode, immediate=0):
            for found in (wf.count_nonzero(array > 4, axis=axis), (array > 4).sum(axis=axis)):
                np.testing.assert_array_equal(np.asarray(found), (x > 4).sum(axis=axis))
            mixed = (array > 4).astype(int)
            total, doubled = wf.evaluate(mixed.sum(axis=axis), mixed * 2)  # (the cast is needed, too)
        np.testing.assert_array_equal(np.asarray(total), (x > 4).sum(axis=axis))
        np.testing.assert_array_equal(np.asarray(doubled), (x > 4) * 2)


def test_only_counts_skip_their_cast() -> None:
    x = wf.asarray(np.random.default_rng(0).integers(0, 9, 100_000).astype(np.uint8))

    def operand_of(array: wf.Array) -> Expr:
        (operand,) = reductions.operands_of(array._storage.expr)
        return operand

    with override(immediate=0):
        assert operand_of((x > 4).sum()).dtype == bool
        for other in ((x > 4).sum(dtype=float), x.sum(), (x > 4).any()):
            assert operand_of(other) is other._storage.expr.operands[0]


@pytest.mark.parametrize("axis", [0, 1])
def test_products_of_complex_numbers_are_the_same_as_in_plans(axis: int) -> None:
    parts = np.random.default_rng(0).choice([0.0, -0.0, 1.0, np.inf, np.nan], (2, 3, 40, 40))
    x = wf.asarray(parts.view(complex)[0])
    found = []
    for mode in ("always", "never"):
        with override(interpret=mode, immediate=0):
            found.append(str(np.cumprod(x, axis=axis).tolist()))
    assert found[0] == found[1]
