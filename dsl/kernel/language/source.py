"""Syntax trees of Python functions, and the source locations of their nodes.

In: a function, which may be a lambda, nested, or defined in a notebook. Out: a `Source`. A function without
source text, such as one made by `exec`, is decompiled from its byte code. Invariant: line and column numbers are those
of the user's file.
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
from tokenize import TokenError
from types import CodeType, FunctionType
from typing import Any

from weft.dsl.kernel.language.byte_code.instructions import Unreadable
from weft.dsl.kernel.language.byte_code.reader import equals, read_function
from weft.dsl.kernel.language.kernel_errors import KernelSyntaxError, SourceLocation
from weft.dsl.kernel.language.ssa_webs import Webs, find_webs

Tree = ast.FunctionDef | ast.Lambda


@dataclass(slots=True, eq=False)
class Source:
    """The source of a function: its syntax tree, its file and its variables."""

    tree: Tree
    file: str
    name: str
    webs: Webs
    shift: int = 0  # columns removed by dedenting

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of the function; for a lambda, a `return` statement."""
        if isinstance(self.tree, ast.FunctionDef):
            return self.tree.body
        return [ast.copy_location(ast.Return(self.tree.body), self.tree.body)]

    def location(self, node: ast.AST) -> SourceLocation:
        """Return the source location of a node."""
        line = getattr(node, "lineno", self.tree.lineno)
        text = linecache.getline(self.file, line).rstrip("\n")

        def column(offset: int) -> int:  # (`ast` counts bytes)
            return len(text.encode()[: offset + self.shift].decode(errors="ignore")) if text else offset

        start = column(getattr(node, "col_offset", 0))
        end = getattr(node, "end_col_offset", None)
        if end is None or getattr(node, "end_lineno", line) != line:
            return SourceLocation(self.file, line, start, max(len(text), start + 1), text)
        return SourceLocation(self.file, line, start, column(end), text)

    def inner(self, tree: Tree) -> Source:
        """Return the source of a nested function, given its syntax tree."""
        name = tree.name if isinstance(tree, ast.FunctionDef) else "<lambda>"
        return Source(tree, self.file, name, find_webs(tree), self.shift)


def source_of(function: FunctionType) -> Source:
    """Return the source of a function, which is decompiled if there is no source text.

    Raises KernelSyntaxError if the function is an `async` function, or has no source text and cannot be decompiled.
    """
    linecache.lazycache(function.__code__.co_filename, function.__globals__)
    return _source(function.__code__, function.__code__.co_filename)


@lru_cache(maxsize=1024)  # (code objects of different files can be equal)
def _source(code: CodeType, file: str) -> Source:
    first = code.co_firstlineno
    # Do not use inspect.getsourcelines, which resolves the file of every loaded module.
    linecache.checkcache(file)
    if file == "<string>" and file not in linecache.cache and sys.argv[:1] == ["-c"]:
        text = sys.orig_argv[sys.orig_argv.index("-c") + 1]  # a program passed on the command line
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    try:
        lines = inspect.getblock(linecache.getlines(file)[first - 1 :])
    except (SyntaxError, TokenError):  # the file has changed
        return _without_text(code)
    if not lines:
        return _without_text(code)
    if code.co_name == "<lambda>":
        return _lambda_source(code)
    text = textwrap.dedent("".join(lines))
    shift = len(lines[0]) - len(lines[0].lstrip())
    try:
        module = ast.parse(text)
    except SyntaxError:
        return _without_text(code)
    tree = module.body[0]
    ast.increment_lineno(module, first - 1)
    if isinstance(tree, ast.AsyncFunctionDef):
        location = SourceLocation(
            file, tree.lineno, shift, shift + 9, linecache.getline(file, tree.lineno).rstrip("\n")
        )
        raise KernelSyntaxError("a kernel is no coroutine: leave `async` out", location)
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        return _without_text(code)
    if file == "<string>" and not equals(tree, code):
        return _without_text(code)  # created by `exec`, in a program given on the command line
    return Source(tree, file, tree.name, find_webs(tree), shift)


def _without_text(code: CodeType) -> Source:
    """Decompile a function that has no source text, and return its source."""
    try:
        tree = read_function(code)
    except Unreadable as error:
        line = error.line or code.co_firstlineno
        message = f"{code.co_name} has no source text, and {error.message}: write it in a file or a notebook cell"
        raise KernelSyntaxError(message, SourceLocation(code.co_filename, line, 0, 1, "")) from None
    return Source(tree, code.co_filename, code.co_name, find_webs(tree))


def _lambda_source(code: CodeType) -> Source:
    """Return the source of a lambda, which is identified by its line and its byte code."""
    try:
        module = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:  # the file has changed
        return _without_text(code)
    lambdas = [n for n in ast.walk(module) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    tree = next((n for n in lambdas if equals(n, code)), None)
    if tree is None:
        return _without_text(code)
    return Source(tree, code.co_filename, "<lambda>", find_webs(tree))


def outer_value(function: FunctionType, name: str) -> Any:
    """Return the value of a nonlocal, global or built-in name, or raise KeyError if it has none."""
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
