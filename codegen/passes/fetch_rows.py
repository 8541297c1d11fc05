"""Prefetching of the next row while the current row is read for the second time.

In: a logical kernel with vectorized loops, for a CPU. Out: the kernel. If the first of several loops over a row mostly
waits for memory and a later loop mostly computes, the later loop prefetches the next row. Invariant: the kernel does
not write the prefetched memory.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value
from weft.codegen.passes.index_steps import index_steps, is_linear
from weft.codegen.passes.keep_rows import WORTH, blocks_with_loops, cost_of, loops_over_same_row
from weft.codegen.passes.rewrite import copy_of


def fetch_rows(kernel: Kernel) -> Kernel:
    """Add prefetches of rows to a kernel that accesses more memory than the caches hold, and return the kernel."""
    if not kernel.attributes.get("streams"):
        return kernel
    builder = KernelBuilder(kernel.name, kernel.index_dtype)
    builder.after(kernel)
    unwritten = {p.value for p in kernel.parameters if not p.writable}
    for outer, around in blocks_with_loops(kernel.body):
        plain = around is not None and around.attributes["role"] == "parallel" and not around.attributes.get("lanes")
        for first, *others in loops_over_same_row(kernel, outer) if plain else ():
            busy = next((loop for loop in others if _arithmetic(loop) >= WORTH), None)
            if busy is not None and _arithmetic(first) < WORTH:
                _fetch(builder, around.regions[0].parameters[0], outer, first, busy, unwritten)  # type: ignore[union-attr]
    return kernel


def _arithmetic(loop: Operation) -> int:
    return sum(cost_of(o) for o in loop.regions[0].operations)


def _fetch(
    builder: KernelBuilder, row: Value, outer: Block, first: Operation, busy: Operation, unwritten: set[Value]
) -> None:
    """Emit, in the loop `busy`, prefetches of the elements that the loop `first` will load for the next row."""
    body, later = first.regions[0], busy.regions[0]
    steps = index_steps(body.operations, body.parameters[0])
    made = {v: o for block in (outer, body) for o in block.operations for v in o.results}
    builder.blocks[:] = [Block()]
    (one,) = builder.emit("constant", (), (row.type,), value=builder.kernel.index_dtype.type(1))
    following = builder.op("add", row, one)
    outside, builder.blocks[:] = builder.block, [Block()]
    for load in body.operations:
        if load.opcode != "load" or load.operands[0] not in unwritten or steps.get(load.operands[1]) != 1:
            continue
        if is_linear(load.operands[1], row, made):  # an index from memory may not exist for the row after the last
            known = {row: following, body.parameters[0]: later.parameters[0]}
            builder.emit("fetch", (load.operands[0], copy_of(builder, load.operands[1], made, known)), ())
    later.operations[-1:-1] = builder.block.operations
    at = outer.operations.index(busy)
    outer.operations[at:at] = outside.operations
