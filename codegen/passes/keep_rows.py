"""Storage of intermediate values of a row, so that later loops over the row need not recompute them.

In: a logical kernel. `describe_rows` gives the kernel the ``kept`` attribute if its rows are short enough, and
`keep_rows` runs after lanes are chosen. Out: the first loop that computes a value which later loops would recompute
also stores it in thread-local memory, and the later loops load it. Invariant: a kept value depends on nothing that the
kernel has written, and is computed by the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Kernel, Operation, Pointer, Type, Value, program_order
from weft.codegen.ops.op_table import find_op

# Maximum number of bytes of a row's kept values: they fit in a core's caches, with the row that they are computed from.
ROOM = 64 << 10
LINE = 64  # alignment in bytes of kept rows
WORTH = 16  # minimum number of instructions whose recomputation costs more than a store and loads


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of elements that several loops of a kernel process. One loop stores values, so that later loops need not compute them again.

    The loops are in the same `block`. `kept` maps each stored value to the values that recompute it in later loops.
    """

    block: Block
    loops: list[Operation]
    kept: dict[Value, list[Value]]

    @property
    def length(self) -> str:
        """Return the name of the parameter that holds the row's length."""
        return self.loops[0].operands[1].name


def describe_rows(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """Find rows so short that a loop can store computed values for later loops. Return a kernel whose ``kept`` attribute lists these rows."""
    room: dict[str, int] = {}
    for row in _rows(kernel):
        points = ROOM // sum(value.dtype.itemsize for value in row.kept)
        if row.length in sizes and sizes[row.length] <= points:
            room[row.length] = min(points, room.get(row.length, points))
    known = tuple(x for name in sorted(room) for x in (name, room[name]))
    return replace(kernel, attributes={**kernel.attributes, "kept": known}) if known else kernel


def keep_rows(kernel: Kernel) -> Kernel:
    """Store values that several loops over a row compute, so that only the first loop computes them.

    The ``kept`` attribute gives the rows that are short enough.
    """
    given = kernel.attributes.get("kept", ())
    room = dict(zip(given[::2], given[1::2], strict=True))
    builder = KernelBuilder.after(kernel)
    for row in _rows(kernel) if room else ():
        if row.length in room and all(loop.attributes.get("lanes") for loop in row.loops):
            for value, again in row.kept.items():
                _keep(builder, row, value, again, room[row.length])
            for loop in row.loops:
                _drop_unused(loop.regions[0])
    return kernel


def _rows(kernel: Kernel) -> list[_Row]:
    """Return the rows that have values worth storing."""
    found = [(block, loops) for block in kernel.blocks() for loops in _loops_over_same_row(kernel, block)]
    numbers = _number(kernel) if found else {}
    rows = [_Row(block, loops, _worth_keeping(loops, numbers)) for block, loops in found]
    return [row for row in rows if row.kept]


def _loops_over_same_row(kernel: Kernel, block: Block) -> list[list[Operation]]:
    """Return the groups of loops in a block that run over the same row."""
    zeros = {v for v, number in kernel.constants().items() if not number}
    found: dict[Value, list[Operation]] = {}
    for o in block.operations:
        if o.opcode == "for" and o.attributes["role"] == "reduce" and o.attributes.get("step", 1) == 1:
            straight = not any(inner.regions for inner in o.regions[0].operations)
            if straight and o.operands[0] in zeros:
                found.setdefault(o.operands[1], []).append(o)
    return [group for group in found.values() if len(group) > 1]


def _worth_keeping(loops: list[Operation], numbers: Mapping[Value, object]) -> dict[Value, list[Value]]:
    """Select the values that later loops should load instead of computing them again. Return a dict from each value to its recomputations.

    Values are worth storing if they cost more to compute than to load.
    """
    first: dict[object, Value] = {}
    found: dict[Value, list[Value]] = {}
    for loop in loops:
        body = loop.regions[0]
        made = {v: o for o in body.operations for v in o.results}
        known = {v for v in made if numbers[v] in first}
        for value in _used_beside(body, known):
            if _cost(value, made) >= WORTH and _is_plain(value.type):
                found.setdefault(first[numbers[value]], []).append(value)
        for v in made:
            first.setdefault(numbers[v], v)
    return found


def _is_plain(kind: Type) -> bool:
    return not isinstance(kind, Pointer) and kind.kind in "fiu"


def _number(kernel: Kernel) -> dict[Value, object]:
    """Number all values, so that equal computations on the same element of a row have equal numbers."""
    # (A result may be written to the memory of an operand, but only after the kernel's last read of each element.)
    unwritten = {p.value for p in kernel.parameters if not p.writable}
    numbers: dict[Value, object] = {p.value: p.value for p in kernel.parameters}
    spelled: dict[object, int] = {}
    for o in program_order(kernel.body.operations):
        for block in o.regions:
            numbers.update((v, v) for v in block.parameters)
            # only in innermost loops: the index of a loop around them denotes another element of the row
            innermost = not any(inner.regions for inner in block.operations)
            if innermost and o.opcode == "for" and o.attributes["role"] == "reduce":
                numbers[block.parameters[0]] = "point"
        pure = o.opcode in ("constant", "cast") or o.opcode not in STRUCTURAL
        if o.opcode == "load":
            pure = o.operands[0] in unwritten
        if not pure or o.regions or len(o.results) != 1 or any(v not in numbers for v in o.operands):
            numbers.update((v, v) for v in o.results)
            continue
        what = (o.opcode, o.results[0].type, repr(sorted(o.attributes.items())), *(numbers[v] for v in o.operands))
        numbers[o.results[0]] = spelled.setdefault(what, len(spelled))
    return numbers


def _used_beside(body: Block, known: set[Value]) -> list[Value]:
    """Return the values in `known` that are also used outside: by an operation whose own result is not in `known`."""
    return list(
        dict.fromkeys(v for o in body.operations if known.isdisjoint(o.results) for v in o.operands if v in known)
    )


def _cost(value: Value, made: Mapping[Value, Operation]) -> int:
    """Return the approximate number of instructions that compute a value in a loop's body."""
    total, seen, stack = 0, {value}, [value]
    while stack:
        o = made.get(stack.pop())
        if o is None:
            continue
        total += find_op(o.opcode).cost if o.opcode not in STRUCTURAL else 0
        stack += [v for v in o.operands if v not in seen]
        seen.update(o.operands)
    return total


def _keep(builder: KernelBuilder, row: _Row, value: Value, again: list[Value], count: int) -> None:
    """Insert a store of a value after its first computation, and replace later computations of it by loads."""
    memory = builder.fresh(Pointer(value.dtype, "local"))
    row.block.operations.insert(0, Operation("local", (), (memory,), {"count": count, "align": LINE}))
    for loop in row.loops:
        body = loop.regions[0]
        for at, o in enumerate(list(body.operations)):
            if value in o.results:
                body.operations.insert(at + 1, Operation("store", (memory, body.parameters[0], value)))
            elif not set(again).isdisjoint(o.results):
                body.operations[at] = Operation("load", (memory, body.parameters[0]), o.results)


def _drop_unused(body: Block) -> None:
    used: set[Value] = set()
    left = []
    for o in reversed(body.operations):
        if not o.results or not used.isdisjoint(o.results):
            used.update(o.operands)
            left.append(o)
    body.operations[:] = left[::-1]
