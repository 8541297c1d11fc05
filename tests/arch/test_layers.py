"""The rules of the house: layers, walls, what importing loads, sizes, names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("runtime", "codegen", "fusion", "dsl")  # lowest first
FILES = [p for layer in LAYERS for p in sorted((ROOT / layer).rglob("*.py"))]
WALLS = {
    "llvmlite": ("codegen/llvm/", "runtime/cpu/"),
    "cuda": ("runtime/cuda/",),
    "sympy": ("fusion/",),
}


def imports(path: Path) -> list[str]:
    """Every module that a file imports, inside functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_import_points_upwards(path: Path) -> None:
    own = LAYERS.index(path.relative_to(ROOT).parts[0])
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "weft" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= own, f"{named(path)} imports {name}"
        assert parts[0] not in LAYERS, f"{named(path)} imports {name}: the import name is weft.{parts[0]}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_third_parties_stay_behind_their_walls(path: Path) -> None:
    for name in imports(path):
        places = WALLS.get(name.split(".")[0])
        assert places is None or named(path).startswith(places), f"{named(path)} imports {name}"


def loaded_by(code: str) -> set[str]:
    """The modules that a new process has loaded after `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu"},
    )
    return set(done.stdout.split())


# What neither the import nor a first array needs: third parties, the planner, code generation, and slow modules of Python's.
HEAVY = (
    "llvmlite sympy cuda importlib.metadata email subprocess tempfile weft.codegen.passes weft.codegen.compile "
    "weft.codegen.kernel_ir.verify weft.fusion.run.execute weft.fusion.plan.steps weft.fusion.explain.explanation weft.fusion.graph.symbolic "
    "weft.dsl.kernel weft.dsl.script.numpy_face weft.dsl.functions.sets weft.dsl.functions.quantiles weft.dsl.functions.calculus weft.dsl.profile weft.dsl.cli"
).split()


def test_import_loads_little() -> None:
    loaded = loaded_by("import weft")
    assert not loaded.intersection((*HEAVY, "json", "hashlib", "pathlib", "weft.runtime.cpu", "weft.runtime.cache"))
    assert len([name for name in loaded if name.startswith("weft")]) <= 83


def test_first_operation_loads_no_planner() -> None:
    loaded = loaded_by("import weft as wf; x = wf.asarray([1.0, 2.0, 3.0]); y = x + 1; y[1:]; wf.sum(y)")
    assert not loaded.intersection(HEAVY)


@pytest.mark.parametrize("face", ["runtime", "codegen", "fusion", "dsl"])
def test_lazy_names_are_declared_to_type_checkers(face: str) -> None:
    tree = ast.parse((ROOT / face / "__init__.py").read_text())
    declared: dict[str, str] = {}
    listed: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom) and line.module
                declared |= {alias.asname or alias.name: f"{line.module}.{alias.name}" for alias in line.names}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names":
            for module, names in ast.literal_eval(node.args[1]).items():
                for name, _, old in (entry.partition("=") for entry in names.split()):
                    listed[name] = f"{module}.{old or name}"
    assert listed and listed == declared
    # (a submodule that is imported replaces the package's attribute of its name)
    assert not [name for name in listed if (ROOT / face / f"{name}.py").exists()]


def test_environment_is_read_in_the_settings_only() -> None:
    readers = [named(p) for p in FILES if "os.environ" in p.read_text()]
    assert readers == ["runtime/settings.py"]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= 90, f"{named(path)}: {node.name} has {length} lines"


def test_names_say_what_a_file_holds() -> None:
    forbidden = {"utils.py", "core.py", "base.py", "misc.py", "helpers.py"}
    assert not [named(p) for p in FILES if p.name in forbidden]


def test_links_lead_to_the_folders() -> None:
    for layer in LAYERS:
        link = ROOT / "src" / "weft" / layer
        assert link.resolve() == ROOT / layer
