"""Compilation of launches inside kernels: ``child[grid, block](...)``.

In: a kernel, its grid and block, and the arguments, as values of the launching thread. Out: a record for each launch
in the launch queue, which is a hidden argument of the launching kernel. When the grid of that kernel has ended, the
host launches the recorded kernels (`launch.kernel_launch`). Invariant: the records of one thread are in the order of
its launches.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.statements import bind_call
from weft.dsl.kernel.language.value_methods import bit_cast
from weft.dsl.kernel.language.values import INT, ArrayValue, ChildKernel, Constant, ScalarValue, TupleValue, describe
from weft.dsl.kernel.launch import arguments as args
from weft.runtime import counted

RECORDS = 1 << 14  # maximum number of records in a queue
RECORD_WORDS = 64  # 64-bit words of a record
HEAD_WORDS = 8  # words before the arguments: site, grid, block, bytes of shared memory
CHILD_VALUES = (ArrayValue, ScalarValue, TupleValue, Constant)


def launch_child(call: Invocation, child: ChildKernel, arguments: list[Any], keywords: dict[str, Any]) -> Constant:
    """Compile ``child[grid, block](arguments)``."""
    c, kernel = call.c, child.kernel
    if not c.reporting:
        c.fail("kernels that are compiled ahead of time cannot launch kernels: weft starts those after its own launch")
    bound = bind_call(c, kernel.__name__, inspect.signature(kernel.py_func), *arguments, **keywords)
    bound.apply_defaults()
    given = [v if isinstance(v, CHILD_VALUES) else Constant(v) for v in bound.arguments.values()]
    descriptors = tuple(_descriptor(c, value) for value in given)
    words = _configuration(c, child.configuration)
    for value, descriptor in zip(given, descriptors, strict=True):
        _append_words(c, value, descriptor, words)
    if 1 + len(words) > RECORD_WORDS:
        c.fail(
            f"the arguments of {kernel.__name__} take {counted(len(words), 'word')}; a kernel in a kernel has {RECORD_WORDS - 1}"
        )
    queue = c.hidden_once("launches", lambda: c.hide("launches", INT, ("launches", c.launch_sites)))
    c.launch_sites.append((kernel, descriptors))
    _append_record(c, queue, [c.builder.constant(len(c.launch_sites) - 1, INT), *words])
    return Constant(None)


def _append_record(c: Compiler, queue: Value, words: list[Value]) -> None:
    b = c.builder
    zero = b.constant(0)
    (number,) = b.emit("atomic", (queue, zero, b.constant(1, INT)), (INT,), kind="add")
    with b.if_(b.op("less", number, b.constant(RECORDS, INT))):
        first = b.op("multiply", b.cast(number, c.index_dtype), b.constant(RECORD_WORDS))
        for k, word in enumerate(words):
            b.store(queue, b.op("add", first, b.constant(1 + k)), word)


def _configuration(c: Compiler, configuration: Any) -> list[Value]:
    """Return a launch configuration as 64-bit words: the grid, the block, and the bytes of dynamic shared memory."""
    parts = configuration.items if isinstance(configuration, TupleValue) else ()
    if not 2 <= len(parts) <= 4:
        c.fail(
            "a kernel takes [grid, block], [grid, block, stream] or [grid, block, stream, shared_bytes] in its brackets"
        )
    if len(parts) > 2 and not (isinstance(parts[2], Constant) and parts[2].value == 0):
        c.fail("kernels launched from a kernel run in its stream: the stream in the brackets is 0")
    words = []
    for size in parts[:2]:
        axes = size.items if isinstance(size, TupleValue) else (size,)
        if not 1 <= len(axes) <= 3:
            c.fail(f"a grid or block has 1 to 3 numbers, not {len(axes)}")
        words += [c.ir(c.cast(c.number(axis), INT), INT) for axis in (*axes, *[Constant(1)] * (3 - len(axes)))]
    shared = parts[3] if len(parts) == 4 else Constant(0)
    return [*words, c.ir(c.cast(c.number(shared), INT), INT)]


def _descriptor(c: Compiler, value: object) -> args.Descriptor:
    """Return the type descriptor of an argument of a launch inside a kernel."""
    match value:
        case ScalarValue(weak=weak):
            return ("scalar", value.dtype, weak)
        case ArrayValue(space="global"):
            if value.origin >= 0:  # the child may write to it
                c.written.add(value.origin)
            return args.describe_array(value.dtype, value.ndim, value.packed, value.writable)
        case TupleValue():
            return ("tuple", value.maker, value.names, tuple(_descriptor(c, item) for item in value.items))
        case Constant(value=held):
            return args.describe(held)
        case ArrayValue():
            c.fail(f"{describe(value)} ends with its thread or block: a kernel takes arrays in global memory")
    c.fail(f"{describe(value)} cannot be passed to a kernel from a kernel")


def _append_words(c: Compiler, value: object, descriptor: args.Descriptor, words: list[Value]) -> None:
    """Encode an argument of a launch inside a kernel as 64-bit words, and append them to the list `words`."""
    match value, descriptor:
        case Constant(value=held), _:
            numbers: list[int] = []
            args.flatten_numbers(held, descriptor, numbers)
            words.extend(c.builder.constant(number, INT) for number in numbers)
        case ScalarValue(), ("scalar", dtype, _):
            parts = [value]
            if dtype.kind == "c":
                part = np.dtype(f"f{dtype.itemsize // 2}")
                parts = [ScalarValue(c.builder.op(name, value.ir, dtype=part)) for name in ("real", "imag")]
            words.extend(_word(c, part) for part in parts)
        case ArrayValue(), ("array", _, _, packed, _):
            words.extend(c.builder.emit("address", (value.pointer,), (INT,)))
            for extent in (*value.shape, *(() if packed else value.strides)):
                words.append(c.ir(arrays.length(c, extent), INT))
        case TupleValue(), ("tuple", _, _, parts):
            for item, part in zip(value.items, parts, strict=True):
                _append_words(c, item, part, words)


def _word(c: Compiler, number: ScalarValue) -> Value:
    """Encode a scalar as a 64-bit word, whose low bytes are those of the scalar."""
    if number.dtype.kind not in "iub" or number.dtype == np.uint64:
        number = bit_cast(c, number, np.dtype(f"i{number.dtype.itemsize}"))
    return c.builder.cast(number.ir, INT)
