"""Writer of kernel IR for fused operations, before the work is divided among threads.

In: a `Group` and its `Nest`. Out: a `Lowered` kernel with the bindings of its parameters. Invariant: sizes are
parameters. They affect the code only through the index dtype, the loops that exist and are merged, strides of 0 and 1,
and small strides of the innermost loops of CPU kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, assert_never

import numpy as np

from weft.codegen import (
    CPU,
    Kernel,
    KernelBuilder,
    LoopBuilder,
    Parameter,
    Value,
    choose_index_dtype,
    combine_accumulators,
    identity_of,
)
from weft.fusion.graph.expr import Expr, constant_value, value_bytes
from weft.fusion.graph.index_map import Affine
from weft.fusion.graph.sizes import Size
from weft.fusion.plan.body import Instruction, Role, accumulator_dtype, all_instructions
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.nest import MOST_STEP, Nest, reduction_position
from weft.fusion.plan.reduction_splits import order_alone
from weft.fusion.plan.traffic import taken_by_value, traffic

# Bindings of a parameter: ("buffer", materialized value, byte offset), ("partial", number, 0), ("int", value, 0),
# ("number", NumPy scalar, 0), ("scalar", slot, 0), ("value", materialized value, 0), ("counter", 0, 0) for the
# completion counter of a launch, or ("descriptors", bytes, 0) for the look-back descriptors.
Binding = tuple[Literal["buffer", "value", "partial", "int", "number", "scalar", "counter", "descriptors"], Any, int]


@dataclass(slots=True)
class Lowered:
    """A kernel in kernel IR, with the values that a launch passes to the parameters."""

    kernel: Kernel
    bindings: list[Binding]
    parallel: tuple[int, ...]
    work: int
    # scratch buffers that the kernel writes: (number, bytes)
    partials: list[tuple[int, int]] = field(default_factory=list)
    bytes_read: int = 0
    bytes_written: int = 0
    digest: str = ""  # key of the kernel's code, computed on demand

    def bound(self) -> list[tuple[Parameter, Binding]]:
        """Return pairs of the kernel's parameters and their bindings."""
        return list(zip(self.kernel.parameters, self.bindings, strict=True))

    def sizes(self) -> dict[str, int]:
        """Return the values of the integer parameters, such as extents and strides, by name."""
        return {p.value.name: value for p, (kind, value, _) in self.bound() if kind == "int"}


def across(holds: bool) -> dict[str, Any]:
    """If `holds` is true, return the loop attribute ``across``, which means that each lane reduces its own elements. Otherwise, return no attribute."""
    return {"across": True} if holds else {}


