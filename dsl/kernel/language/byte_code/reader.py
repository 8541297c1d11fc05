"""Reconstruction of a function's syntax tree from its byte code.

In: a code object. Out: the tree of a function that compiles to equivalent byte code. Invariant: a tree is returned only if
its compiled code executes the same instructions as the function on every path; otherwise `Unreadable` is raised.
"""

from __future__ import annotations

import ast
import inspect
import sys
from types import CodeType
from typing import Any

from weft.dsl.kernel.language.byte_code.conditions import Conditions
from weft.dsl.kernel.language.byte_code.expression_stack import Definition, LoopIterator, invert
from weft.dsl.kernel.language.byte_code.flow_graph import argument_key, blocks_of, entry_of, equivalent, merge_copies
from weft.dsl.kernel.language.byte_code.instructions import Unreadable, decode
from weft.dsl.kernel.language.byte_code.structure import Structure
from weft.dsl.kernel.language.ssa_webs import parameters_of

Tree = ast.FunctionDef | ast.Lambda


def read_function(code: CodeType) -> Tree:
    """Return a function's syntax tree, or raise Unreadable if its byte code is not supported."""
    try:
        tree = _read(code)
        if equals(tree, code):
            return tree
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"its byte code is not read ({error})", code.co_firstlineno) from error
    raise Unreadable("its byte code is not read with certainty", code.co_firstlineno)


def equals(tree: Tree, code: CodeType) -> bool:
    """Return whether a syntax tree compiles to byte code that is equivalent to `code`."""
    return _same(_compile(tree, code), code)


def _read(code: CodeType) -> Tree:
    """Return a function's syntax tree, without a check that it compiles to the same byte code."""
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise Unreadable("`async def` is not read", code.co_firstlineno)
    instructions = decode(code)
    if code.co_exceptiontable and not code.co_flags & inspect.CO_GENERATOR:
        raise Unreadable("`try` is not read", code.co_firstlineno)
    blocks = blocks_of(instructions, merge_copies(instructions))
    conditions = Conditions(blocks, entry_of(instructions), _make)
    conditions.merge()
    body = Structure(conditions.blocks, conditions.entry, _make).statements()
    stored = {i.argument for i in instructions if i.name in ("store", "delete")}
    outer = sorted(stored & set(code.co_freevars))
    changed = sorted({i.argument for i in instructions if i.name == "store_global"})
    body = [*([ast.Nonlocal(outer)] if outer else []), *([ast.Global(changed)] if changed else []), *body]
    tree = _function(code.co_name, _arguments(code), body or [ast.Pass()])
    tree.lineno = tree.end_lineno = code.co_firstlineno
    tree.col_offset = tree.end_col_offset = 0
    tree = _Lambdas().visit(ast.fix_missing_locations(tree))
    if code.co_name != "<lambda>":
        return tree
    return ast.copy_location(ast.Lambda(tree.args, _expression(tree.body, tree.lineno)), tree)


def _make(definition: Definition, others: list[ast.expr]) -> Any:
    """Return the syntax tree of a function definition, a lambda or a generator expression.

    `others` are the decorators, or the iterable of a generator expression.
    """
    if definition.code.co_name == "<genexpr>":
        iterable = others[0].iterable if isinstance(others[0], LoopIterator) else others[0]
        return _generator(_read(definition.code), iterable)
    tree = _inner(definition)
    if isinstance(tree, ast.FunctionDef):
        tree.decorator_list = others
    return tree


def _inner(definition: Definition) -> Tree:
    """Return the syntax tree of a nested function, including its defaults and annotations."""
    tree = _read(definition.code)
    for bit, value in definition.parts.items():
        if bit == 1 and isinstance(value, ast.Tuple):
            tree.args.defaults = value.elts
        elif bit == 2 and isinstance(value, ast.Dict):
            given = dict(zip((_value(k) for k in value.keys), value.values, strict=True))
            tree.args.kw_defaults = [given.get(a.arg) for a in tree.args.kwonlyargs]
        elif bit == 4 and isinstance(value, ast.Tuple) and isinstance(tree, ast.FunctionDef):
            _annotate(tree, dict(zip((_value(k) for k in value.elts[::2]), value.elts[1::2], strict=True)))
        elif bit == 16 and isinstance(value, Definition) and isinstance(tree, ast.FunctionDef):
            # since Python 3.14: a function that returns the annotations
            match _read(value.code).body:
                case [*_, ast.Return(value=ast.Dict() as found)]:
                    _annotate(tree, dict(zip((_value(k) for k in found.keys), found.values, strict=True)))
        elif bit != 8:
            raise Unreadable("the annotations of a nested function are not read", definition.code.co_firstlineno)
    return tree


def _annotate(tree: ast.FunctionDef, found: dict[Any, ast.expr]) -> None:
    """Move annotations from the dict `found` to the parameters and the result of a function's syntax tree.

    `found` maps names of parameters to annotations. The key of the result's annotation is "return".
    """
    tree.returns = found.pop("return", None)
    for argument in parameters_of(tree):
        argument.annotation = found.pop(argument.arg, None)


def _value(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    added: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}
    return ast.FunctionDef(name, arguments, body, [], **added)


