"""Tests that the project follows the architecture rules of `rules.py`.

If a rule is not fully met yet, its violations must not increase.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.arch import rules

ROOT = Path(__file__).resolve().parents[2]


@cache
def project() -> rules.Tree:
    return rules.Tree(ROOT)


RULES = (
    rules.upward,
    rules.walls,
    rules.circles,
    rules.faces,
    rules.nameless_files,
    rules.misplaced_tests,
    rules.shared_file_names,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks_the_rule(rule: Any) -> None:
    found = rule(project())
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


# (Lower a number when fewer violations are left.)
RATCHETS: dict[str, tuple[Any, int]] = {
    "imports inside functions": (rules.hidden, 8),
    "modules loaded by name when they are needed": (rules.seams, 25),
    "class names that stand in several files": (rules.shared_class_names, 5),
}


@pytest.mark.parametrize("what", RATCHETS)
def test_the_number_only_goes_down(what: str) -> None:
    rule, number = RATCHETS[what]
    found = rule(project())
    assert len(found) <= number, f"{len(found)} {what}, and there were {number}:\n" + "\n".join(found)


def test_sizes() -> None:
    assert not rules.long_files(project(), 600), "files have at most 600 lines"
    assert not rules.long_functions(project(), 60), "functions have at most 60 lines"


def test_environment_is_read_in_the_settings_only() -> None:
    assert rules.readers_of_the_environment(project()) == ["runtime/settings.py"]
