"""Rewriting of strided loops, so that all threads run the same iteration together.

In: a threaded kernel for the host. Out: versions of the kernel in which a loop such as
``for i in range(cuda.grid(1), n, cuda.gridsize(1))`` has one counter for all threads, which starts at the first
thread's start. Each thread adds its distance from the first thread to get its index. The loop over threads can then
run inside the loop. Otherwise a thread runs all its iterations alone, at a stride of many elements. Invariant: each
thread does the same work in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, SYNCHRONIZATION, Block, Kernel, Operation, Pointer, Value
from weft.codegen.passes.conditions import is_signed
from weft.codegen.passes.find_private_arrays import COMBINED
from weft.codegen.passes.find_uniform import Uniformity, find_uniform
from weft.codegen.passes.index_steps import program_order
from weft.codegen.passes.linear_index import is_integer
from weft.codegen.passes.rewrite import Rewriter, copy_of

_EXTENTS = {"block_index": "grid_size", "thread_index": "block_size"}
# Synchronization points at which several blocks can arrive together.
_OF_BLOCKS = frozenset({"barrier", "warp_barrier", "shuffle", "shuffle_xor", "vote", "warp_reduce"})
# Operations by which a thread in a loop may wait for other threads, or may observe the order of execution.
_WAITS = frozenset({"atomic", "atomic_cas", "call", "clock", "sleep", "fence", "trace", "print", "assembly"})
_TOGETHER = 4  # iterations of a short loop that a thread executes before other threads run
_SHORT = 32  # maximum number of operations of a short loop
_MOST_TERMS = 48  # maximum number of indices, sizes and constants from which the start of a loop is computed
_STRAIGHT = frozenset({"load", "store", "offset", "if", "scope", "leave"})


@dataclass
class StridedLoop:
    """A loop ``while i < stop: ...; i += step`` whose first `i` differs between threads.

    Attributes
    ----------
    variable : Value
        The `local` that holds `i`.
    label : str
        Label of the scope around the loop.
    start, stop, step : Value
    repeat : Operation
        The `repeat` of the loop.
    test : Operation
        The `if` that leaves the loop. Operations before it have no side effects.
    """

    variable: Value
    label: str
    start: Value
    stop: Value
    step: Value
    repeat: Operation
    test: Operation


def share_strides(kernel: Kernel) -> Iterator[Kernel]:
    """Yield versions of a kernel, the fastest first. In each version, threads share the counters of strided loops.

    In the fastest version, all blocks share the counters too, so that the elements of an iteration are adjacent. This
    version exists only if the start of some loop depends on both the block index and the thread index, and if no block
    may wait for another.
    """
    if not any(o.opcode == "repeat" for o in kernel.walk()):
        return
    for among in ("grid", "block"):
        finder = _Finder(replace(kernel, attributes={**kernel.attributes, "in_step": among}))
        if finder.loops and (among == "block" or (finder.mixes_indices() and finder.blocks_are_independent())):
            yield _Sharer(finder).run()


class _Finder:
    def __init__(self, kernel: Kernel) -> None:
        self.loops: dict[Operation, StridedLoop] = {}  # keyed by the scope around the `repeat`
        self.makers: dict[Value, Operation] = {}
        self.uses: dict[Value, list[Operation]] = {}  # operations that use each `local`
        self.positions: dict[Operation, int] = {}
        self.counted: set[Operation] = set()  # `repeat` loops that end after a number of iterations known at the start
        # sums and products of positive constants, sizes and indices -> the opcodes of all terms and factors
        self.counts: dict[Value, tuple[str, ...]] = {}
        self.uniform: Uniformity | None = None
        self.kernel = kernel
        for position, o in enumerate(program_order(kernel.body.operations)):
            self.positions[o] = position
            self.makers.update(dict.fromkeys(o.results, o))
            if (found := self.count(o)) is not None:
                self.counts.update(dict.fromkeys(o.results, found))
            for value in o.operands:
                if isinstance(value.type, Pointer) and value.type.space == "local":
                    self.uses.setdefault(value, []).append(o)
        self.search(kernel.body)

    def search(self, block: Block) -> None:
        """Find the strided loops in a block of operations."""
        starts: dict[Value, Operation] = {}
        for o in block.operations:
            if o.opcode == "store" and o.operands[0] in self.uses:
                starts[o.operands[0]] = o
            inner = [x for x in o.regions[0].operations if x.opcode != "yield"] if o.opcode == "scope" else []
            if len(inner) == 1 and inner[0].opcode == "repeat":
                found = self.loop(o, inner[0], starts)
                if found is not None:
                    self.loops[o] = found
            for region in o.regions:
                self.search(region)

    def loop(self, scope: Operation, repeat: Operation, starts: dict[Value, Operation]) -> StridedLoop | None:
        """Return the description of a strided loop that the threads can run together, or None for other loops."""
        label = scope.attributes["label"]
        operations = repeat.regions[0].operations
        at = next((k for k, o in enumerate(operations) if o.opcode == "if"), len(operations))
        head, test = operations[:at], operations[at] if at < len(operations) else None
        if test is None or not all(self.is_pure(o) for o in head) or not _only_leaves(test, label):
            return None
        found = self.compared(test.operands[0])
        if found is None:
            return None
        variable, stop = found
        first = starts.get(variable)
        inside = list(program_order(repeat.regions[0].operations))
        advance = self.advance(variable, repeat, inside)
        if first is None or advance is None or not self.is_counter(variable, first, scope, inside):
            return None
        start, step = first.operands[2], self.step(advance)
        if step is not None and self.is_constant(stop, set(inside)):
            self.counted.add(repeat)
        others = [o for o in inside if o.opcode == "leave" and o not in test.regions[0].operations]
        known = {o.attributes["label"] for o in inside if o.opcode == "scope"}
        if step is None or any(o.attributes["label"] not in known for o in others) or _may_wait(inside):
            return None
        self.uniform = self.uniform or find_uniform(self.kernel)
        if self.uniform.differs((stop, step)) or start not in self.uniform.varying:
            return None
        if start not in self.counts or step not in self.counts:
            return None
        return StridedLoop(variable, label, start, stop, step, repeat, test)

    def is_constant(self, value: Value, inside: set[Operation]) -> bool:
        """Return whether a value stays constant during a loop. The set `inside` contains the loop's operations."""
        maker = self.makers.get(value)
        if maker is None or maker not in inside:
            return True
        return maker.opcode != "load" and all(self.is_constant(v, inside) for v in maker.operands)

    def is_pure(self, o: Operation) -> bool:
        """Return whether an operation, such as a load of a variable, may run once for all threads."""
        return (
            o.opcode in ("constant", "cast")
            or o.opcode not in STRUCTURAL
            or (o.opcode == "load" and o.operands[0] in self.uses)
        )

    def compared(self, condition: Value) -> tuple[Value, Value] | None:
        """Return the variable and the bound of a condition ``variable >= stop``, or None for other conditions.

        The condition may also be ``not variable < stop``.
        """
        maker = self.makers.get(condition)
        negative = maker is not None and maker.opcode == "bitwise_xor" and self.is_true(maker.operands[1])
        if maker is not None and negative:
            maker = self.makers.get(maker.operands[0])
        if maker is None or maker.opcode != ("less" if negative else "greater_equal"):
            return None
        load = self.makers.get(maker.operands[0])
        if load is None or load.opcode != "load" or load.operands[0] not in self.uses:
            return None
        return (load.operands[0], maker.operands[1]) if is_signed(maker.operands[0]) else None

    def is_true(self, value: Value) -> bool:
        maker = self.makers.get(value)
        return maker is not None and maker.opcode == "constant" and bool(maker.attributes["value"])

    def advance(self, variable: Value, repeat: Operation, inside: list[Operation]) -> Operation | None:
        """Find the store that gives a loop's variable its next value, as in ``i += 1``. Return None unless the loop contains exactly one store to it.

        Also return None unless the store is the last access to the variable in every iteration that stays in the loop.
        """
        accesses = [o for o in inside if o.operands and o.operands[0] is variable]
        stores = [o for o in accesses if o.opcode == "store"]
        if len(stores) != 1 or accesses[-1] is not stores[0]:
            return None
        for o in repeat.regions[0].operations:
            if o is stores[0]:
                return o
            if o.opcode == "scope" and stores[0] in o.regions[0].operations:
                before = program_order(o.regions[0].operations[: o.regions[0].operations.index(stores[0])])
                label = o.attributes["label"]
                return (
                    None if any(x.opcode == "leave" and x.attributes["label"] == label for x in before) else stores[0]
                )
        return None

    def step(self, advance: Operation) -> Value | None:
        """If a store increments the loop's variable, return the step that is added. Return None for other stores."""
        maker = self.makers.get(advance.operands[2])
        if maker is None or maker.opcode != "add":
            return None
        for value, step in (maker.operands, maker.operands[::-1]):
            load = self.makers.get(value)
            if load is not None and load.opcode == "load" and load.operands[0] is advance.operands[0]:
                return step
        return None

    def is_counter(self, variable: Value, first: Operation, scope: Operation, inside: list[Operation]) -> bool:
        """Return whether a variable is only a loop's counter. Its value must not be used after the loop.

        Only loads and stores may use it. Each load must be `inside` the loop, or between the store `first` and `scope`.
        """
        around = set(inside)
        for o in self.uses[variable]:
            if o.opcode not in ("load", "store") or o.operands[0] is not variable:
                return False
            if (
                o.opcode == "load"
                and o not in around
                and not self.positions[first] < self.positions[o] < self.positions[scope]
            ):
                return False
        return True

    def blocks_are_independent(self) -> bool:
        """Return whether no thread waits for another block, so that several blocks can run together."""
        for o in self.kernel.walk():
            if o.opcode in SYNCHRONIZATION and o.opcode not in _OF_BLOCKS:
                return False
            if o.opcode == "repeat" and o not in self.counted and any(map(_can_wait, program_order([o]))):
                return False
        return True

    def mixes_indices(self) -> bool:
        """Return whether the first index of some loop depends on both the block index and the thread index."""
        return any(_EXTENTS.keys() <= set(self.counts[loop.start]) for loop in self.loops.values())

    def count(self, o: Operation) -> tuple[str, ...] | None:
        """If an operation computes a *count* such as ``block_index * block_size + thread_index``, return the opcodes in it. Otherwise, return None.

        A count is a sum or product of sizes, positive constants, and thread or block indices. It grows with these indices. The
        opcodes are those of the indices, sizes and constants. For a count of many terms, also return None.
        """
        values = (*o.results, *o.operands)
        if not all(map(is_signed, values)):
            return None
        if o.opcode in ("thread_index", "block_index", "block_size", "grid_size"):
            return (o.opcode,)
        sums = o.opcode in ("add", "multiply") or (
            o.opcode == "cast" and values[0].dtype.itemsize >= values[1].dtype.itemsize
        )
        if sums and all(v in self.counts for v in o.operands):
            found = tuple(opcode for v in o.operands for opcode in self.counts[v])
            return found if len(found) <= _MOST_TERMS else None
        return (o.opcode,) if o.opcode == "constant" and o.attributes["value"] > 0 else None


