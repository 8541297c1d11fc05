"""What type checkers are told of arrays and functions is what there is: the same names, with the same parameters."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import weft as wf
from weft.dsl import array
from weft.dsl.cuda import arrays
from weft.dsl.numpy_face import OWN

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
    return [p.name for p in inspect.signature(function).parameters.values()]


def _told(node: ast.FunctionDef) -> list[str]:
    given = node.args
    told = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [argument.arg for argument in told if argument is not None]


def test_parameters_are_those_of_the_methods() -> None:
    for name, node in _declared().items():
        member = vars(wf.Array)[name]
        if isinstance(member, property):
            assert [ast.unparse(d) for d in node.decorator_list] == ["property"], name
        elif not isinstance(member, classmethod):
            names, wanted = _told(node)[1:], _parameters(member)[1:]
            # (the second of an operator goes by any name)
            assert len(names) == len(wanted) if name.startswith("__") else names == wanted, name


def test_functions_are_declared() -> None:
    stub = Path(wf.__file__).with_name("numpy_names.pyi")
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    elementwise = {n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert elementwise == {name for name, own in OWN.items() if isinstance(own, wf.UFunc)}, "write numpy_names.pyi anew"
    told = {node.name: _told(node) for node in nodes if isinstance(node, ast.FunctionDef)}  # (of overloads the last)
    functions = {name: _parameters(own) for name, own in OWN.items() if inspect.isfunction(own)}
    assert told == functions, "write numpy_names.pyi anew"
