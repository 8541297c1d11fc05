"""Symbolic execution of straight-line byte code, which builds syntax trees.

In: instructions, and the stack before them. Out: the stack after them and the statements executed. The stack holds
syntax trees. Invariant: a run makes new nodes, so no node occurs twice in a tree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any

from weft.dsl.kernel.language.byte_code.instructions import CodeInstruction, Unreadable

_BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "@": ast.MatMult,
    "<<": ast.LShift,
    ">>": ast.RShift,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
}
_UNARY: dict[str, type[ast.unaryop]] = {
    "negative": ast.USub,
    "positive": ast.UAdd,
    "invert": ast.Invert,
    "not": ast.Not,
}
_COMPARE: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}


class Mark(ast.expr):
    """A stack entry that is not an expression, such as an iterator.

    No syntax tree may contain such an entry.
    """


class Null(Mark):
    """The null that the interpreter pushes before it calls a function."""


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
    """A function definition, with its code object and its default values.

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


def _slice(parts: list[ast.expr]) -> ast.Slice:
    return ast.Slice(*map(_slice_part, parts))


def _slice_part(part: ast.expr) -> ast.expr | None:
    """Return a slice bound's syntax tree, with a unary minus for a negative number, or None if omitted.

    Python 3.14 uses different instructions for a slice of three constants and for a slice that contains a minus.
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


# Instructions that push a node: the number of operands, and a function of the instruction's argument and the operands.
_NODES: dict[str, tuple[int, Callable[..., ast.expr]]] = {
    "null": (0, lambda _: Null()),
    **dict.fromkeys(("load", "load_global"), (0, lambda name: ast.Name(name, ast.Load()))),
    "constant": (0, constant),
    "attribute": (1, lambda name, owner: ast.Attribute(owner, name, ast.Load())),
    "subscript": (2, lambda _, owner, index: ast.Subscript(owner, index, ast.Load())),
    **{name: (1, lambda _, x, op=op: ast.UnaryOp(op(), x)) for name, op in _UNARY.items()},
    "compare": (2, lambda operator, left, right: ast.Compare(left, [_COMPARE[operator]()], [right])),
    "convert": (1, lambda kind, value: ast.FormattedValue(value, ord("\0sra"[kind]), None)),
    "iterator": (1, lambda _, value: LoopIterator(value)),
    "yield": (1, lambda _, value: ast.Yield(value)),
}
# Instructions that push a node of as many operands as the instruction's argument says.
_COLLECTIONS: dict[str, Callable[[list[ast.expr]], ast.expr]] = {
    "slice": _slice,
    "tuple": lambda items: ast.Tuple(items, ast.Load()),
    "list": lambda items: ast.List(items, ast.Load()),
    "set": ast.Set,
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
        """Execute instructions, which push syntax trees on the stack."""
        for instruction in body:
            self.where = instruction.where
            name, argument = instruction.name, instruction.argument
            if name in _NODES:
                count, node = _NODES[name]
                self._push(node(argument, *self._take(count)))
            elif name in _COLLECTIONS:
                self._push(_COLLECTIONS[name](self._take(argument)))
            else:
                getattr(self, "_" + name)(argument)

    # -- the stack --------------------------------------------------------------------------

    def pop(self) -> ast.expr:
        """Remove and return the top of the stack."""
        if not self.stack:
            raise Underflow
        return self.stack.pop()

    def _take(self, count: int) -> list[ast.expr]:
        return [self.pop() for _ in range(count)][::-1]

    def _at(self, node: Any) -> Any:
        where = self.where
        if where is not None and where.lineno is not None:
            node.lineno, node.end_lineno = where.lineno, where.end_lineno
            node.col_offset, node.end_col_offset = where.col_offset or 0, where.end_col_offset or 0
        return node

    def _push(self, node: ast.expr) -> None:
        self.stack.append(self._at(node))
        self.order[id(node)] = len(self.order)

    def _copy(self, depth: int) -> None:
        if depth > len(self.stack):
            raise Underflow
        self.stack.append(self.stack[-depth])

    def _swap(self, depth: int) -> None:
        if depth > len(self.stack):
            raise Underflow
        self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]

    def _pop(self, _: Any) -> None:
        value = self.pop()
        if isinstance(value, UnpackedItem):
            value.targets[value.index] = False  # the next item is stored to the same name
        elif not isinstance(value, LoopIterator):
            self.statements.append(ast.copy_location(ast.Expr(value), value))

    # -- expressions ------------------------------------------------------------------------

    def _assertion(self, _: Any) -> None:
        name = ast.Name("AssertionError", ast.Load())
        name.assertion = True  # type: ignore[attr-defined]
        self._push(name)

    def _binary(self, operator: str) -> None:
        left, right = self._take(2)
        node = ast.BinOp(left, _BINARY[operator.rstrip("=")](), right)
        node.in_place = operator.endswith("=")  # type: ignore[attr-defined]
        self._push(node)

    def _chain(self, argument: tuple[list[str], list[list[CodeInstruction]]]) -> None:
        """Replace two operands on the stack by the syntax tree of a chained comparison."""
        operators, rest = argument
        left, right = self._take(2)
        further = [self._value(body) for body in rest]
        self._push(ast.Compare(left, [_COMPARE[o]() for o in operators], [right, *further]))

    def _value(self, body: list[CodeInstruction]) -> ast.expr:
        inner = ExpressionStack([], self.make)
        inner.execute(body)
        return inner.pop()

    def _and(self, body: list[CodeInstruction]) -> None:
        self._boolean(ast.And, self.pop(), self._value(body))

    def _or(self, body: list[CodeInstruction]) -> None:
        self._boolean(ast.Or, self.pop(), self._value(body))

    def _boolean(self, operator: type[ast.boolop], first: ast.expr, second: ast.expr) -> None:
        # `(a and b) and c` tests the first two twice, so its byte code differs from that of `a and b and c`.
        flat = isinstance(second, ast.BoolOp) and isinstance(second.op, operator)
        values = [first, *(second.values if flat else [second])]  # type: ignore[attr-defined]
        self._push(ast.copy_location(ast.BoolOp(operator(), values), first))

    def _choice(self, bodies: tuple[list[CodeInstruction], list[CodeInstruction]]) -> None:
        test = self.pop()
        self._push(ast.IfExp(test, self._value(bodies[0]), self._value(bodies[1])))

    def _call(self, argument: tuple[int, tuple[str, ...]]) -> None:
        count, names = argument
        arguments = self._take(count)
        first, second = self._take(2)
        function = second if isinstance(first, Null) else first
        if not isinstance(first, Null) and not isinstance(second, Null):
            if isinstance(first, Definition):
                self._push(self.make(first, [second]))
                return
            arguments.insert(0, second)  # for `assert` and decorators
        split = len(arguments) - len(names)
        keywords = [self._at(ast.keyword(n, v)) for n, v in zip(names, arguments[split:], strict=True)]
        call = ast.Call(function, arguments[:split], keywords)
        if hasattr(function, "assertion"):
            call.assertion = True  # type: ignore[attr-defined]
        self._push(call)

    def _call_star(self, _: Any) -> None:
        arguments = self.pop()
        first, second = self._take(2)
        function = second if isinstance(first, Null) else first
        starred = isinstance(arguments, ast.Tuple) and any(isinstance(a, ast.Starred) for a in arguments.elts)
        given = arguments.elts if starred else [self._at(ast.Starred(arguments, ast.Load()))]  # type: ignore[attr-defined]
        self._push(ast.Call(function, given, []))

    def _map(self, count: int) -> None:
        items = self._take(2 * count)
        self._push(ast.Dict([*items[::2]], items[1::2]))

    def _key_map(self, keys: tuple[Any, ...]) -> None:
        self._push(ast.Dict([constant(k) for k in keys], self._take(len(keys))))

    def _extend(self, _: Any) -> None:
        items = self.pop()
        made = self._open_list()
        if isinstance(items, ast.Tuple) and all(isinstance(e, ast.Constant) for e in items.elts) and not made.elts:
            made.elts += items.elts
        else:
            made.elts.append(self._at(ast.Starred(items, ast.Load())))

    def _append(self, _: Any) -> None:
        item = self.pop()
        self._open_list().elts.append(item)

    def _open_list(self) -> ast.List:
        if not self.stack or not isinstance(self.stack[-1], ast.List):
            raise Underflow
        return self.stack[-1]

    def _list_to_tuple(self, _: Any) -> None:
        made = self.pop()
        if not isinstance(made, ast.List):
            raise Underflow
        self._push(ast.Tuple(made.elts, ast.Load()))

    def _format(self, argument: tuple[int, bool] | None) -> None:
        conversion, has_spec = argument or (0, False)
        spec = self.pop() if has_spec else None
        value = self.pop()
        if spec is not None and not isinstance(spec, ast.JoinedStr):
            spec = ast.JoinedStr([spec])
        if isinstance(value, ast.FormattedValue):  # a conversion such as `!r`
            conversion, value = "\0sra".index(chr(value.conversion)), value.value
        kind = ord("\0sra"[conversion]) if conversion else -1
        self._push(ast.JoinedStr([self._at(ast.FormattedValue(value, kind, spec))]))

    def _string(self, count: int) -> None:
        parts: list[ast.expr] = []
        for part in self._take(count):
            parts += part.values if isinstance(part, ast.JoinedStr) else [part]
        self._push(ast.JoinedStr(parts))

    def _function(self, argument: tuple[CodeType, int]) -> None:
        code, bits = argument
        parts = {bit: self.pop() for bit in (8, 4, 2, 1) if bits & bit}
        self._define(Definition(code, parts))

    def _function_attribute(self, bit: int) -> None:
        value, function = self._take(2)
        if isinstance(function, Definition):
            function.parts[bit] = value
        self._define(function)

    def _define(self, function: ast.expr) -> None:
        self._push(function)

    # -- statements -------------------------------------------------------------------------

    def _next(self, _: Any) -> None:
        raise Underflow

    def _jump(self, _: Any) -> None:
        """Do nothing for a jump, which occurs here only in an empty loop."""

    def _store(self, name: str) -> None:
        self._bind(self._at(ast.Name(name, ast.Store())))

    def _store_global(self, name: str) -> None:
        self._store(name)

    def _store_attribute(self, name: str) -> None:
        self._bind(self._at(ast.Attribute(self.pop(), name, ast.Store())))

    def _store_subscript(self, _: Any) -> None:
        owner, index = self._take(2)
        self._bind(self._at(ast.Subscript(owner, index, ast.Store())))

    def _unpack(self, count: int) -> None:
        whole = self.pop()
        targets: list[Any] = [None] * count
        for k in reversed(range(count)):
            self._push(UnpackedItem(whole, targets, k))

    def _bind(self, target: Any) -> None:
        """Pop a value and assign it to `target`, a syntax tree."""
        value = self.pop()
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
                self.stack.append(value.whole)
                self._bind(self._at(ast.Tuple(value.targets, ast.Store())))
        elif self.parallel or any(not isinstance(v, (LoopIterator, LoopItem, UnpackedItem)) for v in self.stack):
            self.parallel.append((target, value))
            if not any(not isinstance(v, (LoopIterator, LoopItem, UnpackedItem)) for v in self.stack):
                self._assign_parallel()
        else:
            self.statements.append(self._at(self._assignment(target, value)))

    def _assign_parallel(self) -> None:
        """Emit all pending stores as one tuple assignment, in order."""
        pairs = sorted(self.parallel, key=lambda pair: self.order.get(id(pair[1]), 0))
        self.parallel = []
        target = self._at(ast.Tuple([t for t, _ in pairs], ast.Store()))
        self.statements.append(self._at(ast.Assign([target], self._at(ast.Tuple([v for _, v in pairs], ast.Load())))))

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
        self.statements.append(self._at(ast.Delete([self._at(ast.Name(name, ast.Del()))])))

    def _delete_attribute(self, name: str) -> None:
        self.statements.append(self._at(ast.Delete([self._at(ast.Attribute(self.pop(), name, ast.Del()))])))

    def _delete_subscript(self, _: Any) -> None:
        owner, index = self._take(2)
        self.statements.append(self._at(ast.Delete([self._at(ast.Subscript(owner, index, ast.Del()))])))

    def _return(self, _: Any) -> None:
        value: ast.expr | None = self.pop()
        if isinstance(value, ast.Constant) and value.value is None:
            value = None
        self.statements.append(self._at(ast.Return(value)))

    def _raise(self, count: int) -> None:
        error, cause = [*self._take(count), None, None][:2]
        if hasattr(error, "assertion"):
            message = error.args[0] if isinstance(error, ast.Call) else None
            self.statements.append(self._at(ast.Assert(ast.Constant(False), message)))
        else:
            self.statements.append(self._at(ast.Raise(error, cause)))
