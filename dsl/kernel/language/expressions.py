"""Compilation of expressions of the kernel language.

In: a frame, and a node of its function's syntax tree. Out: the node's value. Invariant: operands are evaluated in
Python's order, with short circuits in `and`, `or` and conditional expressions. An error has the node's location.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from weft.codegen import dtype_kind
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.device_function import KernelFunction
from weft.dsl.kernel.language.global_values import wrap
from weft.dsl.kernel.language.handlers import elementwise
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.iteration import item_of, items_of, length_of
from weft.dsl.kernel.language.kernel_errors import KernelError, suggestion
from weft.dsl.kernel.language.known import compute, fold
from weft.dsl.kernel.language.members import attribute
from weft.dsl.kernel.language.value_operators import binary, compare, is_vector, negate
from weft.dsl.kernel.language.values import (
    INT,
    ArrayValue,
    ChildKernel,
    Closure,
    Constant,
    Generator,
    Property,
    Range,
    RecordValue,
    ScalarValue,
    Sliced,
    TextValue,
    TupleValue,
    describe,
    make_slice,
)
from weft.dsl.kernel.language.variables import Unresolved, Variable
from weft.runtime import counted

_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "a": ascii, "s": str}
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"}
# Unsupported constructs: their names, and alternatives.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Dict: ("a dict", "use local arrays, or a tuple with constant indices"),
    ast.Set: ("a set", "use a local array or the bits of an integer"),
    ast.DictComp: ("a dict comprehension", "use local arrays"),
    ast.SetComp: ("a set comprehension", "use a local array"),
    ast.Await: ("await", "threads wait for one another with cuda.syncthreads()"),
    ast.Yield: ("yield", "write the loop where the values are used"),
    ast.YieldFrom: ("yield from", "write the loop where the values are used"),
}


SETTLING = 4  # number of compilation runs in which a name may be read before its value from a loop is known


def evaluate(frame: FunctionFrame, node: ast.expr) -> Any:
    """Compile an expression and return its value."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        name, remedy = _REFUSED.get(type(node), (type(node).__name__, "write it with simpler ones"))
        frame.fail(node, f"{name} is not part of the kernel language: {remedy}", "syntax")
    try:
        return handler(frame, node)
    except KernelError as error:
        raise frame.located(error, node) from None


def lookup(frame: FunctionFrame, node: ast.AST, key: object, name: str) -> Any:
    """Return the value of a local, nonlocal, global or built-in name."""
    c = frame.compiler
    if name in frame.source.webs.names:
        variable = frame.variable(key, name)
        if variable is not None:
            try:
                return c.load(variable)
            except KeyError:
                if variable.kind is None and c.run <= SETTLING:
                    raise Unresolved from None  # a loop assigns its value later
        frame.fail(node, f"name {name!r} is used before it is given a value", "name")
    try:
        return frame.outer(name)
    except KeyError:
        known = {*frame.source.webs.names, *getattr(frame.function or c.function, "__globals__", ())}
        frame.fail(node, f"name {name!r} is not defined{suggestion(name, known)}", "name")


def _constant(frame: FunctionFrame, node: ast.Constant) -> Any:
    return wrap(frame.compiler, node.value, "bytes") if isinstance(node.value, bytes) else Constant(node.value)


def _unary(frame: FunctionFrame, node: ast.UnaryOp) -> Any:
    c = frame.compiler
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return negate(c, c.truth(value))
    name = _UNARY[type(node.op)]
    if isinstance(value, Constant) and isinstance(value.value, enum.Flag):
        return fold(c, name, [value.value])
    return elementwise(Invocation(frame, node), name, value)


def _chain(frame: FunctionFrame, node: ast.Compare, left: Any, k: int) -> Any:
    # a < b < c: the middle operand is evaluated once, and the rest only if the first comparison holds.
    right = evaluate(frame, node.comparators[k])
    first = compare(frame, node, node.ops[k], left, right)
    if k + 1 == len(node.ops):
        return first
    return both(frame, (node, k), first, lambda: _chain(frame, node, right, k + 1), stop=False)


def both(frame: FunctionFrame, key: tuple[ast.AST, int], first: Any, rest: Callable[[], Any], stop: bool) -> Any:
    """Compile a short-circuit `and` of two operands, or an `or` if `stop` is true. The function `rest` compiles the second operand."""
    c = frame.compiler
    truth = c.truth(first)
    if isinstance(truth, bool):
        return first if truth == stop else rest()
    variable = c.result(
        (*frame.path, "short", *key[1:]), key[0], "the result of `or`" if stop else "the result of `and`"
    )
    c.assign(variable, first)
    condition = truth if not stop else c.ir(negate(c, truth))
    with c.builder.if_(condition):
        c.assign(variable, rest())
    return c.load(variable)


