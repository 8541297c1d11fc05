"""Tests of call sites in repeated code and in weft's functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import call_sites, operators

CELL = """
for _ in range(40):
    x = x * 0.5 + y
    wf.evaluate(x)
"""


def test_a_cell_run_again_is_recorded_by_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    anew: list[str] = []
    real: Callable[..., Any] = call_sites.record_and_memoize

    def counted(op: str, *arguments: Any) -> Any:
        anew.append(op)
        return real(op, *arguments)

    monkeypatch.setattr(call_sites, "record_and_memoize", counted)
    counts, found = [], []
    for _ in range(3):
        names = {"wf": wf, "x": wf.ones(5), "y": wf.arange(5.0)}
        wf.evaluate(names["x"], names["y"])
        anew.clear()
        exec(compile(CELL, "<cell>", "exec"), names)  # creates a new code object each time
        counts.append(len(anew))
        found.append(names["x"].tolist())
    assert counts[2] <= 8 < 80
    assert found[1:] == [found[0]] * 2
    assert found[0] == pytest.approx([2.0 * k for k in range(5)])


def test_a_changed_cell_is_recorded_anew() -> None:
    for factor in (0.5, 0.25, 0.5):
        names = {"wf": wf, "x": wf.ones(5), "y": wf.zeros(5)}
        exec(compile(CELL.replace("0.5", str(factor)).replace("40", "2"), "<cell>", "exec"), names)
        assert names["x"].tolist() == [factor**2] * 5


FUNCTIONS = [
    wf.diff,
    wf.gradient,
    wf.nanmean,
    lambda x: wf.interp(x, [0.0, 1.0], [2.0, 3.0]),
    lambda x: np.average(x, weights=x),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=["diff", "gradient", "nanmean", "interp", "average"])
def test_operators_in_functions_of_weft_have_the_line_of_the_call(function: Callable[..., Any]) -> None:
    x = wf.asarray(np.random.default_rng(0).random(100_000))
    text = str(wf.explain(function(x)))
    assert set(re.findall(r"\((\w+\.py):\d+\)", text)) == {Path(__file__).name}, text


def test_each_call_of_a_function_has_its_own_line() -> None:
    def twice() -> tuple[str, str]:
        first = str(wf.explain(wf.gradient(wf.ones(100_000))))
        return first, str(wf.explain(wf.gradient(wf.ones(100_000))))  # (the same expressions, on the next line)

    line = twice.__code__.co_firstlineno
    for _ in range(2):
        for k, text in enumerate(twice()):
            assert set(re.findall(r"subtract \((\S+)\)", text)) == {f"{Path(__file__).name}:{line + 1 + k}"}


def test_operators_in_functions_of_weft_are_recorded_by_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    anew: list[str] = []
    real: Callable[..., Any] = call_sites.record_and_memoize

    def counted(op: str, *arguments: Any) -> Any:
        anew.append(op)
        return real(op, *arguments)

    x = wf.asarray(np.random.default_rng(0).random((300, 300)))
    found = []
    monkeypatch.setattr(call_sites, "record_and_memoize", counted)
    monkeypatch.setattr(operators, "record_and_memoize", counted)
    for k in range(6):
        anew.clear()
        found.append(np.asarray(wf.gradient(x, float(k + 1))[0]))
    assert not anew
    for k, each in enumerate(found):
        np.testing.assert_array_equal(each, np.gradient(np.asarray(x), float(k + 1))[0])
