"""When native code replaces Python functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft.runtime
from weft.runtime import COMPILED, ENOUGH, Replacement
from weft.runtime.replacement import REQUESTED


class Situation:
    """What the disk cache has and what a second process answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept = False
        self.requested: list[str] = []
        self.request: Any = SimpleNamespace(state="waiting", is_over=lambda: self.request.state != "waiting")
        monkeypatch.setattr(weft.runtime, "is_kept", lambda text: self.kept, raising=False)
        monkeypatch.setattr(weft.runtime, "submit", self.submit, raising=False)

    def submit(self, function: str, arguments: tuple[Any, ...]) -> Any:
        self.requested.append(function)
        return self.request


@pytest.fixture
def situation(monkeypatch: pytest.MonkeyPatch) -> Situation:
    return Situation(monkeypatch)


@pytest.fixture
def replacement() -> Replacement:
    return Replacement("module.install", lambda: "text")


def test_code_on_disk_is_due_at_once(situation: Situation, replacement: Replacement) -> None:
    situation.kept = True
    assert replacement.is_due(ENOUGH) and not situation.requested


def test_a_second_process_compiles_it_after_many_calls(situation: Situation, replacement: Replacement) -> None:
    assert not replacement.is_due(ENOUGH) and not situation.requested
    assert not replacement.is_due(REQUESTED) and not replacement.is_due(REQUESTED + 500)
    assert situation.requested == ["module.install"]
    situation.request.state = "done"
    assert replacement.is_due(REQUESTED + 1000)


@pytest.mark.parametrize("state", ["waiting", "lost", None])
def test_this_process_compiles_it_if_no_other_has(
    state: str | None, situation: Situation, replacement: Replacement
) -> None:
    if state is None:
        situation.request = None
    else:
        situation.request.state = state
    assert not replacement.is_due(REQUESTED) and not replacement.is_due(COMPILED - 1)
    assert replacement.is_due(COMPILED)


@pytest.mark.parametrize(("state", "due"), [("failed", True), ("crashed", False)])
def test_an_error_is_repeated_here_but_not_a_crash(
    state: str, due: bool, situation: Situation, replacement: Replacement
) -> None:
    situation.request.state = "waiting"
    assert not replacement.is_due(REQUESTED)
    situation.request.state = state
    assert replacement.is_due(REQUESTED + 500) is due and replacement.is_due(COMPILED) is due
