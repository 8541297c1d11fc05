"""Symbolic execution of straight-line byte code, which builds syntax trees.

In: instructions, and the stack before them. Out: the stack after them and the statements executed. The stack holds
syntax trees. Invariant: each execution creates new nodes, so no node occurs twice in a tree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import partialmethod
from types import CodeType
from typing import Any

from weft.dsl.kernel.language.byte_code.flow_graph import EFFECTS
from weft.dsl.kernel.language.byte_code.instructions import CodeInstruction, Unreadable

_UNARY: dict[str, type[ast.unaryop]] = {
    "negative": ast.USub,
    "positive": ast.UAdd,
    "invert": ast.Invert,
    "not": ast.Not,
}


class Mark(ast.expr):
    """A stack entry that is not an expression, such as an iterator. Complete syntax trees contain no such entry."""


class Null(Mark):
    """The stack entry for the null that the interpreter pushes before it calls a function."""


class LoopIterator(Mark):
    """The stack entry for the iterator of a `for` loop or generator expression."""

    def __init__(self, iterable: ast.expr) -> None:
        super().__init__()
        self.iterable = iterable


class LoopItem(Mark):
    """The stack entry for an item of an iterator, to be assigned to a loop's target."""

    target: ast.expr | None = None


class UnpackedItem(Mark):
    """The stack entry for one item of a value that is being unpacked."""

    def __init__(self, whole: ast.expr, targets: list[Any], index: int) -> None:
        super().__init__()
        self.whole, self.targets, self.index = whole, targets, index


class Definition(Mark):
    """The stack entry for a function definition, with its code object and its default values.

    `parts` maps MAKE_FUNCTION flags to defaults, annotations and closure.
    """

    def __init__(self, code: CodeType, parts: dict[int, ast.expr]) -> None:
        super().__init__()
        self.code, self.parts = code, parts


class Underflow(Unreadable):
    """Raised if instructions pop more values than were pushed."""

    def __init__(self) -> None:
        super().__init__("an expression that jumps in this way is not read", None)


def constant(value: Any) -> ast.expr:
    """Return the syntax tree of a constant."""
    match value:
        case tuple():
            return ast.Tuple([constant(v) for v in value], ast.Load())
        case frozenset():
            return ast.Set([constant(v) for v in sorted(value, key=repr)])
        case slice():
            return _slice([constant(v) for v in (value.start, value.stop, value.step)])
    return ast.Constant(value)


def _slice(parts: Iterable[ast.expr]) -> ast.Slice:
    return ast.Slice(*map(_slice_part, parts))


def _slice_part(part: ast.expr) -> ast.expr | None:
    """Return the syntax tree of a slice bound, or None for an omitted bound.

    A negative number becomes a positive number with a unary minus. Python 3.14 uses different instructions for a slice
    of three constants and for a slice that contains a minus.
    """
    match part:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=int(number)) if number < 0:
            return ast.copy_location(ast.UnaryOp(ast.USub(), ast.copy_location(ast.Constant(-number), part)), part)
    return part


