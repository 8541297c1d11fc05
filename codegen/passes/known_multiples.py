"""Which power of two each index is a multiple of: what decides whether an access is aligned.

In: operations of a logical kernel, and what is known of values from outside. Out: for index values a divisor, 16 at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.passes.index_steps import index_steps, program_order

MOST = 16
ACCESS_BYTES = 16  # of the widest access of a thread


def known_multiples(operations: Iterable[Operation], known: Mapping[Value, int]) -> dict[Value, int]:
    """The divisors of what is computed from `known` (parameters, loop indices: value -> divisor). Others have 1."""
    found = {value: gcd(divisor, MOST) for value, divisor in known.items()}
    for o in program_order(operations):
        if not o.results:
            continue
        parts = [found.get(v, 1) for v in o.operands]
        match o.opcode:
            case "constant" if o.results[0].type.kind in "iu":  # type: ignore[union-attr]
                found[o.results[0]] = gcd(int(o.attributes["value"]), MOST)
            case "add" | "subtract" | "minimum" | "maximum":
                found[o.results[0]] = gcd(*parts)
            case "multiply":
                found[o.results[0]] = gcd(parts[0] * parts[1], MOST)
    return {value: divisor for value, divisor in found.items() if divisor > 1}


def aligned_pointers(
    kernel: Kernel, walks: Sequence[tuple[Sequence[Operation], Value]], sizes: Mapping[str, int], lanes: int
) -> tuple[str, ...]:
    """Parameters through which every access that steps by one is to whole, aligned vectors of `lanes` elements.

    `walks` are operations with the index that they are walked along, by vectors from its first one on; `sizes` the values of
    index parameters by name.
    """
    if lanes == 1:
        return ()
    align = {p.value: p.align for p in kernel.parameters}
    good: set[str] = set()
    bad: set[str] = set()
    for operations, index in walks:
        known = {p.value: sizes.get(p.value.name, 1) or lanes for p in kernel.parameters} | {index: lanes}
        multiples = known_multiples(kernel.body.operations, known)
        steps = index_steps(operations, index)
        for o in operations:
            if o.opcode not in ("load", "store") or steps.get(o.operands[1]) != 1:
                continue
            pointer = o.operands[0]
            assert isinstance(pointer.type, Pointer)
            wanted = min(ACCESS_BYTES, lanes * pointer.type.dtype.itemsize)
            fits = multiples.get(o.operands[1], 1) % lanes == 0 and align[pointer] % wanted == 0
            (good if fits and pointer.type.dtype.kind != "c" else bad).add(pointer.name)
    return tuple(sorted(good - bad))
