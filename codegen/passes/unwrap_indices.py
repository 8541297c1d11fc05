"""Removal of the code for negative indices that cannot occur.

In: a threaded kernel in which an index that may be negative is ``where(i < 0, i + n, i)``, with the `index` attribute:
the dtype of the user's index, which was cast to the index dtype. Out: the kernel with `i` in place of this expression
if a branch or a loop implies that `i` is not negative, as in ``if i > 0: x[i - 1]`` or
``for i in range(1, n): x[i - 1]``. LLVM can then access memory by vectors instead of by gathers. Assumption: an index
outside its axis may denote any element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.passes.conditions import DEEPEST, NOTHING, Fact, Facts, FactWalk, Implications, is_signed
from weft.codegen.passes.linear_index import LinearIndex, is_integer, limit
from weft.codegen.passes.rewrite import Rewriter

# A sum of multiples of values (by their numbers) and a constant.
Sum = tuple[dict[int, int], int]

_LARGEST_STEP = 1 << 32
_NESTED = 5  # maximum number of sums that are tried, each with the variables of fewer loops

# If the exact value of an int64 sum is at most this, and the computed sum is a valid index, the sum did not overflow:
# axes have fewer than 2**62 elements.
_SAFE = 2**63 + 2**62


def unwrap_indices(kernel: Kernel) -> Kernel:
    """Remove the handling of negative indices where an index cannot be negative."""
    if not any(o.attributes.get("index") for o in kernel.walk()):
        return kernel
    found = _Signs(kernel)
    found.block(kernel.body.operations, NOTHING)
    if not found.natural:
        return kernel

    def rule(b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        return [operands[2]] if o in found.natural else None

    return Rewriter(kernel, rule).run()


class _Signs(FactWalk):
    """Analysis of which indices in a kernel cannot be negative."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(Implications(kernel))
        self.index = LinearIndex(kernel, self.conditions.makers)
        self.natural: set[Operation] = set()
        self._differences: dict[Fact, Sum] = {}
        self._terms: dict[tuple[int, bool], Sum] = {}

    def visit(self, o: Operation, facts: Facts) -> None:
        """Record `o` as unnecessary if it is an operation that wraps negative indices, and its index is never negative."""
        if "index" in o.attributes:
            value, wide = o.operands[2], o.attributes["index"] == "int64"
            maker = self.conditions.makers.get(value)
            if wide and maker is not None and maker.opcode == "cast" and is_integer(maker.operands[0]):
                (value,) = maker.operands
            if self.cannot_be_negative(value, facts, wide):
                self.natural.add(o)

    def cannot_be_negative(self, value: Value, facts: Facts, wide: bool) -> bool:
        """Return whether an index cannot be negative if the inequalities `facts` hold.

        The index is assumed to be in bounds. `wide` is true for int64 indices.
        """
        sums = [self.terms(value, exact=True)]
        values = self.conditions.values
        if wide:
            found = self.terms(value, exact=False)
            if sum(abs(k) * self.index.largest(values[n]) for n, k in found[0].items()) + abs(found[1]) <= _SAFE:
                sums.append(found)
        bounds = [({}, 0), *map(self.difference, facts)]
        return any(self.is_at_least(form, least) for found in sums for form in self.forms(found) for least in bounds)

    def forms(self, found: Sum) -> Iterator[Sum]:
        """Yield forms of a sum: first the sum itself, and then smaller sums, which are lower bounds of its value.

        In the lower bounds, loop variables are replaced by their initial values.
        """
        for _ in range(_NESTED):
            yield found
            lower: Sum = {}, found[1]
            for number, k in found[0].items():
                start = self.start(self.conditions.values[number]) if k > 0 else None
                lower = _combined(lower, ({number: 1}, 0) if start is None else start, k)
            if lower == found:
                return
            found = lower

    def start(self, value: Value) -> Sum | None:
        """Return the initial value of a loop variable that never decreases, or None for other values."""
        found = self.conditions.start_of(value)
        if found is None or not is_signed(value):
            return None
        start, steps = found
        width = value.dtype.itemsize
        # an int64 that overflows is no valid index; an int8 or int16 may be
        grows = width >= 4 and all(self.is_positive(step, width == 8) for step in steps)
        return self.terms(start, exact=True) if grows else None

    def is_positive(self, step: Value, wide: bool) -> bool:
        """Return whether the step of a loop is known to be positive and small.

        `wide` is true for int64 steps, which may be sizes of the grid or constants of at most 2**32. An int32 step must
        be the constant 1.
        """
        maker = self.conditions.makers.get(step)
        if maker is not None and maker.opcode == "constant":
            return 0 < int(maker.attributes["value"]) <= (_LARGEST_STEP if wide else 1)
        return wide and self.index.is_position(step)

    def difference(self, fact: Fact) -> Sum:
        """Return the larger minus the smaller side of an inequality, minus 1 if the inequality is strict."""
        if fact not in self._differences:
            smaller, larger = (self.terms(self.conditions.values[k], exact=True) for k in fact[1:])
            terms, constant = _combined(larger, smaller, -1)
            self._differences[fact] = terms, constant - fact[0]
        return self._differences[fact]

    def is_at_least(self, found: Sum, least: Sum) -> bool:
        """Compare two sums. Return whether `found` can be proved to be at least as large as `least`."""
        terms, constant = _combined(found, least, -1)
        values = self.conditions.values
        return constant >= 0 and all(k > 0 and self.index.is_position(values[n]) for n, k in terms.items())

    def terms(self, value: Value, exact: bool, depth: int = DEEPEST) -> Sum:
        """Express a value as a linear sum of other values.

        If `exact`, no operation of the sum overflows. Otherwise sums of int64 may.
        """
        number = self.conditions.number(value)
        if (number, exact) not in self._terms:
            maker = self.conditions.makers.get(self.conditions.values[number])
            found = self.split(maker, exact, depth - 1) if maker is not None and depth else None
            self._terms[number, exact] = found or ({number: 1}, 0)
        return self._terms[number, exact]

    def split(self, maker: Operation, exact: bool, depth: int) -> Sum | None:
        """Express the result of an operation as a linear sum, or return None if that is impossible."""
        if not maker.results or not is_signed(maker.results[0]):
            return None
        operands = maker.operands
        match maker.opcode:
            case "constant":
                return {}, int(maker.attributes["value"])
            case "cast" if is_signed(operands[0]) and self.index.largest(operands[0]) <= limit(maker.results[0]):
                return self.terms(operands[0], True, depth)
            case "add" | "subtract" if self.splits(maker, exact):
                x, y = (self.terms(v, exact, depth) for v in operands)
                return _combined(x, y, 1 if maker.opcode == "add" else -1)
            case "multiply" if self.splits(maker, exact):
                for operand, other in (operands, operands[::-1]):
                    factor = self.conditions.makers.get(other)
                    if factor is not None and factor.opcode == "constant":
                        return _combined(({}, 0), self.terms(operand, exact, depth), int(factor.attributes["value"]))
        return None

    def splits(self, o: Operation, exact: bool) -> bool:
        """Return whether the result of the operation `o` may be expressed as a linear sum of the operands."""
        return self.index.fits(o) or (not exact and o.results[0].dtype.itemsize == 8)


def _combined(x: Sum, y: Sum, factor: int) -> Sum:
    """Return the linear sum ``x + factor * y``."""
    terms = dict(x[0])
    for number, k in y[0].items():
        terms[number] = terms.get(number, 0) + factor * k
    return {number: k for number, k in terms.items() if k}, x[1] + factor * y[1]
