"""CPU kernels for temporal blocking.

A loop over the rows of a block computes all time steps. Arrays of one axis have no such loop.

In: a `BlockedSteps`. Out: its kernel. Invariant: a step reads another step's values from that step's ring buffer, at an
index that depends only on the coordinates. At each point, the stores of a step follow its loads. Every value that is
needed outside the kernel is written at each point that computes it.
"""

from __future__ import annotations

from math import prod

from weft.codegen import Pointer, Value
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.index_map import Affine, combine, flatten, variable
from weft.fusion.lower.kernel_writer import KernelWriter, Lowered
from weft.fusion.plan.blocked_steps import BlockedSteps, Statement, Step, unflatten
from weft.fusion.plan.body import Loop
from weft.fusion.plan.group import Placed
from weft.fusion.plan.nest import Nest

LINE = 64  # alignment of rings in bytes


class BlockedStepsWriter(KernelWriter):
    """Writer of a CPU kernel for temporal blocking."""

    def __init__(self, blocked: BlockedSteps, parametric: bool) -> None:
        super().__init__(blocked, Nest([Loop(prod(blocked.counts), "parallel")], [], {}), "steps", parametric)
        self.blocked = blocked
        self.overwritten = set()  # the kernel writes only new memory
        self.made = set()
        self.work = sum(prod(step.last) for step in blocked.steps)
        self.rings: dict[Expr, tuple[Value, int]] = {}  # value -> array, and index of its ring in the array
        self.starts: list[Value] = []  # first index of the block along each axis
        self.stops: list[Value] = []
        self.number = 0  # the step that is being written; in a loop over steps, the step of the first iteration
        self.again: Value | None = None  # the iteration of the loop over steps
        self._map_axes_to_loops()

    def _map_axes_to_loops(self) -> None:
        """Set the nesting depth of the loop over each array axis. The kernel's loops over blocks, rows and repeated steps enclose these loops."""
        before = 1 + self.blocked.rows + (self.again is not None)
        self.nest.position = {axis: before + axis for axis in range(self.blocked.axes)}

    def write(self) -> Lowered:
        """Emit the kernel, and return it with the values of its parameters."""
        self._make_rings()
        with self.open_loop(self.integer(prod(self.blocked.counts), "parts"), "parallel") as part:
            self._set_block_bounds(part.index)
            if self.blocked.rows:
                first, last = self._row_bounds()
                with self.open_loop(last, "serial", start=first):
                    self._steps()
            else:
                self._steps()
        return self.finish()

    def _make_rings(self) -> None:
        """Allocate the ring buffers.

        If a loop repeats a step, the ring buffers of the repetitions are adjacent parts of one array.
        """
        blocked, rolled = self.blocked, self.blocked.rolled
        # key of an array -> the rings that share the array, and their positions in it
        arrays: dict[object, dict[Expr, int]] = {}
        for node in blocked.rings:
            number, _ = blocked.boxes[node]
            if rolled is not None and number < rolled.first + rolled.iterations * rolled.period:
                here = [s.task.node for s in blocked.steps[number].statements]
                key: object = (number % rolled.period, here.index(node), node.dtype, blocked.rings[node])
                arrays.setdefault(key, {})[node] = number // rolled.period
            else:
                arrays[node] = {node: 0}
        for iterations in arrays.values():
            node, begin = next(iter(iterations)), min(iterations.values())
            count = (max(iterations.values()) - begin + 1) * prod(blocked.rings[node])
            kind = Pointer(node.dtype, "local")
            (array,) = self.builder.emit("local", (), (kind,), count=count, align=LINE)
            self.rings.update((node, (array, iteration - begin)) for node, iteration in iterations.items())

    # -- bounds and indices -------------------------------------------------------------------

    def _size(self, axis: int, value: int) -> Value:
        """Return the kernel parameter for a length or a position along an axis. For 0, return a constant instead."""
        return self.builder.constant(0) if not value else self.integer(value, ("along", axis, value))

    def _set_block_bounds(self, part: Value) -> None:
        b, blocked = self.builder, self.blocked
        bounds = []
        for axis in reversed(range(blocked.axes)):
            count = self.integer(blocked.counts[axis], ("count", axis))
            above = b.op("floor_divide", part, count)
            number = b.op("subtract", part, b.op("multiply", above, count)) if axis else part
            part = above
            width = self.integer(blocked.width[axis], ("width", axis))
            start = b.op("multiply", number, width)
            stop = b.op("minimum", b.op("add", start, width), self._size(axis, blocked.steps[-1].last[axis]))
            bounds.append((start, stop))
        self.starts, self.stops = (list(found) for found in zip(*reversed(bounds), strict=True))

    def _depth(self) -> int:
        """Return the number of loops that enclose the code of one time step: the loops over blocks, rows and repeated steps."""
        return self.nest.position[0]

    def _with_slope(self, value: int, slope: int) -> Value:
        """Return `value` plus `slope` times the index of the loop over repeated steps."""
        b = self.builder
        if self.again is None or not slope:
            return b.constant(value)
        return b.op("add", b.constant(value), b.op("multiply", self.again, b.constant(slope)))

    def _first_index(self, number: int, axis: int) -> Value:
        """Return the first index that a time step computes along an axis in the current block."""
        b, rolled = self.builder, self.blocked.rolled

        def make() -> Value:
            low = self._with_slope(self.blocked.steps[number].low[axis], rolled.low[axis] if rolled else 0)
            return b.op("maximum", b.op("subtract", self.starts[axis], low), b.constant(0))

        return self._numbered(("from", number, axis, self.again), self._depth(), make)[0]

    def _end_index(self, number: int, axis: int) -> Value:
        """For one time step and one axis, return the exclusive end of the range of indices that a block computes."""
        b, step, rolled = self.builder, self.blocked.steps[number], self.blocked.rolled

        def make() -> Value:
            high = self._with_slope(step.high[axis], rolled.high[axis] if rolled else 0)
            last = self._size(axis, step.last[axis])
            found = b.op("minimum", b.op("add", self.stops[axis], high), last)
            if not self.blocked.has_outputs_beyond_blocks(axis):
                return found
            end = self._size(axis, self.blocked.steps[-1].last[axis])
            return b.op("where", b.op("equal", self.stops[axis], end), last, found)

        return self._numbered(("to", number, axis, self.again), self._depth(), make)[0]

    def _row_bounds(self) -> tuple[Value, Value]:
        b = self.builder
        found: list[tuple[Value, Value]] = []
        self.nest.position[0] -= 1  # (the loop over rows is not open here)
        for number, step in enumerate(self.blocked.steps):
            lag = b.constant(step.lag)
            found.append((b.op("add", self._first_index(number, 0), lag), b.op("add", self._end_index(number, 0), lag)))
        self._map_axes_to_loops()
        self.values = {
            key: value
            for key, value in self.values.items()
            if not (isinstance(key, tuple) and key[0] in ("from", "to"))
        }
        first, last = found[0]
        for start, stop in found[1:]:
            first, last = b.op("minimum", first, start), b.op("maximum", last, stop)
        return first, last

    # -- steps --------------------------------------------------------------------------------

    def _steps(self) -> None:
        """Emit all time steps in order, with a loop for steps that repeat periodically."""
        rolled = self.blocked.rolled
        numbers = range(len(self.blocked.steps))
        if rolled is None:
            for number in numbers:
                self._step(number)
            return
        behind = rolled.first + rolled.iterations * rolled.period
        for number in numbers[: rolled.first]:
            self._step(number)
        depth = len(self.indices)
        iterations = self.integer(rolled.iterations, "iterations")
        with self.open_loop(iterations, "serial", rolled=True) as again:
            self.again = again.index
            self._map_axes_to_loops()
            for number in numbers[rolled.first : rolled.first + rolled.period]:
                self._step(number)
            self.again = None
        self._map_axes_to_loops()
        self.leave_loops(depth)
        for number in numbers[behind:]:
            self._step(number)

    def _step(self, number: int) -> None:
        """Emit a time step for a block or, in a kernel that iterates over rows, for a single row."""
        b, step, rolled = self.builder, self.blocked.steps[number], self.blocked.rolled
        self.number = number
        low, high = self._first_index(number, 0), self._end_index(number, 0)
        if self.blocked.rows:
            lag = self._with_slope(step.lag, rolled.lag if rolled else 0)
            row = b.op("subtract", self.indices[1], lag)
            low, high = b.op("maximum", row, low), b.op("minimum", b.op("add", row, b.constant(1)), high)
        self._axis(step, 0, low, high, None)

    def _axis(self, step: Step, axis: int, low: Value, high: Value, inside: Value | None) -> None:
        """Emit the loop of a time step along an axis, from `low` to `high`, with the inner loops.

        `inside` is a run-time condition: whether the outer indices are in the step's box (None: always).
        """
        b = self.builder
        depth, last = len(self.indices), axis == self.blocked.axes - 1
        copies = any(s.previous is not None and s.task.node not in self.blocked.owner for s in step.statements)
        origin, extent = self._size(axis, step.origin[axis]), self._size(axis, step.extents[axis])
        whole = step.origin[axis] == 0 and step.extents[axis] == step.last[axis]
        # indices are relative to the first point of the box
        low, high = (low, high) if not step.origin[axis] else (b.op("subtract", v, origin) for v in (low, high))
        if not whole and not copies:
            low, high = b.op("maximum", low, b.constant(0)), b.op("minimum", high, extent)
            whole = True
        if not last:
            with self.open_loop(high, "serial", start=low) as loop:
                if not whole:
                    here = b.op("greater_equal", loop.index, b.constant(0))
                    here = b.op("logical_and", here, b.op("less", loop.index, extent))
                    inside = here if inside is None else b.op("logical_and", inside, here)
                self._axis(
                    step,
                    axis + 1,
                    self._first_index(self.number, axis + 1),
                    self._end_index(self.number, axis + 1),
                    inside,
                )
            self.leave_loops(depth)
            return
        first = low if whole else b.op("maximum", low, b.constant(0))
        stop = high if whole else b.op("minimum", high, extent)
        if inside is not None:
            stop = b.op("where", inside, stop, first)
        if copies and (inside is not None or step.origin[axis]):
            before = b.op("minimum", high, b.constant(0)) if step.origin[axis] else low
            self._innermost_loop(
                step, low, before if inside is None else b.op("where", inside, before, high), copying=True
            )
        self._innermost_loop(step, first, stop, copying=False)
        if copies and step.origin[axis] + step.extents[axis] < step.last[axis]:
            behind = b.op("maximum", low, extent)
            self._innermost_loop(
                step, behind, high if inside is None else b.op("where", inside, high, behind), copying=True
            )

    def _innermost_loop(self, step: Step, low: Value, high: Value, *, copying: bool) -> None:
        """Emit the innermost loop of a time step.

        The loop computes the values of the step or, with `copying`, copies elements of the previous version.
        """
        depth = len(self.indices)
        with self.open_loop(high, "reduce", start=low):
            for statement in step.statements:
                if not copying:
                    self.point(statement.placed)
                elif statement.previous is not None:
                    here = _index_of_point(statement)
                    self._queue_stores(statement.placed, self._load(statement.previous, here)[0], here)
            self.flush_stores()
            self.results.clear()
        self.leave_loops(depth)

    # -- rings --------------------------------------------------------------------------------

    def store_later(self, placed: Placed, value: Value) -> None:
        """Queue the stores of a value to its ring buffer and to memory, as far as they are needed."""
        self._queue_stores(placed, value, placed.flat(placed.task.target))

    def _queue_stores(self, placed: Placed, value: Value, form: Affine) -> None:
        node = placed.task.node
        value = self.builder.cast(value, node.dtype)
        ring = self.blocked.owner.get(node, node)
        if ring in self.rings:
            self.stores.append((placed, self.rings[ring][0], self._element_in_ring(node, form[0])[0], value))
        if node not in self.group.private:
            index, _ = self.address(form, node)
            self.stores.append((placed, self.pointer(node, form[0], writable=True), index, value))

    def _load(self, node: Expr, form: Affine) -> tuple[Value, int]:
        ring = self.blocked.owner.get(node, node)
        if ring not in self.rings:
            return super()._load(node, form)
        index, depth = self._element_in_ring(node, form[0])
        return self._numbered(("load", node, index), depth, lambda: self.builder.load(self.rings[ring][0], index))

    def _element_in_ring(self, node: Expr, first: int) -> tuple[Value, int]:
        """Return an element's index in the array of ring buffers.

        Also return the nesting depth of the loop in which this index is computed.

        `first` is the flat index of the element that is read or written at the first point of the step's box.
        """
        b, blocked, position = self.builder, self.blocked, self.nest.position
        writer, start = blocked.boxes[node]
        owner = blocked.owner.get(node, node)
        whose = blocked.boxes[owner][0]
        rows, *sizes = blocked.rings[owner]
        # convert an index of the step to the coordinate in the step that computed the value
        offset = [
            o - s + a for o, s, a in zip(unflatten(first, node.shape), start, blocked.steps[writer].origin, strict=True)
        ]
        here = blocked.steps[self.number].origin
        pitches = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
        key = ("ring", node, first, self.again)

        def shift(axis: int) -> Value:
            return b.op("add", self._size(axis, here[axis]), b.constant(offset[axis] - here[axis]))

        def base() -> Value:
            ring = self.rings[owner][1]
            slope = rows * prod(sizes) if self.again is not None else 0
            total = self._with_slope(ring * rows * prod(sizes), slope)
            for axis, pitch in zip(range(blocked.rows, blocked.axes), pitches, strict=True):
                distance = b.op("subtract", shift(axis), self._first_index(whose, axis))
                total = b.op("add", total, b.op("multiply", distance, b.constant(pitch)) if pitch > 1 else distance)
            return total

        total, depth = self._numbered((*key, "base"), self._depth(), base)
        if blocked.rows:
            depth = position[0] + 1

            def row(total: Value = total) -> Value:
                at = b.op("add", self.indices[position[0]], shift(0))
                slot = b.op("remainder", at, b.constant(rows))
                return b.op("add", total, b.op("multiply", slot, b.constant(prod(sizes))))

            total, depth = self._numbered((*key, "row"), depth, row)
        for axis, pitch in zip(range(blocked.rows, blocked.axes), pitches, strict=True):
            index = self.indices[position[axis]]

            def along(total: Value = total, index: Value = index, pitch: int = pitch) -> Value:
                return b.op("add", total, b.op("multiply", index, b.constant(pitch)) if pitch > 1 else index)

            total, depth = self._numbered((*key, axis), position[axis] + 1, along)
        return total, depth


def _index_of_point(statement: Statement) -> Affine:
    """Return the current point's flat index in a statement's array, even if the statement does not write this point."""
    shape = statement.task.node.shape
    coordinates = [combine(s, ((variable(axis), 1),)) for axis, s in enumerate(statement.start)]
    return flatten(tuple(coordinates), shape)
