"""Properties of reductions: dependence on the order, and identities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.ops.op_table import accumulators, identity_of

# Reductions whose order changes no bit, except for the sign of a zero and the bits of a NaN.
EXACT = frozenset({"minimum", "maximum", "argmin", "argmax"})


def rounds(loop: Operation) -> bool:
    """Return whether a reduction loop may round, so that its result may depend on the order."""
    kinds = [v.type for v in loop.results]
    return any(isinstance(kind, np.dtype) and kind.kind in "fc" for kind in kinds) and any(
        name not in EXACT for name in loop.attributes.get("combine", ())
    )


def reduction_identities(combine: Sequence[str], types: Sequence[Any]) -> list[Any]:
    """Return the identities of all accumulators of the reductions in `combine`, as NumPy scalars.

    Combining a value with the identity changes no bit. (Products of complex numbers are an exception: as in NumPy, an
    infinite part becomes NaN, and zeros may change their signs.)

    The identity of float sums is -0.0, since 0.0 would turn a sum of -0.0 into 0.0. argmin and argmax each have two
    identities: that of the value, and the highest index.
    """
    found: list[Any] = []
    for name in combine:
        dtype = types[len(found)]
        if accumulators(name) == 2:
            index = types[len(found) + 1]
            found.append(identity_of(name, dtype))
            found.append(index.type(np.iinfo(index).max))
        elif name == "add" and dtype.kind == "f":
            found.append(dtype.type(-0.0))
        elif name == "add" and dtype.kind == "c":
            found.append(dtype.type(complex(-0.0, -0.0)))
        else:
            found.append(identity_of(name, dtype))
    return found