def invert(test: ast.expr) -> ast.expr:
    """Return the syntax tree of the negation of a condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def is_pure(body: list[CodeInstruction], make: Callable[[Definition, list[ast.expr]], ast.expr]) -> bool:
    """Return whether a sequence of instructions has no effect except to push one value on the stack."""
    run = ExpressionStack([], make)
    try:
        run.execute(body)
    except Underflow:
        return False
    return len(run.stack) == 1 and not run.statements and not run.parallel


def operator_of(symbol: str) -> Any:
    """Return the AST node of a binary operator or a comparison operator, such as ``+`` or ``not in``."""
    found: Any = ast.parse(f"x {symbol} y", mode="eval").body
    return found.op if isinstance(found, ast.BinOp) else found.ops[0]


def set_location(node: Any, where: Any) -> Any:
    """Set the source location of a syntax tree, if it is known, and return the tree."""
    if where is not None and where.lineno is not None:
        node.lineno, node.end_lineno = where.lineno, where.end_lineno
        node.col_offset, node.end_col_offset = where.col_offset or 0, where.end_col_offset or 0
    return node


# Instructions that push a node: functions of the instruction's argument and its operands.
_NODES: dict[str, Callable[..., ast.expr]] = {
    "null": lambda _: Null(),
    **dict.fromkeys(("load", "load_global"), lambda name: ast.Name(name, ast.Load())),
    "constant": constant,
    "attribute": lambda name, owner: ast.Attribute(owner, name, ast.Load()),
    "subscript": lambda _, owner, index: ast.Subscript(owner, index, ast.Load()),
    **{name: lambda _, x, op=op: ast.UnaryOp(op(), x) for name, op in _UNARY.items()},
    "compare": lambda symbol, left, right: ast.Compare(left, [operator_of(symbol)], [right]),
    "convert": lambda kind, value: ast.FormattedValue(value, ord("\0sra"[kind]), None),
    "iterator": lambda _, value: LoopIterator(value),
    "yield": lambda _, value: ast.Yield(value),
    "slice": lambda _, *parts: _slice(parts),
    "tuple": lambda _, *items: ast.Tuple([*items], ast.Load()),
    "list": lambda _, *items: ast.List([*items], ast.Load()),
    "set": lambda _, *items: ast.Set([*items]),
    "map": lambda _, *items: ast.Dict([*items[::2]], [*items[1::2]]),
    "key_map": lambda keys, *items: ast.Dict([constant(k) for k in keys], [*items]),
}


class ExpressionStack:
    """An interpreter of straight-line byte code that computes syntax trees instead of values.

    `make` converts a function definition to an expression or statement.
    """

    def __init__(self, stack: list[ast.expr], make: Callable[[Definition, list[ast.expr]], Any]) -> None:
        self.stack = stack
        self.make = make
        self.statements: list[ast.stmt] = []
        self.parallel: list[tuple[ast.expr, ast.expr]] = []
        self.order: dict[int, int] = {}
        self.where: Any = None

    def execute(self, body: list[CodeInstruction]) -> None:
        """Execute instructions symbolically, with syntax trees on the stack. Collect the statements that result."""
        for instruction in body:
            self.where = instruction.where
            name, argument = instruction.name, instruction.argument
            if name in ("copy", "swap", "next"):
                self._rearrange(name, argument)
                continue
            operands = self._take(EFFECTS[name](argument)[0])
            # The methods for the other instructions take the same arguments as the functions in the table.
            made = (_NODES.get(name) or getattr(self, "_" + name))(argument, *operands)
            if made is not None:
                self._push(made)

    # -- the stack --------------------------------------------------------------------------

    def pop(self) -> ast.expr:
        """Remove and return the top of the stack."""
        if not self.stack:
            raise Underflow
        return self.stack.pop()

    def _take(self, count: int) -> list[ast.expr]:
        return [self.pop() for _ in range(count)][::-1]

    def _at(self, node: Any) -> Any:
        return set_location(node, self.where)

    def _push(self, node: ast.expr) -> None:
        self.stack.append(self._at(node))
        self.order[id(node)] = len(self.order)

    def _rearrange(self, name: str, depth: int) -> None:
        if name == "next" or depth > len(self.stack):
            raise Underflow
        if name == "copy":
            self.stack.append(self.stack[-depth])
        else:
            self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]

    def _pop(self, _: Any, value: ast.expr) -> None:
        if isinstance(value, UnpackedItem):
            value.targets[value.index] = False  # (the next item is stored to the same name)
        elif not isinstance(value, LoopIterator):
            self.statements.append(ast.copy_location(ast.Expr(value), value))

    # -- expressions ------------------------------------------------------------------------

    def _assertion(self, _: Any) -> ast.expr:
        name = ast.Name("AssertionError", ast.Load())
        name.assertion = True  # type: ignore[attr-defined]
        return name

    def _binary(self, symbol: str, left: ast.expr, right: ast.expr) -> ast.expr:
        node = ast.BinOp(left, operator_of(symbol.rstrip("=")), right)
        node.in_place = symbol.endswith("=")  # type: ignore[attr-defined]
        return node

    def _chain(
        self, argument: tuple[list[str], list[list[CodeInstruction]]], left: ast.expr, right: ast.expr
    ) -> ast.expr:
        """Return the syntax tree of a chained comparison."""
        symbols, rest = argument
        return ast.Compare(left, [operator_of(s) for s in symbols], [right, *map(self._value, rest)])

    def _value(self, body: list[CodeInstruction]) -> ast.expr:
        inner = ExpressionStack([], self.make)
        inner.execute(body)
        return inner.pop()

    def _boolean(self, operator: type[ast.boolop], body: list[CodeInstruction], first: ast.expr) -> ast.expr:
        second = self._value(body)
        # `(a and b) and c` tests the first two twice, so its byte code differs from that of `a and b and c`.
        flat = isinstance(second, ast.BoolOp) and isinstance(second.op, operator)
        values = [first, *(second.values if flat else [second])]  # type: ignore[attr-defined]
        return ast.copy_location(ast.BoolOp(operator(), values), first)

    _and, _or = partialmethod(_boolean, ast.And), partialmethod(_boolean, ast.Or)

    def _choice(self, bodies: tuple[list[CodeInstruction], list[CodeInstruction]], test: ast.expr) -> ast.expr:
        return ast.IfExp(test, *map(self._value, bodies))

    def _call(self, argument: tuple[int, tuple[str, ...]], first: Any, second: Any, *given: ast.expr) -> ast.expr:
        arguments, names = list(given), argument[1]
        function = second if isinstance(first, Null) else first
        if not isinstance(first, Null) and not isinstance(second, Null):
            if isinstance(first, Definition):
                made: ast.expr = self.make(first, [second])
                return made
            arguments.insert(0, second)  # for `assert` and decorators
        split = len(arguments) - len(names)
        keywords = [self._at(ast.keyword(n, v)) for n, v in zip(names, arguments[split:], strict=True)]
        call = ast.Call(function, arguments[:split], keywords)
        if hasattr(function, "assertion"):
            call.assertion = True  # type: ignore[attr-defined]
        return call

    def _call_star(self, _: Any, first: Any, second: Any, arguments: ast.expr) -> ast.expr:
        function = second if isinstance(first, Null) else first
        starred = isinstance(arguments, ast.Tuple) and any(isinstance(a, ast.Starred) for a in arguments.elts)
        given = arguments.elts if starred else [self._at(ast.Starred(arguments, ast.Load()))]  # type: ignore[attr-defined]
        return ast.Call(function, given, [])

    def _extend(self, _: Any, items: ast.expr) -> None:
        made = self._open_list()
        if isinstance(items, ast.Tuple) and all(isinstance(e, ast.Constant) for e in items.elts) and not made.elts:
            made.elts += items.elts
        else:
            made.elts.append(self._at(ast.Starred(items, ast.Load())))

    def _append(self, _: Any, item: ast.expr) -> None:
        self._open_list().elts.append(item)

    def _open_list(self) -> ast.List:
        if not self.stack or not isinstance(self.stack[-1], ast.List):
            raise Underflow
        return self.stack[-1]

    def _list_to_tuple(self, _: Any, made: ast.expr) -> ast.expr:
        if not isinstance(made, ast.List):
            raise Underflow
        return ast.Tuple(made.elts, ast.Load())

    def _format(self, argument: tuple[int, bool] | None, value: Any, spec: ast.expr | None = None) -> ast.expr:
        conversion = argument[0] if argument else 0
        if spec is not None and not isinstance(spec, ast.JoinedStr):
            spec = ast.JoinedStr([spec])
        if isinstance(value, ast.FormattedValue):  # a conversion such as `!r`
            conversion, value = "\0sra".index(chr(value.conversion)), value.value
        kind = ord("\0sra"[conversion]) if conversion else -1
        return ast.JoinedStr([self._at(ast.FormattedValue(value, kind, spec))])

    def _string(self, _: Any, *parts: ast.expr) -> ast.expr:
        return ast.JoinedStr(
            [v for part in parts for v in (part.values if isinstance(part, ast.JoinedStr) else [part])]
        )

    def _function(self, argument: tuple[CodeType, int], *parts: ast.expr) -> ast.expr:
        code, bits = argument
        return Definition(code, dict(zip((bit for bit in (1, 2, 4, 8) if bits & bit), parts, strict=True)))

    def _function_attribute(self, bit: int, value: ast.expr, function: ast.expr) -> ast.expr:
        if isinstance(function, Definition):
            function.parts[bit] = value
        return function

    # -- statements -------------------------------------------------------------------------

    def _emit(self, statement: ast.stmt) -> None:
        self.statements.append(self._at(statement))

    def _jump(self, _: Any) -> None:
        """Do nothing for a jump, which occurs here only in an empty loop."""

    def _store(self, name: str, value: ast.expr) -> None:
        self._bind(ast.Name(name, ast.Store()), value)

    _store_global = _store

    def _store_attribute(self, name: str, value: ast.expr, owner: ast.expr) -> None:
        self._bind(ast.Attribute(owner, name, ast.Store()), value)

    def _store_subscript(self, _: Any, value: ast.expr, owner: ast.expr, index: ast.expr) -> None:
        self._bind(ast.Subscript(owner, index, ast.Store()), value)

    def _unpack(self, count: int, whole: ast.expr) -> None:
        targets: list[Any] = [None] * count
        for k in reversed(range(count)):
            self._push(UnpackedItem(whole, targets, k))

    def _bind(self, target: Any, value: Any) -> None:
        """Decompile a store of the value `value` to the destination `target`. Both are syntax trees.

        The assignment becomes a statement, a `NamedExpr`, or the target of a loop or of an unpacking.
        """
        self._at(target)
        if any(other is value for other in self.stack):  # `(target := value)`, or the first of several targets
            named = self._at(ast.NamedExpr(target, getattr(value, "root", value)))
            named.chain, named.root = [*getattr(value, "chain", ()), target], named.value
            if hasattr(value, "chain"):
                named.value = value
            self.order[id(named)] = self.order.get(id(value), 0)
            self.stack[:] = [named if other is value else other for other in self.stack]
        elif isinstance(value, LoopItem):
            value.target = target
        elif isinstance(value, UnpackedItem):
            value.targets[value.index] = target
            if all(t is not None for t in value.targets):
                for k, target in reversed(list(enumerate(value.targets))):
                    if target is False:
                        value.targets[k] = self._at(ast.Name(value.targets[k + 1].id, ast.Store()))
                self._bind(ast.Tuple(value.targets, ast.Store()), value.whole)
        elif self.parallel or self._is_pending():
            self.parallel.append((target, value))
            if not self._is_pending():
                self._assign_parallel()
        else:
            self._emit(self._assignment(target, value))

    def _is_pending(self) -> bool:
        """Return whether the stack contains operands of an unfinished expression."""
        return any(not isinstance(v, (LoopIterator, LoopItem, UnpackedItem)) for v in self.stack)

    def _assign_parallel(self) -> None:
        """Emit all pending stores as one tuple assignment, with the values in evaluation order."""
        pairs = sorted(self.parallel, key=lambda pair: self.order.get(id(pair[1]), 0))
        self.parallel = []
        targets, values = zip(*pairs, strict=True)
        self._emit(ast.Assign([ast.Tuple([*targets], ast.Store())], ast.Tuple([*values], ast.Load())))

    def _assignment(self, target: Any, value: Any) -> ast.stmt:
        if getattr(value, "in_place", False) and ast.unparse(target) == ast.unparse(value.left):
            return ast.AugAssign(target, value.op, value.right)
        if hasattr(value, "chain"):
            return ast.Assign([*value.chain, target], value.root)
        decorators: list[ast.expr] = []
        inner = value
        while isinstance(inner, ast.Call) and len(inner.args) == 1 and not inner.keywords:
            decorators.append(inner.func)
            inner = inner.args[0]
        if isinstance(inner, Definition) and isinstance(target, ast.Name) and inner.code.co_name == target.id:
            made: ast.stmt = self.make(inner, decorators)
            return made
        return ast.Assign([target], value)

    def _delete(self, name: str) -> None:
        self._emit(ast.Delete([ast.Name(name, ast.Del())]))

    def _delete_attribute(self, name: str, owner: ast.expr) -> None:
        self._emit(ast.Delete([ast.Attribute(owner, name, ast.Del())]))

    def _delete_subscript(self, _: Any, owner: ast.expr, index: ast.expr) -> None:
        self._emit(ast.Delete([ast.Subscript(owner, index, ast.Del())]))

    def _return(self, _: Any, value: ast.expr) -> None:
        self._emit(ast.Return(None if isinstance(value, ast.Constant) and value.value is None else value))

    def _raise(self, _: int, error: Any = None, cause: ast.expr | None = None) -> None:
        if hasattr(error, "assertion"):
            self._emit(ast.Assert(ast.Constant(False), error.args[0] if isinstance(error, ast.Call) else None))
        else:
            self._emit(ast.Raise(error, cause))
