"""A generator of ``numba_types.json``, a table of the types that Numba infers for operations on scalars.

``python -m tests.dsl.kernel.language.numba_table`` writes the file. For each operator, the table has a row per dtype of
the left operand. The row contains the dtype of the result for each dtype of the right operand, and for each literal.
The operator ``join`` stands for a variable to which both operands are assigned. "-" marks operations that Numba
rejects.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("numba_types.json")
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
LITERALS = ("2", "0.5", "True", "1j")
BINARY = "+ - * / // % ** << >> & | ^ < <= > >= == != min max atan2 join".split()
UNARY = (
    "-x",
    "+x",
    "~x",
    "not x",
    "abs(x)",
    "math.sqrt(x)",
    "math.exp(x)",
    "x**2",
    "x**3",
    "x**0.5",
    "2 + x",
    "0.5 * x",
    "1 / x",
)


def expression(op: str, left: str, right: str) -> str:
    """Return the text of a binary operation."""
    return f"{op}({left}, {right})" if op.isalpha() and op != "atan2" else f"{left} {op} {right}"


def body(op: str, right: str) -> str:
    """Return the statements that compute an operation and leave its result in ``r``."""
    if op == "join":
        return f"r = x\n    if c:\n        r = {right}"
    if op == "atan2":
        return f"r = math.atan2(x, {right})"
    return f"r = {expression(op, 'x', right)}"


def main() -> None:
    """Ask Numba for the types, and write the file."""
    import numba

    warnings.simplefilter("ignore")
    kinds = [getattr(numba.types, "boolean" if name == "bool" else name) for name in DTYPES]

    def ask(text: str, names: str, *types: Any) -> str:
        scope: dict[str, Any] = {"math": math}
        exec(f"def f({', '.join(names)}):\n    {text}\n    return r", scope)
        function = numba.njit(scope["f"])
        try:
            function.compile(types)
        except Exception:
            return "-"
        return str(function.overloads[types].signature.return_type).replace("boolean", "bool")

    table: dict[str, Any] = {}
    for op in BINARY:
        last, c = ((numba.types.boolean,), "c") if op == "join" else ((), "")
        table[op] = [
            " ".join(
                [ask(body(op, "y"), f"xy{c}", left, right, *last) for right in kinds]
                + [ask(body(op, literal), f"x{c}", left, *last) for literal in LITERALS]
            )
            for left in kinds
        ]
    for text in UNARY:
        table[text] = " ".join(ask(f"r = {text}", "x", kind) for kind in kinds)
    PATH.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
