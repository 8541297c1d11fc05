"""Tests of the conditions under which native code replaces Python functions."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from weft.dsl.immediate.at_call import call_counter
from weft.runtime import BETWEEN, CompileError, OptimizerWarning, Replacement, override, replacement
from weft.runtime.replacement import COMPILED, PATIENCE

ENOUGH = 5_000


class Situation:
    """A simulated disk cache, and a simulated second process that compiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept = False
        self.requested: list[str] = []
        self.hurried = 0
        self.request: Any = SimpleNamespace(state="waiting", is_over=lambda: self.request.state != "waiting")
        monkeypatch.setattr(replacement, "is_kept", lambda text: self.kept)
        monkeypatch.setattr(replacement, "submit", self.submit)
        monkeypatch.setattr(replacement, "prepare", self.hurry)

    def hurry(self) -> None:
        self.hurried += 1

    def submit(self, function: str, arguments: tuple[Any, ...]) -> Any:
        self.requested.append(function)
        return self.request


@pytest.fixture
def situation(monkeypatch: pytest.MonkeyPatch) -> Situation:
    return Situation(monkeypatch)


@pytest.fixture
def code() -> Replacement:
    return Replacement("module.install", lambda: "text")


def test_code_on_disk_is_due_once_loading_it_pays(situation: Situation, code: Replacement) -> None:
    situation.kept = True
    assert code.is_due(ENOUGH) and not situation.requested
    assert not code.is_due(COMPILED)  # (only once)


def test_a_second_process_compiles_it_after_many_calls(situation: Situation, code: Replacement) -> None:
    assert not code.is_due(ENOUGH) and not code.is_due(ENOUGH)
    assert situation.requested == ["module.install"]
    situation.request.state = "done"
    assert code.is_due(ENOUGH)


def test_calls_do_not_wait_for_a_compilation_that_the_second_process_can_do(
    situation: Situation, code: Replacement
) -> None:
    assert not code.is_due(ENOUGH) and not code.is_due(PATIENCE - 1) and situation.hurried == 1
    assert code.is_due(PATIENCE)


@pytest.mark.parametrize("state", ["lost", None])
def test_this_process_compiles_it_if_no_other_has(state: str | None, situation: Situation, code: Replacement) -> None:
    if state is None:
        situation.request = None
    else:
        situation.request.state = state
    assert not code.is_due(ENOUGH) and not code.is_due(COMPILED - 1)
    assert code.is_due(COMPILED)


def test_an_error_is_repeated_here(situation: Situation, code: Replacement) -> None:
    assert not code.is_due(ENOUGH)
    situation.request.state = "failed"
    assert code.is_due(ENOUGH) and not code.is_due(COMPILED)


def test_a_crash_is_not_repeated_and_issues_one_warning(situation: Situation, code: Replacement) -> None:
    assert not code.is_due(ENOUGH)
    situation.request.state = "crashed"
    with override(strict=False), pytest.warns(OptimizerWarning, match="ended unexpectedly.*, so they stay in Python"):
        assert not code.is_due(ENOUGH)
    assert not code.is_due(COMPILED)


def test_a_crash_is_an_error_if_failures_are_errors(situation: Situation, code: Replacement) -> None:
    assert not code.is_due(ENOUGH)
    situation.request.state = "crashed"
    with override(strict=True), pytest.raises(CompileError, match="ended unexpectedly"):
        code.is_due(ENOUGH)


def test_code_is_installed_after_enough_counted_calls(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    situation.kept = True
    installed: list[int] = []
    module: Any = ModuleType("native_module")
    module.replacement = Replacement("native_module.install", lambda: "text")
    module.install = lambda: installed.append(made)
    monkeypatch.setitem(sys.modules, "native_module", module)
    count = call_counter("native_module", BETWEEN + 1)
    for made in range(1, 4 * BETWEEN):
        count()
    assert installed == [2 * BETWEEN]
