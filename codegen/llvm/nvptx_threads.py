"""LLVM text for GPUs: thread indices, and operations of several threads.

Out: calls to LLVM intrinsics, most of which are one instruction. A barrier of the grid is a loop that polls a counter.
Invariant: shuffles transfer values as 32-bit words, and therefore support every dtype of up to 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.llvm.emit import Emitter, Item
from weft.codegen.llvm.emit_text import bit_width

_REGISTERS = {
    "thread_index": "tid",
    "block_index": "ctaid",
    "block_size": "ntid",
    "grid_size": "nctaid",
    "lane_index": "laneid",
}
# Operations that are a single intrinsic: its name, and the type of its result.
_INTRINSICS = {
    "barrier": ("llvm.nvvm.barrier0", "void"),
    "warp_barrier": ("llvm.nvvm.bar.warp.sync", "void"),
    "active_mask": ("llvm.nvvm.activemask", "i32"),
    "clock": ("llvm.nvvm.read.ptx.sreg.clock64", "i64"),
    "sleep": ("llvm.nvvm.nanosleep", "void"),
}
_FULL = "-1"  # the mask of all 32 lanes


def intrinsic(emitter: Emitter, operation: Operation) -> None:
    """Emit an operation as a call to its intrinsic, with the same operands."""
    name, kind = _INTRINSICS[operation.opcode]
    text = emitter.call(name, kind, [(emitter.type_of(v.type), emitter.scalar_of(v)) for v in operation.operands])
    if operation.results:
        emitter.set(operation, Item(text))


def number(emitter: Emitter, operation: Operation) -> None:
    """Emit a read of a thread, block or lane index, or of a dimension of the grid or block."""
    axis = "" if operation.opcode == "lane_index" else f".{'xyz'[operation.attributes.get('axis', 0)]}"
    text = special_register(emitter, f"{_REGISTERS[operation.opcode]}{axis}")
    if emitter.kernel.index_dtype.itemsize == 8:
        text = emitter.line(f"zext i32 {text} to i64")
    emitter.set(operation, Item(text))


def special_register(emitter: Emitter, name: str) -> str:
    """Emit a read of a 32-bit special register."""
    return emitter.call(f"llvm.nvvm.read.ptx.sreg.{name}", "i32", [])


# -- barriers -------------------------------------------------------------------------------------


def barrier_vote(emitter: Emitter, operation: Operation) -> None:
    """Emit a block-wide barrier that also counts or combines the threads' conditions."""
    kind = operation.attributes["kind"]
    said = emitter.line(f"zext i1 {emitter.scalar_of(operation.operands[0])} to i32")
    name = f"llvm.nvvm.barrier0.{'popc' if kind == 'count' else kind}"
    emitter.set(operation, Item(emitter.call(name, "i32", [("i32", said)])))


def grid_barrier(emitter: Emitter, operation: Operation) -> None:
    """Emit a grid-wide barrier, which uses a counter in global memory.

    One thread per block adds to the counter: 1, or in the first block the number that makes the total 2**31. The top
    bit of the counter therefore flips each time all blocks have arrived, and the counter is never reset. The ID of the
    grid selects one of 64 counters, so that concurrent launches usually use different counters.
    """
    slots = 64
    counters = f"@{emitter.kernel.name}__grid"
    declared = f"{counters} = internal addrspace(1) global [{slots} x i32] zeroinitializer, align 4"
    if declared not in emitter.globals:
        emitter.globals.append(declared)
    emitter.call("llvm.nvvm.barrier0", "void", [])
    names = ("tid", "ctaid", "nctaid")
    threads, blocks, sizes = ([special_register(emitter, f"{name}.{axis}") for axis in "xyz"] for name in names)
    first_thread, first_block = (_all_zero(emitter, numbers) for numbers in (threads, blocks))
    k = emitter.fresh_number()
    emitter.fork(first_thread, f"arrive{k}", f"through{k}")
    launch = emitter.line('call i64 asm "mov.u64 $0, %gridid;", "=l"()')
    slot = emitter.line(f"urem i64 {launch}, {slots}")
    counter = emitter.line(f"getelementptr inbounds i32, ptr addrspace(1) {counters}, i64 {slot}")
    count = emitter.line(f"mul i32 {emitter.line(f'mul i32 {sizes[0]}, {sizes[1]}')}, {sizes[2]}")
    rest = emitter.line(f"sub i32 {-(2**31) + 1}, {count}")
    mine = emitter.line(f"select i1 {first_block}, i32 {rest}, i32 1")
    emitter.do('fence syncscope("device") seq_cst')
    old = emitter.line(f'atomicrmw add ptr addrspace(1) {counter}, i32 {mine} syncscope("device") monotonic, align 4')
    emitter.jump(f"wait{k}")
    now = emitter.line(f'load atomic i32, ptr addrspace(1) {counter} syncscope("device") acquire, align 4')
    flipped = emitter.line(f"icmp slt i32 {emitter.line(f'xor i32 {now}, {old}')}, 0")
    emitter.fork(flipped, f"through{k}", f"wait{k}")
    emitter.call("llvm.nvvm.barrier0", "void", [])


def _all_zero(emitter: Emitter, numbers: list[str]) -> str:
    together = emitter.line(f"or i32 {emitter.line(f'or i32 {numbers[0]}, {numbers[1]}')}, {numbers[2]}")
    return emitter.line(f"icmp eq i32 {together}, 0")


