"""Recursive functions, which are compiled separately instead of inlined.

Invariant: the kind of a function's result is determined over several compilation runs. Until it is known, statements
that depend on it are omitted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language import extents
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.source import source_of
from weft.dsl.kernel.language.ssa_webs import own_nodes
from weft.dsl.kernel.language.statements import enter, lower_body
from weft.dsl.kernel.language.values import (
    BOOL,
    ArrayValue,
    Closure,
    Constant,
    DateValue,
    OptionalValue,
    ScalarValue,
    TupleValue,
    describe,
    kind_of,
)
from weft.dsl.kernel.language.variables import Restart, Unresolved, Variable, slot_dtypes


@dataclass(slots=True)
class Recursive:
    """A recursive function for certain argument types."""

    name: str
    result: Variable
    run: int = -1
    tried: int = 0
    declared: Any = None  # the result's kind at the start of the function in this run
    # Hidden arguments: functions that return them in a caller, and their values in the function.
    hidden: dict[object, Callable[[], Any]] = field(default_factory=dict)
    values: dict[object, Any] = field(default_factory=dict)
    ends: bool = False  # whether the function can end the thread; it then has a bool as its last result
    ended: Any = None  # pointer to this bool
    path: tuple[Any, ...] = ()  # the path of the function's frame

    def contains(self, frame: FunctionFrame) -> bool:
        """Return whether a frame is that of this function, or of a call that is inlined in it."""
        return frame.path[: len(self.path)] == self.path


def call_recursive(call: Invocation, function: Any, key: object, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Compile a call to a recursive function."""
    c = call.c
    if keywords:
        c.fail("a function that calls itself is called without keywords")
    flat: list[Any] = []
    shape = tuple(_flatten(c, argument, flat) for argument in arguments)
    entry = c.recursive.get((key, shape))
    if entry is None:
        entry = c.recursive[key, shape] = Recursive(f"{_name(function)}_{len(c.recursive)}", Variable("the result"))
        if _returns_nothing(function):
            entry.result.kind = kind_of(Constant(None))
        # The function was being inlined when it called itself.
        raise Restart
    if entry.run != c.run:  # the first call with these argument types in this compilation run
        entry.run = c.run
        _define(call, function, entry, arguments, [v.type for v in flat])
    _flatten_hidden(c, entry, flat)
    if entry.declared is None:
        entry.tried += 1
        if entry.tried > 8:
            c.fail(f"{_name(function)} has no return that does not call it again: a recursion without a bound")
        raise Unresolved
    results = list(c.builder.call(entry.name, *flat))
    if entry.ends:
        with c.builder.if_(results.pop()):
            c.end_thread()
    return _rebuild(c, entry.result, results)


def _returns_nothing(function: Any) -> bool:
    """Return whether a function has no `return` with a value."""
    tree = function.source.tree if isinstance(function, Closure) else source_of(function).tree
    returns = (node.value for node in own_nodes(tree) if isinstance(node, ast.Return))
    return isinstance(tree, ast.FunctionDef) and not any(returns)


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None) or function.source.name
    return name if name.isidentifier() else "function"


def _flatten(c: Compiler, value: object, flat: list[Any]) -> Any:
    """Append an argument's IR values to `flat`, and return a description of the argument's type."""
    match value:
        case Value():
            flat.append(value)
            return ("value", value.type)
        case Constant() | ScalarValue():
            number = c.scalar(value)
            flat.append(number.ir)
            return ("number", number.dtype, number.weak)
        case TupleValue(items=items, maker=maker):
            return ("tuple", maker, tuple(_flatten(c, item, flat) for item in items))
        case ArrayValue():
            flat.append(value.pointer)
            c.written.add(value.origin)  # the compiler does not track whether the function writes to the array
            flat.extend(extents.extent_ir(c, e) for e in (*value.shape, *value.strides))
            return ("array", value.dtype, value.ndim, value.space, value.writable)
    c.fail(f"{describe(value)} cannot be passed to a function that calls itself")


