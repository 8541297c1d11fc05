"""Strides of addresses between threads along x, which tell whether loops over threads are independent.

In: a threaded kernel and its uniform values. Out: whether the accesses of a run are contiguous, or have strides
unknown at compile time. LLVM regroups accesses with a constant stride of two or more elements. If threads are
declared independent, it then ignores the order that each of them needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.passes.find_uniform import Uniformity
from weft.codegen.passes.index_steps import program_order

# A number of elements (bytes for pointers); a multiple of something known when running only; what memory holds, which
# nobody knows; a step of 1 with bends in it; None where nothing is said.
Step = int | Literal["symbolic", "data", "bent"] | None

_BENT = frozenset({"bitwise_and", "bitwise_xor", "bitwise_or", "right_shift", "remainder", "minimum", "maximum"})
_ACCESSES = frozenset({"load", "store"})


class ThreadSteps:
    """The strides of all values of a kernel's body."""

    def __init__(self, kernel: Kernel, uniform: Uniformity) -> None:
        self.uniform = uniform
        self.constants: dict[Value, int] = {}
        self.steps: dict[Value, Step] = {}
        self.counts: dict[Value, int] = {}  # elements of each `local`
        operations = list(program_order(kernel.body.operations))
        # a value that comes back from memory may be one that was put there
        self.stored = {_element(o.operands[0]) for o in operations if o.opcode == "store"}
        for o in operations:
            if o.opcode == "local":
                self.counts[o.results[0]] = o.attributes["count"]
            if o.opcode == "constant" and o.results[0].type.kind in "iu":  # type: ignore[union-attr]
                self.constants[o.results[0]] = int(o.attributes["value"])
            if o.opcode == "for":
                bounds = (o.operands[0], *o.operands[2 + len(o.results) :])
                self.steps[o.regions[0].parameters[0]] = None if uniform.differs(bounds) else 0
                self.steps.update(dict.fromkeys(o.regions[0].parameters[1:]))
            for value in o.results:
                self.steps[value] = self._result(o, value)

    def of(self, value: Value) -> Step:
        """Return the stride of a value, 0 if it is the same in all threads."""
        return self.steps.get(value, 0)

    def _result(self, o: Operation, value: Value) -> Step:
        if o.opcode == "thread_index":
            return 1 if o.attributes.get("axis", 0) == 0 else 0
        if isinstance(value.type, Pointer):
            return self._pointer(o)
        if value not in self.uniform.varying:
            return 0
        match o.opcode:
            case "cast":
                return self.of(o.operands[0]) if o.operands[0].type.kind in "iu" else None  # type: ignore[union-attr]
            case "add" | "subtract":
                return self._sum(o)
            case "multiply":
                return self._product(o)
            case "load" if o.operands[0] not in self.uniform.roots and _element(o.operands[0]) not in self.stored:
                return "data"
            case name if name in _BENT:
                return "bent" if {self.of(v) for v in o.operands} <= {0, 1} else None
            case _:
                return None

    def _sum(self, o: Operation) -> Step:
        x, y = (self.of(v) for v in o.operands)
        if isinstance(x, int) and isinstance(y, int):
            return x + y if o.opcode == "add" else x - y
        return _joined(x, y)

    def _product(self, o: Operation) -> Step:
        for value, factor in (o.operands, o.operands[::-1]):
            step = self.of(value)
            if self.of(factor) != 0:
                continue
            if step == "bent" or step is None:
                return None
            if not isinstance(step, int) or step == 0:
                return step
            return step * self.constants[factor] if factor in self.constants else "symbolic"
        return None

    def _pointer(self, o: Operation) -> Step:
        match o.opcode:
            case "offset":
                return self._moved(o.operands[0], o.operands[1])
            case "reinterpret":
                return self.of(o.operands[0])
            case "shared" | "dynamic_shared" | "table" | "local":
                return 0
            case _:
                return None

    def _moved(self, pointer: Value, index: Value) -> Step:
        """Return the stride in bytes of an element's address."""
        first, second = self.of(pointer), self.of(index)
        if isinstance(second, int):
            second *= np.dtype(_element(pointer)).itemsize
        if isinstance(first, int) and isinstance(second, int):
            return first + second
        return _joined(first, second)

    def walk_on(self, operations: Iterable[Operation], kept: Iterable[Value]) -> bool:
        """Return whether the accesses of these operations are contiguous or have no constant stride.

        `kept` are arrays of each thread's own that lie one behind the other.
        """
        arrays = set(kept)
        for o in operations:
            if o.opcode not in _ACCESSES:
                continue
            root = self.uniform.roots.get(o.operands[0])
            if root is not None:
                if root in arrays:
                    return False
                continue
            step = self._moved(o.operands[0], o.operands[1])
            if step is None or (
                isinstance(step, int) and abs(step) not in (0, np.dtype(_element(o.operands[0])).itemsize)
            ):
                return False
        return True


def _joined(x: Step, y: Step) -> Step:
    """Return the stride of a sum if at least one operand's stride is no number."""
    if x == 0 or y == 0:
        return y if x == 0 else x
    known = [step for step in (x, y) if not isinstance(step, int)]
    return known[0] if len(known) == 1 and known[0] in ("symbolic", "data") else None


def _element(pointer: Value) -> np.dtype:
    assert isinstance(pointer.type, Pointer)
    return pointer.type.dtype
