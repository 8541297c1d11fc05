"""The `trace` operation on the host, which appends an event to a log.

Invariant: an event has as many words as the kernel's ``trace`` attribute. The words are the site with the thread's
number in the upper half, the block's number, the address (0 without a pointer), and the values. Values that are not
indices, such as floats, are given by their bits. Threads and blocks are numbered with x fastest. The log
``weft_trace_log`` contains the number of words in use, the largest such number that leaves room for one more event, and
the events. ``weft_trace_full`` empties the log.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Operation, Pointer
from weft.codegen.llvm.emit import Emitter, Item
from weft.codegen.llvm.host_exchange import to_bits
from weft.runtime import read_llvm


def emit_trace(
    emitter: Emitter, operation: Operation, numbers: dict[tuple[str, int], str], thread: str, symbols: set[str]
) -> None:
    """Emit code that appends an event to the log, and checks the alignment of the accessed address."""
    if "weft_trace_note" not in emitter.declarations:
        symbols.update(("weft_trace_log", "weft_trace_full"))
        emitter.globals.append("@weft_trace_log = external global i64, align 8")
        emitter.declare("weft_trace_full", "void", [])
        emitter.declarations["weft_trace_note"] = read_llvm(
            __file__, "host_trace", WIDTH=emitter.kernel.attributes["trace"]
        )
    upper = emitter.line(f"shl i64 {emitter.widened(thread)}, 32")
    what = emitter.line(f"or i64 {upper}, {operation.attributes['site']}")
    block = emitter.widened(numbers["block_index", 2])
    for axis in (1, 0):
        row = emitter.line(f"mul nuw nsw i64 {block}, {emitter.widened(numbers['grid_size', axis])}")
        block = emitter.line(f"add nuw nsw i64 {row}, {emitter.widened(numbers['block_index', axis])}")
    values, address = operation.operands, "0"
    if values and isinstance(values[0].type, Pointer):
        address = emitter.line(f"ptrtoint ptr {emitter.scalar_of(values[0])} to i64")
        values = values[1:]
    record = emitter.line(f"call ptr @weft_trace_note(i64 {what}, i64 {block}, i64 {address})")
    for k, value in enumerate(values):
        slot = emitter.line(f"getelementptr inbounds i64, ptr {record}, i64 {k}")
        text = emitter.scalar_of(value)
        is_index = value.type == emitter.kernel.index_dtype
        text = emitter.widened(text) if is_index else to_bits(emitter, text, value.dtype)
        emitter.do(f"store i64 {text}, ptr {slot}, align 8")
    low = emitter.line(f"and i64 {address}, {operation.attributes.get('align', 1) - 1}")
    emitter.set(operation, Item(emitter.line(f"icmp eq i64 {low}, 0")))
