"""Running somebody's program with weft in NumPy's place.

Inside the program, and the modules next to it, `import numpy` gives weft's namespace; every other module on the
machine keeps its own NumPy. Nothing in `sys.modules` is exchanged for that: the program's code gets builtins whose
`__import__` knows the difference.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import types
from pathlib import Path
from typing import Any

from weft.dsl.script_namespace import MARK, script_module


class Redirected:
    """One program: modules under `folder` see weft as `numpy`.

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
        """Execute a file; its global names afterwards."""
        module = types.ModuleType(name)
        module.__file__ = str(path)
        return self.execute(path, module)

    def execute(self, path: Path, module: types.ModuleType) -> dict[str, Any]:
        """Execute a file as a module."""
        module.__dict__["__builtins__"] = self.builtins
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
        return module.__dict__

    def import_name(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """What the program's import statements call."""
        if self.to_weft and level == 0 and (name == "numpy" or name.startswith("numpy.")):
            found = script_module(name)
            for item in fromlist or ():
                if not hasattr(found, item):  # ``from numpy.lib import recfunctions``
                    with contextlib.suppress(ModuleNotFoundError):
                        importlib.import_module(f"{name}.{item}")
            return found if fromlist else script_module("numpy")
        if level == 0:
            own = self.own_module(name)
            if own is not None:
                return own if fromlist else self.own_module(name.partition(".")[0])
        else:
            package = (globals or {}).get("__package__") or (globals or {}).get("__name__", "")
            parts = package.split(".")[: len(package.split(".")) - level + 1]
            own = self.own_module(".".join([*parts, name] if name else parts))
            if own is not None:
                for item in fromlist or ():
                    if not hasattr(own, item):
                        self.own_module(f"{own.__name__}.{item}")
                return own
        return builtins.__import__(name, globals, locals, fromlist, level)

    def own_module(self, name: str) -> types.ModuleType | None:
        """A module that lies in the program's folder, loaded once; None if there is none."""
        if name in self.modules:
            return self.modules[name]
        place = self.folder.joinpath(*name.split("."))
        package = place / "__init__.py"
        path = package if package.exists() else place.with_suffix(".py")
        if not path.exists():
            return None
        module = types.ModuleType(name)
        module.__file__ = str(path)
        if path == package:
            module.__path__ = [str(place)]
        module.__package__ = name if path == package else name.rpartition(".")[0]
        self.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            above = self.own_module(parent)
            if above is not None:
                setattr(above, last, module)
        try:
            self.execute(path, module)
        except BaseException:
            del self.modules[name]
            raise
        return module
