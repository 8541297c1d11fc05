"""Compilation of patterns in `match` statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from weft.codegen import Value
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.expressions import evaluate, read_attribute
from weft.dsl.kernel.language.kernel_errors import KernelError
from weft.dsl.kernel.language.known import known
from weft.dsl.kernel.language.members import is_instance
from weft.dsl.kernel.language.types import ScalarType
from weft.dsl.kernel.language.value_operators import compare
from weft.dsl.kernel.language.values import Constant, TupleValue, describe
from weft.runtime import counted

Truth = bool | Value


def test(frame: FunctionFrame, pattern: ast.pattern, subject: Any) -> Truth:
    """Compile a test of whether `subject` matches `pattern`.

    Return a bool if the result is known at compile time, otherwise a run-time bool.
    """
    try:
        return _test(frame, pattern, subject)
    except KernelError as error:
        raise frame.located(error, pattern) from None


def _test(frame: FunctionFrame, pattern: ast.pattern, subject: Any) -> Truth:
    c = frame.compiler
    match pattern:
        case ast.MatchAs(pattern=None) | ast.MatchStar():
            return True
        case ast.MatchAs(pattern=inner):
            assert inner is not None
            return test(frame, inner, subject)
        case ast.MatchValue(value=value):
            return c.truth(compare(frame, pattern, ast.Eq(), subject, evaluate(frame, value)))
        case ast.MatchSingleton(value=value):
            return c.truth(compare(frame, pattern, ast.Is(), subject, Constant(value)))
        case ast.MatchOr(patterns=options):
            return combine_tests(c, "bitwise_or", [partial(test, frame, p, subject) for p in options], True)
        case ast.MatchSequence() | ast.MatchClass():
            pairs = _parts(frame, pattern, subject)
            if pairs is None:
                return False
            return combine_tests(c, "bitwise_and", [partial(test, frame, p, v) for p, v in pairs], False)
    frame.fail(pattern, "this pattern is not part of the kernel language: use values, tuples, | and names", "syntax")


def combine_tests(c: Compiler, name: str, tests: Sequence[Callable[[], Truth]], stop: bool) -> Truth:
    """Combine the results of tests by the op `name`. Omit all tests that follow one whose result is the constant `stop`."""
    found: Truth = not stop
    for make in tests:
        truth = make()
        if isinstance(truth, bool):
            if truth is stop:
                return stop
            continue
        found = truth if isinstance(found, bool) else c.builder.op(name, found, truth)
    return found


def _parts(
    frame: FunctionFrame, pattern: ast.MatchSequence | ast.MatchClass, subject: Any
) -> list[tuple[ast.pattern, Any]] | None:
    """Return pairs of a subpattern and the part of `subject` that the subpattern has to match.

    Return None if `subject` cannot match, because it has another class or length.
    """
    if isinstance(pattern, ast.MatchClass):
        held = known(frame.compiler, evaluate(frame, pattern.cls), "the class of a pattern")
        if not isinstance(held, (type, ScalarType)):
            frame.fail(pattern.cls, f"a pattern with brackets begins with a class, not with {describe(Constant(held))}")
        return _members(frame, held, pattern, subject) if is_instance(frame.compiler, subject, held) else None
    if not isinstance(subject, TupleValue) or not issubclass(subject.maker or tuple, tuple):
        return None
    parts, items = pattern.patterns, list(subject.items)
    starred = [k for k, part in enumerate(parts) if isinstance(part, ast.MatchStar)]
    if starred and len(items) >= len(parts) - 1:
        k, count = starred[0], len(items) - len(parts) + 1
        items[k : k + count] = [TupleValue(tuple(items[k : k + count]))]
    return list(zip(parts, items, strict=True)) if len(parts) == len(items) else None


def _members(frame: FunctionFrame, held: Any, pattern: ast.MatchClass, subject: Any) -> list[tuple[ast.pattern, Any]]:
    c, parts = frame.compiler, pattern.patterns
    own = held in (bool, float, int, str, tuple)  # (a positional pattern matches the subject itself)
    positions = getattr(held, "__match_args__", ())
    if len(parts) > (1 if own else len(positions)):
        c.fail(f"{held.__name__}() accepts {counted(1 if own else len(positions), 'positional pattern')} here")
    named = list(zip(() if own else positions, parts, strict=False))
    named += zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
    pairs = [(parts[0], subject)] if own and parts else []
    return pairs + [(p, read_attribute(frame, pattern, subject, n)) for n, p in named]


def bind_pattern(frame: FunctionFrame, pattern: ast.pattern, subject: Any) -> None:
    """Assign the parts of a matching subject to the names in a pattern."""
    match pattern:
        case ast.MatchAs(name=name) | ast.MatchStar(name=name):
            inner = getattr(pattern, "pattern", None)
            if inner is not None:
                bind_pattern(frame, inner, subject)
            if name is not None:
                frame.assign(pattern, name, subject)
        case ast.MatchSequence() | ast.MatchClass():
            for part, value in _parts(frame, pattern, subject) or ():
                bind_pattern(frame, part, value)
        case ast.MatchOr(patterns=options) if any(
            isinstance(n, ast.MatchAs | ast.MatchStar) for n in ast.walk(pattern)
        ):
            for option in reversed(options):  # the first option that matches is assigned last
                truth = test(frame, option, subject)
                if truth is not False:
                    with nullcontext() if truth is True else frame.compiler.builder.if_(truth):
                        bind_pattern(frame, option, subject)
