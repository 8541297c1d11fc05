"""Compilation of patterns in `match` statements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.codegen import Value, dtype_kind
from weft.dsl.kernel.language.compiler import FunctionFrame
from weft.dsl.kernel.language.expressions import evaluate
from weft.dsl.kernel.language.members import attribute
from weft.dsl.kernel.language.value_operators import compare, negate
from weft.dsl.kernel.language.values import Constant, ScalarValue, TupleValue

Truth = bool | Value


def test(frame: FunctionFrame, pattern: ast.pattern, subject: Any) -> Truth:
    """Compile a test of whether `subject` matches `pattern`.

    Return a bool if the result is known at compile time, otherwise a run-time bool.
    """
    c = frame.compiler
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=inner):
            assert inner is not None
            return test(frame, inner, subject)
        case ast.MatchValue(value=value):
            return c.truth(compare(frame, pattern, ast.Eq(), subject, evaluate(frame, value)))
        case ast.MatchSingleton(value=value):
            if isinstance(subject, ScalarValue) and subject.dtype.kind == "b" and isinstance(value, bool):
                return c.truth(subject if value else negate(c, c.truth(subject)))
            return isinstance(subject, Constant) and subject.value is value
        case ast.MatchOr(patterns=options):
            return _combine_tests(frame, "bitwise_or", [partial(test, frame, p, subject) for p in options], True)
        case ast.MatchSequence(patterns=parts):
            return _sequence(frame, parts, subject)
        case ast.MatchClass(cls=maker, patterns=parts, kwd_attrs=names, kwd_patterns=values):
            return _class(frame, maker, parts, list(zip(names, values, strict=True)), subject)
    frame.fail(pattern, "this pattern is not part of the kernel language: use values, tuples, | and names", "syntax")


def _combine_tests(frame: FunctionFrame, name: str, tests: list[Callable[[], Truth]], stop: bool) -> Truth:
    found: Truth = not stop
    for make in tests:
        truth = make()
        if isinstance(truth, bool):
            if truth is stop:
                return stop
            continue
        found = truth if isinstance(found, bool) else frame.compiler.builder.op(name, found, truth, dtype=np.bool_)
    return found


def _sequence(frame: FunctionFrame, parts: list[ast.pattern], subject: Any) -> Truth:
    if not isinstance(subject, TupleValue):
        return False
    pairs = _pairs(parts, subject)
    if pairs is None:
        return False
    return _combine_tests(frame, "bitwise_and", [partial(test, frame, p, v) for p, v in pairs], False)


def _pairs(parts: list[ast.pattern], subject: TupleValue) -> list[tuple[ast.pattern, Any]] | None:
    starred = [k for k, part in enumerate(parts) if isinstance(part, ast.MatchStar)]
    items = subject.items
    if not starred:
        return list(zip(parts, items, strict=True)) if len(parts) == len(items) else None
    k, after = starred[0], len(parts) - starred[0] - 1
    if len(items) < len(parts) - 1:
        return None
    return [*zip(parts[:k], items[:k], strict=True), *zip(parts[k + 1 :], items[len(items) - after :], strict=True)]


def _class(
    frame: FunctionFrame, maker: ast.expr, parts: list[ast.pattern], named: list[tuple[str, ast.pattern]], subject: Any
) -> Truth:
    cls = evaluate(frame, maker)
    held = cls.value if isinstance(cls, Constant) else None
    if isinstance(subject, (ScalarValue, Constant)) and held in (int, float, bool, complex):
        kind = frame.compiler.kind(frame.compiler.number(subject))
        own = (
            kind
            if isinstance(kind, type)
            else {"i": int, "u": int, "f": float, "c": complex, "b": bool}[dtype_kind(kind)]
        )
        return own is held
    if not isinstance(subject, TupleValue) or subject.maker is not held:
        return False
    positions = getattr(held, "__match_args__", ())
    pairs = [(p, subject.items[subject.names.index(n)]) for n, p in zip(positions, parts, strict=False)]
    pairs += [(p, attribute(frame.compiler, subject, n)) for n, p in named]
    return _combine_tests(frame, "bitwise_and", [partial(test, frame, p, v) for p, v in pairs], False)


def bind_pattern(frame: FunctionFrame, pattern: ast.pattern, subject: Any) -> None:
    """Assign the parts of a matching subject to the names in a pattern."""
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            if inner is not None:
                bind_pattern(frame, inner, subject)
            if name is not None:
                variable = frame.variable(id(pattern), name)
                if variable is not None:
                    frame.compiler.assign(variable, subject)
        case ast.MatchSequence(patterns=parts) if isinstance(subject, TupleValue):
            for part, value in _pairs(parts, subject) or ():
                bind_pattern(frame, part, value)
            _bind_star(frame, parts, subject)
        case ast.MatchClass(cls=maker, patterns=parts, kwd_attrs=names, kwd_patterns=values) if isinstance(
            subject, TupleValue
        ):
            held = evaluate(frame, maker).value
            for name, part in zip(getattr(held, "__match_args__", ()), parts, strict=False):
                bind_pattern(frame, part, subject.items[subject.names.index(name)])
            for name, part in zip(names, values, strict=True):
                bind_pattern(frame, part, attribute(frame.compiler, subject, name))


def _bind_star(frame: FunctionFrame, parts: list[ast.pattern], subject: TupleValue) -> None:
    for k, part in enumerate(parts):
        if isinstance(part, ast.MatchStar) and part.name is not None:
            after = len(parts) - k - 1
            variable = frame.variable(id(part), part.name)
            if variable is not None:
                frame.compiler.assign(variable, TupleValue(subject.items[k : len(subject.items) - after]))
