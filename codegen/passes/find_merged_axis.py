"""Search for kernels whose adjacent blocks can run as one block.

In: operations of a threaded kernel. Out: whether they neither synchronize threads nor wait, and use the indices of
blocks and threads along an axis only to compute positions in the grid, ``block_index * block_size + thread_index``. A
loop over adjacent threads then need not end at the end of a block. Invariant: no thread waits for another, so threads
may run in any order.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Kernel, Operation, Value, program_order

_OF_BLOCK = SYNCHRONIZATION | {"shared", "dynamic_shared", "lane_index", "trace"}
# Operations with which a thread may wait for a thread of another block.
_WAITS = frozenset({"atomic_cas", "fence", "clock", "sleep"})
_NUMBERS = frozenset({"thread_index", "block_index", "block_size", "grid_size", "lane_index"})


def can_merge_blocks(kernel: Kernel, operations: list[Operation], axis: int) -> bool:
    """Return whether a kernel's operations allow adjacent blocks along an axis to run as one block."""
    if any(o.opcode in _OF_BLOCK | _WAITS or o.attributes.get("volatile") for o in operations):
        return False
    loops = [o for o in operations if o.opcode == "repeat"]
    if any(o.opcode == "atomic" for loop in loops for o in program_order(loop.regions[0].operations)):
        return False
    bodies = (function.body for function in kernel.functions)
    if any(o.opcode in _NUMBERS for body in bodies for o in program_order(body.operations)):
        return False
    return _Positions(kernel, operations, axis).are_complete()


class _Positions:
    """Analysis of whether the indices along an axis are used only to compute grid positions."""

    def __init__(self, kernel: Kernel, operations: list[Operation], axis: int) -> None:
        self.axis = axis
        self.operations = operations
        self.makers = {v: o for o in program_order(kernel.body.operations) for v in o.results}
        self.users: dict[Value, list[Operation]] = {}
        for o in operations:
            for value in o.operands:
                self.users.setdefault(value, []).append(o)

    def are_complete(self) -> bool:
        """Return whether every use of a thread or block index along the axis is part of a complete grid position.

        A grid position is the start of the block plus the thread index.
        """
        for o in self.operations:
            if o.opcode in ("thread_index", "block_index") and o.attributes.get("axis", 0) == self.axis:
                for use, value in self.uses(o.results[0]):
                    if o.opcode == "thread_index" and not self.is_position(use, value):
                        return False
                    if o.opcode == "block_index" and not self.is_start_of_block(use, value):
                        return False
        return True

    def uses(self, value: Value) -> list[tuple[Operation, Value]]:
        """Return pairs of an operation and its operand, where the operand is the value or a widening cast of it."""
        found = []
        for use in self.users.get(value, ()):
            if use.opcode == "cast" and _is_wider(use):
                found += self.uses(use.results[0])
            else:
                found.append((use, value))
        return found

    def is_start_of_block(self, o: Operation, value: Value) -> bool:
        """Return whether an operation computes the start of a block, and is used only in sums with the thread index."""
        if o.opcode != "multiply" or not self.is_number(_other(o, value), "block_size"):
            return False
        return all(
            use.opcode == "add" and self.is_number(_other(use, start), "thread_index")
            for use, start in self.uses(o.results[0])
        )

    def is_position(self, o: Operation, value: Value) -> bool:
        """Return whether an operation adds the start of the block to the thread index."""
        start = self.source(_other(o, value)) if o.opcode == "add" else None
        if start is None or start.opcode != "multiply":
            return False
        x, y = start.operands
        return any(self.is_number(a, "block_index") and self.is_number(b, "block_size") for a, b in ((x, y), (y, x)))

    def source(self, value: Value) -> Operation | None:
        """Return the operation that computes a value, or None if there is none. Skip casts to wider types."""
        maker = self.makers.get(value)
        while maker is not None and maker.opcode == "cast" and _is_wider(maker):
            maker = self.makers.get(maker.operands[0])
        return maker

    def is_number(self, value: Value, opcode: str) -> bool:
        maker = self.source(value)
        return maker is not None and maker.opcode == opcode and maker.attributes.get("axis", 0) == self.axis


def _other(o: Operation, value: Value) -> Value:
    """Return the other operand of a binary operation that has `value` as one of its two operands."""
    x, y = o.operands
    return y if x is value else x


def _is_wider(cast: Operation) -> bool:
    source, target = cast.operands[0].type, cast.results[0].type
    return source.kind == target.kind == "i" and target.itemsize >= source.itemsize  # type: ignore[union-attr]
