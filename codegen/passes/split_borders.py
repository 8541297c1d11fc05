"""Splitting of loops into ranges that need no index tests.

Such loops process concatenated or shifted arrays. In: a logical kernel with lanes, for a CPU. Its choices are the `if`
operations on a parallel loop's index that have the ``likely`` attribute. Out: a loop with inner loops tests once per
index whether all choices have their likely results. An innermost loop whose choices depend on one comparison becomes
two loops without choices. With several comparisons, it becomes three: the indices before the likely range, the range
without choices, and the indices after it. If a kernel has only one loop, the loop runs in blocks, and the choices are
tested once per block. Invariant: each index is visited once, in order, and an omitted choice has the result that its
branch had.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value, program_order
from weft.codegen.passes.rewrite import Copier

# Maximum number of operations in a loop body that is duplicated, and in all copies together: compile time grows with
# them.
MOST = 400
# Number of indices that are tested together. If each index were tested, loads would be masked. Masked loads from
# unmapped memory take hundreds of cycles each: the concatenation of two arrays took four times as long as two copies.
BLOCK = 4096
TESTS = 8  # maximum number of comparisons whose results select among copies of a loop
# Binary logarithm of the minimum ratio of a loop's length to the length of its borders, for which splitting is
# worthwhile.
BORDER = 4
_COMPARISONS = ("greater_equal", "less_equal")


def split_borders(kernel: Kernel) -> Kernel:
    """Split loops so that their middle range needs no index tests."""
    if not any("likely" in o.attributes for o in kernel.walk()):
        return kernel
    return _Splitter(kernel).run()


class _Splitter(Copier):
    """Copier that replaces a loop by several loops over parts of its range. It splits loops whose bodies compare the loop index with bounds."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(KernelBuilder.after(kernel), {})
        self.kernel = kernel
        self.made = {v: o for o in kernel.walk() for v in o.results}
        self.known: dict[Value, bool] = {}  # condition -> whether it holds in the code being copied
        self.split = True  # whether loops are split: not in the copy of a loop body for unlikely indices

    def run(self) -> Kernel:
        self.copy(self.kernel.body.operations)
        self.kernel.body = self.builder.kernel.body
        return self.kernel

    def operation(self, operation: Operation) -> None:
        """Copy an operation. However, split a loop that contains index tests. If the result of a branch is known, copy only the region that runs."""
        if operation.opcode == "if" and (holds := self.holds(operation.operands[0])) is not None:
            ends = self.copy(operation.regions[not holds].operations)
            self.map.update(zip(operation.results, ends, strict=True))
        elif operation.opcode == "for" and self.split and (likely := self.likely(operation)):
            self.loop(operation, likely)
        else:
            self.emit_copy(operation)

    def holds(self, value: Value) -> bool | None:
        """Return whether a condition holds, or None if this is unknown."""
        found = self.known.get(value)
        made = self.made.get(value)
        if found is None and made is not None and made.opcode in ("logical_and", "bitwise_and"):
            first, second = map(self.holds, made.operands)
            return False if first is False or second is False else first and second
        return found

    def likely(self, loop: Operation) -> dict[Value, bool]:
        """Return the comparisons of a loop's index in branch conditions, with the usual result of each.

        Return an empty dict for loops that cannot be split.
        """
        inside = list(program_order(loop.regions[0].operations))
        if loop.attributes["role"] != "parallel" or len(inside) > MOST:
            return {}
        if any(o.opcode == "for" and o.attributes["role"] != "parallel" for o in inside):
            return {}  # (the order of a reduction depends on the loads)
        own = {v for o in inside for v in o.results if o.opcode != "constant"}
        found: dict[Value, bool] = {}
        for operation in inside:
            likely = operation.attributes.get("likely") if operation.opcode == "if" else None
            if likely is None:
                continue
            tests = self.tests(operation.operands[0])
            for test in tests if likely or len(tests) == 1 else ():
                index, bound = self.made[test].operands
                if index is loop.regions[0].parameters[0] and bound not in own:
                    found[test] = likely
        return found

    def tests(self, condition: Value) -> list[Value]:
        """Return those terms of a condition that are comparisons.

        The terms are the condition itself, or the operands that the condition combines with AND.
        """
        made = self.made.get(condition)
        if made is None:
            return []
        if made.opcode in ("logical_and", "bitwise_and"):
            return [test for operand in made.operands for test in self.tests(operand)]
        return [condition] if made.opcode in _COMPARISONS else []

    def loop(self, operation: Operation, likely: dict[Value, bool]) -> None:
        """Emit a version of a loop that seldom compares its index with bounds. If the loop has an unsupported form, emit a plain copy."""
        if any(o.opcode == "for" for o in program_order(operation.regions[0].operations)):
            self.split_by_branch(operation, likely)
        elif operation not in self.kernel.body.operations:
            self.split_in_ranges(operation, likely)
        elif [o.opcode for o in self.kernel.body.operations].count("for") == 1:
            self.split_in_blocks(operation, likely)
        else:
            self.emit_copy(operation)

    def split_by_branch(self, operation: Operation, likely: dict[Value, bool]) -> None:
        """Rewrite an outer loop, so that a branch on the index selects one of two bodies."""
        b, (region,), (start, stop) = self.builder, operation.regions, map(self.new, operation.operands)
        with b.loop(stop, start=start, **operation.attributes) as loop:
            self.map[region.parameters[0]] = loop.index
            low, high = self.bounds(likely)
            condition = self.is_inside(loop.index, b.op("add", loop.index, b.constant(1)), low, high)
            with b.if_(condition):
                outside, self.known = self.known, {**self.known, **likely}
                self.copy(region.operations)
            with b.else_():
                self.known, self.split = outside, False
                self.copy(region.operations)
                self.split = True

    def split_in_blocks(self, operation: Operation, likely: dict[Value, bool]) -> None:
        """Rewrite an innermost loop as two loops: over blocks of indices, and over the indices of a block.

        A block in which all comparisons are constant has no choices. Threads divide the blocks.
        """
        b, (start, stop) = self.builder, map(self.new, operation.operands)
        with b.loop(stop, "parallel", start=start, step=BLOCK) as blocks:
            first = blocks.index
            last = b.op("add", first, b.op("minimum", b.op("subtract", stop, first), b.constant(BLOCK)))
            if len(likely) <= TESTS and self.length_of_copies(operation, likely) <= MOST:
                self.copy_by_results(operation, first, last, likely)
            else:
                low, high = self.bounds(likely)
                with b.if_(self.is_inside(first, last, low, high)):
                    self.copy_knowing(likely, operation, (first, last))
                with b.else_():
                    self.emit_copy(operation, (first, last), role="serial")
        self.kernel.attributes = {**self.kernel.attributes, "grain": BLOCK}

    def length_of_copies(self, operation: Operation, likely: dict[Value, bool]) -> int:
        """Return the number of operations that `copy_by_results` emits for a loop."""
        count = self.length(operation.regions[0])
        test = self.open_test(operation.regions[0], likely)
        if test is not None:
            outside = self.known
            for holds in (True, False):
                self.known = {**outside, test: holds}
                count += self.length_of_copies(operation, likely)
            self.known = outside
        return count

    def length(self, region: Block) -> int:
        """Return the number of operations that a copy of a region has if the conditions in `self.known` are decided."""
        count = 0
        for operation in region.operations:
            holds = self.holds(operation.operands[0]) if operation.opcode == "if" else None
            regions = operation.regions if holds is None else (operation.regions[not holds],)
            count += 1 + sum(map(self.length, regions))
        return count

    def open_test(self, region: Block, likely: dict[Value, bool]) -> Value | None:
        """Find a branch in `region` that depends on an undecided comparison of the loop index. Return the comparison, or None if there is none."""
        for operation in region.operations:
            regions = operation.regions
            if operation.opcode == "if":
                condition = operation.operands[0]
                holds = self.holds(condition)
                if holds is None:
                    for test in self.tests(condition):
                        if test in likely and test not in self.known:
                            return test
                else:
                    regions = (regions[not holds],)
            for inner in regions:
                if (found := self.open_test(inner, likely)) is not None:
                    return found
        return None

    def copy_by_results(self, operation: Operation, first: Value, last: Value, likely: dict[Value, bool]) -> None:
        """Emit copies of a loop for different results of its comparisons, and tests that select the copy to run."""
        test = self.open_test(operation.regions[0], likely)
        if test is None:
            self.emit_copy(operation, (first, last), role="serial")
            return
        b, from_there = self.builder, self.made[test].opcode == "greater_equal"
        bound = self.bound(self.made[test].operands[1])
        bound = bound if from_there else b.op("add", bound, b.constant(1))
        outside = self.known
        with b.if_(b.op("greater_equal", first, bound)):
            self.known = {**outside, test: from_there}
            self.copy_by_results(operation, first, last, likely)
        with b.else_():
            with b.if_(b.op("less_equal", last, bound)):
                self.known = {**outside, test: not from_there}
                self.copy_by_results(operation, first, last, likely)
            with b.else_():
                self.known = outside
                self.emit_copy(operation, (first, last), role="serial")
        self.known = outside

    def split_in_ranges(self, operation: Operation, likely: dict[Value, bool]) -> None:
        """Rewrite an innermost loop as three loops: before, within and after the usual range.

        With one comparison, there are only two loops, both without choices. Otherwise, the first and the last loop are
        not vectorized, and the three loops run only if the first and the last are short. If they are long, the loop
        runs as a whole.
        """
        b, (start, stop) = self.builder, map(self.new, operation.operands)
        low, high = self.bounds(likely)
        begin = start if low is None else b.op("minimum", b.op("maximum", low, start), stop)
        end = stop if high is None else b.op("maximum", b.op("minimum", high, stop), begin)
        if len(likely) == 1:
            unlikely = {test: not holds for test, holds in likely.items()}
            for one, other, known in ((start, begin, unlikely), (begin, end, likely), (end, stop, unlikely)):
                if one is not other:
                    self.copy_knowing(known, operation, (one, other))
            return
        # the start, the stop, the known results of comparisons, and the attributes of each range
        pieces: list[Any] = [(start, begin, {}, {"lanes": 0, "rolled": True})] if low is not None else []
        pieces.append((begin, end, likely, {}))
        pieces += [(end, stop, {}, {"lanes": 0, "rolled": True})] if high is not None else []
        length = b.op("subtract", stop, start)
        border = b.op("subtract", length, b.op("subtract", end, begin))
        short = b.op("less_equal", border, b.op("right_shift", length, b.constant(BORDER)))
        with b.if_(short):
            for one, other, known, attributes in pieces:
                self.copy_knowing(known, operation, (one, other), **attributes)
        with b.else_():
            self.copy_knowing({}, operation, (start, stop))

    def copy_knowing(
        self, known: dict[Value, bool], operation: Operation, bounds: tuple[Value, Value], **attributes: Any
    ) -> None:
        """Copy a loop for the index range `bounds`. In this range, comparisons have the results in `known`."""
        outside, self.known = self.known, {**self.known, **known}
        self.emit_copy(operation, bounds, role="serial", **attributes)
        self.known = outside

    def bounds(self, likely: dict[Value, bool]) -> tuple[Value | None, Value | None]:
        """Return the range of loop indices in which all comparisons have their expected results, which are in `likely`.

        The upper bound is exclusive. A bound is None if the range has no such bound.
        """
        b, low, high = self.builder, None, None
        for test, holds in likely.items():
            from_there = self.made[test].opcode == "greater_equal"
            bound = self.bound(self.made[test].operands[1])
            bound = bound if from_there else b.op("add", bound, b.constant(1))
            if from_there == holds:
                low = bound if low is None else b.op("maximum", low, bound)
            else:
                high = bound if high is None else b.op("minimum", high, bound)
        return low, high

    def is_inside(self, first: Value, last: Value, low: Value | None, high: Value | None) -> Value:
        """Return whether the range from `first` to `last` is inside the range from `low` to `high`.

        The upper bounds are exclusive. A bound that is None is not tested.
        """
        b = self.builder
        tests = [b.op("greater_equal", first, low)] if low is not None else []
        tests += [b.op("less_equal", last, high)] if high is not None else []
        return tests[0] if len(tests) == 1 else b.op("bitwise_and", *tests)

    def bound(self, value: Value) -> Value:
        """Return the bound of a comparison as a value that code before the loop can use."""
        made = self.made.get(value)
        if made is not None and made.opcode == "constant":
            return self.builder.constant(made.attributes["value"], value.type)
        return self.new(value)
