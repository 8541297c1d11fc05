"""Execution of a program as `__main__`, as the Python interpreter would execute it.

As a script, this file times a program under NumPy. Invariant: the file imports nothing from weft, and few other
modules, because each earlier import would make the program's first run faster.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
import time
import types
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import BuiltinImporter, SourceFileLoader
from typing import Any


class MainProgram:
    """A user's program, as given on the command line.

    Attributes
    ----------
    option : str
        "-m", "-c", "-" (standard input), or "" for a file or folder.
    text : str
        The module's name, the code, or the path.
    arguments : list of str
        ``sys.argv`` at the start of the program.
    """

    def __init__(self, option: str, text: str, arguments: list[str]) -> None:
        self.option, self.text, self.arguments = option, text, arguments

    @staticmethod
    def parse(words: Sequence[str]) -> MainProgram:
        """Parse the program (a path, ``-m MODULE``, ``-c CODE`` or ``-``) and its arguments.

        An empty list means standard input, like ``-``.
        """
        first, *rest = words or ("",)
        if first in ("", "-"):
            return MainProgram("-", "", [first, *rest])
        if first[:2] in ("-m", "-c"):
            text, rest = (first[2:], rest) if first[2:] else ("".join(rest[:1]), rest[1:])
            return MainProgram(first[:2], text, [first[:2], *rest])
        return MainProgram("", first, [first, *rest])

    @property
    def folder(self) -> str:
        """Folder in which the program's own modules are found."""
        path = os.path.realpath(self.text)
        return os.getcwd() if self.option else path if os.path.isdir(path) else os.path.dirname(path)

    @property
    def source(self) -> bytes | None:
        """The program's source text, or None if the program is a module, a folder or standard input."""
        if self.option == "-c":
            return self.text.encode()
        return _read(self.text) if not self.option and os.path.isfile(self.text) else None

    def execute(self) -> dict[str, Any]:
        """Execute the program as `__main__`, and return its global variables."""
        main = types.ModuleType("__main__")
        names = main.__dict__
        sys.modules["__main__"], sys.argv = main, list(self.arguments)
        if "__mp_main__" in sys.modules:  # (multiprocessing keeps the `__main__` that existed when it was imported)
            sys.modules["__mp_main__"] = main
        names["__builtins__"] = builtins
        if sys.version_info < (3, 14):  # (later versions create it on demand)
            names["__annotations__"] = {}
        container = not self.option and _contains_modules(self.text)
        if not sys.flags.safe_path or container:
            path = os.path.abspath(self.text) if container else "" if self.option in ("-c", "-") else self.folder
            sys.path[: not sys.flags.safe_path] = [path]
        if self.option == "-m":
            import_module("runpy")._run_module_as_main(self.text)
        elif container:
            import_module("runpy")._run_module_as_main("__main__", alter_argv=False)
        else:
            exec(self._code(names), names)
        return names

    def _code(self, names: dict[str, Any]) -> types.CodeType:
        file = {"-c": "<string>", "-": "<stdin>"}.get(self.option) or os.path.abspath(self.text)
        names["__loader__"] = BuiltinImporter if self.option else SourceFileLoader("__main__", file)
        if self.option == "-c":
            source: str | bytes = self.text + "\n"
        else:
            names.update(__file__=file, __cached__=None)
            source = sys.stdin.buffer.read() if self.option else _read(file)
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True)
        if self.option == "-c" and sys.version_info >= (3, 13):  # (tracebacks show the source line)
            import linecache

            # Python 3.13.0 finds the lines by the name of the file.
            key = code if hasattr(linecache, "_interactive_cache") else file
            linecache._register_code(key, source, file)  # type: ignore[attr-defined]
        return code


def _contains_modules(path: str) -> bool:
    """Return whether Python can import modules from a path, such as a folder or a ZIP file."""
    for hook in sys.path_hooks:
        with contextlib.suppress(ImportError):
            hook(path)
            return True
    return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def output_is_closed() -> bool:
    """Return whether standard output is a pipe that no process reads any more."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # (a replaced stream has no file, and a closed file has no number)
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def time_alone() -> None:
    """Run a program twice, and print the duration of each run in seconds.

    The fields of the `MainProgram` are read as JSON from standard input. NumPy is imported before the first run, as in
    a process that has imported weft. The second run imports the program's own modules again, like the other runs of
    ``weft run --compare``.
    """
    program = MainProgram(*import_module("json").load(sys.stdin))
    import_module("numpy")
    main, modules, path = sys.modules["__main__"], set(sys.modules), list(sys.path)
    folder = os.path.join(program.folder, "")
    for _ in range(2):
        names: dict[str, Any] = {}
        begin = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            names.update(program.execute())  # (keeps the arrays, so that their release is not timed)
        print(time.perf_counter() - begin)
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
                del sys.modules[name]
        sys.modules["__main__"], sys.path[:] = main, path


if __name__ == "__main__":
    time_alone()
