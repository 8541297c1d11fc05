"""Strides of addresses between adjacent threads along an axis.

The strides decide whether LLVM is told that the iterations of a loop over threads are independent.

In: a threaded kernel and its uniform values. Out: whether the accesses of a run (code between barriers) are contiguous,
or have strides unknown at compile time, and the axis along which most accesses are contiguous. LLVM regroups accesses
with a constant stride of two or more elements. If the threads were declared independent, LLVM would then ignore the
order in which each thread needs its accesses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.find_uniform import Uniformity

# A number of elements (bytes for pointers); "symbolic": a multiple of a value known only at run time; "data": depends
# on the contents of memory; "bent": irregular, as for a remainder or a minimum; None: unknown.
Step = int | Literal["symbolic", "data", "bent", "contiguous"] | None

_BENT = frozenset({"bitwise_and", "bitwise_xor", "bitwise_or", "right_shift", "remainder", "minimum", "maximum"})
_ACCESSES = frozenset({"load", "store"})


class ThreadSteps:
    """The differences of a kernel's values between adjacent threads along an axis (x by default)."""

    def __init__(self, kernel: Kernel, uniform: Uniformity, axis: int = 0) -> None:
        self.uniform = uniform
        self.axis = axis
        self.constants = {v: int(number) for v, number in kernel.constants().items() if v.dtype.kind in "iu"}
        self.steps: dict[Value, Step] = {}
        self.counts: dict[Value, int] = {}  # elements of each `local`
        operations = list(program_order(kernel.body.operations))
        # a value loaded from memory may be one that was stored there
        self.stored = {o.operands[0].element for o in operations if o.opcode == "store"}
        for o in operations:
            if o.opcode == "local":
                self.counts[o.results[0]] = o.attributes["count"]
            if o.opcode == "for":
                bounds = (o.operands[0], *o.operands[2 + len(o.results) :])
                self.steps[o.regions[0].parameters[0]] = None if uniform.differs(bounds) else 0
                self.steps.update(dict.fromkeys(o.regions[0].parameters[1:]))
            for value in o.results:
                self.steps[value] = self._result(o, value)

    def of(self, value: Value) -> Step:
        """Return the difference of a value between adjacent threads."""
        return self.steps.get(value, 0)

    def _result(self, o: Operation, value: Value) -> Step:
        if o.opcode == "thread_index":
            return 1 if o.attributes.get("axis", 0) == self.axis else 0
        if isinstance(value.type, Pointer):
            return self._pointer(o)
        if value not in self.uniform.varying or o.opcode == "block_index":
            return 0
        match o.opcode:
            case "cast":
                return self.of(o.operands[0]) if o.operands[0].dtype.kind in "iu" else None
            case "add" | "subtract":
                return self._sum(o)
            case "multiply":
                return self._product(o)
            case "load" if o.operands[0] not in self.uniform.roots and o.operands[0].element not in self.stored:
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
        """Return the distance in bytes between the addresses that adjacent threads access."""
        first, second = self.of(pointer), self.of(index)
        if isinstance(second, int):
            second *= pointer.element.itemsize
        if isinstance(first, int) and isinstance(second, int):
            return first + second
        return _joined(first, second)

    def strides(self, operations: Iterable[Operation]) -> list[Step]:
        """Return the strides, between adjacent threads, of all accesses to shared or global memory.

        A stride of one element is "contiguous". Other constant strides are in bytes.
        """
        accesses = [o for o in operations if o.opcode in _ACCESSES and o.operands[0] not in self.uniform.roots]
        found = [(self._moved(*o.operands[:2]), o.operands[0].element.itemsize) for o in accesses]
        return ["contiguous" if step == size else step for step, size in found]

    def have_simple_strides(self, operations: Iterable[Operation], kept: Iterable[Value]) -> bool:
        """Return whether all accesses have known strides, and no constant stride exceeds one element.

        Strides such as "symbolic" and "data" are known. Accesses to the arrays in `kept` do not qualify, since each
        thread has a copy of these arrays in adjacent memory.
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
            if step is None or (isinstance(step, int) and abs(step) not in (0, o.operands[0].element.itemsize)):
                return False
        return True


def innermost_axis(kernel: Kernel, uniform: Uniformity) -> int:
    """Return the axis of the block along which the innermost loop should run: 1 (y) or 0 (x).

    The axis is y if more accesses are contiguous along y than along x, as in ``x, y = cuda.grid(2); out[x, y] = ...``.
    It is x if the kernel has synchronization points other than `barrier`, since the lanes of a warp are numbered along
    x.
    """
    operations = list(program_order(kernel.body.operations))
    if any(o.opcode in SYNCHRONIZATION and o.opcode != "barrier" for o in operations):
        return 0
    x, y = (ThreadSteps(kernel, uniform, axis).strides(operations).count("contiguous") for axis in (0, 1))
    return int(y > x)


def _joined(x: Step, y: Step) -> Step:
    """Combine two strides (differences between adjacent threads) of values that are added or subtracted. At least one stride is not a constant."""
    if x == 0 or y == 0:
        return y if x == 0 else x
    known = [step for step in (x, y) if not isinstance(step, int)]
    return known[0] if len(known) == 1 and known[0] in ("symbolic", "data") else None
