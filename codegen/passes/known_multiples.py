"""Which power of two each index is a multiple of: what decides whether an access is aligned.

In: operations of a logical kernel, and what is known of values from outside. Out: for index values a divisor, 16 at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.passes.index_steps import program_order

MOST = 16


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
