"""Tests that type stubs have the same names, parameters and defaults as the implementation."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import weft as wf
from tests.dsl import declarations
from weft.dsl.arrays import array
from weft.dsl.cuda import array_creation as arrays

STUB = Path(array.__file__).with_name("array_members.pyi")
_installed = arrays  # importing it installs the members that weft.cuda adds


class _Plain:
    """A class whose attributes the stub need not declare."""

    __slots__ = ("__weakref__",)
    of_a_type: int


def _body(path: Path, name: str) -> list[ast.stmt]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _declared() -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for node in _body(STUB, "ArrayMembers"):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, node)  # (the getter of a property precedes its setter)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):  # (``prod = sum``)
            found |= {target.id: found[node.value.id] for target in node.targets if isinstance(target, ast.Name)}
    return found


def _in_class() -> set[str]:
    """Return the names that the source text of class `Array` defines."""
    found: set[str] = set()
    for node in _body(Path(array.__file__), "Array"):
        match node:
            case ast.FunctionDef():
                found.add(node.name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign():
                found |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def test_all_members_are_declared() -> None:
    installed = set(vars(wf.Array)) - _in_class() - set(vars(_Plain))
    assert set(_declared()) == installed, "write dsl/arrays/array_members.pyi anew"


def _parameters(function: Any) -> list[tuple[str, str]]:
    """Return the names and defaults of a function's parameters, as in a declaration."""
    return [(p.name, declarations.show_default(p)) for p in inspect.signature(function).parameters.values()]


def _told(node: ast.FunctionDef) -> list[tuple[str, str]]:
    given = node.args
    first = [*given.posonlyargs, *given.args]
    rows: list[tuple[ast.arg | None, ast.expr | None]] = [
        *zip(first, [None] * (len(first) - len(given.defaults)) + given.defaults, strict=True),
        (given.vararg, None),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        (given.kwarg, None),
    ]
    return [(name.arg, ast.unparse(value).replace("'", '"') if value else "") for name, value in rows if name]


def test_functions_are_declared() -> None:
    assert declarations.FILE.read_text(encoding="utf-8") == declarations.written(), "python -m tests.dsl.declarations"
