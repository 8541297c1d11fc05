"""Tests of the conditions under which native code draws random numbers."""

from __future__ import annotations

import pytest

from weft.runtime import OptimizerWarning, override
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.errors import CompileError


def test_code_waits_for_enough_elements() -> None:
    asked: list[bool] = []
    ready: Readiness[str] = Readiness(lambda compiling: asked.append(compiling), lambda code: True)
    for _ in range(39):
        assert ready.find(100_000) is None
    assert asked == [False]  # the disk cache is read only once
    for _ in range(200):
        assert ready.find(100_000) is None
    assert asked[1:] and all(asked[1:]) and len(asked) < 8


def test_code_is_loaded_once() -> None:
    asked: list[bool] = []

    def obtain(compiling: bool) -> str:
        asked.append(compiling)
        return "code"

    ready = Readiness(obtain, lambda code: code == "code")
    assert ready.find(1) == ready.find(1) == ready.loaded == "code"
    assert asked == [False]


def test_code_that_draws_other_numbers_is_not_used() -> None:
    asked: list[bool] = []

    def obtain(compiling: bool) -> str:
        asked.append(compiling)
        return "code"

    ready = Readiness(obtain, lambda code: False)
    assert ready.find(1) is None and ready.find(10**9) is None and ready.loaded is None
    assert len(asked) == 1


def test_code_that_does_not_compile_is_not_used() -> None:
    def obtain(compiling: bool) -> str:
        raise CompileError("no")

    ready = Readiness(obtain, lambda code: True)
    with override(strict=False), pytest.warns(OptimizerWarning, match="NumPy draws them"):
        assert ready.find(10**9) is None
    assert ready.find(10**9) is None