def _boolean(frame: FunctionFrame, node: ast.BoolOp, k: int = 0) -> Any:
    value = evaluate(frame, node.values[k])
    if k + 1 == len(node.values):
        return value
    return both(frame, (node, k), value, lambda: _boolean(frame, node, k + 1), isinstance(node.op, ast.Or))


def _conditional(frame: FunctionFrame, node: ast.IfExp) -> Any:
    c = frame.compiler
    truth = c.truth(evaluate(frame, node.test))
    if isinstance(truth, bool):
        return evaluate(frame, node.body if truth else node.orelse)
    variable = c.result((*frame.path, "choice"), node, "the conditional expression")
    with c.builder.if_(truth):
        _choose(frame, variable, node.body)
    with c.builder.else_():
        _choose(frame, variable, node.orelse)
    if variable.kind is None:
        raise Unresolved
    return c.load(variable)


def _choose(frame: FunctionFrame, variable: Variable, node: ast.expr) -> None:
    """Compile one branch of a conditional expression, and assign its value to a variable.

    A branch that calls the function recursively may be compiled in the next compilation run instead.
    """
    try:
        frame.compiler.assign(variable, evaluate(frame, node))
    except Unresolved:
        frame.compiler.pending = True


def read_attribute(frame: FunctionFrame, node: ast.AST, owner: object, name: str) -> Any:
    """Compile ``owner.name``."""
    owner = frame.compiler.unwrap(owner)
    found = attribute(frame.compiler, owner, name)
    if isinstance(found, Property):
        return frame.compiler.call(frame, node, Constant(found.read.fget), [found.owner], {})
    held = owner.value if isinstance(owner, Constant) else None
    outside = isinstance(held, (ModuleType, type)) or dataclasses.is_dataclass(held)
    return wrap(frame.compiler, found.value, name) if outside and isinstance(found, Constant) else found


def subscript(frame: FunctionFrame, node: ast.AST, owner: object, index: Any) -> Any:
    """Compile ``owner[index]``."""
    c = frame.compiler
    if c.tracer is not None:
        c.location = frame.source.location(node)
    owner = c.unwrap(owner)
    match owner:
        case ArrayValue():
            return arrays.select(c, owner, index)
        case RecordValue():
            return arrays.get_field(c, owner, _field_name(c, owner, index))
        case Range():
            return item_of(c, owner, _range_index(c, owner, index))
        case TupleValue():
            return _tuple_item(frame, node, owner, index)
        case Constant(value=held) if (
            isinstance(held, type) and issubclass(held, enum.Enum) and isinstance(index, Constant)
        ):
            return compute(c, describe(owner), held.__getitem__, index.value)
        case Constant(value=held) if isinstance(held, KernelFunction):
            return ChildKernel(held, index)
        case Constant(value=held) if isinstance(held, dict):
            c.fail("a dict from outside cannot be read in a kernel: pass what is needed as arguments", "syntax")
        case Constant(value=held) if hasattr(held, "__getitem__") and not isinstance(held, (str, bytes)):
            # such as types.float32[:, ::1]
            return compute(c, f"{describe(owner)} indexed", operator.getitem, held, python_index(c, index))
    c.fail(f"{describe(owner)} cannot be indexed")


def _field_name(c: Compiler, record: RecordValue, index: Any) -> str:
    """Return the name of a record's field, given its name or its position."""
    key, names = index.value if isinstance(index, Constant) else None, record.dtype.names
    if names is None:
        c.fail(f"{describe(record)} cannot be indexed")
    if isinstance(key, str):
        return key
    if not isinstance(key, int):
        c.fail("a record is indexed by the name or the number of a field, known when compiling")
    if not -len(names) <= key < len(names):
        c.fail(f"a record of {counted(len(names), 'field')} has no field {key}")
    return names[key]


def _range_index(c: Compiler, owner: Range, index: Any) -> Any:
    """Convert an index into the range object `owner`, which may be negative, to a position."""
    length = length_of(c, owner)
    if isinstance(index, Constant):
        known = arrays.known_shape(index)
        if known is None:
            c.fail(f"a range is indexed by integers, not by {describe(index)}")
        if isinstance(length, Constant) and not -length.value <= known[0] < length.value:
            c.fail(f"index {known[0]} is out of range: the range has {length.value} items")
        return index if known[0] >= 0 else c.apply("add", length, index)
    if not isinstance(index, ScalarValue) or index.dtype.kind not in "biu":
        c.fail(f"a range is indexed by integers, not by {describe(index)}")
    place = c.cast(index, INT, weak=True)
    return c.apply("where", c.apply("less", place, Constant(0)), c.apply("add", place, length), place)