def _arguments(code: CodeType) -> ast.arguments:
    names = iter(code.co_varnames)

    def take(count: int) -> list[ast.arg]:
        return [ast.arg(next(names)) for _ in range(count)]

    positional = take(code.co_argcount)
    keyword = take(code.co_kwonlyargcount)
    rest = take(1)[0] if code.co_flags & inspect.CO_VARARGS else None
    rest_keywords = take(1)[0] if code.co_flags & inspect.CO_VARKEYWORDS else None
    first = code.co_posonlyargcount
    return ast.arguments(
        positional[:first], positional[first:], rest, keyword, [None] * len(keyword), rest_keywords, []
    )


def _expression(body: list[ast.stmt], line: int) -> ast.expr:
    """Convert the body of a lambda to an expression. The body has been decompiled to `if` and `return` statements.

    Raises Unreadable if the body contains other statements.
    """
    match body:
        case [ast.Return(value=value)]:
            return ast.copy_location(ast.Constant(None), body[0]) if value is None else value
        case [ast.If(test=test, body=first, orelse=[]), *rest]:
            return ast.copy_location(ast.IfExp(test, _expression(first, line), _expression(rest, line)), body[0])
        case [ast.Pass()] | []:
            return ast.Constant(None, lineno=line, col_offset=0)
    raise Unreadable("a lambda of several statements is not read", line)


class _Lambdas(ast.NodeTransformer):
    """A transformer that builds lambda expressions. In decompiled code, each lambda is at first a `Definition` node with the lambda's byte code."""

    def visit_Definition(self, node: Definition) -> ast.AST:
        tree = _inner(node)
        if not isinstance(tree, ast.Lambda):
            raise Unreadable(f"the function {node.code.co_name} inside an expression is not read", node.lineno)
        return ast.copy_location(self.generic_visit(tree), node)  # (its defaults may define functions, too)


def _generator(tree: Tree, iterable: ast.expr) -> ast.GeneratorExp:
    """Return the generator expression from which CPython compiled a function."""
    clauses: list[ast.comprehension] = []
    assert isinstance(tree, ast.FunctionDef)
    body = [s for s in tree.body if not isinstance(s, ast.Nonlocal)]  # for `:=`
    while True:
        match body:
            case [ast.For(target=target, iter=source, body=inner, orelse=[])]:
                clauses.append(ast.comprehension(target, source if clauses else iterable, [], 0))
                body = inner
            case [ast.If(test=test, body=inner, orelse=[])] if clauses:
                clauses[-1].ifs.append(test)
                body = inner
            case [ast.If(test=test, body=[ast.Continue()], orelse=[]), *rest] if clauses:
                clauses[-1].ifs.append(invert(test))
                body = rest
            case [ast.Expr(value=ast.Yield(value=value))] if clauses and value is not None:
                return ast.GeneratorExp(value, clauses)
            case _:
                raise Unreadable("this generator expression is not read", tree.lineno)


# -- verification ------------------------------------------------------------------------------------


def _compile(tree: Tree, code: CodeType) -> CodeType:
    """Compile the syntax tree of a function, and return the code object of the function.

    The function is compiled inside another function that binds its free variables.
    """
    body: list[ast.stmt]
    if isinstance(tree, ast.Lambda):
        body = [ast.Return(tree)]
    elif tree.name in code.co_freevars:
        body = [tree]
    else:
        body = [ast.Global([tree.name]), tree]
    free = ast.arguments([], [ast.arg(n) for n in code.co_freevars], None, [], [], None, [])
    # The compiler emits other calls for functions of imported modules than for methods.
    imports = [ast.Import([ast.alias(name)]) for name in sorted(_modules(code))]
    module = ast.fix_missing_locations(ast.Module([*imports, _function("outer", free, body)], []))
    made = compile(module, code.co_filename, "exec", dont_inherit=True)
    inside = next(c for c in made.co_consts if isinstance(c, CodeType))
    *_, found = (c for c in inside.co_consts if isinstance(c, CodeType) and c.co_name == code.co_name)
    return found  # the code of its defaults precedes it


def _modules(code: CodeType) -> set[str]:
    """Return the names of global variables that `code` uses like modules, such as `math` in ``math.sqrt(x)``."""
    rows = decode(code, compared=True)
    found: set[str] = set()
    for first, second, third, fourth in zip(rows, rows[1:], rows[2:], rows[3:], strict=False):
        names = first.name, first.argument, second.name, third.name
        if names == ("null", None, "load_global", "attribute") and fourth.argument != "method":
            found.add(second.argument)
    return found.union(*(_modules(c) for c in code.co_consts if isinstance(c, CodeType)))


def _interface(code: CodeType) -> tuple[Any, ...]:
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    kind = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR)
    return counts, kind, code.co_varnames[:count], sorted(code.co_freevars), sorted(code.co_cellvars)


def _same(first: Any, second: Any) -> bool:
    """Return whether two code objects, or two arguments of instructions, are equivalent.

    Functions are equivalent if they have the same parameters and free variables, and execute the same instructions on
    every path: those of `instructions.decode`, without jumps, `NOP` and the like.
    """
    if isinstance(first, CodeType) and isinstance(second, CodeType):
        return (
            first.co_name == second.co_name
            and _interface(first) == _interface(second)
            and equivalent(decode(first, compared=True), decode(second, compared=True), _same)
        )
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return all(_same(a, b) for a, b in zip(first, second, strict=True))
    return bool(argument_key(first) == argument_key(second))