# -- shuffles -------------------------------------------------------------------------------------


def shuffle_xor(emitter: Emitter, operation: Operation) -> None:
    """Emit a butterfly shuffle, in which the lanes of a warp exchange values at a constant XOR distance."""
    distance = str(operation.attributes["mask"])
    emitter.set(operation, Item(_moved(emitter, operation.operands[0], "bfly", _FULL, distance, 31)))


def shuffle(emitter: Emitter, operation: Operation) -> None:
    """Emit a shuffle among the lanes in a mask."""
    mask, value, lane = operation.operands
    mode, width = operation.attributes["mode"], operation.attributes.get("width", 32)
    # bits 8 to 12 select the bits of a lane's index that identify its group; the low bits are the group's upper bound
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    name = "bfly" if mode == "xor" else mode
    text = _moved(emitter, value, name, emitter.scalar_of(mask), emitter.scalar_of(lane), clamp)
    emitter.set(operation, Item(text))


def _moved(emitter: Emitter, value: Value, mode: str, mask: str, lane: str, clamp: int) -> str:
    parts = [
        emitter.call(
            f"llvm.nvvm.shfl.sync.{mode}.i32", "i32", [("i32", mask), ("i32", part), ("i32", lane), ("i32", str(clamp))]
        )
        for part in to_words(emitter, emitter.scalar_of(value), value.dtype)
    ]
    return from_words(emitter, parts, value.dtype)


def to_words(emitter: Emitter, text: str, dtype: np.dtype) -> list[str]:
    """Return the bits of a value as 32-bit integers, least significant first."""
    text, size = emitter.as_integer(text, dtype), bit_width(dtype)
    if size == 64:
        high = emitter.line(f"trunc i64 {emitter.line(f'lshr i64 {text}, 32')} to i32")
        return [emitter.line(f"trunc i64 {text} to i32"), high]
    return [text if size == 32 else emitter.line(f"zext i{size} {text} to i32")]


def from_words(emitter: Emitter, parts: list[str], dtype: np.dtype) -> str:
    """Assemble a value from 32-bit words that hold its bits, as the inverse of `to_words`."""
    size = bit_width(dtype)
    if size == 64:
        high = emitter.line(f"shl i64 {emitter.line(f'zext i32 {parts[1]} to i64')}, 32")
        text = emitter.line(f"or i64 {emitter.line(f'zext i32 {parts[0]} to i64')}, {high}")
    else:
        text = parts[0] if size == 32 else emitter.line(f"trunc i32 {parts[0]} to i{size}")
    return emitter.from_integer(text, dtype)


# -- votes ----------------------------------------------------------------------------------------


def vote(emitter: Emitter, operation: Operation) -> None:
    """Emit a vote of the lanes in a mask."""
    arguments = [("i32", emitter.scalar_of(operation.operands[0])), ("i1", emitter.scalar_of(operation.operands[1]))]
    kind = operation.attributes["kind"]
    name = "uni" if kind == "eq" else kind
    text = emitter.call(f"llvm.nvvm.vote.{name}.sync", "i32" if kind == "ballot" else "i1", arguments)
    emitter.set(operation, Item(text))


def match(emitter: Emitter, operation: Operation) -> None:
    """Emit a comparison of the bits of a value between the lanes in a mask.

    For the kind "any", the result is the mask of the lanes that hold the same bits as the current lane. For the kind
    "all", the results are the given mask if all its lanes hold the same bits, otherwise 0, and whether they do.
    """
    mask, value = operation.operands
    text, size = emitter.as_integer(emitter.scalar_of(value), value.dtype), bit_width(value.dtype)
    if size < 32:
        text, size = emitter.line(f"zext i{size} {text} to i32"), 32
    arguments = [("i32", emitter.scalar_of(mask)), (f"i{size}", text)]
    if operation.attributes["kind"] == "any":
        emitter.set(operation, Item(emitter.call(f"llvm.nvvm.match.any.sync.i{size}", "i32", arguments)))
        return
    both = emitter.call(f"llvm.nvvm.match.all.sync.i{size}p", "{i32, i1}", arguments)
    emitter.set_results(operation, "{i32, i1}", both)


def warp_reduce(emitter: Emitter, operation: Operation) -> None:
    """Emit a warp reduction of 32-bit integers as one instruction, which requires sm_80.

    `expand_warp_reduce` expands all other reductions.
    """
    mask, value = operation.operands
    kind = operation.attributes["kind"].removeprefix("bitwise_").replace("imum", "")
    kind = "u" + kind if kind in ("min", "max") and value.dtype.kind == "u" else kind
    arguments = [("i32", emitter.scalar_of(value)), ("i32", emitter.scalar_of(mask))]
    emitter.set(operation, Item(emitter.call(f"llvm.nvvm.redux.sync.{kind}", "i32", arguments)))


OPERATIONS: dict[str, Callable[[Emitter, Operation], None]] = {
    **dict.fromkeys(_REGISTERS, number),
    **dict.fromkeys(_INTRINSICS, intrinsic),
    # (these functions are named like their operations)
    **{f.__name__: f for f in (barrier_vote, grid_barrier, shuffle_xor, shuffle, vote, match, warp_reduce)},
}
