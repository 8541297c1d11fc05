"""Compilation of statements of the kernel language, and inlining of functions.

In: a frame and statements of its function. Out: kernel IR. Invariant: unreachable statements are not compiled. If a
condition is known at compile time, only the selected branch is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import BoundArguments, Parameter, Signature
from inspect import signature as signature_of
from typing import Any

from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import patterns
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.expressions import (
    bind,
    closure,
    evaluate,
    lookup,
    named_variable,
    numbers_in,
    read_attribute,
    set_attribute,
    set_item,
    subscript,
    unrolled,
)
from weft.dsl.kernel.language.global_values import wrap
from weft.dsl.kernel.language.iteration import has_tuple, item_of, known_range, length_of, longest
from weft.dsl.kernel.language.kernel_errors import KernelError
from weft.dsl.kernel.language.source import Source, outer_value, source_of
from weft.dsl.kernel.language.ssa_webs import carried_variables, own_nodes
from weft.dsl.kernel.language.value_operators import binary, negate
from weft.dsl.kernel.language.values import (
    ArrayValue,
    Closure,
    Constant,
    ConstantKind,
    Range,
    ScalarValue,
    TextValue,
    TupleValue,
    describe,
)
from weft.dsl.kernel.language.variables import Unresolved
from weft.dsl.kernel.language.waiting import begin_waiting, count_waiting

UNROLL_LIMIT = 1024
DEPTH_LIMIT = 64

_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: ("try/except", "a thread that raises ends; test for what can go wrong with `if`"),
    ast.TryStar: ("try/except*", "test for what can go wrong with `if`"),
    ast.With: ("with", "nothing has to be closed in a kernel"),
    ast.AsyncWith: ("async with", "nothing has to be closed in a kernel"),
    ast.AsyncFor: ("async for", "use for"),
    ast.AsyncFunctionDef: ("async def", "use def"),
    ast.ClassDef: ("a class", "define it outside; named tuples and dataclasses can be made in a kernel"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Global: ("global", "pass an array and write to it"),
}


class LoopStep(ast.Pass):
    """A statement that the compiler adds to a loop. It is compiled by calling `action`, which evaluates `expression`."""

    _fields = ("expression",)
    expression: ast.expr
    action: Callable[[], None]


def lower_body(frame: FunctionFrame, statements: list[ast.stmt]) -> bool:
    """Compile statements, and return whether execution can reach their end."""
    c = frame.compiler
    for statement in statements:
        c.location = frame.source.location(statement)
        if c.lines:
            c.builder.line = statement.lineno
        try:
            going = _statement(frame, statement)
        except Unresolved:
            c.pending = True
            continue
        except KernelError as error:
            raise frame.located(error, statement) from None
        if not going or c.builder.ended:
            return False
    return True


def _statement(frame: FunctionFrame, node: ast.stmt) -> bool:
    handler = _HANDLERS.get(type(node))
    if handler is None:
        name, remedy = _REFUSED.get(type(node), (type(node).__name__.lower(), "write it with simpler statements"))
        frame.fail(node, f"{name} is not part of the kernel language: {remedy}", "syntax")
    return handler(frame, node) is not False


# -- assignments ---------------------------------------------------------------------------------


def _assign(frame: FunctionFrame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        bind(frame, target, value)


def _annotated(frame: FunctionFrame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        bind(frame, node.target, evaluate(frame, node.value))


def _augmented(frame: FunctionFrame, node: ast.AugAssign) -> None:
    """Compile an augmented assignment. The owner and index of the target are evaluated once."""
    c, target = frame.compiler, node.target
    store: Callable[[Any], None] = partial(bind, frame, target)
    match target:
        case ast.Name(id=name):
            read = (id(target), "read") if name in frame.source.webs.names else id(target)
            old = lookup(frame, target, read, name)
        case ast.Subscript(value=owner, slice=key):
            held, index = evaluate(frame, owner), evaluate(frame, key)
            old = subscript(frame, target, held, index)
            store = partial(set_item, frame, held, index, node=target)
        case ast.Attribute(value=owner, attr=name):
            held = evaluate(frame, owner)
            old = read_attribute(frame, target, held, name)
            store = partial(set_attribute, frame, held, owner, name)
    value = evaluate(frame, node.value)
    if isinstance(old, ArrayValue) and old.ndim:
        _whole_array(frame, old, type(node.op), value)
        webs = frame.source.webs.of
        if isinstance(target, ast.Name) and webs.get(id(target)) != webs.get((id(target), "read")):
            store(old)  # (later uses of the name read another variable, which refers to the same array)
    else:
        store(binary(c, type(node.op), old, value))


def _whole_array(frame: FunctionFrame, array: ArrayValue, operator: type[ast.operator], value: object) -> None:
    c = frame.compiler

    def update(index: TupleValue, items: list[Any]) -> None:
        arrays.store(c, array, index, binary(c, operator, arrays.select(c, array, index), items[0]))

    arrays.for_each_element(c, array, [value], update)


# -- control flow --------------------------------------------------------------------------------


def _if(frame: FunctionFrame, node: ast.If) -> bool:
    c = frame.compiler
    truth = c.truth(evaluate(frame, node.test))
    if isinstance(truth, bool):
        return lower_body(frame, node.body if truth else node.orelse)
    with c.builder.if_(truth):
        going = lower_body(frame, node.body)
    if not node.orelse:
        return True
    with c.builder.else_():
        other = lower_body(frame, node.orelse)
    return going or other


@contextmanager
def _loop_scopes(frame: FunctionFrame, node: ast.While | ast.For) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Context manager for the scopes of a loop.

    `break`, `continue` and normal termination of the loop each leave one of the scopes. Yield the label of the scope
    for normal termination, and a function that opens the scope of the loop's body, which `continue` leaves.
    """
    c = frame.compiler
    leave = c.new_label("break")
    done = c.new_label("done") if node.orelse else leave
    with c.builder.scope(leave):
        with c.builder.scope(done) if node.orelse else nullcontext():
            following = c.new_label("continue")
            frame.loops.append((leave, following))
            yield done, lambda: c.builder.scope(following)
            frame.loops.pop()
        if node.orelse:
            lower_body(frame, node.orelse)


