"""Compilation of patterns in `match` statements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language.compiler import FunctionFrame
from weft.dsl.kernel.language.expressions import evaluate
from weft.dsl.kernel.language.known import known
from weft.dsl.kernel.language.members import attribute, is_instance
from weft.dsl.kernel.language.value_operators import compare
from weft.dsl.kernel.language.values import Constant, TupleValue
from weft.runtime import counted

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
            return c.truth(compare(frame, pattern, ast.Is(), subject, Constant(value)))
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
    if not isinstance(subject, TupleValue) or not issubclass(subject.maker or tuple, tuple):
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
    held = known(frame.compiler, evaluate(frame, maker), "the class of a pattern")
    if not is_instance(frame.compiler, subject, held):
        return False
    pairs = _class_pairs(frame, held, parts, named, subject)
    return _combine_tests(frame, "bitwise_and", [partial(test, frame, p, v) for p, v in pairs], False)


def _class_pairs(
    frame: FunctionFrame, held: Any, parts: list[ast.pattern], named: list[tuple[str, ast.pattern]], subject: Any
) -> list[tuple[ast.pattern, Any]]:
    """Return the patterns inside a class pattern, with the values that they are matched with."""
    c = frame.compiler
    own = held in (bool, float, int, str, tuple)  # (one pattern in brackets is for the subject itself)
    positions = getattr(held, "__match_args__", ())
    if len(parts) > (1 if own else len(positions)):
        c.fail(f"{held.__name__}() accepts {counted(1 if own else len(positions), 'positional pattern')} here")
    pairs = [(parts[0], subject)] if own and parts else []
    if not own:
        pairs = [(p, attribute(c, subject, n)) for n, p in zip(positions, parts, strict=False)]
    return pairs + [(p, attribute(c, subject, n)) for n, p in named]


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
        case ast.MatchClass(cls=maker, patterns=parts, kwd_attrs=names, kwd_patterns=values):
            held = known(frame.compiler, evaluate(frame, maker), "the class of a pattern")
            for part, value in _class_pairs(frame, held, parts, list(zip(names, values, strict=True)), subject):
                bind_pattern(frame, part, value)
        case ast.MatchOr(patterns=options) if any(
            isinstance(n, ast.MatchAs | ast.MatchStar) for n in ast.walk(pattern)
        ):
            for option in reversed(options):  # the first option that matches is assigned last
                truth = test(frame, option, subject)
                if isinstance(truth, bool):
                    if truth:
                        bind_pattern(frame, option, subject)
                    continue
                with frame.compiler.builder.if_(truth):
                    bind_pattern(frame, option, subject)


def _bind_star(frame: FunctionFrame, parts: list[ast.pattern], subject: TupleValue) -> None:
    for k, part in enumerate(parts):
        if isinstance(part, ast.MatchStar) and part.name is not None:
            after = len(parts) - k - 1
            variable = frame.variable(id(part), part.name)
            if variable is not None:
                frame.compiler.assign(variable, TupleValue(subject.items[k : len(subject.items) - after]))
