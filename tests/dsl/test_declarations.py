"""What type checkers are told of `Array` is what it has: the same members, with the same parameters."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import weft as wf
from weft.dsl import array
from weft.dsl.cuda import arrays

STUB = Path(array.__file__).with_name("array_members.pyi")
_installed = arrays  # what weft.cuda adds is there


class _Plain:
    """What every class has."""

    __slots__ = ("__weakref__",)
    of_a_type: int


def _body(path: Path, name: str) -> list[ast.stmt]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _declared() -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for node in _body(STUB, "ArrayMembers"):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, node)  # (the first of a property and its setter)
    return found


def _in_class() -> set[str]:
    """Names that the text of the class defines."""
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
    assert set(_declared()) == installed, "write dsl/array_members.pyi anew"


def _parameters(function: Any) -> list[str]:
    """Parameters behind the first by their names; those of operators have none that count."""
    return [p.name for p in inspect.signature(function).parameters.values()][1:]


def test_parameters_are_those_of_the_methods() -> None:
    for name, node in _declared().items():
        member = vars(wf.Array)[name]
        if isinstance(member, property):
            assert [ast.unparse(d) for d in node.decorator_list] == ["property"], name
        elif not isinstance(member, classmethod):
            given = node.args
            told = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
            names = [argument.arg for argument in told if argument is not None][1:]
            wanted = _parameters(member)
            assert len(names) == len(wanted) if name.startswith("__") else names == wanted, name
