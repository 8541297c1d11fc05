"""The reference interpreter.

It runs a kernel one operation at a time with NumPy scalars, and is slow.

In: a kernel and one argument per parameter: a 1-D array or an (array, start) pair for a pointer, otherwise a scalar.
Out: the arrays, written in place. Invariant: every out-of-bounds access is an error. In a threaded kernel, threads of a
block are switched only at synchronization points, and a barrier that not all threads reach is an error. (In an explicit
kernel, threads that have ended need not reach it.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, product
from typing import Any

import numpy as np

from tests.oracle import interpret_memory
from tests.oracle.interpret_memory import access
from tests.oracle.interpret_threads import WARP, DivergenceError, Thread, finish, run_blocks
from weft.codegen.kernel_ir.dtypes import dtype_kind
from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Block, Kernel, Operation, Pointer, Value
from weft.codegen.ops.op_table import find_op


class _LeaveError(Exception):
    """Raised to leave the scope with a given label."""


@dataclass(slots=True)
class Frame:
    """The state of a thread in a function: values, position in the grid, and memory."""

    kernel: Kernel
    values: dict[Value, Any]
    thread: tuple[int, ...] = (0, 0, 0)
    block: tuple[int, ...] = (0, 0, 0)
    block_size: tuple[int, ...] = (1, 1, 1)
    grid_size: tuple[int, ...] = (1, 1, 1)
    shared: dict[Operation, np.ndarray] = field(default_factory=dict)
    dynamic: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    local: dict[Operation, np.ndarray] = field(default_factory=dict)


def cast_scalar(value: Any, dtype: np.dtype) -> Any:
    """Return a NumPy scalar cast to another dtype.

    Casts from floats to integers saturate, and NaN becomes 0. Casts from complex to real drop the imaginary part.
    """
    source = value.dtype
    if source.kind == "c" and dtype.kind not in "cb":
        value, source = value.real, value.real.dtype
    if dtype_kind(source) == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if np.isnan(value):
            return dtype.type(0)
        if not np.isfinite(value):
            return dtype.type(limits.max if value > 0 else limits.min)
        return dtype.type(min(max(int(value), limits.min), limits.max))
    return value.astype(dtype)


def interpret_kernel(
    kernel: Kernel,
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] | None = None,
    backwards: bool = False,
    shared_bytes: int = 0,
) -> None:
    """Run a kernel on arrays.

    Parameters
    ----------
    kernel : Kernel
    arguments : sequence, or mapping by parameter name
        For a pointer, a 1-D array of its dtype, or a pair of such an array and the index of the element that the
        pointer points to. Otherwise a scalar.
    grid, block : tuple of int
        Threaded kernels: blocks and threads along each axis. `block` defaults to the block size of the kernel.
    backwards : bool
        Run blocks and threads in reverse order. Results must not depend on the order.
    shared_bytes : int
        Dynamic shared memory of each block.

    Raises
    ------
    IndexError
        If an access is out of bounds.
    DivergenceError
        If threads wait forever, for example at a barrier that not all threads of the block reach, or if a lane is at a
        warp operation whose mask excludes it.
    """
    given = _arguments(kernel, arguments)
    with np.errstate(all="ignore"):
        if kernel.level == "logical":
            finish(_run(kernel.body, Frame(kernel, given)))
            return
        size = _three(block if block is not None else (kernel.attributes.get("block", 1),))
        grid = _three(grid)
        indices = list(product(*(range(n) for n in reversed(grid))))
        blocks = []
        for index in reversed(indices) if backwards else indices:
            shared: dict[Operation, np.ndarray] = {}
            dynamic = interpret_memory.new_array(np.dtype(np.uint8), shared_bytes)
            blocks.append(
                [
                    _run(kernel.body, Frame(kernel, dict(given), t[::-1], index[::-1], size, grid, shared, dynamic))
                    for t in product(*(range(n) for n in reversed(size)))
                ]
            )
        run_blocks(kernel, blocks, backwards)


def _three(axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*axes, 1, 1, 1)[:3]


def _arguments(kernel: Kernel, arguments: Sequence[Any] | Mapping[str, Any]) -> dict[Value, Any]:
    if isinstance(arguments, Mapping):
        arguments = [arguments[p.value.name] for p in kernel.parameters]
    given: dict[Value, Any] = {}
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        kind = parameter.value.type
        if isinstance(kind, Pointer):
            array, start = argument if isinstance(argument, tuple) else (argument, 0)
            if array.ndim != 1 or array.dtype != kind.dtype:
                raise TypeError(
                    f"%{parameter.value.name} points to {kind.dtype}, not {array.dtype} of {array.ndim} axes"
                )
            given[parameter.value] = (array, start)
        else:
            given[parameter.value] = kind.type(argument)
    return given


# -- operations -----------------------------------------------------------------------------------


def _run(block: Block, frame: Frame) -> Thread:
    values = frame.values
    for operation in block.operations:
        operands = [values[v] for v in operation.operands]
        results: Sequence[Any]
        match operation.opcode:
            case "yield":
                return operands
            case "for":
                results = yield from _loop(operation, operands, frame)
            case "if":
                results = yield from _run(operation.regions[0 if operands[0] else 1], frame)
            case "scope":
                results = yield from _scope(operation, frame)
            case "repeat":
                while True:
                    yield from _run(operation.regions[0], frame)
            case "leave":
                raise _LeaveError(operation.attributes["label"])
            case name if name in SYNCHRONIZATION:
                results = yield operation, operands
            case name if name in _STRUCTURAL:
                results = _STRUCTURAL[name](operation, operands, frame)
            case _:
                results = (_row(operation, operands),)
        values.update(zip(operation.results, results, strict=True))
    return []


def _scope(operation: Operation, frame: Frame) -> Thread:
    try:
        yield from _run(operation.regions[0], frame)
    except _LeaveError as leaving:
        if leaving.args[0] != operation.attributes["label"]:
            raise
    return []


def _loop(operation: Operation, operands: list[Any], frame: Frame) -> Thread:
    region = operation.regions[0]
    index, *carried = region.parameters
    current = operands[2 : 2 + len(carried)]
    step = int(operands[-1]) if operation.attributes.get("step_from") else operation.attributes.get("step", 1)
    for position in range(int(operands[0]), int(operands[1]), step):
        frame.values[index] = frame.kernel.index_dtype.type(position)
        frame.values.update(zip(carried, current, strict=True))
        current = yield from _run(region, frame)
    return current


def _row(operation: Operation, operands: list[Any]) -> Any:
    definition = find_op(operation.opcode)
    function = getattr(np, definition.ufunc) if definition.ufunc else definition.reference
    assert function is not None
    result = operation.results[0].type
    assert isinstance(result, np.dtype)
    return np.asarray(function(*operands)).astype(result)[()]


def _call(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    function = next(f for f in frame.kernel.functions if f.name == operation.attributes["function"])
    inner = replace(frame, values=dict(zip(function.parameters, operands, strict=True)), local={})
    thread = _run(function.body, inner)
    try:
        next(thread)
    except StopIteration as end:
        results: Sequence[Any] = end.value
        return results
    raise DivergenceError(f"function {function.name}: threads cannot meet inside a function")


def _load(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    array, position = access(operation, operands)
    return (array[position],)


def _store(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    array, position = access(operation, operands)
    array[position] = operands[2]
    return ()


def _shown(value: Any, form: str) -> str:
    """Return a value as text, in the format of C's ``printf``."""
    match dtype_kind(value.dtype):
        case "c":
            return f"({_shown(value.real, form)}{_shown(value.imag, '+' + (form or 'g'))}j)"
        case "b" if not form:
            return str(bool(value))
        case kind:
            return f"%{form or ('g' if kind == 'f' else 'd')}" % value.item()


