"""The GPU schedule of long reductions in one launch.

The last block to finish combines the partial results of all blocks.

In: a logical kernel from `merge_kernels`. Out: the threaded kernel. Invariant: the result does not depend on which
block is last, because the last block combines the partial results in a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Value
from weft.codegen.kernel_ir.verify import parts_of
from weft.codegen.machines import GPU
from weft.codegen.passes.known_multiples import Multiples, aligned_vectors
from weft.codegen.passes.merge_kernels import COUNTER
from weft.codegen.schedules.columns import find_columns
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.nest import Nest, find_nest
from weft.codegen.schedules.rows import RowFacts, RowNest, RowWriter, find_row, vectors_kept
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# A block's part is a long row. Four blocks of 512 threads fill a multiprocessor (with at most 32 registers per thread).
# With two 16-byte vectors per thread, they keep 64 KiB in flight, and an H200 needs 48 KiB: more loads would only make
# the code longer.
PARTIAL_LOADS = 2
# 32-bit registers of a thread for a part that is read twice, and the total number with which two blocks fit.
PARTIAL_REGISTERS = 64
TWO_BLOCKS = 64
# Maximum number of partial results that one warp combines, in few registers. The whole block combines more of them.
FEW_PARTS = 512


def find_parts(kernel: Kernel) -> list[tuple[Nest, RowNest]]:
    """Return the loop nest and the row loops of each part of a merged kernel."""
    parts = []
    for operations in parts_of(kernel, kernel.body):
        body = Block()
        body.operations = operations
        nest = find_nest(Kernel(kernel.name, kernel.parameters, body, kernel.index_dtype))
        row = find_row(nest)
        assert row is not None
        parts.append((nest, row))
    return parts


def can_merge(first: Kernel, second: Kernel) -> bool:
    """Return whether two kernels are row reductions that can be merged into one launch.

    The first kernel must not reduce columns, since the second part of a column reduction needs several blocks.
    """
    nests = [find_nest(kernel) for kernel in (first, second)]
    return all(find_row(nest) is not None for nest in nests) and find_columns(nests[0]) is None


@dataclass(frozen=True, slots=True)
class SplitReduction(Decision):
    """The parameters of the GPU schedule of long reductions.

    They are for the blocks that reduce the parts, and for the last block, which combines the partial results.

    `kept` is the number of vectors of a part that each thread keeps in registers if the part is read twice. `finish`
    describes how to combine the partial results: the number of threads, the number of vectors that each thread keeps,
    and whether all vectors are whole. If `finish` is empty, the launch decides.
    """

    kept: int = 0
    finish: tuple[int, int, bool] | tuple[()] = ()
    keeps_alignment: ClassVar[bool] = True


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> SplitReduction | None:
    """If a kernel was merged from two kernels, return the parameters of this schedule for it, otherwise None.

    Unless `exact`, the launch decides how to combine the partial results.
    """
    if "merged" not in kernel.attributes:
        return None
    (_, partial), (_, final) = find_parts(kernel)
    kept = 0
    parts = _block_bounds(partial)
    if len(partial.loops) > 1 and parts is not None:
        kept = vectors_kept(partial, sizes[parts[0].name], GPU.wide_block, PARTIAL_REGISTERS)
    bounds = partial.start, partial.stop
    vectors, multiples = aligned_vectors(kernel, partial.loop_bodies(), sizes, partial.lanes(), *bounds, exact=exact)
    if not exact:
        return SplitReduction(kept, vectors=vectors, multiples=multiples)
    known = Multiples(kernel, sizes, exact=True)
    whole = all(known.needed(v, partial.lanes()) is not None for v in bounds)
    count = sizes[final.stop.name]
    threads = GPU.warp if count <= FEW_PARTS else GPU.wide_block
    final_whole = count % final.lanes() == 0
    vectors += aligned_vectors(kernel, final.loop_bodies(), sizes, final.lanes(), final.stop, exact=True)[0]
    finish = threads, vectors_kept(final, count, threads), final_whole
    return SplitReduction(kept, finish, vectors=vectors, whole=whole)


def write(kernel: Kernel, nest: Nest, decision: SplitReduction, target: Target) -> Kernel:
    """Lower a long reduction to one GPU kernel. Each block computes a partial result, and the last block to finish combines all partial results."""
    (nest, partial), (rest, final) = find_parts(kernel)
    w = ThreadWriter(kernel, nest, GPU.wide_block)
    w.bind(nest.levels, w.block)
    vectors = decision.vectors
    if decision.kept:
        w.builder.kernel.attributes["register_aims"] = (TWO_BLOCKS,)
    length = _block_length(partial, w)

    def reduce_block(kept: int, whole: bool, vectors: tuple[str, ...]) -> None:
        RowWriter(w, partial, GPU.wide_block, w.thread, RowFacts(kept, whole, vectors, length, PARTIAL_LOADS)).write(
            nest
        )

    whole = decision.whole or bool(decision.multiples)
    w.choose_version(  # (other rows are read again, which needs less code)
        w.are_multiples(decision.multiples, partial.lanes()),
        lambda: reduce_block(decision.kept, whole, vectors),
        lambda: reduce_block(0, False, ()),
    )
    last = _count(w, kernel)
    with w.when(last):
        if decision.finish:
            threads, kept, whole = decision.finish
            _finish(w, rest, final, threads, RowFacts(kept, whole, vectors, w.exact.get(final.stop.name)))
        else:
            few = w.test("less_equal", w.map[final.stop], FEW_PARTS)
            facts = RowFacts(loads=PARTIAL_LOADS, rest_at_once=False)
            w.choose_version(
                few,
                lambda: _finish(w, rest, final, GPU.warp, facts),
                lambda: _finish(w, rest, final, GPU.wide_block, facts),
            )
    return w.finish("split", 1, every=True)


def _block_bounds(partial: RowNest) -> tuple[Value, Value] | None:
    """Return the number of elements that each block reduces, and the end of the last block.

    Return None for bounds of another form.
    """
    stops = {o.results[0]: o for o in partial.prologue if o.opcode == "minimum"}
    sums = {o.results[0]: o for o in partial.prologue if o.opcode == "add"}
    stop = stops.get(partial.stop)
    if stop is None or stop.operands[0] not in sums:
        return None
    return sums[stop.operands[0]].operands[1], stop.operands[1]


def _block_length(partial: RowNest, w: ThreadWriter) -> int | None:
    """Return the number of elements that every block reduces, or None.

    The result is None if the number is not a constant, or if it differs between blocks.
    """
    parts = _block_bounds(partial)
    if parts is None:
        return None
    length, extent = (w.exact.get(v.name) for v in parts)
    return length if length and extent is not None and extent % length == 0 else None


def _count(w: ThreadWriter, kernel: Kernel) -> Value:
    """Emit code that counts finished blocks. The returned condition is true in the last block."""
    b = w.builder
    counter = next(p.value for p in kernel.parameters if p.value.name == COUNTER)
    final = b.cast(w.compute("subtract", w.grid, 1), np.uint32)

    def count() -> list[Value]:
        # acquire and release: this thread's writes come before, and reads of other blocks' writes come after
        operands, kind = (counter, w.number(0), final), np.dtype(np.uint32)
        (old,) = b.emit("atomic", operands, (kind,), kind="increment", order="acq_rel")
        return [b.op("equal", old, final)]

    (last,) = w.select(w.test("equal", w.thread, 0), count, lambda: [w.number(False, np.bool_)])
    (votes,) = b.emit("barrier_vote", (last,), (np.dtype(np.int32),), kind="or")
    return b.op("not_equal", votes, w.number(0, np.int32))


def _finish(w: ThreadWriter, nest: Nest, row: RowNest, threads: int, known: RowFacts) -> None:
    """Emit code that combines the partial results of all blocks.

    Each result is computed by `threads` threads, which are a warp or the whole block.
    """
    w.nest = nest
    group, part = (w.number(0), w.thread) if threads == GPU.wide_block else w.split(w.thread, threads)
    if not nest.levels:
        with w.when(w.test("equal", group, 0)):
            RowWriter(w, row, threads, part, known).write(nest)
        return
    w.copy(nest.levels[0].before)
    with w.loop(w.product(w.extents()), group, step=GPU.wide_block // threads) as item:
        w.bind(nest.levels, item)
        RowWriter(w, row, threads, part, known).write(nest)
        if threads == GPU.wide_block:
            w.barrier()
