"""Analysis of the elements that one iteration reads from each operand.

In: a logical kernel. Out: n and m for each operand of which iteration i of the outermost loop reads only the m elements
from i * n on. This is valid for launches in which m is at most n. Invariant: an operand is listed only if this holds
for all of its accesses, and if all of them are loads.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value, program_order

# A number, or "p" and the position of the parameter that holds the number.
Length = int | str
# A kind of index, n, and a length. The kinds are the first element of an iteration, the end of its elements, any of its
# elements, and an index that starts at 0 and is less than n. For any element, the length is the number of elements that
# are read from the first one on. It must not exceed n.
_Fact = tuple[str, Length, Length]
_NONE: _Fact = ("", 0, 0)


def find_spans(kernel: Kernel) -> dict[int, tuple[Length, Length]]:
    """Return the ranges of elements that one iteration of the outermost loop reads.

    Returns
    -------
    dict
        Maps the position of a read-only pointer parameter to (n, m). Iteration i reads only the m elements from i * n
        on. This is valid for a launch in which m is at most n.
    """
    loops = [o for o in kernel.body.operations if o.opcode == "for" and o.attributes["role"] == "parallel"]
    if len(loops) != 1 or loops[0].attributes.get("step", 1) != 1:
        return {}
    names = {p.value: f"p{k}" for k, p in enumerate(kernel.parameters)}
    facts = _Facts(kernel, names, loops[0])
    spans: dict[int, tuple[Length, Length]] = {}
    for k, parameter in enumerate(kernel.parameters):
        if isinstance(parameter.value.type, Pointer) and not parameter.writable:
            found = {facts.span(o, parameter.value) for o in kernel.walk() if parameter.value in o.operands}
            if len(found) == 1 and (span := found.pop()) is not None:
                spans[k] = span
    return spans


class _Facts:
    """The known facts about the indices of a kernel."""

    def __init__(self, kernel: Kernel, names: dict[Value, str], loop: Operation) -> None:
        self._names = names
        self._index = kernel.index_dtype
        self._constants: dict[Value, int] = {}
        self._known: dict[Value, _Fact] = {loop.regions[0].parameters[0]: ("any", 1, 1)}
        self._outer = loop.regions[0].parameters[0]
        self._inside = {id(o) for o in program_order(loop.regions[0].operations)}
        for operation in kernel.walk():
            self._note(operation)

    def span(self, operation: Operation, pointer: Value) -> tuple[Length, Length] | None:
        """Return the range of elements that an operation accesses through a pointer, or None if it is unknown."""
        if operation.opcode not in ("load", "fetch") or operation.operands.count(pointer) != 1:
            return None
        kind, *span = self._known.get(operation.operands[1], _NONE)
        return (span[0], span[1]) if kind == "any" and id(operation) in self._inside else None

    def _number(self, value: Value) -> Length | None:
        return self._names.get(value, self._constants.get(value))

    def _note(self, operation: Operation) -> None:
        operands = operation.operands
        if operation.opcode == "for":
            self._note_loop(operation)
            return
        if len(operation.results) != 1:
            return
        result = operation.results[0]
        if operation.opcode == "constant":
            if result.type == self._index:
                self._constants[result] = int(operation.attributes["value"])
        elif operation.opcode == "multiply" and self._outer in operands:
            other = operands[1] if operands[0] is self._outer else operands[0]
            if (length := self._number(other)) is not None:
                self._known[result] = "first", length, length
        elif operation.opcode == "add":
            self._note_sum(result, *operands)
        elif operation.opcode == "minimum":
            for operand in operands:
                if self._known.get(operand, _NONE)[0] == "end":
                    self._known[result] = self._known[operand]

    def _note_sum(self, result: Value, x: Value, y: Value) -> None:
        for one, other in ((x, y), (y, x)):
            kind, length, _ = self._known.get(one, _NONE)
            inside, most, _ = self._known.get(other, _NONE)
            if kind == "first" and self._number(other) == length:
                self._known[result] = "end", length, length
            elif kind == "first" and inside == "less":
                self._known[result] = "any", length, most

    def _note_loop(self, loop: Operation) -> None:
        start, stop, index = *loop.operands[:2], loop.regions[0].parameters[0]
        if index is self._outer or loop.attributes.get("step", 1) < 1 or "step_from" in loop.attributes:
            return
        first, end = self._known.get(start, _NONE), self._known.get(stop, _NONE)
        if first[0] == "first" and end[:2] == ("end", first[1]):
            self._known[index] = "any", first[1], first[1]
        elif self._constants.get(start) == 0 and (length := self._number(stop)) is not None:
            self._known[index] = "less", length, length
