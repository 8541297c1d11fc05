"""Tests that a new op of the op table is computed, fused and compiled for GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS, OpDef
from weft.codegen.ops import op_table as table
from weft.dsl.arrays.ufunc import UFunc


def test_a_new_row_computes_fuses_and_reaches_every_target() -> None:
    def expand(b: object, x: object) -> object:
        return b.op("add", b.op("multiply", x, x), x)  # type: ignore[attr-defined]

    definition = OpDef("dummy_op", "x*x + x.", loops=("f->f", "d->d"), reference=lambda x: x * x + x, expand=expand)
    table.add_op(definition)
    try:
        dummy = UFunc(definition)
        values = np.linspace(-2, 2, 41)
        found = wf.sqrt(dummy(wf.asarray(values)) + 1)
        assert len(wf.compile(found)) == 1
        np.testing.assert_array_equal(found, np.sqrt(values * values + values + 1))
        with pytest.raises(TypeError):
            dummy(wf.asarray(values + 0j))
        (kernel,) = wf.compile(dummy(wf.asarray(values)), target="sm_90")
        assert "mul" in kernel.ptx
    finally:
        del OPS["dummy_op"], table._ALIASES["dummy_op"]


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="is already in the table"):
        table.add_op(OpDef("asin", "", loops=("f->f",)))
    assert "asin" not in OPS
