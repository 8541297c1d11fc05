"""Lazy attributes of packages. The module of an attribute is imported on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(namespace: dict[str, Any], modules: dict[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` function for a package. The function imports an attribute on first use.

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
        found = namespace[name] = getattr(import_module(module), old)
        return found

    return find
