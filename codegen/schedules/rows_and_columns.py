"""The GPU schedule of row-and-column reductions.

Such a kernel reduces the same elements along both axes. A warp or a block iterates over rows, reduces each row, and
keeps the results of its columns in registers.

In: a logical kernel whose items initialize the column accumulators and then iterate over rows. In each row a loop
reduces the row, and adds its elements to the columns. Out: the threaded kernel, which keeps the column accumulators
in registers until all rows are done. A row is reduced as in `rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.schedules.lanes import Slot
from weft.codegen.schedules.nest import Nest, is_spread
from weft.codegen.schedules.rows import EachRow, RowFacts, RowNest, RowWriter, decide, write_items
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# More registers than a thread has: the registers were checked before the kernel was written.
ANY = 1 << 20


@dataclass(frozen=True, slots=True)
class RowColumnNest:
    """The parts of a kernel that reduces the same elements along rows and along columns.

    The parts are the operations before the rows, the initialization of the columns, and the loop over rows with its
    body.
    """

    before: list[Operation]
    begin: Operation
    rows: Operation
    row: RowNest


def find_row_columns(nest: Nest) -> RowColumnNest:
    """Return the parts of a row-and-column reduction. The kernel must have the form that this schedule expects."""
    *before, rows = nest.item
    begin = next(o for o in before if is_spread(o))
    inside = [o for o in rows.regions[0].operations if o.opcode != "yield"]
    at = next(k for k, o in enumerate(inside) if is_spread(o))
    row = RowNest(inside[: at + 1], inside[at + 1 :], [inside[at]])
    return RowColumnNest([o for o in before if o is not begin], begin, rows, row)


class RowColumnReduction(EachRow):
    """The parameters of the GPU schedule of row-and-column reductions.

    They are those of `EachRow`, and have their default values until the sizes are known.
    """


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> EachRow | None:
    """Choose the parameters of this schedule for a row-and-column reduction. Return None for other kernels."""
    if not isinstance(kernel.attributes.get("schedule"), RowColumnReduction):
        return None
    return decide(RowColumnReduction, kernel, find_row_columns(nest).row, sizes, ANY)


def write(kernel: Kernel, nest: Nest, decision: RowColumnReduction, target: Target) -> Kernel:
    """Lower a row-and-column reduction to a kernel for GPU threads."""
    parts = find_row_columns(nest)
    threads = decision.threads
    w = ThreadWriter(kernel, nest, max(threads, GPU.block))
    known = RowFacts(decision.kept, decision.whole, decision.vectors, w.exact.get(parts.row.stop.name))
    return write_items(
        w, threads, "rows_and_columns", lambda part: RowWriterWithColumns(w, parts, threads, part, known).write(nest)
    )


class RowWriterWithColumns(RowWriter):
    """Writer of a reduction along rows and columns at once. The emitted code processes the elements row by row.

    `columns[slot][lane]` are the accumulators of one column.
    """

    def __init__(self, w: ThreadWriter, parts: RowColumnNest, threads: int, part: Value, known: RowFacts) -> None:
        super().__init__(w, parts.row, threads, part, known)
        self.parts = parts
        self.stores = [o for o in parts.begin.regions[0].operations if o.opcode == "store"]
        self.scratch = [o.operands[0] for o in self.stores]
        self.columns: list[list[list[Value]]] = []

    def write(self, nest: Nest) -> None:
        """Emit all operations of the rows in order."""
        w, rows = self.w, self.parts.rows
        for o in (*nest.inward, *self.parts.before):
            self.writer.point(o)
        self.slots = self._kept_slots()
        w.copy(o for o in program_order([self.parts.begin]) if o.opcode == "constant")
        nothing = [w.map[store.operands[2]] for store in self.stores]
        flat = nothing * (len(self.slots) * self.lanes)
        first, stop = (w.map[v] for v in rows.operands[:2])
        how: dict[str, Any] = {"step": rows.attributes.get("step", 1), "rolled": True}
        with self.writer.scope(), w.builder.loop(stop, "serial", start=first, initial=flat, **how) as opened:
            w.map[rows.regions[0].parameters[0]] = opened.index
            self.columns = self._by_slot(opened.carried)
            for part in (*([o] for o in self.row.prologue), *([self.row.epilogue] if self.row.epilogue else [])):
                self._part(part)
            if self.threads != GPU.warp:
                w.barrier()
            opened.yield_(*(v for slot in self.columns for lane in slot for v in lane))
        self.columns = self._by_slot(opened.results)
        self._store_columns()

    def _by_slot(self, flat: Sequence[Value]) -> list[list[list[Value]]]:
        width = len(self.stores)
        lanes = [list(flat[k : k + width]) for k in range(0, len(flat), width)]
        return [lanes[k : k + self.lanes] for k in range(0, len(lanes), self.lanes)]

    def _copy(self, operations: list[Operation], slots: Sequence[Slot], loop: Operation) -> None:
        """Emit the operations of a row once per element of this thread. Omit loads and stores of column results, which stay in registers."""
        for slot, lanes in zip(slots, self.columns, strict=True):
            for values, found in zip(slot.values, lanes, strict=True):
                for o in operations:
                    if o.opcode == "load" and o.operands[0] in self.scratch:
                        values[o.results[0]] = found[self.scratch.index(o.operands[0])]
        kept = [o for o in operations if o.opcode not in ("load", "store") or o.operands[0] not in self.scratch]
        super()._copy(kept, slots, loop)
        written = {o.operands[0]: o.operands[2] for o in operations if o.opcode == "store"}
        self.columns = [
            [[self.writer.value(slot, lane, written[p]) for p in self.scratch] for lane in range(self.lanes)]
            for slot in slots
        ]

    def _store_columns(self) -> None:
        body = self.parts.begin.regions[0]
        address = [o for o in body.operations if o.opcode not in ("store", "yield", "constant")]
        for k, store in enumerate(self.stores):
            self.writer.begin(self.slots, body.parameters[0])
            for slot, lanes in zip(self.slots, self.columns, strict=True):
                for values, found in zip(slot.values, lanes, strict=True):
                    values[store.operands[2]] = found[k]
            self.writer.copy([*address, store], self.slots, body.parameters[0])