def _print(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    pieces, formats = operation.attributes["pieces"], operation.attributes.get("formats", ())
    line = pieces[0]
    for value, form, piece in zip(operands, formats or ("",) * len(operands), pieces[1:], strict=True):
        line += _shown(value, form) + piece
    print(line, end="")
    return ()


def _missing(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    raise NotImplementedError(f"{operation.opcode} exists on a GPU only")


def _approximate(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    """Interpret an approximate GPU instruction (reciprocal or reciprocal square root). The interpreter computes the result accurately.

    Subnormal operands and results are replaced by zeros. The code that uses the result must be right for any permitted
    error.
    """
    (x,) = operands
    least = np.finfo(x.dtype).tiny
    x = x if abs(x) >= least or np.isnan(x) else np.copysign(x.dtype.type(0), x)
    found = 1 / (x if operation.attributes["function"] == "reciprocal" else np.sqrt(x))
    return (found if not abs(found) < least else np.copysign(x.dtype.type(0), x),)


def _constant(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (operation.results[0].type.type(operation.attributes["value"]),)  # type: ignore[union-attr]


def _cast(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    target = operation.results[0].type
    assert isinstance(target, np.dtype)
    return (cast_scalar(operands[0], target),)


def _kept(operation: Operation, memory: dict[Operation, np.ndarray]) -> Sequence[Any]:
    """Return a pointer to the array of an operation that allocates memory. The first execution creates the array."""
    if operation not in memory:
        kind = operation.results[0].type
        assert isinstance(kind, Pointer)
        memory[operation] = interpret_memory.new_array(kind.dtype, operation.attributes["count"])
    return ((memory[operation], 0),)


def _transposed(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    (array, start), *numbers = operands
    index, stride, rows, columns = (int(n) for n in numbers)
    size, kind = operation.attributes["size"], operation.results[0].type
    assert isinstance(kind, Pointer)
    tile = interpret_memory.new_array(kind.dtype, size * size)
    for row in range(rows):
        for column in range(columns):
            tile[row * size + column] = array[start + index + row + column * stride]
    return ((tile, 0),)


def _offset(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    (array, start), index = operands
    return ((array, start + int(index)),)


def _index(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    where = {
        "thread_index": frame.thread,
        "block_index": frame.block,
        "block_size": frame.block_size,
        "grid_size": frame.grid_size,
        "lane_index": (_lane(frame),),
    }[operation.opcode]
    return (frame.kernel.index_dtype.type(where[operation.attributes.get("axis", 0)]),)


def _lane(frame: Frame) -> int:
    (x, y, z), (width, height, _) = frame.thread, frame.block_size
    return (x + width * (y + height * z)) % WARP


_clock = count()

_STRUCTURAL: dict[str, Callable[[Operation, list[Any], Frame], Sequence[Any]]] = {
    "load": _load,
    "store": _store,
    "atomic": lambda operation, operands, frame: (interpret_memory.atomic(operation, operands),),
    "atomic_cas": lambda operation, operands, frame: (interpret_memory.atomic_cas(operation, operands),),
    "offset": _offset,
    "transposed": _transposed,
    "fetch": lambda operation, operands, frame: (),
    "reinterpret": lambda operation, operands, frame: (
        interpret_memory.reinterpreted(operands[0], operation.results[0].type),
    ),
    "address": lambda operation, operands, frame: (interpret_memory.address_of(operands[0]),),
    "pointer": lambda operation, operands, frame: (interpret_memory.pointer_at(operands[0]),),
    "table": lambda operation, operands, frame: ((operation.attributes["values"], 0),),
    "dynamic_shared": lambda operation, operands, frame: ((frame.dynamic, 0),),
    "call": _call,
    "fence": lambda operation, operands, frame: (),
    "sleep": lambda operation, operands, frame: (),
    "clock": lambda operation, operands, frame: (np.int64(next(_clock)),),
    "print": _print,
    "trace": lambda operation, operands, frame: (np.True_,),  # the interpreter records no events
    "approximate": _approximate,
    "external": _missing,
    "assembly": _missing,
    "constant": _constant,
    "cast": _cast,
    "shared": lambda operation, operands, frame: _kept(operation, frame.shared),
    "local": lambda operation, operands, frame: _kept(operation, frame.local),
    "lane_index": _index,
    "thread_index": _index,
    "block_index": _index,
    "block_size": _index,
    "grid_size": _index,
}
