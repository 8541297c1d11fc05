"""Writer of threaded kernels. A threaded kernel contains the code that a single GPU thread executes.

Quotients of negative numbers are not used, so the machine's division may round toward zero. `ThreadWriter.tiles` counts
iterations, because adding the size of the grid to the number of a tile could overflow the index dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.passes.index_steps import constant_offsets
from weft.codegen.passes.rewrite import Copier
from weft.codegen.schedules.nest import Level, Nest
from weft.runtime import RowLimits

# Index ops that are evaluated if both operands are constants.
_EVALUATED = ("add", "subtract", "multiply", "left_shift", "right_shift", "minimum", "maximum")


class ThreadWriter(Copier):
    """Writer of a threaded kernel, the code of one GPU thread.

    The threaded kernel has the parameters of the logical kernel. A block has `threads` threads, a power of two.
    """

    def __init__(self, kernel: Kernel, nest: Nest, threads: int) -> None:
        builder = KernelBuilder(kernel.name, kernel.index_dtype, "threaded", **kernel.attributes)
        super().__init__(builder, {p.value: p.value for p in kernel.parameters})
        self.builder.kernel.parameters = list(kernel.parameters)
        self.nest = nest
        self.threads = threads
        self.constants: dict[Value, int] = {}
        given = kernel.attributes.get("exact", ())
        self.exact: dict[str, int] = dict(zip(given[::2], given[1::2], strict=True))
        for p in kernel.parameters:
            if p.value.name in self.exact:
                self.map[p.value] = self.number(self.exact[p.value.name])
        self.copy(o for o in kernel.walk() if o.opcode == "constant")
        self.offsets = constant_offsets(kernel.walk())
        # index -> base index and constant distance from the base
        self.sums: dict[Value, tuple[Value, int]] = {}
        self.thread = self.emit("thread_index", axis=0)
        self.block = self.emit("block_index", axis=0)
        self.grid = self.emit("grid_size", axis=0)
        if nest.levels:
            self.copy(nest.levels[0].before)

    # -- index arithmetic -----------------------------------------------------------------

    def emit(self, opcode: str, **attributes: Any) -> Value:
        """Emit an operation that has no operands and returns an index."""
        return self.builder.emit(opcode, (), (self.builder.kernel.index_dtype,), **attributes)[0]

    def number(self, value: Any, dtype: Any = None) -> Value:
        """Return a constant, which is emitted at the start of the kernel. Without a dtype, the constant is an index."""
        with self.builder.at(0):
            found = self.builder.constant(value, dtype)
        if found.type == self.builder.kernel.index_dtype:
            self.constants[found] = int(value)
        return found

    def value(self, x: Value | int) -> Value:
        """Return `x` if it is a value of the kernel. For an int, return a constant index."""
        return self.number(x) if isinstance(x, int) else x

    def compute(self, name: str, x: Value | int, y: Value | int) -> Value:
        """Return the result of a scalar operation on two indices.

        Some operations are evaluated immediately if both indices are constants. Others are emitted.
        """
        x, y = self.value(x), self.value(y)
        if x in self.constants and y in self.constants and name in _EVALUATED:
            return self.number(int(getattr(np, name)(self.constants[x], self.constants[y])))
        found = self.builder.op(name, x, y)
        if name == "add" and y in self.constants:
            root, before = self.sums.get(x, (x, 0))
            self.sums[found] = root, before + self.constants[y]
        return found

    def test(self, name: str, x: Value | int, y: Value | int) -> Value:
        """Emit a comparison of two indices, and return its result."""
        return self.builder.op(name, self.value(x), self.value(y))

    def both(self, x: Value, y: Value) -> Value:
        """Return the logical AND of two conditions."""
        return self.builder.op("bitwise_and", x, y)

    def choose(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        """Return the index `yes` if the condition is true, and `no` otherwise."""
        return self.builder.op("where", condition, self.value(yes), self.value(no))

    def quotient(self, x: Value | int, y: Value | int) -> Value:
        """Return ``x//y`` for x >= 0 and y > 0."""
        return self.compute("_truncate_divide", x, y)

    def split(self, x: Value, y: Value | int) -> tuple[Value, Value]:
        """Return ``x//y`` and ``x % y`` for x >= 0 and y > 0."""
        quotient = self.quotient(x, y)
        return quotient, self.compute("subtract", x, self.compute("multiply", quotient, y))

    def split_at(self, x: Value, shift: Value, power: Value) -> tuple[Value, Value]:
        """Return ``x//power`` and ``x % power``, where ``power == 2**shift``."""
        return self.compute("right_shift", x, shift), self.compute("bitwise_and", x, self.compute("subtract", power, 1))

    def parts(self, x: Value, y: Value | int) -> Value:
        """Return ceil(x / y), or 0 for x <= 0, without overflow."""
        some = self.test("greater", x, 0)
        more = self.compute("add", self.quotient(self.compute("subtract", x, 1), y), 1)
        return self.choose(some, more, 0)

    def power_of_two(self, x: Value, limit: int) -> Value:
        """Return the smallest power of two that is at least `x`, or `limit` if that is less.

        `limit` is a power of two.
        """
        found = self.value(1)
        power = 1
        while power < limit:
            found = self.choose(self.test("greater", x, power), 2 * power, found)
            power *= 2
        return found

    def product(self, values: Sequence[Value]) -> Value:
        """Return the product of several indices, or 1 if there are none."""
        return reduce(partial(self.compute, "multiply"), values) if values else self.number(1)

    # -- structure ------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: Value | None) -> Iterator[None]:
        """Emit the operations of the ``with`` block under a condition, if there is one."""
        with nullcontext() if condition is None else self.builder.if_(condition):
            yield

    def select(
        self, condition: Value, yes: Callable[[], Sequence[Value]], no: Callable[[], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Emit an ``if`` with two regions, and return the values that the executed region yields."""
        regions = []
        given: Sequence[Value] = ()
        for make in (yes, no):
            with self.builder.region() as region:
                given = make()
                self.builder.yield_(*given)
            regions.append(region)
        return self.builder.emit("if", (condition,), [v.type for v in given], tuple(regions))

    def choose_version(self, condition: Value | None, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Emit a branch between two versions of code with equal results.

        Without a condition, emit only the first version. Values computed inside one version of a branch are not visible
        outside the branch.
        """
        if condition is None:
            yes()
            return
        outside = self.map

        def version(write: Callable[[], None]) -> Sequence[Value]:
            self.map = dict(outside)
            write()
            self.map = outside
            return ()

        self.select(condition, lambda: version(yes), lambda: version(no))

    def are_multiples(self, names: Sequence[str], lanes: int) -> Value | None:
        """Emit a test of whether the named parameters are all multiples of `lanes`, a power of two.

        Return None if `names` is empty.
        """
        if not names:
            return None
        sizes = [self.map[p.value] for p in self.builder.kernel.parameters if p.value.name in names]
        bits = reduce(partial(self.compute, "bitwise_or"), sizes)
        return self.test("equal", self.compute("bitwise_and", bits, lanes - 1), 0)

    @contextmanager
    def loop(self, stop: Value | int, start: Value | int = 0, **attributes: Any) -> Iterator[Value]:
        """Emit a serial loop without carried values, and yield its index."""
        with self.builder.loop(self.value(stop), "serial", start=self.value(start), **attributes) as opened:
            yield opened.index

    @contextmanager
    def tiles(self, count: Value) -> Iterator[Value]:
        """Emit a grid-stride loop over `count` tiles, and yield the number of the current tile."""
        mine = self.parts(self.compute("subtract", count, self.block), self.grid)
        with self.loop(mine) as iteration:
            yield self.compute("add", self.block, self.compute("multiply", iteration, self.grid))

    def shared_array(self, dtype: np.dtype, count: int) -> Value:
        """Return a pointer to a shared memory array, which is declared at the start of the kernel."""
        with self.builder.at(0):
            return self.builder.emit("shared", (), (Pointer(dtype, "shared"),), count=count)[0]

    def barrier(self) -> None:
        """Emit a barrier for all threads of the block."""
        self.builder.emit("barrier")

    # -- copying --------------------------------------------------------------------------

    def extents(self) -> list[Value]:
        """Return the extents of the parallel loops, outermost first."""
        return [self.map[level.extent] for level in self.nest.levels]

    def bind(self, levels: Sequence[Level], flat: Value) -> None:
        """Set the indices of nested loops to those of iteration number `flat`, in C order."""
        for level in reversed(levels[1:]):
            flat, self.map[level.index] = self.split(flat, self.map[level.extent])
        if levels:
            self.map[levels[0].index] = flat

    def enter(self, levels: Sequence[Level]) -> None:
        """Copy the operations that precede each of the nested loops `levels`."""
        for level in levels:
            self.copy(level.before)

    def operation(self, operation: Operation) -> None:
        """Copy an operation and its regions.

        Constants are emitted at the start of the kernel. Loops become serial, except scans.
        """
        match operation.opcode:
            case "constant":
                self.map[operation.results[0]] = self.number(operation.attributes["value"], operation.results[0].type)
            case "for":
                role = "scan" if operation.attributes["role"] == "scan" else "serial"
                self.emit_copy(operation, role=role, combine=())
            case _:
                self.emit_copy(operation)

    def finish(
        self,
        scheme: str,
        per_block: int,
        *,
        most_blocks: int = 2**31 - 1,
        every: bool = False,
        row_limits: RowLimits | None = None,
        column_lanes: int = 0,
    ) -> Kernel:
        """Return the finished kernel with its launch parameters.

        With `every`, each block computes one group of items, without a grid stride.
        """
        kernel = self.builder.finish()
        kernel.attributes |= {
            "scheme": scheme,
            "block": self.threads,
            "per_block": per_block * kernel.attributes.get("unrolled", 1),
            "most_blocks": 0 if every else most_blocks,
            "row_limits": row_limits or (),
            "column_lanes": column_lanes,
        }
        return kernel
