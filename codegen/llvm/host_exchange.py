"""Values that threads of a warp exchange on the host: conversion to 64 bits, and reductions."""

from __future__ import annotations

import numpy as np

from weft.codegen.llvm.emit import Emitter, scalar_type
from weft.codegen.llvm.host_atomics import FLOAT_REDUCTIONS
from weft.runtime import CompileError

_INTEGER_REDUCTIONS = {"add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def to_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Return a value as an i64."""
    kind, size = scalar_type(dtype), 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if dtype.kind == "f":
        text = emitter.line(f"bitcast {kind} {text} to i{size}")
    return text if size == 64 else emitter.line(f"zext i{size} {text} to i64")


def from_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Return the value that an i64 encodes."""
    kind, size = scalar_type(dtype), 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if size != 64:
        text = emitter.line(f"trunc i64 {text} to i{size}")
    return emitter.line(f"bitcast i{size} {text} to {kind}") if dtype.kind == "f" else text


def folded_type(dtype: np.dtype) -> np.dtype:
    """Return the dtype that a reduction computes in: float32 for float16."""
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def to_folded(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Convert a value to the dtype that the reduction computes in."""
    return emitter.line(f"fpext half {text} to float") if dtype.char == "e" else text


def from_folded(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Convert a result of a reduction to the value's dtype."""
    return emitter.line(f"fptrunc float {text} to half") if dtype.char == "e" else text


def fold(emitter: Emitter, name: str, dtype: np.dtype, x: str, y: str) -> str:
    """Combine two values: add, minimum, maximum, bitwise_and, bitwise_or, bitwise_xor. Not for float16."""
    kind = scalar_type(dtype)
    if dtype.kind == "f":
        if name not in FLOAT_REDUCTIONS:
            raise CompileError(f"no {name} of {dtype} across a warp")
        return FLOAT_REDUCTIONS[name](emitter, kind, x, y)
    if name in _INTEGER_REDUCTIONS:
        return emitter.line(f"{_INTEGER_REDUCTIONS[name]} {kind} {x}, {y}")
    word = f"llvm.{'u' if dtype.kind == 'u' else 's'}{'min' if name == 'minimum' else 'max'}"
    return emitter.call(f"{word}.{kind}", kind, [(kind, x), (kind, y)])


def fold_halves(emitter: Emitter, name: str, dtype: np.dtype, values: list[str]) -> str:
    """Reduce all values of a whole warp by halves."""
    while len(values) > 1:
        half = len(values) // 2
        values = [fold(emitter, name, dtype, x, y) for x, y in zip(values[:half], values[half:], strict=True)]
    return values[0]


def fold_next(
    emitter: Emitter, name: str, dtype: np.dtype, places: tuple[str, str], value: str, takes_part: str
) -> None:
    """Combine a value with the total in memory if its thread participates. `places` are the total, and a flag (i1)
    that is set once it has a value.
    """
    total, some = places
    kind, size = scalar_type(dtype), dtype.itemsize
    before = emitter.line(f"load {kind}, ptr {total}, align {size}")
    begun = emitter.line(f"load i1, ptr {some}, align 1")
    both = fold(emitter, name, dtype, before, value)
    with_it = emitter.line(f"select i1 {begun}, {kind} {both}, {kind} {value}")
    kept = emitter.line(f"select i1 {takes_part}, {kind} {with_it}, {kind} {before}")
    emitter.do(f"store {kind} {kept}, ptr {total}, align {size}")
    emitter.do(f"store i1 {emitter.line(f'or i1 {begun}, {takes_part}')}, ptr {some}, align 1")


def source_lane(emitter: Emitter, mode: str, width: int, lane: str, other: str) -> tuple[str, str]:
    """Return the lane (i32) that a shuffle reads from, and whether it is in the group (i1), as PTX defines it."""
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
