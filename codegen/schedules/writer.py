"""Writes threaded kernels: copies operations of a logical kernel, and builds the index arithmetic of threads.

Index values here are never negative, so that division rounds down. Nothing overflows the index dtype: loops
over tiles count iterations instead of stepping by the size of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.schedules.nest import Level, Nest


class ThreadWriter:
    """One threaded kernel being written.

    Parameters
    ----------
    kernel : Kernel
        The logical kernel; its parameters are taken over.
    nest : Nest
    threads : int
        Threads of a block: a power of two.
    """

    def __init__(self, kernel: Kernel, nest: Nest, threads: int) -> None:
        self.nest = nest
        self.threads = threads
        self.builder = KernelBuilder(kernel.name, kernel.index_dtype)
        self.builder.kernel.parameters = list(kernel.parameters)
        self.builder.kernel.level = "threaded"
        self.builder.kernel.attributes = dict(kernel.attributes)
        self.map: dict[Value, Value] = {p.value: p.value for p in kernel.parameters}
        given = kernel.attributes.get("exact", ())
        self.exact: dict[str, int] = dict(zip(given[::2], given[1::2], strict=True))
        for p in kernel.parameters:
            if p.value.name in self.exact:
                self.map[p.value] = self.number(self.exact[p.value.name])
        self.copy(o for o in kernel.walk() if o.opcode == "constant")
        self.thread = self.emit("thread_index", axis=0)
        self.block = self.emit("block_index", axis=0)
        self.grid = self.emit("grid_size", axis=0)
        if nest.levels:
            self.copy(nest.levels[0].before)

    # -- index arithmetic -----------------------------------------------------------------

    def emit(self, opcode: str, **attributes: Any) -> Value:
        """An operation without operands that gives an index."""
        return self.builder.emit(opcode, (), (self.builder.kernel.index_dtype,), **attributes)[0]

    def number(self, value: Any, dtype: Any = None) -> Value:
        """A constant, at the top of the kernel."""
        with self.builder.at(0):
            return self.builder.constant(value, dtype)

    def value(self, x: Value | int) -> Value:
        """An index, given as a value or a number."""
        return self.number(x) if isinstance(x, int) else x

    def compute(self, name: str, x: Value | int, y: Value | int) -> Value:
        """A row of two indices that gives an index."""
        return self.builder.op(name, self.value(x), self.value(y))

    def test(self, name: str, x: Value | int, y: Value | int) -> Value:
        """A comparison of two indices."""
        return self.builder.op(name, self.value(x), self.value(y), dtype=np.bool_)

    def choose(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        """One of two indices."""
        return self.builder.op("where", condition, self.value(yes), self.value(no))

    def quotient(self, x: Value | int, y: Value | int) -> Value:
        """x // y for x >= 0, y > 0."""
        return self.compute("_truncate_divide", x, y)

    def split(self, x: Value, y: Value | int) -> tuple[Value, Value]:
        """x // y and x % y for x >= 0, y > 0."""
        quotient = self.quotient(x, y)
        return quotient, self.compute("subtract", x, self.compute("multiply", quotient, y))

    def parts(self, x: Value, y: Value | int) -> Value:
        """ceil(x / y), 0 for x <= 0, without exceeding x on the way."""
        some = self.test("greater", x, 0)
        more = self.compute("add", self.quotient(self.compute("subtract", x, 1), y), 1)
        return self.choose(some, more, 0)

    def power_of_two(self, x: Value, limit: int) -> Value:
        """The least power of two that is not less than `x`, at most `limit` and at least 1."""
        found = self.value(1)
        power = 1
        while power < limit:
            found = self.choose(self.test("greater", x, power), 2 * power, found)
            power *= 2
        return found

    def product(self, values: Sequence[Value]) -> Value:
        """The product of indices; 1 of none."""
        if not values:
            return self.number(1)
        total = values[0]
        for value in values[1:]:
            total = self.compute("multiply", total, value)
        return total

    # -- structure ------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Operations that run only where `condition` holds."""
        then = Block()
        self.builder.blocks.append(then)
        yield
        self.builder.blocks.pop()
        then.operations.append(Operation("yield"))
        otherwise = Block()
        otherwise.operations.append(Operation("yield"))
        self.builder.emit("if", (condition,), (), (then, otherwise))

    def select(
        self, condition: Value, yes: Callable[[], Sequence[Value]], no: Callable[[], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """The values that one of two branches gives."""
        regions = []
        given: Sequence[Value] = ()
        for make in (yes, no):
            region = Block()
            self.builder.blocks.append(region)
            given = make()
            self.builder.blocks.pop()
            region.operations.append(Operation("yield", tuple(given)))
            regions.append(region)
        return self.builder.emit("if", (condition,), [v.type for v in given], tuple(regions))

    def choose_form(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """One of two forms of code that has the same effect: values computed in it are not known outside."""
        outside = self.map

        def form(write: Callable[[], None]) -> Callable[[], Sequence[Value]]:
            def run() -> Sequence[Value]:
                self.map = dict(outside)
                write()
                self.map = outside
                return ()

            return run

        self.select(condition, form(yes), form(no))

    def choose_aligned(
        self, names: Sequence[str], lanes: int, whole: Callable[[], None], single: Callable[[], None]
    ) -> None:
        """Code for whole vectors; with `names`, only where these parameters are multiples of one, and for single elements else."""
        if names:
            self.choose_form(self.are_multiples(names, lanes), whole, single)
        else:
            whole()

    def are_multiples(self, names: Sequence[str], lanes: int) -> Value:
        """Whether these parameters are multiples of a power of two."""
        sizes = [self.map[p.value] for p in self.builder.kernel.parameters if p.value.name in names]
        bits = sizes[0]
        for size in sizes[1:]:
            bits = self.compute("bitwise_or", bits, size)
        return self.test("equal", self.compute("bitwise_and", bits, lanes - 1), 0)

    @contextmanager
    def loop(self, stop: Value | int, start: Value | int = 0, **attributes: Any) -> Iterator[Value]:
        """A loop in order without carried values; its index."""
        with self.builder.loop(self.value(stop), "serial", start=self.value(start), **attributes) as opened:
            yield opened.index

    @contextmanager
    def tiles(self, count: Value) -> Iterator[Value]:
        """The tiles of `count` that this block does: its own number, and on by the size of the grid."""
        mine = self.parts(self.compute("subtract", count, self.block), self.grid)
        with self.loop(mine) as turn:
            yield self.compute("add", self.block, self.compute("multiply", turn, self.grid))

    def shared_array(self, dtype: np.dtype, count: int) -> Value:
        """A pointer to elements that the block shares, declared at the top of the kernel."""
        with self.builder.at(0):
            return self.builder.emit("shared", (), (Pointer(dtype, "shared"),), count=count)[0]

    def barrier(self) -> None:
        """Wait for the block."""
        self.builder.emit("barrier")

    # -- copying --------------------------------------------------------------------------

    def extents(self) -> list[Value]:
        """The extents of the launch domain, outermost first."""
        return [self.map[level.extent] for level in self.nest.levels]

    def bind(self, levels: Sequence[Level], flat: Value) -> None:
        """Give the loops of `levels` the indices of the point with this flat number."""
        for level in reversed(levels[1:]):
            flat, self.map[level.index] = self.split(flat, self.map[level.extent])
        if levels:
            self.map[levels[0].index] = flat

    def enter(self, levels: Sequence[Level]) -> None:
        """Copy what is computed in front of these loops."""
        for level in levels:
            self.copy(level.before)

    def copy(self, operations: Iterable[Operation]) -> tuple[Value, ...]:
        """Copy operations with everything inside them; what their `yield` gives. Loops run in order."""
        for operation in operations:
            operands = tuple(self.map[v] for v in operation.operands)
            if operation.opcode == "yield":
                return operands
            if operation.opcode == "constant":
                with self.builder.at(0):
                    self.map[operation.results[0]] = self.builder.constant(
                        operation.attributes["value"], operation.results[0].type
                    )
                continue
            attributes = dict(operation.attributes)
            if operation.opcode == "for":
                attributes |= {"role": "scan" if attributes["role"] == "scan" else "serial", "combine": ()}
                attributes.pop("lanes", None)
            regions = tuple(self._region(region) for region in operation.regions)
            results = self.builder.emit(
                operation.opcode, operands, [v.type for v in operation.results], regions, **attributes
            )
            self.map.update(zip(operation.results, results, strict=True))
        return ()

    def _region(self, region: Block) -> Block:
        parameters = tuple(self.builder.fresh(v.type) for v in region.parameters)
        self.map.update(zip(region.parameters, parameters, strict=True))
        copied = Block(parameters)
        self.builder.blocks.append(copied)
        yielded = self.copy(region.operations)
        self.builder.blocks.pop()
        copied.operations.append(Operation("yield", yielded))
        return copied

    def finish(
        self,
        scheme: str,
        per_block: int,
        *,
        shared: int = 0,
        most_blocks: int = 2**31 - 1,
        every: bool = False,
        row_limits: tuple[int, ...] = (),
        column_lanes: int = 0,
    ) -> Kernel:
        """The kernel, with its launch data; `every`: each block does its own items and no more."""
        kernel = self.builder.finish()
        kernel.attributes |= {
            "scheme": scheme,
            "block": self.threads,
            "per_block": per_block,
            "most_blocks": 0 if every else most_blocks,
            "shared": shared,
            "row_limits": row_limits,
            "column_lanes": column_lanes,
        }
        return kernel