def _while(frame: FunctionFrame, node: ast.While) -> bool:
    c = frame.compiler
    turns = begin_waiting(frame, node)
    with _loop_scopes(frame, node) as (done, body):
        with c.builder.repeat():
            truth = c.truth(evaluate(frame, node.test))
            if truth is False:
                c.builder.leave(done)
            else:
                if truth is not True:
                    with c.builder.if_(c.ir(negate(c, truth))):
                        c.builder.leave(done)
                if turns is not None:
                    count_waiting(c, turns)
                with body():
                    lower_body(frame, node.body)
    # `while True` without a break never ends normally.
    return truth is not True or _has_break(node.body)


def _has_break(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        inner = list(getattr(statement, "orelse", []))
        if not isinstance(statement, (ast.For, ast.While)):  # (a `break` in an inner loop leaves that loop)
            inner += getattr(statement, "body", [])
        for case in getattr(statement, "cases", []):
            inner += case.body
        if isinstance(statement, ast.Break) or _has_break(inner):
            return True
    return False


def _for(frame: FunctionFrame, node: ast.For) -> None:
    c = frame.compiler
    items = c.unwrap(evaluate(frame, node.iter))
    if isinstance(items, Range):
        _counted(frame, node, items, lambda k: k)
        return
    count = length_of(c, items)
    limit = longest(c, items)
    if limit is not None and has_tuple(items):
        _unrolled(frame, node, items, limit, None if isinstance(count, Constant) else count)
        return
    _counted(frame, node, Range(Constant(0), count, Constant(1)), lambda k: item_of(c, items, k))


def _counted(frame: FunctionFrame, node: ast.For, turns: Range, item: Callable[[Any], Any]) -> None:
    """Compile a loop with a counter that takes the values of a range. Assignments to the loop variable do not affect it.

    `item` compiles the value of the loop variable, given a value of the counter.
    """
    c = frame.compiler
    known = known_range(turns)
    if known is not None and not known:
        lower_body(frame, node.orelse)
        return
    start, stop, step = c.scalar(turns.start), c.scalar(turns.stop), turns.step
    rising = isinstance(step, Constant) and step.value > 0
    falling = isinstance(step, Constant) and step.value < 0
    upward = rising or (isinstance(step, ScalarValue) and step.nonnegative)
    limit = ScalarValue(stop.ir, True)

    def ended(k: Any) -> Any:
        if upward:
            return c.apply("greater_equal", k, limit)
        if falling:
            return c.apply("less_equal", k, limit)
        negative = c.apply("less", step, Constant(0))
        return c.apply("where", negative, c.apply("less_equal", k, limit), c.apply("greater_equal", k, limit))

    counter = c.variable((*frame.path, "counter", id(node)), "the loop's counter")
    c.assign(counter, ScalarValue(start.ir, True, upward and start.nonnegative))
    with _loop_scopes(frame, node) as (done, body):
        with c.builder.repeat(0 if known is None else len(known)):
            k = c.load(counter)
            with c.builder.if_(c.ir(ended(k))):
                c.builder.leave(done)
            # Increment before the body, because the body may `continue` anywhere.
            c.assign(counter, c.apply("add", k, step))
            bind(frame, node.target, item(k))
            with body():
                lower_body(frame, node.body)


def _own_variables(frame: FunctionFrame, node: ast.For) -> set[int]:
    """Find the variables that each iteration of a loop assigns before it reads them. Return the identifiers (numbers) of these variables.

    Variables that are used outside the loop or by inner functions are not included.
    """
    webs = frame.source.webs
    body = {id(part) for statement in (node.target, *node.body) for part in ast.walk(statement)}
    shared = set(webs.shared.values()) | carried_variables(frame.source.tree, node, webs)
    for key, number in webs.of.items():
        if (key[0] if isinstance(key, tuple) else key) not in body:
            shared.add(number)
    return numbers_in(frame, node) - shared


def _unrolled(frame: FunctionFrame, node: ast.For, items: Any, count: int, actual: ScalarValue | None) -> None:
    """Compile a loop over a tuple by unrolling it, because the items may differ in type.

    The loop has at most `count` iterations. `actual` is the number of iterations if it is known only at run time,
    otherwise None.
    """
    c = frame.compiler
    if count > UNROLL_LIMIT:
        c.fail(f"a tuple of {count} items is too long for a loop: use an array")
    with _loop_scopes(frame, node) as (done, body):
        for k, _item in unrolled(frame, node, _own_variables(frame, node), range(count)):
            if actual is not None:
                with c.builder.if_(c.ir(c.apply("less_equal", actual, Constant(k)))):
                    c.builder.leave(done)
            bind(frame, node.target, item_of(c, items, Constant(k)))
            with body():
                lower_body(frame, node.body)


def _jump(frame: FunctionFrame, node: ast.Break | ast.Continue) -> bool:
    frame.compiler.builder.leave(frame.loops[-1][isinstance(node, ast.Continue)])
    return False


def _return(frame: FunctionFrame, node: ast.Return) -> bool:
    c = frame.compiler
    value: Any = Constant(None) if node.value is None else evaluate(frame, node.value)
    if frame.parent is None and frame.function is None:
        if not (isinstance(value, Constant) and value.value is None):
            frame.fail(node, "a kernel returns nothing: write the result to an array argument")
        c.builder.leave("kernel")
        return False
    if not frame.label:
        frame.returned = value
        return False
    assert frame.result is not None
    c.assign(frame.result, value)
    c.builder.leave(frame.label)
    return False


def _match(frame: FunctionFrame, node: ast.Match) -> bool:
    """Compile a `match` statement, and return whether execution can reach its end."""
    c = frame.compiler
    subject = evaluate(frame, node.subject)
    label = c.new_label("match")
    going = False
    with c.builder.scope(label):
        for case in node.cases:
            truth = patterns.test(frame, case.pattern, subject)
            if truth is False:
                continue
            with nullcontext() if truth is True else c.builder.if_(truth):
                going = _case(frame, case, subject, label) or going
            if c.builder.ended:
                return going
    return True


def _case(frame: FunctionFrame, case: ast.match_case, subject: Any, label: str) -> bool:
    """Compile the bindings, the guard and the body of a `case`, and return whether execution can reach its end."""
    c = frame.compiler
    patterns.bind_pattern(frame, case.pattern, subject)
    truth = True if case.guard is None else c.truth(evaluate(frame, case.guard))
    if truth is False:
        return False
    with nullcontext() if truth is True else c.builder.if_(truth):
        going = lower_body(frame, case.body)
        if going:
            c.builder.leave(label)
    return going


# -- errors, output ------------------------------------------------------------------------------


def _assert(frame: FunctionFrame, node: ast.Assert) -> None:
    c = frame.compiler
    truth = c.truth(evaluate(frame, node.test))
    if truth is True:
        return
    with nullcontext() if truth is False else c.builder.if_(c.ir(negate(c, truth))):
        message = Constant("assertion failed") if node.msg is None else evaluate(frame, node.msg)
        text, values = message_of(c, message)
        c.report(None, AssertionError, text, values)


def _raise(frame: FunctionFrame, node: ast.Raise) -> bool:
    c = frame.compiler
    error: Any = RuntimeError
    text, values = "", ()
    if node.exc is not None:
        target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        found = evaluate(frame, target)
        error = found.value if isinstance(found, Constant) else None
        if not (isinstance(error, type) and issubclass(error, BaseException)) and not isinstance(error, BaseException):
            frame.fail(node, f"raise takes an exception, not {describe(found)}")
        if isinstance(node.exc, ast.Call) and node.exc.args:
            text, values = message_of(c, *(evaluate(frame, a) for a in node.exc.args))
    c.report(None, error, text, values)
    return False


def message_of(c: Compiler, *parts: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the text of an error message, and the run-time values for its replacement fields."""
    texts, values = [], []
    for part in parts:
        if isinstance(part, TextValue):
            pieces = [p.replace("{", "{{").replace("}", "}}") for p in part.pieces]
            texts.append(
                "".join(p + f"{{:{spec}}}" for p, spec in zip(pieces, part.formats, strict=False)) + pieces[-1]
            )
            values += [c.ir(c.number(v)) for v in part.values]
        elif isinstance(part, Constant):
            texts.append(str(part.value).replace("{", "{{").replace("}", "}}"))
        else:
            texts.append("{}")
            values.append(c.ir(c.number(part)))
    return ", ".join(texts), tuple(values)


def _expression(frame: FunctionFrame, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):  # a docstring is ignored
        evaluate(frame, node.value)


def _function(frame: FunctionFrame, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        frame.fail(node.decorator_list[0], "a function inside a kernel takes no decorators", "syntax")
    frame.assign(node, node.name, closure(frame, node))


def _delete(frame: FunctionFrame, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            frame.fail(
                target, "del is for names in a kernel: elements of arrays and tuples cannot be deleted", "syntax"
            )


_HANDLERS: dict[type[ast.stmt], Callable[[FunctionFrame, Any], Any]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.Return: _return,
    ast.Match: _match,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Expr: _expression,
    ast.FunctionDef: _function,
    LoopStep: lambda frame, node: node.action(),
    ast.Delete: _delete,
    **dict.fromkeys((ast.Pass, ast.Nonlocal), lambda frame, node: None),
}


# -- functions -----------------------------------------------------------------------------------


def inline(
    frame: FunctionFrame, node: ast.AST, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """Compile a call by inlining the function, and return the result of the call."""
    c = frame.compiler
    inner = enter(frame, node, function, arguments, keywords)
    location, numba = c.location, c.numba
    if not isinstance(function, Closure):
        c.use_types_for(function)
    body = inner.source.body
    if all(n is body[-1] for n in own_nodes(inner.source.tree) if isinstance(n, ast.Return)):
        if lower_body(inner, body) and isinstance(body[-1], ast.Return):
            raise Unresolved  # the value of the `return` is not known yet
        value = Constant(None) if inner.returned is None else inner.returned
    else:
        inner.label = c.new_label("return")
        inner.result = c.variable((*inner.path, "result"), f"the result of {inner.source.name}")
        with c.builder.scope(inner.label):
            if lower_body(inner, body):
                c.assign(inner.result, Constant(None))
        value = c.load(inner.result) if inner.result.kind is not None else Constant(None)
    c.location, c.numba = location, numba
    return value


def enter(
    frame: FunctionFrame, node: ast.AST, function: Any, arguments: list[Any], keywords: dict[str, Any]
) -> FunctionFrame:
    """Assign the arguments of a call to the parameters, and return the frame of the call."""
    c, called = frame.compiler, (*frame.called, frame.source.location(node))
    if len(frame.called) > DEPTH_LIMIT:
        frame.fail(node, f"functions call one another more than {DEPTH_LIMIT} deep: a recursion without a bound")
    path = (*frame.path, id(node), c.occurrence(frame.path, node))
    if isinstance(function, Closure):
        source, parent = function.source, function.frame
        outer = _outer_of(parent)
        defaults = function.defaults
    else:
        source, parent = source_of(function), None
        outer = global_names(c, function)
        parameters = signature_of(function, follow_wrapped=False).parameters.values()
        defaults = {p.name: wrap(c, p.default, p.name) for p in parameters if p.default is not p.empty}
    inner = FunctionFrame(c, source, path, outer, function=function, called=called, parent=parent)
    given = bind_arguments(frame, node, source, arguments, keywords, defaults)
    for argument, value in given:
        inner.assign(argument, argument.arg, value)
    return inner


def _outer_of(frame: FunctionFrame) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        c = frame.compiler
        variable = named_variable(frame, name) if name in frame.source.webs.names else None
        if variable is None:
            return frame.outer(name)
        held = variable.held[0] if variable.held is not None else None
        constant = variable.kind is None or isinstance(variable.kind, ConstantKind) or isinstance(held, Closure)
        if constant or c.callee is None or c.callee.contains(frame):
            return c.load(variable)
        return c.visible((frame.path, name), lambda: find(name))

    return find


def global_names(c: Compiler, function: Any) -> Callable[[str], Any]:
    """Return a function that maps the nonlocal, global and built-in names of a Python function to kernel values."""
    return lambda name: wrap(c, outer_value(function, name), name)


def bind_arguments(
    frame: FunctionFrame,
    node: ast.AST,
    source: Source,
    arguments: list[Any],
    keywords: dict[str, Any],
    defaults: dict[str, Any],
) -> list[tuple[ast.arg, Any]]:
    """Return pairs (parameter, value) for a function, with default values for missing arguments."""
    tree = source.tree.args
    if tree.kwarg is not None:
        frame.fail(node, f"{source.name}() has a ** parameter, which is not part of the kernel language", "syntax")
    kinds = (
        (Parameter.POSITIONAL_ONLY, tree.posonlyargs),
        (Parameter.POSITIONAL_OR_KEYWORD, tree.args),
        (Parameter.VAR_POSITIONAL, filter(None, [tree.vararg])),
        (Parameter.KEYWORD_ONLY, tree.kwonlyargs),
    )
    pairs = [(kind, argument) for kind, group in kinds for argument in group]
    parameters = [Parameter(a.arg, kind, default=defaults.get(a.arg, Parameter.empty)) for kind, a in pairs]
    bound = bind_call(frame.compiler, source.name, Signature(parameters), *arguments, **keywords)
    bound.apply_defaults()
    values = bound.arguments
    if tree.vararg is not None:
        values[tree.vararg.arg] = TupleValue(values[tree.vararg.arg])
    return [(argument, values[argument.arg]) for _, argument in pairs]


def bind_call(c: Compiler, name: str, signature: Signature, /, *arguments: Any, **keywords: Any) -> BoundArguments:
    """Bind the arguments of a call of the function `name` to the parameters of `signature`.

    Raises KernelTypeError if they do not fit.
    """
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        c.fail(f"{name}(): {error}")
