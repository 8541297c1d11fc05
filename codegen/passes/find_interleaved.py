"""Groups of loads, or of stores, that access consecutive elements in each iteration of a vectorized loop.

In: the body of the loop. Out: the groups. If consecutive iterations access consecutive groups of elements, the emitter
accesses whole vectors instead, and a shuffle takes each lane's elements out of them, or puts them in.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.codegen.kernel_ir.operation import Block, Operation, Value, program_order
from weft.codegen.passes.index_steps import constant_offsets
from weft.codegen.passes.split_at_barriers import is_pure


def find_interleaved(body: Block, unwritten: Collection[Value]) -> dict[Operation, list[Operation]]:
    """Map the loads and stores in a loop body to their groups.

    A group consists of loads or of stores in one block, and accesses consecutive elements in ascending order. No memory
    operation between the first and the last prevents that all of them are executed at once: loads at the first load's
    position, stores at the last store's. `unwritten` contains pointers to memory that the loop does not write.
    """
    offsets = constant_offsets(program_order(body.operations))
    found: dict[Operation, list[Operation]] = {}
    blocks = [body]
    while blocks:
        opened: dict[tuple[str, Value, Value], list[Operation]] = {}
        for operation in blocks.pop().operations:
            blocks += operation.regions
            opcode = operation.opcode
            if opcode not in ("load", "store"):
                if not is_pure(operation) and opcode != "yield":
                    opened.clear()
                continue
            pointer, index = operation.operands[:2]
            key = opcode, pointer, offsets.get(index, (index, 0))[0]
            if pointer not in unwritten:
                opened = {k: v for k, v in opened.items() if k == key or k[1] in unwritten or k[0] == opcode == "load"}
            group = opened.setdefault(key, [])
            if group and _offset(operation, offsets) != _offset(group[-1], offsets) + 1:
                group = opened[key] = []
            group.append(operation)
            found[operation] = group
    return found


def _offset(access: Operation, offsets: dict[Value, tuple[Value, int]]) -> int:
    index = access.operands[1]
    return offsets.get(index, (index, 0))[1]
