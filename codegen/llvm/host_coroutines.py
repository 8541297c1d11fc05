"""Emission of threaded kernels for the host CPU, as coroutines.

There is one coroutine per thread, which can suspend at any synchronization point.

In: a threaded kernel after the passes. Out: the entry, the coroutine of a thread and the scheduler. A thread suspends
at each synchronization point, with the reason in its record, and at the end of each block. One set of coroutines runs
all blocks of a call. If the target requires it, the last runnable warp and lane runs first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Kernel, Operation, program_order
from weft.codegen.llvm import host_scheduler as scheduler
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.host_exchange import (
    count_result,
    from_bits,
    reduce_warp,
    site_of,
    source_lane,
    to_bits,
    vote_result,
)
from weft.codegen.llvm.host_grid import AXES, GridDialect, finish, range_loop
from weft.codegen.llvm.host_polls import BLOCK
from weft.codegen.llvm.host_scheduler import Field, State
from weft.codegen.target import Target

FULL = "-1"  # the mask of all lanes


class CoroutineDialect(GridDialect):
    """The part of the LLVM emitter (a dialect) for threads that run as coroutines. A coroutine suspends at each synchronization point."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.sites: list[str] = []
        self.shared_size = 0
        self.lane = ""  # i32
        self.warp = ""  # the record of the warp's first lane

    def notes(self, operation: Operation) -> str:
        """Return no metadata, since the memory accesses of a block's threads may depend on each other."""
        return ""

    def reserve_shared(self, emitter: Emitter) -> None:
        """Assign each shared array an address in the block's shared memory."""
        for operation in emitter.kernel.walk():
            if operation.opcode == "shared":
                self.shared.append(operation)
                address = emitter.line(f"getelementptr inbounds i8, ptr %shared, i64 {self.shared_size}")
                emitter.set(operation, Item(address))
                size = operation.results[0].element.itemsize * operation.attributes["count"]
                self.shared_size += -(-size // 64) * 64
        self.dynamic = emitter.line(f"getelementptr inbounds i8, ptr %shared, i64 {self.shared_size}")

    # -- synchronization points ---------------------------------------------------------------

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit a synchronization point, or let `GridDialect` emit any other operation."""
        if operation.opcode not in SYNCHRONIZATION:
            return super().operation(emitter, operation)
        texts = [emitter.scalar_of(v) for v in operation.operands]
        kinds = [v.type for v in operation.operands]
        match operation.opcode:
            case "barrier":
                self.synchronize(emitter, operation, State.BARRIER)
            case "grid_barrier":
                self.synchronize(emitter, operation, State.GRID)
            case "warp_barrier":
                self.synchronize(emitter, operation, State.WARP, texts[0])
            case "barrier_vote":
                self.synchronize(emitter, operation, State.BARRIER, mail=emitter.line(f"zext i1 {texts[0]} to i64"))
                votes = self.field(emitter, Field.BALLOT)
                text = count_result(emitter, operation.attributes["kind"], votes, lambda: self.members(emitter))
                emitter.set(operation, Item(text))
            case "active_mask":
                self.synchronize(emitter, operation, State.ACTIVE)
                emitter.set(operation, Item(self.members(emitter)))
            case "vote":
                mail = emitter.line(f"zext i1 {texts[1]} to i64")
                self.synchronize(emitter, operation, State.WARP, texts[0], mail)
                ballot = self.field(emitter, Field.BALLOT)
                text = vote_result(emitter, operation.attributes["kind"], ballot, lambda: self.members(emitter))
                emitter.set(operation, Item(text))
            case "shuffle" | "shuffle_xor":
                self.shuffle(emitter, operation, texts)
            case "match":
                self.match(emitter, operation, texts, kinds[1])  # type: ignore[arg-type]
            case _:
                self.reduce(emitter, operation, texts, kinds[1])  # type: ignore[arg-type]
        return True

    def synchronize(
        self, emitter: Emitter, operation: Operation, state: int, mask: str = FULL, mail: str = "0"
    ) -> None:
        """Emit code that records the number of a synchronization point, and suspends the thread."""
        self.suspend(emitter, state, len(self.sites), mask, mail)
        self.sites.append(site_of(operation))

    def suspend(self, emitter: Emitter, state: int, site: int, mask: str, mail: str) -> None:
        """Emit code that stores the state of a thread in the thread's record, and suspends the thread.

        `mail` is the value that the thread contributes to the synchronization point.
        """
        for field, kind, text in (
            (Field.STATE, "i32", str(state)),
            (Field.SITE, "i32", str(site)),
            (Field.MASK, "i32", mask),
            (Field.MAIL, "i64", mail),
        ):
            emitter.do(
                f"store {kind} {text}, ptr {self.field_address(emitter, '%record', '0', field)}, align {kind[1:]}"
            )
        _suspend(emitter)

    @staticmethod
    def field_address(emitter: Emitter, record: str, number: str, field: int) -> str:
        """Return the address of a field of a thread's record."""
        return emitter.line(f"getelementptr inbounds {scheduler.RECORD}, ptr {record}, i32 {number}, i32 {field}")

    def field(self, emitter: Emitter, field: int) -> str:
        """Emit a load of a 32-bit field of the thread's record."""
        return emitter.line(f"load i32, ptr {self.field_address(emitter, '%record', '0', field)}, align 4")

    def contribution_of(self, emitter: Emitter, lane: str) -> str:
        """Emit a load of the 64-bit value that lane `lane` has contributed."""
        return emitter.line(f"load i64, ptr {self.field_address(emitter, self.warp, lane, Field.COPY)}, align 8")

    def members(self, emitter: Emitter) -> str:
        """Emit a load of the thread's `MEMBERS` field. After a barrier, the field contains the number of participating threads.

        After a warp operation, it contains the mask of participating lanes.
        """
        return self.field(emitter, Field.MEMBERS)

    # -- results of synchronization points ------------------------------------------------------

    def shuffle(self, emitter: Emitter, operation: Operation, texts: list[str]) -> None:
        """Emit a shuffle, in which each thread reads the value of another lane.

        If that lane is unavailable, the thread reads its own value.
        """
        if operation.opcode == "shuffle_xor":
            mask, value, other = FULL, texts[0], str(operation.attributes["mask"])
        else:
            mask, value, other = texts
        dtype = operation.results[0].dtype
        own = to_bits(emitter, value, dtype)
        self.synchronize(emitter, operation, State.WARP, mask, own)
        source, inside = source_lane(emitter, operation, self.lane, other)
        safe = emitter.line(f"and i32 {source}, 31")
        there = emitter.line(f"trunc i32 {emitter.line(f'lshr i32 {self.members(emitter)}, {safe}')} to i1")
        take = emitter.line(f"and i1 {inside}, {there}")
        lane = emitter.line(f"select i1 {take}, i32 {safe}, i32 {self.lane}")
        emitter.set(operation, Item(from_bits(emitter, self.contribution_of(emitter, lane), dtype)))

    def match(self, emitter: Emitter, operation: Operation, texts: list[str], dtype: np.dtype) -> None:
        """Emit a match, whose result is the mask of the lanes with the same bits as the current lane.

        For the kind "all", the results are the mask of the participants or 0, and whether all of them contributed the
        same bits.
        """
        bits = to_bits(emitter, texts[1], dtype)
        self.synchronize(emitter, operation, State.WARP, texts[0], bits)
        members = self.members(emitter)
        found = emitter.line(f"call i32 @weft_match(ptr {self.warp}, i32 {members}, i64 {bits})")
        if operation.attributes["kind"] == "any":
            emitter.set(operation, Item(found))
            return
        same = emitter.line(f"icmp eq i32 {found}, {members}")
        first, second = operation.results
        emitter.environment[first] = Item(emitter.line(f"select i1 {same}, i32 {members}, i32 0"))
        emitter.environment[second] = Item(same)

    def reduce(self, emitter: Emitter, operation: Operation, texts: list[str], dtype: np.dtype) -> None:
        """Emit a reduction over the lanes of a warp."""
        self.synchronize(emitter, operation, State.WARP, texts[0], to_bits(emitter, texts[1], dtype))
        members = self.members(emitter)

        def read(lane: object) -> str:
            return from_bits(emitter, self.contribution_of(emitter, str(lane)), dtype)

        @contextmanager
        def lanes() -> Iterator[tuple[str, str]]:
            with range_loop(emitter, "i32", "0", "32") as lane:
                takes_part = emitter.line(f"trunc i32 {emitter.line(f'lshr i32 {members}, {lane}')} to i1")
                yield read(lane), takes_part

        is_complete = emitter.line(f"icmp eq i32 {members}, -1")
        emitter.set(operation, Item(reduce_warp(emitter, operation, is_complete, read, lanes())))


def _suspend(emitter: Emitter) -> None:
    number = emitter.fresh_number()
    how = emitter.line("call i8 @llvm.coro.suspend(token none, i1 false)")
    emitter.do(f"switch i8 {how}, label %out [ i8 0, label %resumed{number} i8 1, label %out ]")
    emitter.start_label(f"resumed{number}")


def emit_coroutines(kernel: Kernel, target: Target) -> tuple[str, set[str], list[str]]:
    """Emit a kernel whose threads are coroutines.

    Return the LLVM text, the external symbols that it calls, and the names of its synchronization points.
    """
    dialect = CoroutineDialect(target)
    emitter = Emitter(kernel, dialect)
    dialect.open_entry(emitter)
    emitter.lines = [
        f"define internal ptr @{kernel.name}__thread(ptr noalias readonly %slots, ptr %record, i64 %thread, i64 %record_index, "
        "i64 %total, ptr %arena, ptr %shared, i64 %begin, i64 %end) presplitcoroutine #0 {",
        "entry:",
    ]
    emitter.reserve_allocas()
    _begin_coroutine(emitter)
    dialect.bind_parameters(emitter)
    dialect.read_sizes(emitter)
    _set_thread_indices(emitter, dialect)
    dialect.reserve_shared(emitter)
    _suspend(emitter)
    dialect.poll_interrupts(emitter)
    number = emitter.fresh_number()
    before = emitter.label
    emitter.jump(f"block{number}")
    block, slot = emitter.reserve_phi()
    dialect.set_block_indices(emitter, block)
    _clear_locals(emitter, kernel)
    dialect.declare_context(emitter)
    emitter.block(kernel.body)
    emitter.polls.count(BLOCK)
    dialect.suspend(emitter, State.ENDED, -1, FULL, "0")
    following = emitter.line(f"add nuw nsw i64 {block}, 1")
    emitter.lines[slot] = f"  {block} = phi i64 [ %begin, %{before} ], [ {following}, %{emitter.label} ]"
    more = emitter.line(f"icmp slt i64 {following}, %end")
    emitter.fork(more, f"block{number}", "out", "out")
    emitter.do("call void @llvm.coro.end(ptr %handle, i1 false, token none)")
    emitter.close_function("ret ptr %handle")
    finish(emitter, dialect)
    cooperative = any(o.opcode == "grid_barrier" for o in program_order(kernel.body.operations))
    poison = target.schedule is not None
    emitter.globals.append(scheduler.RECORD_TYPE)
    emitter.lines += [
        scheduler.scheduler_text(target.backward),
        scheduler.entry_text(kernel.name, len(kernel.parameters), cooperative, dialect.shared_size, poison),
    ]
    return emitter.text(), {*dialect.symbols, "malloc", "free"}, dialect.sites


def _begin_coroutine(emitter: Emitter) -> None:
    """Emit code that allocates the coroutine's frame in an arena. The first thread allocates the arena."""
    emitter.lines += """\
  %id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)
  %size = call i64 @llvm.coro.size.i64()
  %size.up = add nuw nsw i64 %size, 63
  %frame.bytes = and i64 %size.up, -64
  %arena.old = load ptr, ptr %arena, align 8
  %first = icmp eq ptr %arena.old, null
  br i1 %first, label %allocate, label %allocated
allocate:
  %frames.bytes = mul nuw nsw i64 %frame.bytes, %total
  %arena.new = call ptr @malloc(i64 %frames.bytes)
  store ptr %arena.new, ptr %arena, align 8
  br label %allocated
allocated:
  %frames = phi ptr [ %arena.old, %entry ], [ %arena.new, %allocate ]
  %frame.at = mul nuw nsw i64 %frame.bytes, %record_index
  %frame = getelementptr inbounds i8, ptr %frames, i64 %frame.at
  %handle = call ptr @llvm.coro.begin(token %id, ptr %frame)""".split("\n")
    emitter.label = "allocated"


def _set_thread_indices(emitter: Emitter, dialect: CoroutineDialect) -> None:
    """Emit code that computes the indices of the thread from its position in the block."""
    kind = scalar_type(emitter.kernel.index_dtype)
    dialect.linear = emitter.narrowed("%thread")
    rest = dialect.linear
    for axis in AXES[:2]:
        extent = dialect.numbers["block_size", axis]
        dialect.numbers["thread_index", axis] = emitter.line(f"urem {kind} {rest}, {extent}")
        rest = emitter.line(f"udiv {kind} {rest}, {extent}")
    dialect.numbers["thread_index", 2] = rest
    lane = emitter.line("and i64 %thread, 31")
    dialect.lane = emitter.line(f"trunc i64 {lane} to i32")
    back = emitter.line(f"sub nsw i64 0, {lane}")
    dialect.warp = emitter.line(f"getelementptr inbounds {scheduler.RECORD}, ptr %record, i64 {back}")


def _clear_locals(emitter: Emitter, kernel: Kernel) -> None:
    """Allocate a thread's local memory, and emit code that sets its one-element variables to zero."""
    for operation in program_order(kernel.body.operations):
        if operation.opcode != "local":
            continue
        emitter.local(operation)
        if operation.attributes["count"] == 1:
            address, dtype = emitter.environment[operation.results[0]].text, operation.results[0].element
            emitter.do(f"store {memory_type(dtype)} zeroinitializer, ptr {address}, align {dtype.itemsize}")