def python_index(c: Compiler, index: Any) -> Any:
    """Convert an index that is known at compile time to a Python index."""
    match index:
        case Constant(value=held):
            return held
        case Sliced():
            return slice(*(None if p is None else python_index(c, p) for p in (index.start, index.stop, index.step)))
        case TupleValue(items=items):
            return tuple(python_index(c, item) for item in items)
    c.fail("this index has to be known when the kernel is compiled")


def _tuple_item(frame: FunctionFrame, node: ast.AST, owner: TupleValue, index: Any) -> Any:
    c = frame.compiler
    if isinstance(index, Sliced):
        return TupleValue(compute(c, "a slice of a tuple", owner.items.__getitem__, python_index(c, index)).value)
    known = arrays.known_shape(index)
    if known is not None:
        if not -len(owner.items) <= known[0] < len(owner.items):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
                array = ast.unparse(node.value.value)
                c.fail(f"{ast.unparse(node)} does not exist: {array} is {len(owner.items)}-dimensional")
            c.fail(f"tuple index {known[0]} is out of range: the tuple has {counted(len(owner.items), 'item')}")
        return owner.items[known[0]]
    if not owner.items:
        c.fail("an empty tuple cannot be indexed")
    index_value = arrays.position(c, index, len(owner.items), "a tuple's index")
    # Compare the index with each position in turn. All items are assigned to one variable, so they need a common kind.
    result = c.result((*frame.path, "item"), node, "the tuple's item")
    c.assign(result, owner.items[-1])
    for k, item in enumerate(owner.items[:-1]):
        hit = c.builder.op("equal", extents.extent_ir(c, index_value), c.builder.constant(k))
        with c.builder.if_(hit):
            c.assign(result, item)
    return c.load(result)


def _slice(frame: FunctionFrame, node: ast.Slice) -> Any:
    parts = (node.lower, node.upper, node.step)
    return make_slice(*(None if part is None else evaluate(frame, part) for part in parts))


def _items(frame: FunctionFrame, parts: list[ast.expr]) -> list[Any]:
    """Evaluate the items of a list or tuple, or the arguments of a call, with starred items unpacked."""
    items: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Starred):
            items.extend(unpack(frame, evaluate(frame, part.value)))
        else:
            items.append(evaluate(frame, part))
    return items


def unpack(frame: FunctionFrame, value: object, expected: int | None = None) -> tuple[Any, ...]:
    """Return the items of a value. If their number is unknown at compile time, assume that it is `expected`."""
    value = frame.compiler.unwrap(value)
    if isinstance(value, Generator):
        return comprehension(value.frame, value.node).items
    return items_of(frame.compiler, value, expected)


def _formatted(frame: FunctionFrame, node: ast.JoinedStr) -> Any:
    pieces: list[str] = [""]
    values: list[Any] = []
    formats: list[str] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces[-1] += str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        spec = _format(frame, part)
        value = evaluate(frame, part.value)
        if isinstance(value, Constant):
            pieces[-1] += _constant_text(frame, part, value.value, spec)
            continue
        if part.conversion not in (-1, ord("s")):
            conversion = f"the conversion !{chr(part.conversion)} of a run-time value"
            frame.fail(part, f"{conversion} is not part of the kernel language: leave it out", "syntax")
        if spec:
            _check_format(frame, part, value, spec)
        values.append(value)
        formats.append(spec)
        pieces.append("")
    return TextValue(tuple(pieces), tuple(values), tuple(formats)) if values else Constant(pieces[0])


def _format(frame: FunctionFrame, part: ast.FormattedValue) -> str:
    """Return the format specifier of a value in an f-string, or raise KernelSyntaxError if it is unsupported."""
    if part.format_spec is None:
        return ""
    assert isinstance(part.format_spec, ast.JoinedStr)
    pieces = [piece.value for piece in part.format_spec.values if isinstance(piece, ast.Constant)]
    spec = "".join(map(str, pieces))
    if len(pieces) != len(part.format_spec.values) or not re.fullmatch(r"[-+ ]?#?0?\d*(\.\d+)?[dxXoeEfFgG]?", spec):
        frame.fail(
            part, "a format in a kernel is a width, a precision and one of d x X o e f g, such as 08.3f", "syntax"
        )
    return spec


