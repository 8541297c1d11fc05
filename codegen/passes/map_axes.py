"""Give the loops of a logical kernel to the threads of a GPU.

In: a logical kernel. Out: a threaded one, with what its launch needs in `attributes`: ``scheme``, ``block`` (threads)
and ``per_block`` (items of the launch domain that a block takes in one go). A block that is left with more goes on in
steps of the grid, so that any grid is right.

Schemes: *elements*: an item of the launch domain a thread, inner loops in order; with one parallel loop over memory
that is walked element by element, 16 bytes a thread at a time. *rows*: a row a block; its threads stride over the
innermost reduce loop, and their accumulators are folded by shuffles and through shared memory in a fixed tree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.ops import accumulators, fold
from weft.codegen.passes.choose_lanes import _inside, _itemsize, _steps, _unit_accesses
from weft.codegen.target import Target

THREADS = 256
WARP = 32


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    """The threaded form of `kernel`."""
    return _Mapper(kernel).run()


class _Mapper:
    def __init__(self, kernel: Kernel) -> None:
        self.old = kernel
        self.b = KernelBuilder(kernel.name, kernel.index_dtype)
        self.b.kernel.parameters = list(kernel.parameters)
        self.b.kernel.level = "threaded"
        self.map: dict[Value, Value] = {p.value: p.value for p in kernel.parameters}
        self.index = kernel.index_dtype

    # -- the shape of the kernel ------------------------------------------------------------

    def run(self) -> Kernel:
        """Choose the scheme and write the kernel."""
        nest = self._nest()
        inner = [o for o in _inside_block(nest[-1].regions[0] if nest else self.old.body) if o.opcode == "for"]
        reduces = [o for o in inner if o.attributes["role"] == "reduce"]
        by_rows = bool(reduces) and (not nest or _unit_accesses(reduces[-1], 0) >= _unit_accesses(nest[-1], 0))
        lanes = self._vector_lanes(nest) if not inner else 0
        scheme = "rows" if by_rows else "elements"
        per_block = 1 if by_rows else THREADS * max(lanes, 1)
        self.b.kernel.attributes = {"scheme": scheme, "block": THREADS, "per_block": per_block}
        thread = self.b.emit("thread_index", (), (self.index,), axis=0)[0]
        block = self.b.emit("block_index", (), (self.index,), axis=0)[0]
        blocks = self.b.emit("grid_size", (), (self.index,), axis=0)[0]
        if by_rows:
            self._items(nest, block, blocks, lambda: self._row(nest, thread))
        elif lanes:
            self._vectors(nest[0], thread, block, blocks, lanes)
        else:
            first, step = self._flat_start(thread, block, blocks)
            self._items(nest, first, step, lambda: self._copy(self._innermost(nest)))
        return self.b.finish()

    def _nest(self) -> list[Operation]:
        """The parallel loops, outermost first."""
        found: list[Operation] = []
        block = self.old.body
        while True:
            loop = next((o for o in block.operations if o.opcode == "for" and o.attributes["role"] == "parallel"), None)
            if loop is None:
                return found
            found.append(loop)
            block = loop.regions[0]

    def _innermost(self, nest: list[Operation]) -> Block:
        return nest[-1].regions[0] if nest else self.old.body

    def _vector_lanes(self, nest: list[Operation]) -> int:
        """Elements that make 16 bytes where every access is of consecutive elements or the same one, aligned."""
        if len(nest) != 1:
            return 0
        aligned = {p.value for p in self.old.parameters if p.align >= 16}
        steps = _steps(nest[0])
        widest = 1
        for o in _inside(nest[0]):
            if o.opcode not in ("load", "store"):
                continue
            pointer, step = o.operands[0], steps.get(o.operands[1], 0)
            if step is None or (step == 1 and pointer not in aligned) or (step == 0 and o.opcode == "store"):
                return 0
            kind = pointer.type
            if isinstance(kind, Pointer) and kind.dtype.kind == "c":
                return 0
            widest = max(widest, _itemsize(pointer))
        return min(8, 16 // widest) if widest < 16 else 0

    # -- items --------------------------------------------------------------------------------

    def _const(self, value: int) -> Value:
        return self.b.constant(value)

    def _flat_start(self, thread: Value, block: Value, blocks: Value) -> tuple[Value, Value]:
        size = self._const(THREADS)
        first = self.b.op("add", self.b.op("multiply", block, size), thread)
        return first, self.b.op("multiply", blocks, size)

    def _invariants(self, nest: list[Operation], upto: int) -> None:
        """What stands around the loop at depth `upto` in its block, but for the loop itself."""
        block = nest[upto - 1].regions[0] if upto else self.old.body
        for o in block.operations:
            if upto < len(nest) and o is nest[upto]:
                return
            if o.opcode != "yield":
                self._copy_operation(o)

    def _items(self, nest: list[Operation], first: Value, step: Value, body: Callable[[], None]) -> None:
        """Run `body` for the items first, first + step, ... of the launch domain, with the loops' indices set."""
        self._invariants(nest, 0) if nest else None
        if not nest:
            # one item: block 0 has it, or thread 0
            only = self.b.op("equal", first, self._const(0), dtype=np.bool_)
            self._when(only, body)
            return
        stops: list[Value] = []
        for o in nest:
            stops.append(self.map[o.operands[1]])
        total = stops[0]
        for stop in stops[1:]:
            total = self.b.op("multiply", total, stop)
        with self.b.loop(total, "serial", start=first, initial=[], step_from=True) as loop:
            rest = loop.index
            indices: list[Value] = []
            for stop in reversed(stops[1:]):
                quotient = self.b.op("_truncate_divide", rest, stop)
                indices.append(self.b.op("subtract", rest, self.b.op("multiply", quotient, stop)))
                rest = quotient
            indices.append(rest)
            for depth, (o, index) in enumerate(zip(nest, reversed(indices), strict=True)):
                self.map[o.regions[0].parameters[0]] = index
                if depth + 1 < len(nest):
                    self._invariants(nest, depth + 1)
            body()
        _set_step(self.b.block.operations[-1], step)

    def _when(self, condition: Value, body: Callable[[], None]) -> None:
        then, otherwise = Block(), Block()
        self.b.blocks.append(then)
        body()
        self.b.blocks.pop()
        for block in (then, otherwise):
            block.operations.append(Operation("yield"))
        self.b.block.operations.append(Operation("if", (condition,), (), {}, (then, otherwise)))

    # -- elements ------------------------------------------------------------------------------

    def _vectors(self, loop: Operation, thread: Value, block: Value, blocks: Value, lanes: int) -> None:
        """16 bytes a thread, then what does not fill them one by one."""
        self._invariants([loop], 0)
        extent = self.map[loop.operands[1]]
        count = self._const(lanes)
        whole = self.b.op("_truncate_divide", extent, count)
        first, step = self._flat_start(thread, block, blocks)
        index = loop.regions[0].parameters[0]
        with self.b.loop(whole, "serial", start=first, step_from=True) as outer:
            base = self.b.op("multiply", outer.index, count)
            with self.b.loop(self.b.op("add", base, count), "serial", start=base, lanes=lanes, whole=True) as inner:
                self.map[index] = inner.index
                self._copy(loop.regions[0])
        _set_step(self.b.block.operations[-1], step)
        begin = self.b.op("add", self.b.op("multiply", whole, count), first)
        with self.b.loop(extent, "serial", start=begin, step_from=True) as tail:
            self.map[index] = tail.index
            self._copy(loop.regions[0])
        _set_step(self.b.block.operations[-1], step)
        self.b.kernel.attributes["aligned"] = tuple(p.value.name for p in self.old.parameters if p.align >= 16)

    # -- rows ------------------------------------------------------------------------------------

    def _row(self, nest: list[Operation], thread: Value) -> None:
        """One row by all threads of the block: the fold striding, everything stored once."""
        zero = self.b.op("equal", thread, self._const(0), dtype=np.bool_)
        for o in self._innermost(nest).operations:
            if o.opcode == "for" and o.attributes["role"] == "reduce":
                results = self._striding(o, thread)
                for value, result in zip(o.results, self._fold_block(o, results, thread), strict=True):
                    self.map[value] = result
            elif o.opcode == "store":
                self._when(zero, lambda o=o: self._copy_operation(o))  # type: ignore[misc]
            elif o.opcode == "for" and o.attributes["role"] == "parallel":
                raise AssertionError("parallel loops are perfectly nested")
            elif o.opcode != "yield":
                self._copy_operation(o)

    def _striding(self, o: Operation, thread: Value) -> tuple[Value, ...]:
        """A reduce loop whose innermost loop the threads of the block share."""
        region = o.regions[0]
        deeper = any(i.opcode == "for" and i.attributes["role"] == "reduce" for i in region.operations)
        start, stop = (self.map[v] for v in o.operands[:2])
        initial = [self.map[v] for v in o.operands[2:]]
        if not deeper:
            start = self.b.op("add", start, thread)
        extra = {} if deeper else {"step": THREADS}
        names = o.attributes["combine"]
        with self.b.loop(stop, "reduce", start=start, initial=initial, combine=names, **extra) as loop:
            self.map[region.parameters[0]] = loop.index
            for parameter, value in zip(region.parameters[1:], loop.carried, strict=True):
                self.map[parameter] = value
            yielded: tuple[Value, ...] = ()
            for i in region.operations:
                if i.opcode == "yield":
                    yielded = tuple(self.map[v] for v in i.operands)
                elif i.opcode == "for" and i.attributes["role"] == "reduce":
                    for value, result in zip(i.results, self._striding(i, thread), strict=True):
                        self.map[value] = result
                else:
                    self._copy_operation(i)
            loop.yield_(*yielded)
        return loop.results

    def _fold_block(self, o: Operation, values: tuple[Value, ...], thread: Value) -> tuple[Value, ...]:
        """Every thread's accumulators as one, known to all threads."""
        names = o.attributes["combine"]
        distance = WARP // 2
        while distance:
            others = tuple(self.b.emit("shuffle_xor", (v,), (v.type,), mask=distance)[0] for v in values)
            values = self._fold_all(names, values, others)
            distance //= 2
        warps = THREADS // WARP
        shared = [self.b.emit("shared", (), (Pointer(v.type, "shared"),), count=warps)[0] for v in values]  # type: ignore[arg-type]
        lane = self.b.op("_truncate_remainder", thread, self._const(WARP))
        warp = self.b.op("_truncate_divide", thread, self._const(WARP))
        leader = self.b.op("equal", lane, self._const(0), dtype=np.bool_)

        def keep() -> None:
            for pointer, value in zip(shared, values, strict=True):
                self.b.store(pointer, warp, value)

        self._when(leader, keep)
        self.b.emit("barrier")
        found = tuple(self.b.load(pointer, self._const(0)) for pointer in shared)
        for k in range(1, warps):
            found = self._fold_all(names, found, tuple(self.b.load(pointer, self._const(k)) for pointer in shared))
        # nobody may write the next row's partials while somebody still reads these
        self.b.emit("barrier")
        return found

    def _fold_all(
        self, names: tuple[str, ...], first: tuple[Value, ...], second: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        result: list[Value] = []
        for name in names:
            width = slice(len(result), len(result) + accumulators(name))
            result.extend(fold(self.b, name, first[width], second[width]))
        return tuple(result)

    # -- copying -------------------------------------------------------------------------------

    def _copy(self, block: Block) -> list[Value]:
        for o in block.operations:
            if o.opcode == "yield":
                return [self.map[v] for v in o.operands]
            self._copy_operation(o)
        return []

    def _copy_operation(self, o: Operation) -> None:
        operands = tuple(self.map[v] for v in o.operands)
        regions = []
        for region in o.regions:
            parameters = tuple(self.b.fresh(v.type) for v in region.parameters)
            self.map.update(zip(region.parameters, parameters, strict=True))
            block = Block(parameters)
            self.b.blocks.append(block)
            yielded = self._copy(region)
            self.b.blocks.pop()
            block.operations.append(Operation("yield", tuple(yielded)))
            regions.append(block)
        results = tuple(self.b.fresh(v.type) for v in o.results)
        self.map.update(zip(o.results, results, strict=True))
        self.b.block.operations.append(Operation(o.opcode, operands, results, dict(o.attributes), tuple(regions)))


def _inside_block(block: Block) -> list[Operation]:
    found: list[Operation] = []
    stack = [block]
    while stack:
        for o in stack.pop().operations:
            found.append(o)
            stack.extend(o.regions)
    return found


def _set_step(loop: Operation, step: Value) -> None:
    """Give a loop that was built with ``step_from`` the value it grows by: its last operand."""
    loop.operands = (*loop.operands, step)
