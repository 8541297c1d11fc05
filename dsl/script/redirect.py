"""Execution of a user's program with weft in place of NumPy.

In the program and the modules in its folder, `import numpy` imports weft's namespace. All other modules keep NumPy.
`numpy` in `sys.modules` is unchanged. The program's code gets builtins with their own `__import__` instead.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import types
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from weft.dsl.script.script_namespace import MARK, script_module


class Redirected:
    """One program, in which modules under `folder` import weft as `numpy`.

    Parameters
    ----------
    folder : Path
        Where the program's own modules lie.
    to_weft : bool
        False runs the same way on NumPy itself, for comparison.
    """

    def __init__(self, folder: Path, to_weft: bool = True) -> None:
        self.folder = folder
        self.to_weft = to_weft
        self.modules: dict[str, types.ModuleType] = {}
        self.builtins = dict(vars(builtins))
        self.builtins["__import__"] = self.import_name
        self.builtins[MARK] = to_weft

    def run(self, path: Path, name: str = "__main__") -> dict[str, Any]:
        """Execute a file and return its global names."""
        module = types.ModuleType(name)
        module.__file__ = str(path)
        module.__dict__["__builtins__"] = self.builtins
        before = sys.modules.get(name)
        sys.modules[name] = module  # (pickle looks for the script's classes there)
        try:
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
        finally:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
        return module.__dict__

    def forget(self) -> None:
        """Remove the program's modules from `sys.modules`."""
        for name, module in self.modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    def import_name(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Implement ``__import__`` for the program's modules."""
        if self.to_weft and level == 0 and (name == "numpy" or name.startswith("numpy.")):
            found = script_module(name)
            for item in fromlist or ():
                if not hasattr(found, item):  # ``from numpy.lib import recfunctions``
                    with contextlib.suppress(ModuleNotFoundError):
                        importlib.import_module(f"{name}.{item}")
            return found if fromlist else script_module("numpy")
        if level == 0:
            wanted, first = name, name.partition(".")[0]
        else:
            package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "")
            parts = package.split(".")[: len(package.split(".")) - level + 1]
            wanted = first = ".".join([*parts, name] if name else parts)
        own = self.own_module(wanted)
        if own is None:
            return builtins.__import__(name, globals, locals, fromlist, level)
        if not fromlist and level == 0:
            return self.own_module(first)
        for item in fromlist or ():
            if item != "*" and not hasattr(own, item):
                self.own_module(f"{wanted}.{item}")
        return own

    def own_module(self, name: str) -> types.ModuleType | None:
        """Return a module of the program's folder, loaded once, or None if there is none."""
        if name in self.modules:
            return self.modules[name]
        place = self.folder.joinpath(*name.split("."))
        package = place / "__init__.py"
        path = package if package.exists() else place.with_suffix(".py")
        if not path.exists():
            return None
        parent, _, last = name.rpartition(".")
        above = self.own_module(parent) if parent else None
        if name in self.modules:  # (the package has imported it)
            return self.modules[name]
        loader = SourceFileLoader(name, str(path))
        places = [str(place)] if path == package else None
        spec = spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)
        assert spec is not None
        module = module_from_spec(spec)
        module.__dict__["__builtins__"] = self.builtins
        self.modules[name] = module
        sys.modules.setdefault(name, module)  # (an installed module of that name stays what others import)
        try:
            exec(loader.get_code(name), module.__dict__)  # type: ignore[arg-type]
        except BaseException:
            del self.modules[name]
            if sys.modules.get(name) is module:
                del sys.modules[name]
            raise
        if above is not None:
            setattr(above, last, module)
        return module
