"""The slow reference interpreter: runs a kernel one operation at a time with NumPy's scalars.

In: a kernel and one argument a parameter: a 1-D array or an (array, start) pair for a pointer, a number else. Out:
the arrays, written in place. Always true: no access leaves its array unnoticed; at the threaded level the
threads of a block are switched at barriers and shuffles only, and one that not all threads reach is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.ops import find_op

WARP = 32
_GARBAGE = 0xA5  # what uninitialised shared and local memory is filled with

# A thread stops with the operation that it waits at and, for a shuffle, the value that it offers.
Stop = tuple[Operation, Any]
Thread = Generator[Stop, Any, list[Any]]


class DivergenceError(RuntimeError):
    """Threads of a block wait at different barriers or shuffles, or some have ended."""


@dataclass(slots=True)
class Frame:
    """One thread's values, and where it stands in the grid."""

    kernel: Kernel
    values: dict[Value, Any]
    thread: tuple[int, ...] = (0, 0, 0)
    block: tuple[int, ...] = (0, 0, 0)
    block_size: tuple[int, ...] = (1, 1, 1)
    grid_size: tuple[int, ...] = (1, 1, 1)
    shared: dict[Operation, np.ndarray] = field(default_factory=dict)


def cast_scalar(value: Any, dtype: np.dtype) -> Any:
    """A NumPy scalar in another dtype: float to integer saturates, NaN gives 0; complex to real drops the
    imaginary part."""
    source = value.dtype
    if source.kind == "c" and dtype.kind not in "cb":
        value, source = value.real, value.real.dtype
    if source.kind == "f" and dtype.kind in "iu":
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
) -> None:
    """Run a kernel.

    Parameters
    ----------
    kernel : Kernel
    arguments : sequence, or mapping by parameter name
        For a pointer a 1-D array of its dtype, or a pair of one and the element that the pointer points to;
        a number else.
    grid, block : tuple of int
        Threaded kernels: blocks and threads along each axis; `block` is the kernel's own where left out.
    backwards : bool
        Run blocks and threads in reverse: what comes out must not depend on it.

    Raises
    ------
    IndexError
        Where an access leaves its array.
    DivergenceError
        Where threads of a block do not meet at a barrier, or those of a warp at a shuffle.
    """
    given = _arguments(kernel, arguments)
    with np.errstate(all="ignore"):
        if kernel.level == "logical":
            _finish(_run(kernel.body, Frame(kernel, given)))
            return
        size = _three(block if block is not None else (kernel.attributes.get("block", 1),))
        grid = _three(grid)
        blocks = list(product(*(range(n) for n in reversed(grid))))
        for place in reversed(blocks) if backwards else blocks:
            shared: dict[Operation, np.ndarray] = {}
            threads = [
                _run(kernel.body, Frame(kernel, dict(given), t[::-1], place[::-1], size, grid, shared))
                for t in product(*(range(n) for n in reversed(size)))
            ]
            _run_block(kernel, threads, backwards)


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


# -- threads --------------------------------------------------------------------------------------


def _finish(thread: Thread) -> None:
    for operation, _ in thread:
        raise DivergenceError(f"{operation.opcode} in a kernel without threads")


def _run_block(kernel: Kernel, threads: list[Thread], backwards: bool) -> None:
    """Run the threads of a block, warp by warp, from barrier to barrier."""
    warps = [threads[k : k + WARP] for k in range(0, len(threads), WARP)]
    if backwards:
        warps.reverse()
    while True:
        stops = [_run_warp(kernel, warp, backwards) for warp in warps]
        if all(stop is None for stop in stops):
            return
        if any(stop is not stops[0] for stop in stops):
            raise DivergenceError(f"kernel {kernel.name}: a barrier that not all threads of the block reach")


