"""Tests that new expressions are simplified, and that equal expressions are the same object."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import CodeType

import numpy as np
import pytest

import weft as wf
from weft.fusion import INTERNED, keep_code, map_
from weft.fusion.graph import expr
from weft.fusion.graph.expr import leaf

SHAPES = [((6, 1, 7), (6, 5, 7)), ((1, 6, 7), (5, 6, 7)), ((6, 7, 1), (6, 7, 5)), ((1, 1, 7), (3, 0, 7))]


@pytest.mark.parametrize(("own", "shape"), SHAPES)
@pytest.mark.parametrize("name", ["max", "min", "any", "all", "argmax", "argmin"])
def test_extremes_of_broadcast_arrays(name: str, own: tuple[int, ...], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 5, own)
    x, y = wf.broadcast_to(wf.asarray(values), shape), np.broadcast_to(values, shape)
    several = [] if name.startswith("arg") else [(0, 1), (1, 2), (0, 2)]
    for axis in (None, 0, 1, 2, *several):
        try:
            expected = getattr(np, name)(y, axis=axis, keepdims=True)
        except ValueError:
            with pytest.raises(ValueError, match=r"zero-size|empty"):
                getattr(wf, name)(x, axis=axis, keepdims=True)
            continue
        np.testing.assert_array_equal(getattr(wf, name)(x, axis=axis, keepdims=True), expected, strict=True)


def test_repeated_elements_are_read_once() -> None:
    x = wf.broadcast_to(wf.asarray(np.arange(40_000.0) % 7), (100, 40_000))
    assert "parallel i 40000\n" in str(wf.explain(wf.argmin(x, 0)))  # (no loop along the broadcast axis)


def test_code_that_was_compiled_again_records_the_same_nodes() -> None:
    codes = [compile("x + 1", "cell", "eval") for _ in range(2)]
    assert codes[0] is not codes[1] and keep_code(codes[0]) is keep_code(codes[1])
    x = leaf(0, (5,), np.dtype(float))
    first, again = (map_("exp", [x], location=(code, 2)) for code in codes)
    assert first is again and first.location == (codes[0], 2)
    assert map_("exp", [x], location=(codes[0], 4)) is not first
    outer = [map_("exp", [x], location=(codes[0], 2, code, 6)) for code in codes]
    assert outer[0] is outer[1] is not first
    assert not any(isinstance(part, CodeType) for key in INTERNED for part in key)  # (they are hashed slowly)


def test_code_objects_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr, "CODES_LIMIT", 0)
    code = compile("x + 2", "cell", "eval")
    assert keep_code(code) is None
    node = map_("exp", [leaf(0, (5,), np.dtype(float))], location=(code, 2))
    assert node.location == (code, 2) and node.location[0] is code


def test_threads_that_fill_the_table_of_nodes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr, "INTERNED", {})
    monkeypatch.setattr(expr, "INTERNED_LIMIT", 200)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda k: [leaf(slot, (k,), np.dtype(float)) for slot in range(20_000)], range(4)))
    finally:
        sys.setswitchinterval(before)