def _only_leaves(test: Operation, label: str) -> bool:
    """Return whether an `if` does nothing except leave the scope `label`."""
    leaves, stays = (region.operations for region in test.regions)
    return (
        not test.results
        and len(leaves) == len(stays) == 1
        and leaves[0].opcode == "leave"
        and leaves[0].attributes["label"] == label
        and stays[0].opcode == "yield"
    )


def _may_wait(inside: list[Operation]) -> bool:
    """Return whether a thread may wait for another thread inside a loop."""
    loops = [o for o in inside if o.opcode == "repeat"]
    waiting = (o for each in loops for o in program_order(each.regions[0].operations))
    return any(o.opcode in SYNCHRONIZATION for o in inside) or any(map(_can_wait, waiting))


def _can_wait(o: Operation) -> bool:
    """Return whether an operation in a loop may make a thread wait for another thread."""
    return o.opcode in _WAITS or bool(o.attributes.get("volatile"))


def _is_short(repeat: Operation) -> bool:
    """Return whether the body of a loop is short and simple. A thread executes several iterations of such a loop before other threads run.

    Such a body has few operations, and changes only the thread's own variables, such as a sum, or integers by atomics
    whose order does not matter, such as the counts of a histogram.

    Each thread then has several memory reads in flight, and loads and stores its variables less often.
    """
    operations = list(program_order(repeat.regions[0].operations))
    inside = [o for o in operations if o.opcode not in ("constant", "cast", "yield")]
    used = {value for o in operations for value in o.operands}
    others = [
        o
        for o in inside
        if o.opcode in STRUCTURAL and o.opcode not in _STRAIGHT and not (_commutes(o) and used.isdisjoint(o.results))
    ]
    stored = [o.operands[0].type for o in inside if o.opcode == "store"]
    own = all(isinstance(kind, Pointer) and kind.space == "local" for kind in stored)
    return own and not others and len(inside) <= _SHORT


