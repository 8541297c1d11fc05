"""Tests that each architecture rule finds a violation and accepts correct code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.arch import rules

# A tree that breaks no rule.
RIGHT = {
    "runtime/__init__.py": "from weft.runtime.cache import Cache",
    "runtime/cache.py": "import os.path\nclass Cache: ...",
    "codegen/__init__.py": "from weft.runtime.lazy_names import lazy_names",
    "codegen/emit.py": "from weft.runtime import Cache\ndef emit():\n    return 1",
    "codegen/llvm/__init__.py": "",
    "codegen/llvm/host.py": "from llvmlite import binding",
    "fusion/__init__.py": "",
    "fusion/plan/__init__.py": "",
    "fusion/plan/steps.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from weft.fusion.plan.group import Group\nclass Step: ...",
    "fusion/plan/group.py": "from weft.fusion.plan.steps import Step\nclass Group: ...",
    "dsl/__init__.py": "",
    "dsl/array.py": "from weft.codegen import emit\nfrom importlib import import_module",
    "tests/codegen/test_emit.py": "",
    "tests/fusion/plan/test_steps.py": "",
    "tests/fusion/plan/test_whole_programs.py": "",
}
LONG = "def long():\n" + "    pass\n" * 60

VIOLATIONS: list[tuple[str, Any, str, str]] = [
    ("upward", rules.upward, "runtime/a.py", "from weft.fusion import plan"),
    ("upward, hidden", rules.upward, "codegen/a.py", "def f():\n    import weft.dsl.array"),
    ("upward, by the package", rules.upward, "codegen/a.py", "from weft import dsl"),
    ("upward, by its name as text", rules.upward, "codegen/a.py", 'import_module("weft.dsl.array")'),
    ("upward, text with a part computed", rules.upward, "codegen/a.py", 'import_module(f"weft.dsl.{name}")'),
    ("another root", rules.upward, "dsl/a.py", "from codegen import emit"),
    ("wall", rules.walls, "fusion/a.py", "import llvmlite.binding"),
    ("wall, hidden", rules.walls, "dsl/a.py", "def f():\n    from cuda.bindings import driver"),
    ("wall, by its name as text", rules.walls, "codegen/a.py", 'from importlib import import_module as i\nimportlib.import_module("sympy")'),
    ("wall, by __import__", rules.walls, "codegen/a.py", '__import__("sympy")'),
    ("circle", rules.circles, "runtime/cache.py", "from weft.runtime import other"),
    ("circle, hidden", rules.circles, "fusion/plan/steps.py", "def f():\n    from weft.fusion.plan.group import Group"),
    ("circle, by its name as text", rules.circles, "fusion/plan/steps.py", 'import_module("weft.fusion.plan.group").Group'),
    ("circle, by a name for the text", rules.circles, "fusion/plan/steps.py", 'A = "weft.fusion.plan.group"\nimport_module(A)'),
    ("circle, by a package", rules.circles, "fusion/plan/__init__.py", "from weft.fusion.other import x"),
    ("face", rules.faces, "dsl/a.py", "from weft.fusion.plan.steps import Step"),
    ("face, hidden", rules.faces, "dsl/a.py", "def f():\n    import weft.codegen.emit"),
    ("face, by its name as text", rules.faces, "dsl/a.py", 'import_module("weft.fusion.plan.steps")'),
    ("hidden", rules.hidden, "dsl/a.py", "def f():\n    from weft.dsl.array import Array"),
    ("hidden in a method", rules.hidden, "dsl/a.py", "class A:\n    def f(self):\n        from weft.dsl.array import Array"),
    ("seam", rules.seams, "dsl/a.py", 'import_module("weft.dsl.array")'),
    ("long file", lambda tree: rules.long_files(tree, 600), "dsl/a.py", "x = 1\n" * 601),
    ("long function", lambda tree: rules.long_functions(tree, 60), "dsl/a.py", LONG),
    ("class name", rules.shared_class_names, "dsl/a.py", "class Step: ..."),
    ("file name", rules.shared_file_names, "codegen/llvm/emit.py", ""),
    ("file name that says nothing", rules.nameless_files, "dsl/utils.py", ""),
    ("environment", rules.readers_of_the_environment, "dsl/a.py", "import os\nos.environ['A']"),
    ("test in no folder of the layer", rules.misplaced_tests, "tests/codegen/passes/test_some.py", ""),
    ("test of no layer", rules.misplaced_tests, "tests/kernels/test_some.py", ""),
    ("test away from its source", rules.misplaced_tests, "tests/fusion/test_group.py", ""),
]  # fmt: skip
EXTRA = {"circle, by a package": {"fusion/other.py": "from weft.fusion.plan.steps import Step\nx = 1"}}


def tree_of(folder: Path, files: dict[str, str]) -> rules.Tree:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return rules.Tree(folder)


@pytest.mark.parametrize(("name", "rule", "file", "text"), VIOLATIONS, ids=[name for name, *_ in VIOLATIONS])
def test_a_violation_is_caught(name: str, rule: Any, file: str, text: str, tmp_path: Path) -> None:
    assert not rule(tree_of(tmp_path / "right", RIGHT))
    wrong = rule(tree_of(tmp_path / "wrong", {**RIGHT, **EXTRA.get(name, {}), file: text}))
    assert wrong and any(
        Path(file).stem in each or "tests/kernels" in each or rules.module_of(file) in each for each in wrong
    )