class KernelWriter:
    """Writer of a kernel that computes the tasks of a group of fused operations."""

    def __init__(self, group: Group, nest: Nest, name: str, parametric: bool, *, for_cpu: bool = False) -> None:
        self.parametric = parametric
        self.group = group
        self.nest = nest
        extents = [loop.extent for loop in (*nest.outer, *nest.inner)]
        self.builder = KernelBuilder(name, choose_index_dtype([node.nbytes for node in group.buffers()], extents))
        self.bindings: list[Binding] = []
        self.pointers: dict[object, Value] = {}
        self.strides: dict[object, Value] = {}
        self.values: dict[object, tuple[Value, int]] = {}  # value number -> value, loop depth
        self.results: dict[Expr, tuple[Value, int]] = {}  # result of a task of this kernel -> value, loop depth
        self.branching: int | None = None  # loop depth of the choice whose branch is being written
        self.indices: list[Value] = []
        self.stores: list[tuple[Placed, Value, Value, Value]] = []
        self.partials: list[tuple[int, int]] = []
        self.parallel = tuple(loop.extent for loop in nest.outer)
        self.work = prod(extents)
        self.any_order = False  # whether all threads execute a scatter concurrently
        # whether elements are accumulated in the order of the loops, and vector loads allow a small constant stride
        self.for_cpu = for_cpu
        self.made = {p.task.node for p in group.placed}
        self.overwritten = {p.task.node.operands[0] for p in group.placed if p.task.kind in ("update", "scatter")}
        self.overwritten.update(group.over.values(), *group.donors.values())
        self.by_value = {*taken_by_value(group)} - self.overwritten

    # -- parameters -----------------------------------------------------------------------

    def pointer(self, node: Expr, start: int, *, writable: bool = False) -> Value:
        """Return the pointer parameter for a materialized value's elements, beginning at index `start`."""
        key = (node, start, writable)
        found = self.pointers.get(key)
        if found is None:
            alone = not writable and node not in self.overwritten
            found = self.pointers[key] = self.builder.pointer(
                f"p{len(self.pointers)}", node.dtype, writable=writable, noalias=alone, align=node.dtype.itemsize
            )
            self.bindings.append(("buffer", node, start * node.dtype.itemsize))
        return found

    def source(self, node: Expr, form: Affine, index: Value, depth: int) -> tuple[Value, Value, int]:
        """Return the pointer and the index for reading a materialized value, and the depth of the innermost loop on which the index depends."""
        if node not in self.by_value:
            # values that the kernel itself has written are read through the same pointer
            return self.pointer(node, form[0], writable=node in self.made), index, depth
        found = self.pointers.get(node)
        if found is None:
            found = self.builder.by_value(f"p{len(self.pointers)}", node.dtype, value_bytes(node))
            self.pointers[node] = found
            self.bindings.append(("value", node, 0))
        if form[0]:  # (the pointer points to the first element of the array, even if the read starts elsewhere)
            start = self.integer(form[0], ("first", node, form[0]))
            index, depth = self._numbered(("from", index, start), depth, lambda: self.builder.op("add", index, start))
        return found, index, depth

    def integer(self, value: int, key: object) -> Value:
        """Return the kernel's integer parameter for `key`. If there is none yet, create a parameter that has the value `value` in launches."""
        found = self.strides.get(key)
        if found is None:
            found = self.strides[key] = self.builder.scalar(f"n{len(self.strides)}")
            self.bindings.append(("int", value, 0))
        return found

    def leave_loops(self, depth: int) -> None:
        """Drop all cached values that were computed inside more than `depth` loops."""
        self.values = {key: found for key, found in self.values.items() if found[1] <= depth}
        self.results = {key: found for key, found in self.results.items() if found[1] <= depth}

    def address(self, form: Affine, key: object) -> tuple[Value, int]:
        """Emit an affine index without its constant term. Return the emitted value, and the depth of the innermost loop that it depends on."""
        form = self.nest.rewrite(form)
        depth = 1 + max((k for k, _ in form[1]), default=-1)
        number = ("address", key, form[1])
        if number not in self.values:
            total: Value | None = None
            for loop, coefficient in form[1]:
                term = self.indices[loop]
                if coefficient != 1:
                    stride = self._stride(coefficient, (key, form[1], loop), loop)
                    with self.builder.at(loop + 1):
                        term = self.builder.op("multiply", term, stride)
                with self.builder.at(depth):
                    total = term if total is None else self.builder.op("add", total, term)
            if total is None:
                with self.builder.at(0):
                    total = self.builder.constant(0)
            self.values[number] = (total, depth)
        return self.values[number]

    def _stride(self, step: int, key: object, loop: int) -> Value:
        """Return a stride as a parameter, or as a constant for a small stride of an innermost CPU loop."""
        innermost = loop in (len(self.nest.outer) - 1, len(self.nest.outer) + len(self.nest.inner) - 1)
        if self.for_cpu and innermost and -1 <= step <= MOST_STEP:
            with self.builder.at(loop + 1):  # (passes recognize only constants in the region of the loop)
                return self.builder.constant(int(step))
        return self.integer(step, key)

    # -- bodies ---------------------------------------------------------------------------

    def body(self, placed: Placed) -> list[tuple[Value, int]]:
        """Emit the code of a task, and return the value and the loop depth of each instruction."""
        return self._write(placed.task.body, [], placed)

    def _write(
        self, instructions: Iterable[Instruction], before: list[tuple[Value, int]], placed: Placed
    ) -> list[tuple[Value, int]]:
        made = list(before)
        for i in instructions:
            operands = [made[k] for k in i.operands]
            match i.kind:
                case "read" if i.node in self.results:
                    made.append(self.results[i.node])
                case "read":
                    made.append(self._load(i.node, placed.flat(i.index)))
                case "gather":
                    form = placed.flat(i.index)
                    made.append(self._load_at(i.node, form, *self._computed(i.node, form, operands, i.factors)))
                case "iota":
                    made.append(self._iota(i.node, placed.flat(i.index)))
                case "constant":
                    made.append(self._constant(i.node))
                case "scalar":
                    made.append(self._scalar(i.node))
                case "map":
                    made.append(self._map(i.node, operands))
                case "choose":
                    made.append(self._choose(i, made, placed))
                case _:
                    assert_never(i.kind)
        return made

    def _choose(self, choice: Instruction, made: list[tuple[Value, int]], placed: Placed) -> tuple[Value, int]:
        """Emit the branches of a `choose` instruction, which selects one of two values.

        Values that are computed inside a branch are not valid outside this branch.
        """
        holds, depth = made[choice.operands[0]]
        depth = max(depth, len(self.nest.outer))  # a block with a parallel loop may contain no branch
        for i in all_instructions([choice]):
            depth = max([depth, *(made[k][1] for k in i.operands if k < len(made))])
            if i.kind == "read" and i.node in self.results:
                depth = max(depth, self.results[i.node][1])
            elif i.kind in ("read", "gather", "iota"):
                # addresses are computed before the branches
                _, at = self.address(placed.flat(i.index), "iota" if i.kind == "iota" else i.node)
                depth = max(depth, at)
        outside, branching = self.values, self.branching
        self.values, self.branching = dict(outside), depth
        with self.builder.at(depth) if branching is None else nullcontext():
            first, second = choice.branches
            with self.builder.if_(holds, [choice.node.dtype], choice.likely) as taken:
                taken.yield_(self._write(first.instructions, made, placed)[first.result][0])
            self.values = dict(outside)
            with self.builder.else_() as other:
                other.yield_(self._write(second.instructions, made, placed)[second.result][0])
        self.values, self.branching = outside, branching
        return taken.results[0], depth

    def _numbered(self, key: object, depth: int, make: Any) -> tuple[Value, int]:
        found = self.values.get(key)
        if found is None:
            if self.branching is not None:
                found = self.values[key] = (make(), self.branching)
                return found
            with self.builder.at(depth):
                found = self.values[key] = (make(), depth)
        return found

    def _load(self, node: Expr, form: Affine) -> tuple[Value, int]:
        return self._load_at(node, form, *self.address(form, node))

    def _load_at(self, node: Expr, form: Affine, index: Value, depth: int) -> tuple[Value, int]:
        pointer, index, depth = self.source(node, form, index, depth)
        return self._numbered(("load", pointer, index), depth, lambda: self.builder.load(pointer, index))

    def _computed(
        self, base: Expr, form: Affine, operands: list[tuple[Value, int]], factors: tuple[int, ...]
    ) -> tuple[Value, int]:
        total, depth = self.address(form, base)
        for k, ((value, at), factor) in enumerate(zip(operands, factors, strict=True)):
            deeper = max(depth, at)
            stride = self.integer(factor, ("factor", base, form[1], factors, k)) if factor != 1 else None

            def step(value: Value = value, stride: Value | None = stride, total: Value = total) -> Value:
                position = self.builder.cast(value, self.builder.kernel.index_dtype)
                if stride is not None:
                    position = self.builder.op("multiply", position, stride)
                return self.builder.op("add", total, position)

            total, depth = self._numbered(("computed", total, value, factor), deeper, step)
        return total, depth

    def _iota(self, node: Expr, form: Affine) -> tuple[Value, int]:
        index, depth = self.address(form, "iota")
        start = self.integer(form[0], ("start", form)) if form[0] else None

        def make() -> Value:
            value = index if start is None else self.builder.op("add", index, start)
            return self.builder.cast(value, node.dtype)

        return self._numbered(("iota", node.dtype, index, start), depth, make)

    def _constant(self, node: Expr) -> tuple[Value, int]:
        key = ("constant", node.dtype, node.attrs[0])
        if not self.parametric or node.dtype.kind in "bc":
            return self._numbered(key, 0, lambda: self.builder.constant(constant_value(node), node.dtype))
        found = self.values.get(key)
        if found is None:
            value = self.builder.scalar(f"c{len(self.bindings)}", node.dtype)
            bits = node.attrs[0]
            self.bindings.append(("number", bits if type(bits) is Size else constant_value(node), 0))
            found = self.values[key] = (value, 0)
        return found

    def _scalar(self, node: Expr) -> tuple[Value, int]:
        found = self.values.get(node)
        if found is None:
            value = self.builder.scalar(f"s{len(self.bindings)}", node.dtype)
            self.bindings.append(("scalar", node.attrs[0], 0))
            found = self.values[node] = (value, 0)
        return found

    def _map(self, node: Expr, operands: list[tuple[Value, int]]) -> tuple[Value, int]:
        depth = max((at for _, at in operands), default=0)
        typed = [
            self._numbered(("cast", value, dtype), at, lambda v=value, d=dtype: self.builder.cast(v, d))[0]
            for (value, at), dtype in zip(operands, node.attrs, strict=True)
        ]
        if node.op == "cast":
            return self._numbered(
                ("cast", typed[0], node.dtype), depth, lambda: self.builder.cast(typed[0], node.dtype)
            )
        key = (node.op, node.dtype, *typed)
        return self._numbered(key, depth, lambda: self.builder.op(node.op, *typed, dtype=node.dtype))

    # -- reductions and scans -------------------------------------------------------------

    def initial(self, placed: Placed) -> list[Value]:
        """Return the initial values of the accumulators of a reduction or scan."""
        node = placed.task.node
        if node.op in ("argmin", "argmax"):
            kind = node.operands[0].dtype
            index = 0 if self._is_ascending(placed) else np.iinfo(np.int64).max
            return [self.builder.constant(identity_of(node.op, kind), kind), self.builder.constant(index, np.int64)]
        kind = accumulator_dtype(node)
        start = identity_of(node.op, kind)
        if node.kind == "scan" and node.op == "add" and kind.kind in "fc":
            start = -start  # a row that starts with -0.0 keeps its sign
        return [self.builder.constant(start, kind)] * self.sums(placed)

    def sums(self, placed: Placed) -> int:
        """Return the number of accumulators, such as sums, of a reduction or scan. Not called for argmin and argmax."""
        return 1

    def combined(self, placed: Placed, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        """Combine a reduction's accumulators with the current element, and return the new accumulators."""
        made = self.body(placed)
        value = made[placed.task.result][0]
        node = placed.task.node
        if node.op in ("argmin", "argmax"):
            index, _ = self.address(reduction_position(placed), "iota")
            new: tuple[Value, ...] = (value, self.builder.cast(index, np.int64))
        else:
            new = (self.builder.cast(value, accumulator_dtype(node)),)
        return combine_accumulators(self.builder, node.op, carried, new, ascending=self._is_ascending(placed))

    def _is_ascending(self, placed: Placed) -> bool:
        """Return whether this is a CPU kernel that visits the reduced elements in C order."""
        if not self.for_cpu:
            return False
        steps = [step for _, step in self.nest.rewrite(reduction_position(placed))[1]]
        return all(one > other for one, other in itertools.pairwise(steps))

    def store_later(self, placed: Placed, value: Value) -> None:
        """Queue the store of a value if the value is needed outside the kernel."""
        if placed.task.node in self.group.private:
            return
        form = placed.flat(placed.task.target)
        index, _ = self.address(form, placed.task.node)
        pointer = self.pointer(placed.task.node, form[0], writable=True)
        self.stores.append((placed, pointer, index, self.builder.cast(value, placed.task.node.dtype)))

    def flush_stores(self) -> None:
        """Emit the queued stores."""
        for _, pointer, index, value in self.stores:
            self.builder.store(pointer, index, value)
        self.stores.clear()

    def compute(self, placed: Placed) -> tuple[Value, list[tuple[Value, int]]]:
        """Emit the code of a task. Return the task's value, and the values of the instructions in the task's body."""
        made = self.body(placed)
        value, depth = made[placed.task.result]
        with self.builder.at(depth):
            value = self.builder.cast(value, placed.task.node.dtype)
        self.results[placed.task.node] = (value, depth)
        return value, made

    def point(self, placed: Placed) -> None:
        """Emit the code of a task. Its stores, except those of a scatter, are queued."""
        value, made = self.compute(placed)
        if placed.task.kind == "scatter":
            self._scatter(placed, made, value)
        else:
            self.store_later(placed, value)

    def _scatter(self, placed: Placed, made: list[tuple[Value, int]], value: Value) -> None:
        node = placed.task.node
        form = placed.flat(placed.task.target)
        operands = [made[k] for k in placed.task.indices]
        index, _ = self._computed(node, form, operands, placed.task.factors)
        pointer = self.pointer(node, form[0], writable=True)
        combines = node.op not in ("", "same")
        if combines and self.any_order and self.nest.outer:
            # several threads may write the same element
            self.builder.emit("atomic", (pointer, index, value), (node.dtype,), kind=node.op)
            if not form[0]:
                self.builder.kernel.attributes["scatter_size"] = self.integer(node.size, "scatter_size").name
            return
        if combines:
            old = self.builder.load(pointer, index)
            value = self.builder.op(node.op, old, value, dtype=node.dtype)
        self.builder.store(pointer, index, value)

    # -- kernels --------------------------------------------------------------------------

    def build(self) -> None:
        """Emit the code of all tasks of the group as one kernel."""
        self._parallel(self._at_point)

    def _parallel(self, at_point: Callable[[], None]) -> None:
        """Emit the parallel loops, with the code that `at_point` emits in the innermost loop."""
        with ExitStack() as loops:
            for number, loop in enumerate(self.nest.outer):
                extent = self.integer(loop.extent, ("extent", number))
                loops.enter_context(self.open_loop(extent, loop.role))
            at_point()

    @contextmanager
    def open_loop(self, stop: Value, role: Role = "serial", **how: Any) -> Iterator[LoopBuilder]:
        """Open a loop with the arguments of `KernelBuilder.loop`. While the loop is open, the last item of `indices` is the loop's index."""
        with self.builder.loop(stop, role, **how) as opened:
            self.indices.append(opened.index)
            yield opened
            self.indices.pop()

    def _at_point(self) -> None:
        for number in range(max(p.stage for p in self.group.placed) + 1):
            placed = self.stage(number)
            if number & 1:
                self._inner_loops(placed)
                self.leave_loops(len(self.nest.outer))
            else:
                for p in placed:
                    self.point(p)
            self.flush_stores()

    def stage(self, number: int) -> list[Placed]:
        """Return the tasks of a stage: a pass over a row, or the code before, between or after passes."""
        return [p for p in self.group.placed if p.stage == number]

    def _inner_loops(self, inner: list[Placed]) -> None:
        """Emit the inner loops of the nest, which carry the accumulators of reductions or scans."""
        reductions = [p for p in inner if p.task.kind == "reduce"]
        carriers = reductions or [p for p in inner if p.task.kind == "scan"]
        initial = [v for p in carriers for v in self.initial(p)]
        final = self._inner_loop(carriers, inner, len(self.nest.outer), initial, None)
        self.finish_reductions(reductions, final)

    def with_accumulators(
        self, reductions: Iterable[Placed], values: Sequence[Value]
    ) -> Iterator[tuple[Placed, tuple[Value, ...]]]:
        """Yield each reduction with its accumulators. `values` contains the accumulators of all reductions, one reduction after another."""
        start = 0
        for p in reductions:
            stop = start + len(self.accumulators(p))
            yield p, tuple(values[start:stop])
            start = stop

    def finish_reductions(self, reductions: list[Placed], final: Sequence[Value], *, stored: bool = True) -> None:
        """Record the results of reductions for later tasks and, if `stored` is true, queue their stores."""
        for p, values in self.with_accumulators(reductions, final):
            value = self.builder.cast(values[-1], p.task.node.dtype)
            self.results[p.task.node] = (value, len(self.indices))
            if stored:
                self.store_later(p, value)

    def accumulators(self, placed: Placed) -> list[np.dtype]:
        """Return the dtypes of a reduction's accumulators."""
        node = placed.task.node
        if node.op in ("argmin", "argmax"):
            return [node.operands[0].dtype, np.dtype(np.int64)]
        return [accumulator_dtype(node)] * self.sums(placed)

    def combining_ops(self, placed: Placed) -> tuple[str, ...]:
        """Return the ops that combine a reduction's accumulators."""
        return (placed.task.node.op,) * self.sums(placed)

    def _inner_loop(
        self,
        carriers: list[Placed],
        inner: list[Placed],
        number: int,
        carried: list[Value],
        bounds: tuple[Value, Value] | None,
    ) -> tuple[Value, ...]:
        """Emit loop `number` of the nest and all loops inside it, and return the final accumulators."""
        if number == len(self.nest.outer) + len(self.nest.inner):
            return self._innermost(carriers, inner, tuple(carried))
        loop = self.nest.inner[number - len(self.nest.outer)]
        names = tuple(name for p in carriers for name in self.combining_ops(p)) if loop.role == "reduce" else ()
        start, stop = bounds if bounds is not None else (None, self.integer(loop.extent, ("extent", number)))
        role = "serial" if loop.role == "parallel" else loop.role
        how = self.reduction_attributes(carriers) if loop.role == "reduce" else {}
        with self.open_loop(stop, role, start=start, initial=carried, combine=names, **how) as opened:
            after = self._inner_loop(carriers, inner, number + 1, list(opened.carried), None)
            opened.yield_(*after)
        return opened.results

    def reduction_attributes(self, reductions: list[Placed]) -> dict[str, Any]:
        """Return the attributes that determine how a reduction loop is vectorized."""
        return across(self.for_cpu and any(order_alone(p.task, CPU).across for p in reductions if p.task.rounds()))

    def _innermost(self, carriers: list[Placed], inner: list[Placed], carried: tuple[Value, ...]) -> tuple[Value, ...]:
        accumulators = self.with_accumulators(carriers, carried)
        following: list[Value] = []
        for p in inner:
            if p in carriers:
                next_values = self.combined(*next(accumulators))
                following.extend(next_values)
                if p.task.kind == "scan":
                    value = self.builder.cast(next_values[-1], p.task.node.dtype)
                    self.results[p.task.node] = (value, len(self.indices))
                    self.store_later(p, value)
            else:
                self.point(p)
        self.flush_stores()
        return tuple(following)

    def traffic(self) -> tuple[int, int]:
        """Return the number of bytes that the kernel reads, and the number that it writes."""
        return traffic(self.group)

    def finish(self) -> Lowered:
        """Return the finished kernel with the values of its parameters."""
        read, written = self.traffic()
        return Lowered(self.builder.finish(), self.bindings, self.parallel, self.work, self.partials, read, written)
