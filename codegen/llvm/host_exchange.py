"""Code for shuffles, votes and reductions on the host CPU.

The code is for kernels that run as loops over threads, and for kernels that run as coroutines.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit import Emitter, scalar_type
from weft.codegen.llvm.emit_text import bit_width
from weft.codegen.llvm.host_atomics import combine


def site_of(operation: Operation) -> str:
    """Return the description of a synchronization point, for messages."""
    line = operation.attributes.get("line")
    return operation.opcode + (f" in line {line}" if line else "")


def to_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Emit code that encodes a value as an i64: its bits, zero-extended."""
    text, size = emitter.as_integer(text, dtype), bit_width(dtype)
    return text if size == 64 else emitter.line(f"zext i{size} {text} to i64")


def from_bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    """Emit code that decodes an i64 as a value of the given dtype. The parameter `text` is the LLVM name of the i64."""
    if (size := bit_width(dtype)) != 64:
        text = emitter.line(f"trunc i64 {text} to i{size}")
    return emitter.from_integer(text, dtype)


def count_result(emitter: Emitter, kind: str, votes: str, members: Callable[[], str]) -> str:
    """Emit the result of a barrier vote: the number of true votes, or the AND or OR of all votes.

    `members` emits the number of threads that vote.
    """
    if kind == "count":
        return votes
    held = emitter.line(f"icmp eq i32 {votes}, {members()}" if kind == "and" else f"icmp ne i32 {votes}, 0")
    return emitter.line(f"zext i1 {held} to i32")


def vote_result(emitter: Emitter, kind: str, ballot: str, members: Callable[[], str]) -> str:
    """Emit the result of a warp vote. Bit k of `ballot` is the vote of lane k.

    `members` emits the mask of the lanes that vote.
    """
    if kind == "ballot":
        return ballot
    none = emitter.line(f"icmp eq i32 {ballot}, 0")
    if kind == "any":
        return emitter.line(f"xor i1 {none}, true")
    every = emitter.line(f"icmp eq i32 {ballot}, {members()}")
    return every if kind == "all" else emitter.line(f"or i1 {every}, {none}")


def reduce_warp(
    emitter: Emitter,
    operation: Operation,
    is_complete: str,
    read: Callable[[int], str],
    lanes: AbstractContextManager[tuple[str, str]],
) -> str:
    """Emit a reduction over the participating lanes of a warp.

    The values are combined in a tree if all 32 lanes take part, otherwise in the order of the lanes.

    Parameters
    ----------
    is_complete : str
        Whether all lanes take part (i1).
    read : callable
        Emits a load of a lane's value.
    lanes : context manager
        Emits a loop over the lanes, and yields a lane's value and whether the lane takes part.
    """
    name, dtype = operation.attributes["kind"], operation.operands[1].dtype
    wide = np.dtype(np.float32) if dtype.char == "e" else dtype
    kind, number = scalar_type(wide), emitter.fresh_number()
    total, some = emitter.alloca(kind, wide.itemsize), emitter.variable("i1", "false")
    emitter.fork(is_complete, f"whole{number}", f"part{number}")
    values = [emitter.convert(read(lane), dtype, wide, 0) for lane in range(32)]
    while len(values) > 1:
        half = len(values) // 2
        values = [combine(emitter, name, wide, x, y) for x, y in zip(values[:half], values[half:], strict=True)]
    emitter.do(f"store {kind} {values[0]}, ptr {total}, align {wide.itemsize}")
    emitter.jump(f"reduced{number}", f"part{number}")
    with lanes as (value, takes_part):
        _combine_next(emitter, name, wide, (total, some), emitter.convert(value, dtype, wide, 0), takes_part)
    emitter.jump(f"reduced{number}")
    return emitter.convert(emitter.line(f"load {kind}, ptr {total}, align {wide.itemsize}"), wide, dtype, 0)


def _combine_next(
    emitter: Emitter, name: str, dtype: np.dtype, addresses: tuple[str, str], value: str, takes_part: str
) -> None:
    """Emit code that combines the value of a participating thread with a reduction's total in memory.

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


def source_lane(emitter: Emitter, operation: Operation, lane: str, other: str) -> tuple[str, str]:
    """Return the lane that a shuffle reads, and whether the shuffle's width permits reading it.

    The lane is an i32. The second result is an i1.
    """
    mode, width = operation.attributes.get("mode", "xor"), operation.attributes.get("width", 32)
    first = emitter.line(f"and i32 {lane}, {32 - width}")
    last = emitter.line(f"or i32 {lane}, {width - 1}")
    near = emitter.line(f"and i32 {other}, 31")
    if mode == "idx":
        inner = emitter.line(f"and i32 {near}, {width - 1}")
        return emitter.line(f"or i32 {first}, {inner}"), "true"
    word = {"up": "sub", "down": "add", "xor": "xor"}[mode]
    source = emitter.line(f"{word} i32 {lane}, {near}")
    return source, emitter.line(f"icmp sge i32 {source}, {first}" if mode == "up" else f"icmp sle i32 {source}, {last}")
