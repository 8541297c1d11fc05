"""Source code of Python functions as syntax trees, with locations.

In: a function, which may be a lambda, nested, or defined in a notebook. Out: a `Source`. Invariant: line and column
numbers are those of the user's file.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from weft.dsl.kernel.language.kernel_errors import KernelSyntaxError, Place
from weft.dsl.kernel.language.webs import Webs, find_webs
from weft.runtime import show_cell

Tree = ast.FunctionDef | ast.Lambda


@dataclass(slots=True, eq=False)
class Source:
    """A function's syntax tree, file and variables."""

    tree: Tree
    file: str
    name: str
    webs: Webs
    shift: int = 0  # columns that dedenting took away

    def place(self, node: ast.AST) -> Place:
        """Return the source location of a node."""
        line = getattr(node, "lineno", self.tree.lineno)
        start = getattr(node, "col_offset", 0) + self.shift
        end = getattr(node, "end_col_offset", None)
        if end is None or getattr(node, "end_lineno", line) != line:
            text = linecache.getline(self.file, line).rstrip("\n")
            return Place(self.file, line, start, max(len(text), start + 1), text)
        return Place(self.file, line, start, end + self.shift, linecache.getline(self.file, line).rstrip("\n"))

    def inner(self, tree: Tree) -> Source:
        """Return the source of a nested function."""
        name = tree.name if isinstance(tree, ast.FunctionDef) else "<lambda>"
        return Source(tree, self.file, name, find_webs(tree), self.shift)


def source_of(function: FunctionType) -> Source:
    """Return the source of a function. Raises KernelSyntaxError if there is none."""
    linecache.lazycache(function.__code__.co_filename, function.__globals__)
    return _source(function.__code__)


@lru_cache(maxsize=1024)
def _source(code: CodeType) -> Source:
    file, first = code.co_filename, code.co_firstlineno
    # not inspect.getsourcelines, which resolves the file of every module that is loaded
    linecache.checkcache(file)
    if file == "<string>" and file not in linecache.cache and sys.argv[:1] == ["-c"]:
        text = sys.orig_argv[sys.orig_argv.index("-c") + 1]  # a program on the command line
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    lines = inspect.getblock(linecache.getlines(file)[first - 1 :])
    if not lines:
        raise _no_source(code)
    if code.co_name == "<lambda>":
        return _lambda_source(code)
    text = textwrap.dedent("".join(lines))
    shift = len(lines[0]) - len(lines[0].lstrip())
    module = ast.parse(text)
    tree = module.body[0]
    ast.increment_lineno(module, first - 1)
    if isinstance(tree, ast.AsyncFunctionDef):
        place = Place(file, tree.lineno, shift, shift + 9, linecache.getline(file, tree.lineno).rstrip("\n"))
        raise KernelSyntaxError("a kernel is no coroutine: leave `async` out", place)
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        raise _no_source(code)  # it was made by `exec`, in a program on the command line
    return Source(tree, file, tree.name, find_webs(tree), shift)


def _no_source(code: CodeType) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"{code.co_name} has no source: kernels are compiled from the text of a function, "
        "so it has to stand in a file or a notebook cell"
    )


def _lambda_source(code: CodeType) -> Source:
    """Return the source of a lambda's code object. Lambdas on one line are told apart by their bytecode."""
    module = ast.parse("".join(linecache.getlines(code.co_filename)))
    found = [n for n in ast.walk(module) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    # instructions that stand for nothing in the source have no width
    columns = [p[2] for p in code.co_positions() if p[0] is not None and p[2] is not None and p[2] != p[3]]
    if columns:
        inside = [n for n in found if n.col_offset <= min(columns) and max(columns) <= (n.end_col_offset or 1 << 30)]
    else:  # (Python 3.12 knows no column of a constant that is returned)
        inside = [n for n in found if isinstance(n.body, ast.Constant) and n.body.value in code.co_consts]
    exact = [n for n in inside if _names(n) == code.co_varnames[: code.co_argcount]]
    if not exact:
        where = show_cell(code.co_filename) or code.co_filename
        raise KernelSyntaxError(f"the lambda in line {code.co_firstlineno} of {where} cannot be found")
    tree = max(exact, key=lambda n: n.col_offset)
    return Source(tree, code.co_filename, "<lambda>", find_webs(tree))


def _names(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args))


def outer_value(function: FunctionType, name: str) -> Any:
    """Return the value of a function's free name: from its closure, module or builtins. Raises KeyError."""
    code = function.__code__
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:
            raise KeyError(name) from None
    if name in function.__globals__:
        return function.__globals__[name]
    return vars(builtins)[name]
