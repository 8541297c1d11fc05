"""Tiling of loops that read operands along rows and along columns.

In: a logical kernel whose innermost loops are vectorized. Out: the kernel with tiled loops where a vectorized loop
contains a load that is contiguous along the enclosing loop. Such a load reads from a transposed copy of its tile.
Memory is then read in whole cache lines, and each line is read once. Invariant: the kernel does not write the copied
memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.passes.index_steps import index_steps, is_linear
from weft.codegen.passes.rewrite import copy_of

MOST_TILES = 4  # maximum number of tiles in a kernel
MOST_SIZE = 256
AHEAD = 3  # prefetch distance in rows of a tile: the hardware prefetcher restarts in each row
ROOM = 256 << 10  # maximum number of bytes of a kernel's tiles
SHORT_STEPS = range(-4, 5)  # strides in elements of loads without a tile: whole vectors are loaded and shuffled


def tile_size(itemsizes: Sequence[int]) -> int:
    """Return the side length of square tiles, as a number of elements. `itemsizes` gives the bytes per element of each tile.

    A row of a tile has at most two kilobytes, and all tiles fit into a core's L2 cache.
    """
    size = MOST_SIZE
    while size * size * sum(itemsizes) > ROOM:
        size //= 2
    return size


def tile_transposes(kernel: Kernel) -> Kernel:
    """Tile each pair of nested loops that benefits from tiling.

    If an outermost loop is tiled, its tile size becomes the kernel's ``grain`` attribute: the granularity of the chunks
    into which CPU threads divide the loop.
    """
    nests = _nests(kernel.body, [])
    for block, outer in nests:
        inner = _inner(outer)
        loads = _strided_loads(kernel, outer, inner) if inner is not None else []
        if inner is None or not loads:
            continue
        size = tile_size([load.results[0].dtype.itemsize for load in loads])
        at = block.operations.index(outer)
        block.operations[at : at + 1] = _Tiling(kernel, outer, inner, loads, size).build()
        if block is kernel.body:
            kernel.attributes = {**kernel.attributes, "grain": size}
    return kernel


def _nests(block: Block, found: list[tuple[Block, Operation]]) -> list[tuple[Block, Operation]]:
    """Find all parallel loops in a block of operations. Append each loop to `found`, together with the block directly around it."""
    for operation in block.operations:
        if operation.opcode == "for" and operation.attributes["role"] == "parallel":
            found.append((block, operation))
            _nests(operation.regions[0], found)
    return found


def _inner(outer: Operation) -> Operation | None:
    """Return the vectorized loop at the end of a loop's body, or None if the two loops cannot be tiled."""
    operations = outer.regions[0].operations
    plain = outer.attributes.get("step", 1) == 1 and not outer.attributes.get("lanes")
    if not plain or len(operations) < 2 or operations[-2].opcode != "for" or operations[-2].operands[2:]:
        return None
    *before, last, _ = operations
    alone = all(not operation.regions and operation.results for operation in before)
    suited = last.attributes["role"] == "parallel" and last.attributes.get("lanes") and alone
    along = index_steps(before, outer.regions[0].parameters[0])
    if last.operands[1] in along:
        return None  # the loop is not the same in each iteration
    return last if suited and last.attributes.get("step", 1) == 1 else None


def _strided_loads(kernel: Kernel, outer: Operation, inner: Operation) -> list[Operation]:
    """Return the loads that are contiguous along the outer loop and strided along the inner loop.

    Only loads of real values from read-only arrays are included. Return an empty list if there are too many.
    """
    unwritten = {p.value for p in kernel.parameters if p.noalias and not p.writable}
    along = index_steps(outer.regions[0].operations, outer.regions[0].parameters[0])
    index = inner.regions[0].parameters[0]
    steps = index_steps(inner.regions[0].operations, index)
    made = {v: o for o in inner.regions[0].operations for v in o.results}
    found = [
        o
        for o in inner.regions[0].operations
        if o.opcode == "load"
        and o.operands[0] in unwritten
        and o.results[0].dtype.kind != "c"
        and along.get(o.operands[1]) == 1
        and steps.get(o.operands[1], 0) not in SHORT_STEPS
        and is_linear(o.operands[1], index, made)
    ]
    return found if len(found) <= MOST_TILES else []