def _commutes(o: Operation) -> bool:
    """Return whether an operation is an integer atomic of a kind that commutes, such as an addition."""
    return o.opcode == "atomic" and is_integer(o.operands[2]) and o.attributes["kind"] in COMBINED


def _find_cut(loop: StridedLoop) -> Operation | None:
    """Return the operation before which to split a loop, or None.

    The code before the loop's atomic can then be vectorized. Return None if the loop has no atomic, or if the code
    before the atomic leaves a scope or converts no float to an integer.
    """
    before: list[Operation] = []
    operations, at = loop.repeat.regions[0].operations, 0
    while at < len(operations):
        o = operations[at]
        if any(inner.opcode == "atomic" for inner in program_order([o])):
            if o.opcode != "scope":
                break
            operations, at = o.regions[0].operations, 0
            continue
        before += program_order([o] if o is not loop.test else [])
        at += 1
    else:
        return None
    if any(o.opcode == "leave" for o in before) or not any(map(_truncates, before)):
        return None
    while at and operations[at - 1].opcode in ("offset", "constant"):
        at -= 1  # (an index takes less memory than an address)
    return operations[at]


def _truncates(o: Operation) -> bool:
    """Return whether an operation converts a float to an integer, which is slow without vectors."""
    kinds = [v.type.kind for v in (*o.operands, *o.results) if isinstance(v.type, np.dtype)]
    return o.opcode == "cast" and kinds[0] == "f" and kinds[1] in "iu"


