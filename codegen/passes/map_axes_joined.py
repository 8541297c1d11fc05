"""Long folds in one launch: a block folds a chunk, and the last block that is through folds what all of them found.

In: a logical kernel that `join_kernels` made. Out: the threaded kernel. Always true: which block is the last does not show:
it folds the partial results in the order of the chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Value
from weft.codegen.kernel_ir.verify import parts_of
from weft.codegen.passes.join_kernels import TICKET
from weft.codegen.passes.known_multiples import aligned_pointers, known_multiples
from weft.codegen.passes.map_axes_nest import Nest, find_nest
from weft.codegen.passes.map_axes_rows import BLOCK, RowFacts, RowNest, RowWriter, find_row
from weft.codegen.passes.map_axes_writer import ThreadWriter


def split_joined(kernel: Kernel) -> tuple[Nest, Nest]:
    """The nests of the two parts."""
    parts = []
    for operations in parts_of(kernel, kernel.body):
        body = Block()
        body.operations = operations
        parts.append(find_nest(Kernel(kernel.name, kernel.parameters, body, kernel.index_dtype)))
    return parts[0], parts[1]


def can_join(first: Kernel, second: Kernel) -> bool:
    """Whether both parts are folds over rows."""
    return all(find_row(find_nest(kernel)) is not None for kernel in (first, second))


def describe_joined(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, Any]:
    """``whole`` and ``vectors`` for these sizes, of the first part."""
    nest, _ = split_joined(kernel)
    row = find_row(nest)
    assert row is not None
    lanes = row.lanes()
    known = {p.value: sizes.get(p.value.name, 1) or lanes for p in kernel.parameters}
    multiples = known_multiples(kernel.body.operations, known)
    if any(multiples.get(v, 1) % lanes for v in (row.start, row.stop)):
        return {}
    return {"whole": True, "vectors": aligned_pointers(kernel, row.walks(), sizes, lanes)}


def map_joined(kernel: Kernel) -> Kernel:
    """The threaded form of a joined kernel."""
    nest, rest = split_joined(kernel)
    chunk, final = find_row(nest), find_row(rest)
    assert chunk is not None
    assert final is not None
    w = ThreadWriter(kernel, nest, BLOCK)
    w.bind(nest.levels, w.block)
    attributes = kernel.attributes
    known = RowFacts(0, bool(attributes.get("whole")), attributes.get("vectors", ()), _chunk_length(chunk, w))
    RowWriter(w, chunk, BLOCK, w.thread, known).write(nest)
    last = _count(w, kernel)
    with w.when(last):
        _finish(w, rest, final)
    return w.finish("joined", 1, every=True)


def _chunk_length(chunk: RowNest, w: ThreadWriter) -> int | None:
    """The length of a chunk, where it is known and all are alike: chunks are (start, min(start + length, extent))."""
    stops = {o.results[0]: o for o in chunk.head if o.opcode == "minimum"}
    sums = {o.results[0]: o for o in chunk.head if o.opcode == "add"}
    stop = stops.get(chunk.stop)
    if stop is None or stop.operands[0] not in sums:
        return None
    length, extent = w.exact.get(sums[stop.operands[0]].operands[1].name), w.exact.get(stop.operands[1].name)
    return length if length and extent is not None and extent % length == 0 else None


def _count(w: ThreadWriter, kernel: Kernel) -> Value:
    """Whether this block is the last one to come here, the same in all of its threads."""
    b = w.builder
    ticket = next(p.value for p in kernel.parameters if p.value.name == TICKET)
    final = b.cast(w.compute("subtract", w.grid, 1), np.uint32)

    def count() -> list[Value]:
        # what the thread has written comes before, what the others have written is read behind
        b.emit("fence", scope="device", order="acq_rel")
        (old,) = b.emit("atomic", (ticket, w.number(0), final), (np.dtype(np.uint32),), kind="increment")
        b.emit("fence", scope="device", order="acq_rel")
        return [b.op("equal", old, final, dtype=np.bool_)]

    (last,) = w.select(w.test("equal", w.thread, 0), count, lambda: [w.number(False, np.bool_)])
    (votes,) = b.emit("barrier_vote", (last,), (np.dtype(np.int32),), kind="or")
    return b.op("not_equal", votes, w.number(0, np.int32), dtype=np.bool_)


def _finish(w: ThreadWriter, nest: Nest, row: RowNest) -> None:
    w.nest = nest
    if not nest.levels:
        RowWriter(w, row, BLOCK, w.thread, RowFacts(lanes=1)).write(nest)
        return
    w.copy(nest.levels[0].before)
    with w.loop(w.product(w.extents())) as item:
        w.bind(nest.levels, item)
        RowWriter(w, row, BLOCK, w.thread, RowFacts(lanes=1)).write(nest)
        w.barrier()


__all__ = ["can_join", "describe_joined", "map_joined"]
