"""Tests that signatures of public functions show annotations without quotes."""

from __future__ import annotations

import inspect

import pytest

import weft as wf
from weft import cuda


@pytest.mark.parametrize(
    "function",
    [
        wf.sum,
        wf.roll,
        wf.exp,
        wf.kernel,
        wf.evaluate,
        wf.default_device,
        wf.Array.reshape,
        wf.Array.sum,
        cuda.to_device,
        cuda.jit,
    ],
    ids=lambda function: function.__name__,
)
def test_signatures_show_annotations_without_quotes(function: object) -> None:
    shown = str(inspect.signature(function))  # type: ignore[arg-type]
    assert any(part in shown for part in (": Any", ": ArrayLike", ": object", "-> Device"))
    assert ": '" not in shown and "-> '" not in shown
