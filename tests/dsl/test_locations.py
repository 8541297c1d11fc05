"""Tests that operations are recorded with their source lines."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import weft as wf


def test_code_at_the_address_of_deleted_code_is_not_confused_with_it() -> None:
    x = wf.asarray(np.ones(3))
    for number in range(8):
        names: dict[str, Any] = {}
        exec(compile(f"def add{number}(x):\n    return x + x", f"source {number}", "exec"), names)
        for _ in range(2):
            code, _ = names[f"add{number}"](x)._storage.expr.location
            assert code.co_filename == f"source {number}"
        del code, names
        gc.collect()


def test_results_in_out_have_the_line_of_the_call() -> None:
    x = wf.asarray(np.ones(40_000)) * 2
    np.maximum(x, 0.5, out=x)
    line = test_results_in_out_have_the_line_of_the_call.__code__.co_firstlineno + 2
    assert f"maximum (test_locations.py:{line})" in str(wf.explain(x))
