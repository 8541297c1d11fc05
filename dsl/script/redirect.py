"""Redirection of a program's imports of NumPy to weft's namespace.

The program is `__main__` and the modules in its folder. All other modules keep NumPy, and `numpy` in `sys.modules` is
unchanged. Python's own machinery finds and loads modules, but some functions are replaced: `builtins.__import__`, the
method that loads extension modules, `builtins.__build_class__` for ``__array__`` methods (`array_protocol`), and a
function of `multiprocessing.spawn`.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from opcode import opmap
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays import array
from weft.dsl.immediate import callers
from weft.dsl.import_hooks import when_imported
from weft.dsl.script import array_protocol, script_function, script_namespace
from weft.dsl.script.namespace_reads import reads_namespace
from weft.dsl.tracebacks import is_hidden

if TYPE_CHECKING:
    from pathlib import Path

_IMPORT_NAME, _EXTENDED_ARG = opmap["IMPORT_NAME"], opmap["EXTENDED_ARG"]
_INSTALLED = {"site-packages", "dist-packages"}

_import = builtins.__import__
_folders: set[str] = set()
_known: dict[str, bool] = {}  # whether a file belongs to the program, by file name
_LOADED = "__weft_loaded__"  # a global name in modules that `isolated` loaded, whose functions stay redirected


def redirect(*folders: str) -> None:
    """Redirect NumPy imports in `__main__` and in modules of the given folders.

    Imports in installed packages inside these folders are not redirected. Child processes of `multiprocessing` redirect
    the same imports.
    """
    _folders.update(os.path.join(folder, "") for folder in folders)
    _known.clear()
    _others.clear()
    callers.set_program_test(is_program if _folders else None)
    if builtins.__import__ is not _hook:
        builtins.__import__ = _hook
        script_namespace.is_program = is_program
        array_protocol.install()
        array.show_class(_getters[-1])
        when_imported("multiprocessing.spawn", _redirect_children)
        ExtensionFileLoader.exec_module = _load_extension  # type: ignore[method-assign, assignment]


def _seen_class(value: object, depth: int = 1) -> type:
    """Return what `value.__class__` gives for an `Array`:

    `numpy.ndarray` if the caller is a library, and the real type otherwise.

    Libraries use this class to decide how to process an argument. A library that needs a real NumPy array then converts
    the argument with `numpy.asarray`.
    """
    if _folders:
        return np.ndarray if callers.is_library(depth + 1) else type(value)
    frame: types.FrameType | None = sys._getframe(depth)
    assert frame is not None
    if frame.f_globals.get("__name__", "").startswith("weft.") or is_program(frame):
        return type(value)
    while frame is not None and _LOADED not in frame.f_globals:
        frame = frame.f_back
    return type(value) if frame is None else np.ndarray


def is_program(frame: types.FrameType | None) -> bool:
    """Return whether a stack frame executes code of the program that runs on weft."""
    main = getattr(sys.modules.get("__main__"), "__dict__", None)  # (runpy removes it temporarily)
    while frame is not None and frame.f_globals is not main and "__file__" not in frame.f_globals:
        frame = frame.f_back  # ``exec(code, {})``
    if frame is None:
        return False
    names = frame.f_globals
    return _LOADED in names or (bool(_folders) and (names is main or _is_own(names["__file__"])))


def _is_own(file: str | None) -> bool:
    if file is None:
        return False
    if file not in _known:
        path = file if os.path.isabs(file) and ".." not in file else os.path.abspath(file)
        own = any(
            path.startswith(folder) and _INSTALLED.isdisjoint(path[len(folder) :].split(os.sep)) for folder in _folders
        )
        _known[file] = own and not is_hidden(path)
    return _known[file]


_load = ExtensionFileLoader.exec_module


def _load_extension(loader: ExtensionFileLoader, module: types.ModuleType) -> None:
    """Load an extension module. If the module imports NumPy, the import hook sees this function as the caller, and does not redirect the import.

    The functions of a module that belongs to the program are wrapped, because they may require NumPy arrays or write to
    their arguments.
    """
    _load(loader, module)
    if _is_own(loader.path):
        importlib.import_module("weft.dsl.registrations").register_functions(module)


class _Import:
    """Replacement for `builtins.__import__`.

    A property returns the function that the interpreter then calls. Only imports of NumPy, and the program's own calls of
    ``__import__``, leave a frame in tracebacks.
    """

    @property
    def __call__(self) -> Any:
        frame = sys._getframe(1)
        names = frame.f_globals
        if id(names) in _others:
            return _import
        if is_program(frame):
            # (reading a frame's byte code copies it)
            return _import_numpy if _imported(frame).startswith("numpy") else _import
        if "__file__" in names:
            if len(_others) >= callers.SLOTS:
                _others.clear()
            _others[id(names)] = names
        return _import


# The global names of modules that do not belong to the program, by address.
_others: dict[int, dict[str, Any]] = {}
_hook: Any = _Import()
# The getters of `Array.__class__`: the Python function and, once it is installed, native code.
_getters: list[Any] = [_seen_class]


def install_native(native: types.ModuleType) -> None:
    """Compile a native getter for the property `Array.__class__`. It replaces the Python getter."""
    _getters.append(native.native_class(_seen_class))
    if builtins.__import__ is _hook:
        array.show_class(_getters[-1])


script_function.when_native.append(install_native)


def _imported(frame: types.FrameType) -> str:
    """Return the module name in the import statement that a frame executes. If the frame calls ``__import__`` directly, return "numpy"."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != _IMPORT_NAME:
        return "numpy"
    high = code[at - 1] << 8 if at and code[at - 2] == _EXTENDED_ARG else 0
    return frame.f_code.co_names[high | code[at + 1]]