class _Sharer(Rewriter):
    def __init__(self, finder: _Finder) -> None:
        super().__init__(finder.kernel, self.replace)
        assert finder.uniform is not None
        self.makers, self.loops, self.uniform = finder.makers, finder.loops, finder.uniform
        self.indices: dict[Value, Value] = {}  # variable of an open loop -> its value in the current iteration
        self.copies = False  # whether the operations of the open loop are emitted several times
        self.cut: Operation | None = None  # operation of the open loop before which the threads synchronize

    def replace(self, b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        """Replace loads of a loop's old counter by an index based on the new, shared counter. Remove stores to the old one. Copy other operations."""
        if o is self.cut:
            b.emit("barrier")
        index = self.indices.get(o.operands[0]) if o.opcode in ("load", "store") else None
        if index is None:
            return None
        return [index] if o.opcode == "load" else []

    def structured(self, operation: Operation, operands: list[Any]) -> None:
        """Rewrite a strided loop so that all threads share its counter."""
        loop, b = self.loops.get(operation), self.builder
        if loop is None:
            if operation is self.cut:
                b.emit("barrier")
            super().structured(operation, operands)
            return
        counter = b.local(loop.variable.element)
        first = self.value_of_first_thread(loop.start)
        b.store(counter, b.constant(0), first)
        distance = self.distance_to_first(loop.start)
        if _is_short(loop.repeat):
            longest = b.op("subtract", self.value_of_last_thread(loop.start), first)
            # (in a branch that only some threads take, not all threads would reach a barrier)
            cut = None if self.uniform.apart.get(operation) else _find_cut(loop)
            self.emit_loop(
                f"{loop.label}.whole",
                lambda label: self.emit_full_iterations(label, loop, counter, distance, longest, cut),
            )
        self.emit_loop(loop.label, lambda label: self.emit_iteration(label, loop, counter, distance))

    def emit_loop(self, label: str, emit: Callable[[str], None]) -> None:
        """Emit a loop that the threads run together, with iterations emitted by `emit`."""
        outer = dict(self.map)
        with self.builder.scope(label), self.builder.repeat(in_step=True):
            emit(label)
        self.map = outer

    def emit_iteration(self, label: str, loop: StridedLoop, counter: Value, distance: Value) -> None:
        """Emit one iteration of a shared loop: the exit test, the work, and the increment of the counter.

        Only threads whose index is below the stop do the work.
        """
        b = self.builder
        count, stop, step = self.state(loop, counter)
        self.leave_if(b.op("greater_equal", count, stop), label)
        with b.if_(b.op("less", distance, b.op("subtract", stop, count))):
            self.emit_work(loop, b.op("add", count, distance))
        b.store(counter, b.constant(0), b.op("add", count, step))

    def emit_full_iterations(
        self, label: str, loop: StridedLoop, counter: Value, distance: Value, longest: Value, cut: Operation | None
    ) -> None:
        """Emit several iterations in which every thread has work.

        With `cut`, emit a single iteration, with a barrier before the operation `cut`. The loop over threads before the
        barrier then contains no atomics, so that LLVM vectorizes the loop.
        """
        b = self.builder
        count, stop, step = self.state(loop, counter)
        ahead = b.op("subtract", b.op("maximum", stop, count), count)  # (a stop far below 0 must not overflow)
        left = b.op("subtract", b.op("subtract", ahead, longest), b.constant(1, count.type))
        self.cut = cut
        together = 1 if cut is not None else _TOGETHER
        if cut is not None:
            self.leave_if(b.op("less", left, b.constant(0, count.type)), label)
        else:
            most = b.op("_truncate_divide", left, b.constant(together - 1, count.type))
            self.leave_if(b.op("greater", step, most), label)
        self.copies = True
        for _ in range(together):
            self.emit_work(loop, b.op("add", count, distance), straight=True)
            count = b.op("add", count, step)
        self.copies, self.cut = False, None
        b.store(counter, b.constant(0), count)

    def state(self, loop: StridedLoop, counter: Value) -> tuple[Value, Value, Value]:
        """Emit code that computes a loop's current count, stop and step."""
        b = self.builder
        made = {v: o for o in program_order(loop.repeat.regions[0].operations) for v in o.results}
        known = dict(self.map)
        stop, step = (copy_of(b, value, made, known) for value in (loop.stop, loop.step))
        return b.load(counter, b.constant(0)), stop, step

    def leave_if(self, condition: Value, label: str) -> None:
        with self.builder.if_(condition):
            self.builder.leave(label)

    def emit_work(self, loop: StridedLoop, index: Value, straight: bool = False) -> None:
        """Emit a thread's work in one iteration. If `straight` is true, the work is not in a loop, and the final `yield` is omitted."""
        self.indices[loop.variable] = index
        end = ("yield",) if straight else ()
        self.body(o for o in loop.repeat.regions[0].operations if o is not loop.test and o.opcode not in end)
        del self.indices[loop.variable]

    def renew(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return new values for the results of an operation that is copied several times."""
        if not self.copies:
            return super().renew(values)
        new = tuple(self.builder.fresh(value.type) for value in values)
        self.map.update(zip(values, new, strict=True))
        return new

    def value_of_first_thread(self, value: Value) -> Value:
        return self.value_of_thread(value, lambda number: self.builder.constant(0, number.results[0].type))

    def value_of_last_thread(self, value: Value) -> Value:

        def last(number: Operation) -> Value:
            kind, name = number.results[0].type, _EXTENTS[number.opcode]
            (extent,) = self.builder.emit(name, (), (kind,), **number.attributes)
            return self.builder.op("subtract", extent, self.builder.constant(1, kind))

        return self.value_of_thread(value, last)

    def value_of_thread(self, value: Value, number: Callable[[Operation], Value]) -> Value:
        """Emit code with which this thread computes the value that another thread has. The callback `number` supplies the other thread's indices."""
        if value not in self.uniform.varying:
            return self.map[value]  # type: ignore[no-any-return]
        maker = self.makers[value]
        if maker.opcode in _EXTENTS:
            return number(maker)
        operands = tuple(self.value_of_thread(v, number) for v in maker.operands)
        return self.builder.emit(maker.opcode, operands, (value.type,), **maker.attributes)[0]

    def distance_to_first(self, value: Value) -> Value:
        maker, b = self.makers[value], self.builder
        varying = [v for v in maker.operands if v in self.uniform.varying]
        if not varying:
            return self.map[value]  # type: ignore[no-any-return]
        if maker.opcode == "cast":
            return b.emit("cast", (self.distance_to_first(varying[0]),), (value.type,))[0]
        if maker.opcode == "add":
            parts = [self.distance_to_first(v) for v in varying]
            return parts[0] if len(parts) == 1 else b.op("add", *parts)
        if len(varying) == 1:
            (factor,) = (v for v in maker.operands if v is not varying[0])
            return b.op("multiply", self.distance_to_first(varying[0]), self.map[factor])
        return b.op("subtract", self.map[value], self.value_of_first_thread(value))
