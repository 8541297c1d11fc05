"""Bounds of index expressions, computed with sympy where interval arithmetic is too imprecise.

In: a form that contains quotients, and their dividends. Out: its minimum and maximum, or bounds on them. The module
is loaded on demand by planning, never by `import weft` or by a cached plan. Results are cached.

Interval arithmetic overestimates ``f - q * (f // q)``, because it treats a quotient and its dividend as independent.
Here each quotient is replaced by ``(f - remainder) / q``. The result is linear in independent numbers.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor
from typing import Any

from weft.fusion.graph.symbolic import load_sympy

Form = tuple[int, tuple[tuple[int, int], ...]]


@lru_cache(maxsize=4096)
def bound_form(
    form: Form, quotients: tuple[tuple[int, tuple[Form, int]], ...], extents: tuple[int, ...]
) -> tuple[int, int]:
    """Return the lower and the upper bound of an index expression.

    Parameters
    ----------
    form : (constant, ((key, coefficient), ...))
        Keys of 0 and above are loops, and ``-1 - k`` is quotient k.
    quotients : sequence of (k, (form, divisor))
        The definition of each quotient. Quotients that it contains are defined before it.
    extents : sequence of int
        Extents of the loops.
    """
    sympy = load_sympy()

    ranges: dict[Any, tuple[int, int]] = {}
    symbols: dict[int, Any] = {}
    for loop, extent in enumerate(extents):
        symbols[loop] = sympy.Symbol(f"i{loop}", integer=True, nonnegative=True)
        ranges[symbols[loop]] = (0, extent - 1)

    def expression(of: Form) -> Any:
        return of[0] + sum(c * symbols[key] for key, c in of[1])

    for k, (divided, divisor) in quotients:
        remainder = sympy.Symbol(f"r{k}", integer=True, nonnegative=True)
        ranges[remainder] = (0, divisor - 1)
        symbols[-1 - k] = (expression(divided) - remainder) / divisor
    rest = sympy.expand(expression(form))
    low = high = rest.as_independent(*ranges, as_Add=True)[0]
    for symbol, (least, most) in ranges.items():
        c = rest.coeff(symbol)
        low += c * (least if c > 0 else most)
        high += c * (most if c > 0 else least)
    return floor(low), ceil(high)
