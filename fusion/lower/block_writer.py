"""GPU kernels for temporal blocking.

In each iteration, a block computes one row of every time step. If the arrays have one axis, it computes the steps one
after another.

In: a `BlockedSteps` with a tile (`step_blocks.py`). Out: its kernel. A loop over iterations contains loops over the
points of the tile, which are divided among the threads. Invariant: an iteration reads from the ring buffers only values
that earlier iterations wrote, and all stores follow all loads, except in steps that run in place, which come last.
Reads outside an array are clamped to its edge, and unneeded points are computed like all others. Each value that
another kernel needs is written once, by the block that owns its point.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from math import prod

from weft.codegen import Pointer, TemporalBlocking, Value
from weft.fusion.graph.expr import Expr, contiguous_strides
from weft.fusion.graph.index_map import Affine, flatten, variable
from weft.fusion.lower.blocked_steps_writer import BlockedStepsWriter
from weft.fusion.lower.kernel_writer import Lowered
from weft.fusion.plan.blocked_steps import BlockedSteps, IntVector, Statement, Step, unflatten
from weft.fusion.plan.step_blocks import (
    iteration_range,
    plane_sizes,
    ring_delay,
    ring_offset,
    ring_offsets,
    ring_readers,
    threads_of,
)


class BlockWriter(BlockedStepsWriter):
    """Writer of a GPU kernel for temporal blocking."""

    def __init__(self, blocked: BlockedSteps, parametric: bool) -> None:
        super().__init__(blocked, parametric)
        self.builder.kernel.attributes["schedule"] = TemporalBlocking(threads_of(blocked))
        self.served = set(ring_readers(blocked))
        self.plane = plane_sizes(blocked)
        self.pitches = [prod(self.plane[k + 1 :]) for k in range(len(self.plane))]
        self.steady: dict[object, Value] = {}  # values that do not depend on the step
        self.points: list[Value] = []  # the indices of the tile's point
        self.ring_stores: list[tuple[Value, Value, Value]] = []
        self.kept: list[tuple[Value, Value, Value, Value]] = []
        self.over: list[int] = []  # steps that overwrite the values that they update; they come last
        self.writing_over = False

    def _map_axes_to_loops(self) -> None:
        self.nest.position = {axis: 1 + axis for axis in range(self.blocked.axes)}

    def write(self) -> Lowered:
        b, blocked = self.builder, self.blocked
        with self.open_loop(self.integer(prod(blocked.counts), "parts"), "parallel") as part:
            self._make_rings()
            self._set_block_bounds(part.index)
            if blocked.rows:
                first, more = iteration_range(blocked)
                self.first_row = b.op("add", self.starts[0], b.constant(first))
                length = b.op("subtract", self.stops[0], self.starts[0])
                with self.open_loop(b.op("add", length, b.constant(more)), "serial") as iteration:
                    self.iteration = iteration.index
                    self._tile([*blocked.outside], [*range(len(blocked.steps))])
            else:
                if blocked.outside:
                    self._tile([*blocked.outside], [])
                for number in range(len(blocked.steps)):
                    self._tile([], [number])
        return self.finish()

    def _make_rings(self) -> None:
        """Allocate the ring buffers in shared memory, in one array for each dtype, and fill them with 0."""
        offsets, sizes = ring_offsets(self.blocked)
        arrays = {
            dtype: self.builder.emit("local", (), (Pointer(dtype, "local"),), count=count)[0]
            for dtype, count in sizes.items()
        }
        self.rings = {node: (arrays[node.dtype], offset) for node, offset in offsets.items()}
        # (unneeded values may be computed from elements that no step has written)
        for dtype, count in sizes.items():
            with self.builder.loop(self.builder.constant(count), "reduce") as loop:
                self.builder.store(arrays[dtype], loop.index, self.builder.constant(0, dtype))

    # -- the tile -----------------------------------------------------------------------------

    def _tile(self, taken: list[Expr], numbers: list[int]) -> None:
        """Emit the loops over a tile. They load the arrays in `taken` and compute the steps whose numbers are given."""
        with ExitStack() as loops:
            for length in self.blocked.tile:
                loop = loops.enter_context(self.open_loop(self.builder.constant(length), "reduce"))
                self.points.append(loop.index)
            self._point(taken, numbers)
            self.points.clear()

    def _point(self, taken: list[Expr], numbers: list[int]) -> None:
        self.steady.clear()
        kept = list(self.indices)
        for node in taken:
            coordinates = [self._coordinate(axis, 0) for axis in range(self.blocked.axes)]
            self._set_indices(
                [self._clamped(p, axis, self._size(axis, node.shape[axis])) for axis, p in enumerate(coordinates)]
            )
            self._queue_ring_store(node, super(BlockedStepsWriter, self)._load(node, _index_at_point(node))[0])
        for number in numbers:
            if self.blocked.steps[number].statements[0].task.node in self.blocked.owner:
                self.over.append(number)
            else:
                self._emit_step(number)
        self.flush_stores()
        self.indices[:] = kept
        self.leave_loops(1)

    def _coordinate(self, axis: int, lag: int) -> Value:
        """Return the coordinate, along one axis, of the element that a tile currently computes.

        `lag` is the number of iterations by which the element's time step lags behind the first step.
        """
        b, rows = self.builder, self.blocked.rows
        if axis < rows:
            return self._memoized(
                ("row", lag), 2, lambda: b.op("add", self.first_row, self._shifted(self.iteration, -lag))
            )
        margin = self.blocked.margin[axis - rows]

        def make() -> Value:
            return b.op("add", b.op("add", self.starts[axis], b.constant(-margin)), self.points[axis - rows])

        return self._memoized(("at", axis), 2 + axis, make)

    def _shifted(self, value: Value, by: int) -> Value:
        return self.builder.op("add", value, self.builder.constant(by)) if by else value

    def _memoized(self, key: object, depth: int, make: Callable[[], Value]) -> Value:
        """Return the cached value for `key`. If there is none, emit code for it with `make`, at loop depth `depth`.

        All time steps share the value.
        """
        if key not in self.steady:
            with self.builder.at(depth):
                self.steady[key] = make()
        return self.steady[key]

    def _set_indices(self, indices: list[Value]) -> None:
        """Set the loop indices, and forget cached values that depend on the old indices."""
        self.leave_loops(1)
        self.indices[1:] = indices

    def _clamped(self, coordinate: Value, axis: int, length: Value) -> Value:
        """Return `coordinate` clamped to ``[0, length - 1]``."""
        b = self.builder
        with b.at(2 + axis):
            last = b.op("subtract", length, b.constant(1))
            return b.op("maximum", b.op("minimum", coordinate, last), b.constant(0))

    # -- steps --------------------------------------------------------------------------------

    def _emit_step(self, number: int) -> None:
        """Emit code that performs one time step of a stencil at one grid point. The enclosing loops determine the point.

        A point outside the step's box keeps its previous value, if there is one.
        """
        b, step = self.builder, self.blocked.steps[number]
        coordinates = self._set_indices_in_box(number)
        values = [(s, self.compute(s.placed)[0]) for s in step.statements]
        self.results.clear()
        # (a statement that copies no values outside its box may start at a different point from the step's other
        # statements)
        kept = [s for s in step.statements if s.task.node not in self.group.private]
        targets = {s.task.node: self._target(s, s.placed.flat(s.task.target)) for s in kept if s.previous is None}
        self._set_indices(
            [self._clamped(p, axis, self._size(axis, step.last[axis])) for axis, p in enumerate(coordinates)]
        )
        inside = self._inside(step, coordinates)
        for statement, value in values:
            node = statement.task.node
            if inside is not None and statement.previous is not None:
                value = self._select_in_box(statement, inside, value)
            self._queue_ring_store(node, value)
            if node not in self.group.private:
                here = self._is_own(step, coordinates)
                if inside is not None and statement.previous is None:
                    here = b.op("logical_and", here, inside)
                pointer, index = targets.get(node) or self._target(statement, _index_at_point(node))
                self.kept.append((here, pointer, index, value))

    def _target(self, statement: Statement, form: Affine) -> tuple[Value, Value]:
        """Return the pointer and the index for the store of a value that is needed outside the kernel."""
        node = statement.task.node
        return self.pointer(node, 0, writable=True), self.address(form, node)[0]

    def _set_indices_in_box(self, number: int) -> list[Value]:
        """Set the loop indices to the current point. If the point is outside the box of a time step, set them to the nearest point in the box.

        `number` is the step's index. Return the coordinates of the current point.
        """
        b, step = self.builder, self.blocked.steps[number]
        self.number = number
        coordinates = [self._coordinate(axis, step.lag) for axis in range(self.blocked.axes)]
        inner = []
        for axis, (coordinate, origin, extent) in enumerate(zip(coordinates, step.origin, step.extents, strict=True)):
            with b.at(2 + axis):
                coordinate = b.op("subtract", coordinate, self._size(axis, origin)) if origin else coordinate
            inner.append(self._clamped(coordinate, axis, self._size(axis, extent)))
        self._set_indices(inner)
        return coordinates

    def _step_in_place(self, number: int) -> None:
        """Emit an in-place time step.

        The step stores only inside its box, whereas other steps may also store outside their boxes.
        """
        b, blocked = self.builder, self.blocked
        coordinates = self._set_indices_in_box(number)
        (statement,) = blocked.steps[number].statements
        node = statement.task.node
        owner = blocked.owner[node]
        index = self._ring_index(owner, ring_delay(blocked, owner, number, (0,) * blocked.axes), 0)
        inside = self._inside(blocked.steps[number], coordinates, all_sides=True)
        assert inside is not None
        outside, self.values, self.branching, self.writing_over = self.values, dict(self.values), 1 + blocked.axes, True
        with b.if_(inside):
            made = self.body(statement.placed)
            b.store(self.rings[owner][0], index, b.cast(made[statement.task.result][0], node.dtype))
        self.values, self.branching, self.writing_over = outside, None, False

    def _inside(self, step: Step, coordinates: list[Value], *, all_sides: bool = False) -> Value | None:
        """Emit a test of whether a point is in the box of a step, or return None if no test is needed.

        A test is needed along each side of the box that is inside the array or, with `all_sides`, along all sides.
        """
        b, found = self.builder, None
        for axis, coordinate in enumerate(coordinates):
            origin, extent, last = step.origin[axis], step.extents[axis], step.last[axis]
            tests = []
            with b.at(2 + axis):
                if origin or all_sides:
                    tests.append(b.op("greater_equal", coordinate, self._size(axis, origin)))
                if origin + extent < last or all_sides:
                    tests.append(b.op("less", coordinate, self._size(axis, origin + extent)))
                for test in tests:
                    found = test if found is None else b.op("logical_and", found, test)
        return found

    def _is_own(self, step: Step, coordinates: list[Value]) -> Value:
        """Emit the condition for storing a step's result: the point at `coordinates` must be in this thread block, not in its halo."""
        b, final = self.builder, self.blocked.steps[-1]
        found: Value | None = None
        for axis, coordinate in enumerate(coordinates):
            start, stop, end = self.starts[axis], self.stops[axis], self._size(axis, final.last[axis])
            last = self._size(axis, step.last[axis])
            with b.at(2 + axis):
                if step.last[axis] > final.last[axis]:
                    stop = b.op("where", b.op("equal", stop, end), last, stop)
                elif step.last[axis] < final.last[axis]:
                    stop = b.op("minimum", stop, last)
                for test in ("greater_equal", start), ("less", stop):
                    holds = b.op(test[0], coordinate, test[1])
                    found = holds if found is None else b.op("logical_and", found, holds)
        assert found is not None
        return found

    def _select_in_box(self, statement: Statement, inside: Value, value: Value) -> Value:
        """Emit a branch that selects `value` if `inside` is true, and otherwise the previous value."""
        b, previous = self.builder, statement.previous
        assert previous is not None
        distance = self._ring_offset(previous, statement.start)
        # (the location of the previous value must be known before the branches)
        if distance is not None and (previous, self.number, distance) in self.served:
            source, index = self._in_ring(previous, distance)
        else:
            source, index = self.pointer(previous, 0), self.address(_index_at_point(previous), previous)[0]
        with b.if_(inside, [value.type]) as taken:
            taken.yield_(value)
        with b.else_() as other:
            other.yield_(b.load(source, index))
        return taken.results[0]

    def flush_stores(self) -> None:
        """Emit the queued stores to ring buffers and memory, and then the steps that overwrite operands of these stores."""
        for array, index, value in self.ring_stores:
            self.builder.store(array, index, value)
        for here, pointer, index, value in self.kept:
            with self.builder.if_(here):
                self.builder.store(pointer, index, value)
        for number in self.over:
            self._step_in_place(number)
        self.ring_stores.clear()
        self.kept.clear()
        self.over.clear()

    # -- rings --------------------------------------------------------------------------------

    def _load(self, node: Expr, form: Affine) -> tuple[Value, int]:
        # (branches read memory: the values that they need must be computed before the branches)
        distance = self._read_offset(node, form) if self.branching is None or self.writing_over else None
        if distance is None or (node, self.number, distance) not in self.served:
            assert node not in self.blocked.boxes
            return super(BlockedStepsWriter, self)._load(node, form)
        source, index = self._in_ring(node, distance)
        return self._numbered(("load", source, index), 1 + self.blocked.axes, lambda: self.builder.load(source, index))

    def _read_offset(self, node: Expr, form: Affine) -> IntVector | None:
        """Return the offset at which a step reads `node`: the element's coordinates minus the coordinates of the point that the step computes.

        Return None unless the step reads `node` along all axes, and can read it from a ring buffer.
        """
        step, strides, walked = self.blocked.steps[self.number], contiguous_strides(node.shape), dict(form[1])
        if self.blocked.owner.get(node, node) not in self.rings or len(walked) != sum(
            walked.get(a) == s for a, s in enumerate(strides)
        ):
            return None
        if any((axis in walked) != (extent > 1) for axis, extent in enumerate(step.extents)):
            return None
        return self._ring_offset(node, unflatten(form[0], node.shape))

    def _ring_offset(self, node: Expr, first: IntVector) -> IntVector | None:
        """Return the offset between a point that a step computes and the element of `node` (in a ring buffer) that it
        reads.

        `first` contains the coordinates of the first of these elements. Return None if the offset is too large for a
        ring buffer.
        """
        here = self.blocked.steps[self.number].origin
        if node in self.blocked.boxes:
            writer, start = self.blocked.boxes[node]
            there = self.blocked.steps[writer].origin
            first = tuple(o - s + a for o, s, a in zip(first, start, there, strict=True))
        return ring_offset(o - a for o, a in zip(first, here, strict=True))

    def _in_ring(self, node: Expr, distance: IntVector) -> tuple[Value, Value]:
        """Return the ring buffer for `node`, and the index in it of the element that belongs to the grid point at
        offset `distance` from the current point.
        """
        behind = ring_delay(self.blocked, node, self.number, distance)
        beside = sum(d * p for d, p in zip(distance[self.blocked.rows :], self.pitches, strict=True))
        owner = self.blocked.owner.get(node, node)
        return self.rings[owner][0], self._ring_index(owner, behind, beside)

    def _queue_ring_store(self, node: Expr, value: Value) -> None:
        """Queue the store of a new value to its ring buffer, if the value has one."""
        if node in self.rings:
            self.ring_stores.append((self.rings[node][0], self._ring_index(node, 0, 0), value))

    def _ring_index(self, node: Expr, behind: int, beside: int) -> Value:
        """Return the index of an element in the ring buffer of `node`.

        The element was stored `behind` iterations ago, `beside` elements after the current point.
        """
        b, (rows, *_) = self.builder, self.blocked.rings[node]
        total: Value | None = None
        if self.blocked.rows and rows > 1:
            total = self._memoized(("slot", rows, behind % rows), 2, lambda: self._ring_row(rows, behind % rows))
        for axis, (point, pitch) in enumerate(zip(self.points, self.pitches, strict=True)):
            depth = 2 + self.blocked.rows + axis

            def along(total: Value | None = total, point: Value = point, pitch: int = pitch) -> Value:
                step = b.op("multiply", point, b.constant(pitch)) if pitch > 1 else point
                return step if total is None else b.op("add", total, step)

            total = self._memoized(("along", rows, behind % rows, axis), depth, along)
        assert total is not None
        found, by = total, self.rings[node][1] + beside
        return self._memoized(("ring index", total, by), 1 + self.blocked.axes, lambda: self._shifted(found, by))

    def _ring_row(self, rows: int, behind: int) -> Value:
        """Return a row's start index in a ring buffer. `behind` counts the iterations since the row was stored."""
        b = self.builder
        iteration = self._shifted(self.iteration, (rows - behind) % rows)
        if rows & (rows - 1) == 0:
            slot = b.op("bitwise_and", iteration, b.constant(rows - 1))
        else:
            whole = b.op("_truncate_divide", iteration, b.constant(rows))
            slot = b.op("subtract", iteration, b.op("multiply", whole, b.constant(rows)))
        return b.op("multiply", slot, b.constant(prod(self.plane)))


def _index_at_point(node: Expr) -> Affine:
    """Return the flat index of the element of the array `node` that belongs to the current loop indices."""
    return flatten(tuple(variable(axis) for axis in range(len(node.shape))), node.shape)
