"""Copies of straight-line code, one for each element of a thread.

In: operations, and the elements to compute: `slots` of adjacent elements (lanes). The only operations with regions are
branches that select values. Out: the loads of all slots, with the computation of their indices, then the other
operations, slot by slot, and then the stores. Invariant: equal operations on equal values occur once. A value that was
loaded or stored is not loaded again unless another access may have written it. A slot's accesses through the pointers
named in `vectors` are adjacent in the code, and the first one states their alignment, so that LLVM merges them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.schedules.writer import ThreadWriter


@dataclass(slots=True)
class Slot:
    """A group of adjacent elements that a thread processes together, like the lanes of a vector.

    `valid` states for each lane whether its element exists (None: it does). The element at the index of an invalid lane
    can be read, unless the slot is `beyond` the array. In such a slot, invalid lanes contain ones, which are safe
    divisors.
    """

    indices: list[Value]
    valid: list[Value | None]
    values: list[dict[Value, Value]] = field(default_factory=list)
    beyond: bool = False


class LaneWriter:
    """Writer of code in which each thread processes several elements (lanes). For each operation of a loop body, it emits one copy per element.

    A slot has `lanes` elements. `vectors` are the names of the pointer parameters whose accesses along the index are
    aligned to whole vectors. If `strided`, they include accesses that advance by more than one element.
    """

    def __init__(self, w: ThreadWriter, lanes: int, vectors: Iterable[str], *, strided: bool = False) -> None:
        self.w = w
        self.lanes = lanes
        self.strided = strided
        self.vectors = frozenset(vectors)
        self.steady = {p.value for p in w.builder.kernel.parameters if p.noalias and not p.writable}
        self.memo: dict[object, tuple[Value, ...]] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context manager that forgets memoized values on exit.

        It forgets the values memoized within the ``with`` block, and all loads from memory that may change.
        """
        memo, self.memo = self.memo, dict(self.memo)
        yield
        self.memo = {key: found for key, found in memo.items() if self._kept(key)}

    def _kept(self, key: object) -> bool:
        return not (isinstance(key, tuple) and key[0] == "load" and key[1] not in self.steady)

    def slot(self, first: Value, valid: list[Value | None] | None = None) -> Slot:
        """Return a group of adjacent elements (a `Slot`). The first element has the index `first`."""
        indices = [first]
        for lane in range(1, self.lanes):
            indices.append(self.once("add", first, self.w.number(lane)))
        return Slot(indices, valid or [None] * self.lanes)

    def slot_within(
        self, base: Value | None, offset: Value, length: Value, there: Value | None = None, *, whole: bool = False
    ) -> Slot:
        """Return a `Slot` of adjacent elements, the first of which is at `offset` from `base`.

        An element is valid if its offset is less than `length`. `length` elements can be read, or `there` elements if
        `there` is given. With `whole`, the lanes of the slot are either all valid or all invalid.
        """
        w = self.w
        there = length if there is None else there

        def at(index: Value) -> Value:
            return index if base is None else w.compute("add", base, index)

        if whole:
            inside = w.test("less", offset, length)
            first = w.compute("minimum", offset, w.compute("subtract", there, self.lanes))
            return self.slot(at(first), [inside] * self.lanes)
        last = w.compute("subtract", there, 1)
        offsets = [w.compute("add", offset, lane) if lane else offset for lane in range(self.lanes)]
        indices = [at(w.compute("minimum", index, last)) for index in offsets]
        return Slot(indices, [w.test("less", index, length) for index in offsets])

    def once(self, name: str, x: Value, y: Value) -> Value:
        """Return the result of an op on two indices, and emit the op only once for equal arguments."""
        return self._once(Operation(name, (x, y), (Value("", x.type),)), (x, y))[0]

    def _once(self, operation: Operation, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        types = tuple(v.type for v in operation.results)
        if operation.opcode == "load":
            return self._load(operation, operands[0], *self._base_and_offset(operands[1]))
        key: object = (operation.opcode, *operands, types, str(operation.attributes))
        found = self.memo.get(key)
        if found is None:
            found = self.w.builder.emit(operation.opcode, operands, types, **operation.attributes)
            self.memo[key] = found
            if self.strided and operation.opcode in ("add", "multiply"):
                self._note_sum(operation.opcode, operands, found[0])
        return found

    def _note_sum(self, opcode: str, operands: tuple[Value, ...], result: Value) -> None:
        """Record that an index is a base plus a constant. Accesses relative to one base can then share loads."""
        constants, sums = self.w.constants, self.w.sums
        x, y = operands if operands[0] not in constants else operands[::-1]
        (first, before), (second, behind) = sums.get(x, (x, 0)), sums.get(y, (y, 0))
        if y not in constants:
            if opcode == "add" and before + behind:
                sums[result] = self.once("add", first, second), before + behind
        elif opcode == "add":
            sums[result] = first, before + constants[y]
        elif before:
            sums[result] = self.once("multiply", first, y), before * constants[y]

    def _base_and_offset(self, index: Value) -> tuple[Value, int]:
        return self.w.sums.get(index, (index, 0)) if self.strided else (index, 0)

    def _address(self, pointer: Value, index: Value) -> Value:
        key = ("offset", pointer, index)
        if key not in self.memo:
            self.memo[key] = (self.w.builder.offset(pointer, index),)
        return self.memo[key][0]

    def _load(
        self, operation: Operation, pointer: Value, index: Value, at: int, **attributes: Any
    ) -> tuple[Value, ...]:
        """Emit a load of the element at ``index + at``, unless an earlier load of this element can be reused."""
        key = ("load", pointer, index, at, None)
        if key not in self.memo:
            if at or attributes:
                pointer, index = self._address(pointer, index), self.w.number(at)
            self.memo[key] = (self.w.builder.load(pointer, index, **{**operation.attributes, **attributes}),)
        return self.memo[key]

    def forget(self) -> None:
        """Forget the loads from memory that a write may have changed."""
        self.memo = {key: found for key, found in self.memo.items() if self._kept(key)}

    def point(self, operation: Operation) -> None:
        """Emit an operation once, because all elements of a thread have the same result. Stores are not supported."""
        w = self.w
        if operation.opcode == "constant":
            w.copy([operation])
            return
        results = self._once(operation, tuple(w.map[v] for v in operation.operands))
        w.map.update(zip(operation.results, results, strict=True))

    def begin(self, slots: Sequence[Slot], index: Value) -> None:
        """Set `index` in each lane to the index of the lane's own element."""
        for slot in slots:
            slot.values = [{index: at} for at in slot.indices]

    def copy(
        self,
        operations: Iterable[Operation],
        slots: Sequence[Slot],
        index: Value,
        steps: dict[Value, int | None] | None = None,
    ) -> None:
        """Emit the operations once for each element that a thread computes. In the emitted code, loads come first and stores come last.

        A load stays after a store that may alias it. `steps` gives the growth of values with `index`, if some of them
        are computed by other operations.
        """
        operations = list(operations)
        self.steps = index_steps(operations, index) if steps is None else steps
        for run in self._runs(operations):
            self._copy_run(run, slots)

    def _runs(self, operations: list[Operation]) -> Iterator[list[Operation]]:
        """Divide operations into successive groups. In a group, no load reads memory that an earlier store of the group may change."""
        run: list[Operation] = []
        stored = False
        for operation in operations:
            loads = (o for o in program_order([operation]) if o.opcode == "load")
            if stored and any(self.w.map.get(o.operands[0]) not in self.steady for o in loads):
                yield run
                run, stored = [], False
            run.append(operation)
            stored = stored or operation.opcode == "store"
        yield run

    def _copy_run(self, operations: list[Operation], slots: Sequence[Slot]) -> None:
        made = [o for o in operations if o.opcode != "store"]
        wanted: set[Value] = set()
        for operation in reversed(made):
            if operation.opcode == "load" or any(v in wanted for v in operation.results):
                wanted.update((*operation.operands, *operation.results))
        first = {o for o in made if any(v in wanted for v in o.results)}
        for operation in (o for o in made if o in first):
            for slot in slots:
                self._lanes(operation, slot)
        for slot in slots:
            for operation in made:
                if operation not in first:
                    self._lanes(operation, slot)
        stores = [o for o in operations if o.opcode == "store"]
        if not stores:
            return
        for slot in slots:
            self._stores(stores, slot)
        self.forget()
        for slot in slots:
            self._remember(stores[-1], slot)  # (earlier stores may have been overwritten)

    def value(self, slot: Slot, lane: int, value: Value) -> Value:
        """Return a lane's copy of `value`, or the copy shared by all lanes if the lane has none of its own."""
        found = slot.values[lane].get(value)
        return found if found is not None else self.w.map[value]

    def _lanes(self, operation: Operation, slot: Slot) -> None:
        if operation.opcode == "constant":
            self.w.copy([operation])
            return
        if operation.opcode == "load" and self._wide_step(operation):
            self._wide_load(operation, slot)
            return
        for lane, values in enumerate(slot.values):
            if operation.regions:
                made: Sequence[Value] = self._choose(operation, values, slot.valid[lane])
                values.update(zip(operation.results, made, strict=True))
                continue
            operands = tuple(self.value(slot, lane, v) for v in operation.operands)
            if operation.opcode == "atomic":  # equal atomics all take effect, and their old values are unused
                with self.w.when(slot.valid[lane]):
                    types = tuple(v.type for v in operation.results)
                    self.w.builder.emit("atomic", operands, types, **operation.attributes)
                continue
            made = self._guarded(operation, operands, slot, slot.valid[lane])
            values.update(zip(operation.results, made, strict=True))

    def _choose(self, operation: Operation, values: dict[Value, Value], valid: Value | None) -> Sequence[Value]:
        """Emit a copy of an `if` operation for one lane. If the lane has no element at run time (`valid` is false), the results are zeros."""
        w, outside = self.w, self.w.map
        w.map = {**outside, **values}

        def choice() -> list[Value]:
            w.copy([operation])
            return [w.map[v] for v in operation.results]

        nothing = [w.number(0, v.type) for v in operation.results]
        found = choice() if valid is None else w.select(valid, choice, lambda: nothing)
        w.map = outside
        return found

    def _is_safe(self, pointer: Value, slot: Slot, valid: Value | None) -> bool:
        """Return whether a lane may load unconditionally.

        It may if it is valid, or if the memory exists and does not change.
        """
        return valid is None or (pointer in self.steady and not slot.beyond)

    def _guarded(
        self, operation: Operation, operands: tuple[Value, ...], slot: Slot, valid: Value | None
    ) -> tuple[Value, ...]:
        """Emit an operation for one vector lane, under a condition if necessary.

        An invalid lane does not load memory that may change, or that lies outside an array.
        """
        if operation.opcode != "load" or valid is None or self._is_safe(operands[0], slot, valid):
            return self._once(operation, operands)
        w, kind = self.w, operation.results[0].type
        key = ("load", operands[0], *self._base_and_offset(operands[1]), valid)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = w.select(
                valid,
                lambda: w.builder.emit("load", operands, (kind,), **operation.attributes),
                lambda: (w.number(int(slot.beyond), kind),),
            )
        return found

    def _wide_step(self, operation: Operation) -> int:
        """Return the distance in elements between adjacent lanes of an access, or 0 if vectors cannot be used."""
        pointer, index = operation.operands[:2]
        step = self.steps.get(index, 0) or 0
        wide = self.lanes > 1 and pointer.name in self.vectors and (step > 0 if self.strided else step == 1)
        return step if wide else 0

    def _align(self, pointer: Value, at: int) -> int:
        """Return the alignment in bytes of an element at the offset `at` (in elements) from the start of a vector."""
        size = pointer.element.itemsize
        return math.gcd(at * size, GPU.vector_bytes, size * self.lanes)

    def _wide(self, operation: Operation, slot: Slot) -> tuple[Value, int, list[int]]:
        """Return the parts of a vector access's indices: a common base, a common constant, and one offset per lane."""
        base, offset = self.w.offsets.get(operation.operands[1], (operation.operands[1], 0))
        step = self._wide_step(operation)
        return *self._base_and_offset(self.value(slot, 0, base)), [offset + step * lane for lane in range(self.lanes)]

    def _wide_load(self, operation: Operation, slot: Slot) -> None:
        pointer, source = operation.operands[0], self.w.map[operation.operands[0]]
        start, begin, offsets = self._wide(operation, slot)
        valid = None if self._is_safe(source, slot, slot.valid[0]) else slot.valid[0]

        def load(at: int) -> Value:
            return self._load(operation, source, start, begin + at, align=self._align(pointer, at))[0]

        if valid is None:
            found = [load(at) for at in offsets]
        else:
            keys = [("load", source, start, begin + at, valid) for at in offsets]
            if not all(key in self.memo for key in keys):
                self._address(source, start)
                outside, nothing = dict(self.memo), self.w.number(int(slot.beyond), operation.results[0].type)
                made = self.w.select(valid, lambda: [load(at) for at in offsets], lambda: [nothing] * self.lanes)
                self.memo = outside | {key: (value,) for key, value in zip(keys, made, strict=True)}
            found = [self.memo[key][0] for key in keys]
        for values, value in zip(slot.values, found, strict=True):
            values[operation.results[0]] = value

    # -- stores -------------------------------------------------------------------------------

    def _stores(self, operations: Sequence[Operation], slot: Slot) -> None:
        if all(valid is slot.valid[0] for valid in slot.valid):
            with self.w.when(slot.valid[0]):
                for operation in operations:
                    self._store(operation, slot, [None] * self.lanes)
        else:
            for operation in operations:
                self._store(operation, slot, slot.valid)

    def _store(self, operation: Operation, slot: Slot, valid: Sequence[Value | None]) -> None:
        pointer, index, value = operation.operands
        target, values = self.w.map[pointer], [self.value(slot, lane, value) for lane in range(self.lanes)]
        if self._wide_step(operation):
            start, begin, offsets = self._wide(operation, slot)
            with self.w.when(valid[0]):
                address = self.w.builder.offset(target, start)
                for at, stored in zip(offsets, values, strict=True):
                    self.w.builder.store(address, self.w.number(begin + at), stored, align=self._align(pointer, at))
            return
        for lane, stored in enumerate(values):
            with self.w.when(valid[lane]):
                self.w.builder.store(target, self.value(slot, lane, index), stored)

    def _remember(self, operation: Operation, slot: Slot) -> None:
        """Record stored values, so that later loads of the same elements reuse them."""
        pointer, index, value = operation.operands
        if self.steps.get(index) in (None, 0):
            return
        target, values = self.w.map[pointer], [self.value(slot, lane, value) for lane in range(self.lanes)]
        if self._wide_step(operation):
            start, begin, offsets = self._wide(operation, slot)
            for at, stored in zip(offsets, values, strict=True):
                self.memo["load", target, start, begin + at, slot.valid[0]] = (stored,)
            return
        for lane, stored in enumerate(values):
            start, begin = self._base_and_offset(self.value(slot, lane, index))
            self.memo["load", target, start, begin, slot.valid[lane]] = (stored,)


def lanes_of(operations: Iterable[Operation], index: Value) -> int:
    """Return how many elements a vector access along the loop index `index` contains. The widest dtype of all accesses determines this number."""
    operations = list(operations)
    steps = index_steps(operations, index)
    widest = max(
        (
            o.operands[0].element.itemsize
            for o in operations
            if o.opcode in ("load", "store") and steps.get(o.operands[1], 0) != 0
        ),
        default=np.dtype(np.float32).itemsize,
    )
    return max(1, GPU.vector_bytes // widest)