class _Tiling:
    """The tiling of a pair of loops."""

    def __init__(self, kernel: Kernel, outer: Operation, inner: Operation, loads: list[Operation], size: int) -> None:
        self.builder = KernelBuilder.after(kernel)
        self.outer = outer
        self.inner = inner
        self.loads = loads
        self.size = size
        self.made = {v: o for loop in (outer, inner) for o in loop.regions[0].operations for v in o.results}

    def build(self) -> list[Operation]:
        """Return the operations that replace the outer loop."""
        b, size = self.builder, self.size
        step = b.constant(size)
        rows, columns = self.outer.operands[1], self._copied(self.inner.operands[1], {})
        with b.loop(rows, "parallel", step=size) as down:
            below = b.op("minimum", b.op("add", down.index, step), rows)
            with b.loop(columns, "parallel", step=size) as across:
                beyond = b.op("minimum", b.op("add", across.index, step), columns)
                tiles = self._tiles(down.index, below, across.index, beyond)
                self._rows(down.index, below, across.index, beyond, tiles)
        return b.block.operations

    def _tiles(self, top: Value, below: Value, left: Value, beyond: Value) -> list[Value]:
        b = self.builder
        height, width = b.op("subtract", below, top), b.op("subtract", beyond, left)
        index = self.outer.regions[0].parameters[0], self.inner.regions[0].parameters[0]
        tiles: list[Value] = []
        for load in self.loads:
            pointer, where = load.operands
            first = self._copied(where, dict(zip(index, (top, left), strict=True)))
            second = self._copied(where, dict(zip(index, (top, b.op("add", left, b.constant(1))), strict=True)))
            stride = b.op("subtract", second, first)
            kind = Pointer(pointer.element, "local")
            operands = (pointer, first, stride, height, width)
            tiles += b.emit("transposed", operands, (kind,), size=self.size)
        return tiles

    def _copied(self, value: Value, known: dict[Value, Value]) -> Value:
        """Emit the computation of a value once more, with some inputs replaced. The dict `known` maps old inputs to new ones."""
        return copy_of(self.builder, value, self.made, known)

    def _along(self) -> list[Operation]:
        """Return the loads that are contiguous along the rows of a tile."""
        steps = index_steps(self.inner.regions[0].operations, self.inner.regions[0].parameters[0])
        found = [o for o in self.inner.regions[0].operations if o.opcode == "load" and steps.get(o.operands[1]) == 1]
        return [o for o in found if is_linear(o.operands[1], self.outer.regions[0].parameters[0], self.made)]

    def _rows(self, top: Value, below: Value, left: Value, beyond: Value, tiles: list[Value]) -> None:
        """Emit the loops over the rows of a tile, with transposed operands loaded from tiles."""
        b = self.builder
        row, column = self.outer.regions[0].parameters[0], self.inner.regions[0].parameters[0]
        tile_of = dict(zip(self.loads, tiles, strict=True))
        with b.region((row,)) as block:
            block.operations += self.outer.regions[0].operations[:-2]
            line = b.op("multiply", b.op("subtract", row, top), b.constant(self.size))
            line = b.op("subtract", line, left)
            with b.region((column,)) as body:
                where = b.op("add", line, column)
                later = {row: b.op("add", row, b.constant(AHEAD))}
                for load in self._along():
                    b.emit("fetch", (load.operands[0], self._copied(load.operands[1], {**later, column: column})), ())
                for o in self.inner.regions[0].operations:
                    copy = Operation("load", (tile_of[o], where), o.results, o.attributes) if o in tile_of else o
                    body.operations.append(copy)
            b.emit("for", (left, beyond), (), (body,), **{**self.inner.attributes, "role": "serial"})
        b.emit("for", (top, below), (), (block,), **{**self.outer.attributes, "role": "serial"})