def _constant_text(frame: FunctionFrame, part: ast.FormattedValue, held: object, spec: str) -> str:
    """Return the text of a constant in an f-string."""
    converted = _CONVERSIONS[chr(part.conversion)](held) if part.conversion > 0 else held
    try:
        return format(converted, spec) if spec else str(converted)
    except (TypeError, ValueError) as error:
        frame.fail(part, str(error))


def _check_format(frame: FunctionFrame, part: ast.FormattedValue, value: object, spec: str) -> None:
    """Raise KernelTypeError if the format specifier `spec` does not fit the run-time number `value`."""
    dtype = frame.compiler.scalar(value).dtype
    floating = dtype_kind(dtype) in "fc"
    try:
        format(1.0 if floating else 1, spec)
    except ValueError:
        fits = False
    else:
        fits = not spec[-1].isalpha() or (spec[-1] in "eEfFgG") == floating
    if not fits:
        frame.fail(part, f"the format {spec!r} does not fit {describe(value)}")


def _walrus(frame: FunctionFrame, node: ast.NamedExpr) -> Any:
    value = evaluate(frame, node.value)
    bind(frame, node.target, value)
    return value


def closure(frame: FunctionFrame, node: ast.FunctionDef | ast.Lambda) -> Closure:
    """Return a `Closure`, with default values, for a function or lambda inside a kernel."""
    arguments = node.args
    positional = (*arguments.posonlyargs, *arguments.args)
    defaults: dict[str, Any] = {}
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        defaults[argument.arg] = evaluate(frame, default)
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            defaults[argument.arg] = evaluate(frame, value)
    return Closure(frame.source.inner(node), frame, defaults)


def _call(frame: FunctionFrame, node: ast.Call) -> Any:
    function = evaluate(frame, node.func)
    arguments = _items(frame, node.args)
    keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            frame.fail(node, "** in a call is not part of the kernel language: name the arguments", "syntax")
        keywords[keyword.arg] = evaluate(frame, keyword.value)
    return frame.compiler.call(frame, node, function, arguments, keywords)


def comprehension(frame: FunctionFrame, node: ast.ListComp | ast.GeneratorExp) -> TupleValue:
    """Compile a comprehension to a tuple, whose length must be known at compile time."""
    made: list[Any] = []

    def turn(k: int) -> None:
        if k == len(node.generators):
            made.append(evaluate(frame, node.elt))
            return
        generator = node.generators[k]
        targets = numbers_in(frame, generator.target)
        items = items_of(frame.compiler, evaluate(frame, generator.iter))
        for _, item in unrolled(frame, generator, targets, items):
            bind(frame, generator.target, item)
            truths = [frame.compiler.truth(evaluate(frame, test)) for test in generator.ifs]
            if not all(isinstance(t, bool) for t in truths):
                frame.fail(node, "a condition in a comprehension has to be known when the kernel is compiled", "syntax")
            if all(truths):
                turn(k + 1)

    turn(0)
    return TupleValue(tuple(made))


def numbers_in(frame: FunctionFrame, node: ast.AST) -> set[int]:
    """Return the set of local variables that occur in a syntax node, each identified by its number in `Webs.of`."""
    webs = frame.source.webs.of
    keys = (key for part in ast.walk(node) for key in (id(part), (id(part), "read")))
    return {webs[key] for key in keys if key in webs}


