"""Package attributes whose modules load on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(namespace: dict[str, Any], modules: dict[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package.

    Parameters
    ----------
    namespace : dict
        The package's ``globals()``. A name that was loaded is kept there, so that the second use costs nothing.
    modules : dict
        From each module to the names that it defines, separated by blanks; ``new=old`` renames one.

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
