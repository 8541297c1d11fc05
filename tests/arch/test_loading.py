"""Tests of how weft is imported: which modules are loaded, which names are lazy, and where the symbolic links to the layers lead."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.arch.rules import LAYERS

ROOT = Path(__file__).resolve().parents[2]


def loaded_by(code: str, **settings: str) -> set[str]:
    """Run `code` in a new process, with `settings` as environment variables, and return the modules that the process
    has loaded.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", **settings},
    )
    return set(done.stdout.split())


# Modules that neither ``import weft`` nor a first array loads: third-party, planner, compiler, slow standard modules.
HEAVY = (
    "llvmlite sympy cuda importlib.metadata email subprocess tempfile weft.codegen.passes weft.codegen.compile "
    "weft.codegen.kernel_ir.verify weft.fusion.run.execute weft.fusion.plan.steps weft.fusion.explain.explanation weft.fusion.graph.symbolic "
    "weft.dsl.kernel weft.dsl.script.numpy_face weft.dsl.functions.sets weft.dsl.functions.quantiles weft.dsl.functions.calculus weft.dsl.profile weft.dsl.cli"
).split()


def test_import_loads_little() -> None:
    loaded = loaded_by("import weft")
    assert not loaded.intersection((*HEAVY, "json", "hashlib", "pathlib", "weft.runtime.cpu", "weft.runtime.cache"))
    assert len([name for name in loaded if name.startswith("weft")]) <= 94


def test_first_operation_loads_no_planner() -> None:
    loaded = loaded_by("import weft as wf; x = wf.asarray([1.0, 2.0, 3.0]); y = x + 1; y[1:]; wf.sum(y)")
    assert not loaded.intersection(HEAVY)


def test_first_interpretation_loads_no_plans(tmp_path: Path) -> None:
    code = "import weft as wf; x = wf.asarray([1.0] * 100_000); print(float(((x + 1) * 2 - x).mean()))"
    loaded = loaded_by(code, WEFT_CACHE_DIR=str(tmp_path))
    assert "weft.fusion.run.interpret" in loaded
    assert not loaded.intersection(
        "llvmlite weft.codegen.machines weft.fusion.plan.steps weft.fusion.plan.plan_store weft.fusion.run.run_plan".split()
    )


@pytest.mark.parametrize("face", ["runtime", "codegen", "fusion", "dsl"])
def test_names_for_type_checkers_are_the_lazy_names(face: str) -> None:
    declared: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse((ROOT / face / "__init__.py").read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom) and line.module
                declared |= {alias.asname or alias.name: (line.module, alias.name) for alias in line.names}
    find = vars(import_module(f"weft.{face}"))["__getattr__"]
    assert declared and inspect.getclosurevars(find).nonlocals["origin"] == declared
    # (An imported submodule replaces the package's attribute of the same name.)
    assert not [name for name in declared if (ROOT / face / f"{name}.py").exists()]


def test_links_lead_to_the_folders() -> None:
    for layer in LAYERS:
        link = ROOT / "src" / "weft" / layer
        assert link.resolve() == ROOT / layer
