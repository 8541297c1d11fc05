"""Code that equals earlier code, such as a repeated notebook cell, is recorded as quickly as the body of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft as wf
from weft.dsl.arrays import call_sites

CELL = """
for _ in range(40):
    x = x * 0.5 + y
    wf.evaluate(x)
"""


def test_a_cell_run_again_is_recorded_by_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    anew: list[str] = []
    real: Callable[..., Any] = call_sites.apply_anew

    def counted(op: str, *arguments: Any) -> Any:
        anew.append(op)
        return real(op, *arguments)

    monkeypatch.setattr(call_sites, "apply_anew", counted)
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
