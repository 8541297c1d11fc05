"""Lazy imports of package attributes (PEP 562). Signatures of the imported functions show annotations without quotes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any


def lazy_names(namespace: dict[str, Any], modules: dict[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` function that imports the attributes of a package on first use.

    Parameters
    ----------
    namespace : dict
        The package's ``globals()``. A loaded attribute is stored there, so that later uses cost nothing.
    modules : dict
        The names that each module defines, separated by blanks. ``new=old`` renames `old` to `new`.

    Returns
    -------
    callable
        Raises AttributeError for names that are not listed.
    """
    origin: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for entry in names.split():
            name, _, old = entry.partition("=")
            origin[name] = module, old or name

    def find(name: str) -> Any:
        if name not in origin:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        module, old = origin[name]
        found = namespace[name] = unquote_annotations(getattr(import_module(module), old))
        return found

    return find


def checked_imports(file: str) -> dict[str, str]:
    """Return the imports in a file's ``if TYPE_CHECKING:`` block, for `lazy_names`.

    The block contains only statements of the form ``from MODULE import NAMES``, and ends at the first blank line.
    """
    with open(file, encoding="utf-8") as source:
        block = source.read().partition("\nif TYPE_CHECKING:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for statement in block.split("    from ")[1:]:
        module, _, names = statement.partition(" import ")
        for entry in names.strip("() \n").rstrip(",").split(","):
            old, _, new = entry.strip().partition(" as ")
            found[module] = f"{found.get(module, '')} {new or old}={old}"
    return found


class _Unquoted(str):
    """The text of a postponed annotation. Signatures show this text without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def unquote_annotations(function: Any) -> Any:
    """Remove the quotes around a function's annotations in its signature, and return the function."""
    inner = function
    while (wrapped := getattr(inner, "__wrapped__", None)) is not None:
        inner = wrapped
    if isinstance(inner, FunctionType):
        inner.__annotations__ = {
            name: _Unquoted(text) if type(text) is str else text for name, text in inner.__annotations__.items()
        }
    return function