def _restore(value: object, values: list[Any]) -> Any:
    """Rebuild an argument from the first values in `values`, and remove them from the list."""
    match value:
        case Value():
            return values.pop(0)
        case Constant() | ScalarValue():
            found = values.pop(0)
            weak = value.weak if isinstance(value, ScalarValue) else not isinstance(value.value, np.generic)
            return ScalarValue(found, weak)
        case TupleValue(items=items, maker=maker, names=names):
            return TupleValue(tuple(_restore(item, values) for item in items), maker, names)
        case ArrayValue():
            pointer = values.pop(0)
            shape = tuple(values.pop(0) for _ in value.shape)
            strides = tuple(values.pop(0) for _ in value.strides)
            return ArrayValue(pointer, value.dtype, shape, strides, value.space, value.writable, value.label)
    raise AssertionError(value)


def _flatten_hidden(c: Compiler, entry: Recursive, flat: list[Any]) -> dict[object, Any]:
    """Return the hidden arguments of a recursive function as a dict. Also append their IR values to `flat`."""
    try:
        hidden = {key: c.visible(key, make) for key, make in entry.hidden.items()}
    except KeyError:  # a variable of another function, which is assigned later
        raise Unresolved from None
    for value in hidden.values():
        _flatten(c, value, flat)
    return hidden


def _define(call: Invocation, function: Any, entry: Recursive, arguments: list[Any], types: list[Any]) -> None:
    c, b = call.c, call.c.builder
    saved = (c.tables, c.exit, c.stack, c.location, c.callee)
    known = entry.declared = entry.result.kind
    flat: list[Any] = []
    hidden = _flatten_hidden(c, entry, flat)
    results = result_types(entry.result) + [BOOL] * entry.ends
    try:
        with b.function(entry.name, [*types, *(v.type for v in flat)], results) as parameters:
            c.tables, c.stack, c.callee = {}, [], entry
            values = list(parameters)
            restored = [_restore(argument, values) for argument in arguments]
            entry.values = {key: _restore(value, values) for key, value in hidden.items()}
            if entry.ends:
                entry.ended = b.local(BOOL)
                b.store(entry.ended, b.constant(0), b.constant(False, BOOL))
            label = c.exit = c.new_label("function")
            with b.scope(label):
                inner = enter(call.frame, call.node, function, restored, {})
                inner.label, inner.result, entry.path = label, entry.result, inner.path
                pending, c.pending = c.pending, False
                if lower_body(inner, inner.source.body):
                    if not c.pending:  # (no statement was omitted, such as a `return`)
                        c.assign(entry.result, Constant(None))
                    elif entry.result.kind is None:
                        pending = True
                c.pending |= pending
            if entry.result.kind is not None:
                ended = [b.load(entry.ended, b.constant(0))] if entry.ends else []
                b.yield_(*result_values(c, entry.result), *ended)
    finally:
        c.tables, c.exit, c.stack, c.location, c.callee = saved
    if entry.result.kind != known:
        raise Restart


def result_types(result: Variable) -> list[np.dtype]:
    """Return the IR types that represent a recursive function's result, or [] if the result is a compile-time constant."""
    return [*slot_dtypes(result.kind), *(dtype for part in result.parts for dtype in result_types(part))]


def result_values(c: Compiler, result: Variable) -> list[Any]:
    """Return the IR values of a recursive function's result."""

    def flat(item: object) -> list[Any]:
        match item:
            case TupleValue(items=items):
                return [v for part in items for v in flat(part)]
            case Constant() | None:
                return []
            case DateValue(number=number):
                return [number.ir]
            case OptionalValue(present=present, value=held):
                return [present, *flat(held)]
        return [c.scalar(item).ir]

    return flat(c.load(result))


def _rebuild(c: Compiler, result: Variable, results: list[Any]) -> Any:
    """Create the object that stands for the result of a recursive call, from IR values that are popped from the front of `results`."""
    own = [results.pop(0) for _ in slot_dtypes(result.kind)]
    return c.assembled(result, own, lambda part: _rebuild(c, part, results))