def _import_numpy(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """Import a module as ``__import__`` does, but use weft's version of NumPy."""
    if level or str(name).partition(".")[0] != "numpy":
        return _import(name, globals, locals, fromlist, level)
    found = script_namespace.script_module(name)
    if reads_namespace(sys._getframe(1).f_code):
        script_namespace.find_all_names()
    for item in fromlist or ():
        if not hasattr(found, item):  # ``from numpy.lib import recfunctions``
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(f"{name}.{item}")
    return found if fromlist else script_namespace.script_module("numpy")


# -- processes that multiprocessing starts ----------------------------------------------------------------


class _InChild:
    """An object that, when unpickled in a child process, redirects NumPy imports there."""

    def __reduce__(self) -> Any:
        return redirect, tuple(_folders)


def _redirect_children(spawn: Any) -> None:
    """Make `multiprocessing.spawn` redirect NumPy imports in the processes that it starts."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = {"weft": _InChild(), **prepare(name)}
        if name == "ignore":  # for the fork server, which must not load `__main__` before it unpickles anything
            data.pop("init_main_from_path", None)
        return data

    spawn.get_preparation_data = get_preparation_data


# -- programs in weft's own process ------------------------------------------------------------------------


@contextlib.contextmanager
def isolated(folder: str | Path, to_weft: bool) -> Iterator[None]:
    """Within a ``with`` block, redirect NumPy imports in `folder` to weft. If `to_weft` is false, redirect no imports.

    At the end, the modules that were imported from `folder` are removed from `sys.modules`, and `__main__`, `sys.path` and
    `sys.argv` are restored.
    """
    folders, modules, main = set(_folders), set(sys.modules), sys.modules["__main__"]
    path, arguments = list(sys.path), sys.argv
    _folders.clear()
    redirect(*([str(folder)] if to_weft else []))
    try:
        yield
    finally:
        prefix = os.path.join(folder, "")
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(prefix):
                removed = sys.modules.pop(name)
                if to_weft:
                    setattr(removed, _LOADED, True)
        sys.modules["__main__"], sys.path[:], sys.argv = main, path, arguments
        _folders.clear()
        redirect(*folders)


def load_program(path: Path, name: str, to_weft: bool = True) -> dict[str, Any]:
    """Execute a Python file on weft or NumPy, and return its global variables.

    The functions of the file continue to use the same library.
    """
    path = path.resolve()
    with isolated(path.parent, to_weft):
        sys.path.insert(0, str(path.parent))
        module = types.ModuleType(name)
        module.__file__ = str(path)
        if to_weft:
            setattr(module, _LOADED, True)
        before = sys.modules.get(name)
        sys.modules[name] = module  # (pickle looks up classes there)
        try:
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
        finally:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
    return module.__dict__