def unrolled(frame: FunctionFrame, node: ast.AST, numbers: set[int], items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield pairs (k, item) for the iterations of the unrolled loop `node`.

    The variables with the given numbers are different variables in each iteration, so their kinds may differ. After the
    loop, their names refer to the variables of the last iteration.
    """
    outer = {number: frame.iterations.get(number, ()) for number in numbers}
    for k, item in enumerate(items):
        frame.iterations |= {number: (*own, id(node), k) for number, own in outer.items()}
        yield k, item


def bind(frame: FunctionFrame, target: ast.expr, value: object) -> None:
    """Compile an assignment to a name, tuple, element or attribute."""
    match target:
        case ast.Name(id=name) if name in frame.source.webs.names:
            frame.assign(target, name, value)
        case ast.Name():
            _bind_outer(frame, target, value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            expected = None if any(isinstance(part, ast.Starred) for part in parts) else len(parts)
            _bind_parts(frame, target, parts, unpack(frame, value, expected))
        case ast.Subscript(value=owner, slice=index):
            set_item(frame, evaluate(frame, owner), evaluate(frame, index), value, target)
        case ast.Attribute(value=owner, attr=name):
            set_attribute(frame, evaluate(frame, owner), owner, name, value)
        case ast.Starred():
            frame.fail(target, "a starred target stands in a tuple", "syntax")


def _bind_outer(frame: FunctionFrame, target: ast.Name, value: object) -> None:
    """Compile an assignment to a nonlocal name, or raise an error for a global name."""
    parent = frame.parent
    while parent is not None:
        if target.id in parent.source.webs.names:
            variable = named_variable(parent, target.id)
            if variable is not None:
                callee = frame.compiler.callee
                if callee is not None and not callee.contains(parent):
                    frame.fail(target, f"a function that calls itself cannot assign {target.id!r} of another function")
                frame.compiler.assign(variable, value)
                return
        parent = parent.parent
    frame.fail(target, f"global {target.id} cannot be assigned in a kernel: pass an array and write to it", "syntax")


def named_variable(frame: FunctionFrame, name: str) -> Any:
    """Return the variable for a name that inner functions also use, or None for other names."""
    number = frame.source.webs.shared.get(name)
    return None if number is None else frame.compiler.variable(frame.key_of(number), name)


def _bind_parts(frame: FunctionFrame, target: ast.expr, parts: list[ast.expr], items: tuple[Any, ...]) -> None:
    starred = [k for k, part in enumerate(parts) if isinstance(part, ast.Starred)]
    if starred:
        if len(items) < len(parts) - 1:
            frame.fail(
                target, f"not enough values to unpack: at least {len(parts) - 1} are needed, {len(items)} are there"
            )
        k, count = starred[0], len(items) - len(parts) + 1
        items = (*items[:k], TupleValue(items[k : k + count]), *items[k + count :])
    if len(items) != len(parts):
        frame.fail(target, f"{counted(len(items), 'value')} cannot be unpacked into {counted(len(parts), 'name')}")
    # All values are read before any is written: a, b = b, a.
    for part, item in zip(parts, items, strict=True):
        bind(frame, part.value if isinstance(part, ast.Starred) else part, item)


def set_item(frame: FunctionFrame, owner: object, index: Any, value: object, node: ast.AST) -> None:
    """Compile ``owner[index] = value``."""
    c = frame.compiler
    if c.tracer is not None:
        c.location = frame.source.location(node)
    owner = c.unwrap(owner)
    try:
        match owner:
            case ArrayValue():
                arrays.store(c, owner, index, value)
            case RecordValue():
                arrays.set_field(c, owner, _field_name(c, owner, index), value)
            case TupleValue():
                c.fail("a tuple cannot be changed: use cuda.local.array")
            case _:
                c.fail(f"items of {describe(owner)} cannot be assigned")
    except KernelError as error:
        raise frame.located(error, node) from None


def set_attribute(frame: FunctionFrame, held: Any, owner: ast.expr, name: str, value: object) -> None:
    """Compile the assignment of `value` to the attribute `name` of the object `held`. The syntax node `owner` is the expression of this object."""
    c = frame.compiler
    if isinstance(held, RecordValue):
        arrays.set_field(c, held, name, value)
        return
    if is_vector(held) and name in held.names:
        if not isinstance(owner, ast.Name):
            frame.fail(owner, "a component can be assigned in a variable: give the vector a name first")
        k = held.names.index(name)
        changed = (*held.items[:k], c.cast(value, held.maker.dtype), *held.items[k + 1 :])
        bind(frame, owner, TupleValue(changed, held.maker, held.names))
        return
    frame.fail(owner, f"attributes of {describe(held)} cannot be assigned in a kernel")


_HANDLERS: dict[type[ast.AST], Callable[[FunctionFrame, Any], Any]] = {
    ast.Name: lambda frame, node: lookup(frame, node, id(node), node.id),
    ast.Constant: _constant,
    ast.BinOp: lambda frame, node: binary(
        frame.compiler, type(node.op), evaluate(frame, node.left), evaluate(frame, node.right)
    ),
    ast.UnaryOp: _unary,
    ast.Compare: lambda frame, node: _chain(frame, node, evaluate(frame, node.left), 0),
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Attribute: lambda frame, node: read_attribute(frame, node, evaluate(frame, node.value), node.attr),
    ast.Subscript: lambda frame, node: subscript(frame, node, evaluate(frame, node.value), evaluate(frame, node.slice)),
    ast.Slice: _slice,
    **dict.fromkeys((ast.Tuple, ast.List), lambda frame, node: TupleValue(tuple(_items(frame, node.elts)))),
    ast.JoinedStr: _formatted,
    ast.NamedExpr: _walrus,
    ast.Lambda: closure,
    ast.Call: _call,
    ast.ListComp: comprehension,
    ast.GeneratorExp: lambda frame, node: Generator(node, frame),
}