def _run_warp(kernel: Kernel, warp: list[Thread], backwards: bool) -> Operation | None:
    """Run the threads of a warp to the next barrier, or to their end (None)."""
    offers: list[Any] = [None] * len(warp)
    order = range(len(warp) - 1, -1, -1) if backwards else range(len(warp))
    while True:
        stops: list[Stop | None] = [None] * len(warp)
        for lane in order:
            with suppress(StopIteration):  # a thread that ended stands nowhere
                stops[lane] = warp[lane].send(offers[lane])
        at = {id(stop[0]) if stop is not None else None for stop in stops}
        if len(at) > 1:
            names = sorted({stop[0].opcode if stop is not None else "the end" for stop in stops})
            raise DivergenceError(f"kernel {kernel.name}: threads of a warp stand at {' and '.join(names)}")
        first = stops[0]
        if first is None:
            return None
        operation = first[0]
        if operation.opcode == "barrier":
            return operation
        if len(warp) != WARP:
            raise DivergenceError(f"kernel {kernel.name}: a shuffle in a warp of {len(warp)} threads")
        mask = operation.attributes["mask"]
        values = [stop[1] for stop in stops if stop is not None]
        offers = [values[lane ^ mask] for lane in range(WARP)]


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
            case "barrier":
                yield operation, None
                results = ()
            case "shuffle_xor":
                results = ((yield operation, operands[0]),)
            case name if name in _STRUCTURAL:
                results = _STRUCTURAL[name](operation, operands, frame)
            case _:
                results = (_row(operation, operands),)
        values.update(zip(operation.results, results, strict=True))
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
    row = find_op(operation.opcode)
    function = getattr(np, row.ufunc) if row.ufunc else row.reference
    assert function is not None
    result = operation.results[0].type
    assert isinstance(result, np.dtype)
    return np.asarray(function(*operands)).astype(result)[()]


def _access(operation: Operation, operands: list[Any]) -> tuple[np.ndarray, int]:
    (array, start), index = operands[:2]
    position = int(index) + start
    if not 0 <= position < len(array):
        raise IndexError(
            f"{operation.opcode} of element {position} of %{operation.operands[0].name}, which has {len(array)}"
        )
    return array, position


def _load(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    array, position = _access(operation, operands)
    return (array[position],)


def _store(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    array, position = _access(operation, operands)
    array[position] = operands[2]
    return ()


def _atomic(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    array, position = _access(operation, operands)
    old = array[position]
    kind = operation.attributes["kind"]
    if kind == "exchange":
        array[position] = operands[2]
    else:
        array[position] = getattr(np, find_op(kind).ufunc)(old, operands[2])
    return (old,)


def _constant(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (operation.results[0].type.type(operation.attributes["value"]),)  # type: ignore[union-attr]


def _cast(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    target = operation.results[0].type
    assert isinstance(target, np.dtype)
    return (cast_scalar(operands[0], target),)


def _array(operation: Operation) -> np.ndarray:
    kind = operation.results[0].type
    assert isinstance(kind, Pointer)
    size = operation.attributes["count"] * kind.dtype.itemsize
    filler = np.full(size, _GARBAGE if kind.dtype.kind != "b" else 1, np.uint8)
    return filler.view(kind.dtype)


def _shared(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    if operation not in frame.shared:
        frame.shared[operation] = _array(operation)
    return ((frame.shared[operation], 0),)


def _local(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return ((_array(operation), 0),)


def _place(operation: Operation, operands: list[Any], frame: Frame) -> Sequence[Any]:
    where = {
        "thread_index": frame.thread,
        "block_index": frame.block,
        "block_size": frame.block_size,
        "grid_size": frame.grid_size,
    }[operation.opcode]
    return (frame.kernel.index_dtype.type(where[operation.attributes.get("axis", 0)]),)


_STRUCTURAL: dict[str, Callable[[Operation, list[Any], Frame], Sequence[Any]]] = {
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "constant": _constant,
    "cast": _cast,
    "shared": _shared,
    "local": _local,
    "thread_index": _place,
    "block_index": _place,
    "block_size": _place,
    "grid_size": _place,
}
