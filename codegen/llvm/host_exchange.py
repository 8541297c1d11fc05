"""Exchange of values between the threads of a warp on the host CPU, as 64-bit encodings."""

from __future__ import annotations

import numpy as np

from weft.codegen.llvm.emit import Emitter, scalar_type
from weft.codegen.llvm.host_atomics import FLOAT_REDUCTIONS
from weft.runtime import CompileError

_INTEGER_REDUCTIONS = {"add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def to_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Return the 64-bit encoding of a value."""
    kind, size = scalar_type(dtype), 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if dtype.kind == "f":
        text = emitter.line(f"bitcast {kind} {text} to i{size}")
    return text if size == 64 else emitter.line(f"zext i{size} {text} to i64")


def from_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Return the value of dtype `dtype` whose 64-bit encoding is `text`."""
    kind, size = scalar_type(dtype), 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if size != 64:
        text = emitter.line(f"trunc i64 {text} to i{size}")
    return emitter.line(f"bitcast i{size} {text} to {kind}") if dtype.kind == "f" else text


def accumulator_type(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a reduction's accumulator: float32 for float16, otherwise `dtype`."""
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def to_accumulator(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Convert a value to the dtype of the reduction's accumulator."""
    return emitter.line(f"fpext half {text} to float") if dtype.char == "e" else text


def from_accumulator(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Convert the result of a reduction to the dtype of the values."""
    return emitter.line(f"fptrunc float {text} to half") if dtype.char == "e" else text


def combine(emitter: Emitter, name: str, dtype: np.dtype, x: str, y: str) -> str:
    """Combine two values by `add`, `minimum`, `maximum` or a bitwise operation.

    float16 is not supported.
    """
    kind = scalar_type(dtype)
    if dtype.kind == "f":
        if name not in FLOAT_REDUCTIONS:
            raise CompileError(f"no {name} of {dtype} across a warp")
        return FLOAT_REDUCTIONS[name](emitter, kind, x, y)
    if name in _INTEGER_REDUCTIONS:
        return emitter.line(f"{_INTEGER_REDUCTIONS[name]} {kind} {x}, {y}")
    word = f"llvm.{'u' if dtype.kind == 'u' else 's'}{'min' if name == 'minimum' else 'max'}"
    return emitter.call(f"{word}.{kind}", kind, [(kind, x), (kind, y)])


def reduce_by_halves(emitter: Emitter, name: str, dtype: np.dtype, values: list[str]) -> str:
    """Reduce the values of a full warp by repeatedly combining the first half with the second half."""
    while len(values) > 1:
        half = len(values) // 2
        values = [combine(emitter, name, dtype, x, y) for x, y in zip(values[:half], values[half:], strict=True)]
    return values[0]


def combine_next(
    emitter: Emitter, name: str, dtype: np.dtype, addresses: tuple[str, str], value: str, takes_part: str
) -> None:
    """Combine a thread's value with a reduction's total in memory, if the thread participates.

    `addresses` are the addresses of the total and of a flag, which is set once the total has a value.
    """
    total, some = addresses
    kind, size = scalar_type(dtype), dtype.itemsize
    before = emitter.line(f"load {kind}, ptr {total}, align {size}")
    begun = emitter.line(f"load i1, ptr {some}, align 1")
    both = combine(emitter, name, dtype, before, value)
    with_it = emitter.line(f"select i1 {begun}, {kind} {both}, {kind} {value}")
    kept = emitter.line(f"select i1 {takes_part}, {kind} {with_it}, {kind} {before}")
    emitter.do(f"store {kind} {kept}, ptr {total}, align {size}")
    emitter.do(f"store i1 {emitter.line(f'or i1 {begun}, {takes_part}')}, ptr {some}, align 1")


def source_lane(emitter: Emitter, mode: str, width: int, lane: str, other: str) -> tuple[str, str]:
    """Return the number of the lane that a shuffle reads (i32), and whether it is in the thread's group (i1)."""
    first = emitter.line(f"and i32 {lane}, {32 - width}")
    last = emitter.line(f"or i32 {lane}, {width - 1}")
    near = emitter.line(f"and i32 {other}, 31")
    match mode:
        case "idx":
            inner = emitter.line(f"and i32 {near}, {width - 1}")
            return emitter.line(f"or i32 {first}, {inner}"), "true"
        case "up":
            source = emitter.line(f"sub i32 {lane}, {near}")
            return source, emitter.line(f"icmp sge i32 {source}, {first}")
        case "down":
            source = emitter.line(f"add i32 {lane}, {near}")
            return source, emitter.line(f"icmp sle i32 {source}, {last}")
        case _:
            source = emitter.line(f"xor i32 {lane}, {near}")
            return source, emitter.line(f"icmp sle i32 {source}, {last}")
